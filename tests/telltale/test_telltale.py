"""What the history claims is what the node felt: a hostile system on every backend under every live fault."""

from __future__ import annotations

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.events import Converged, FaultEvent, NodeProcess, Noise
from tests.telltale.compare import channels, contradictions, privileges

GRANTED: dict[str, set[str]] = {"local": set(), "docker": set(), "ssh": set()}
"""Privileges that a node has, by backend: at most these."""


def confirmed(told) -> set[str]:
    """The kinds of faults that the history calls installed."""
    return {event.kind for event in told.events if isinstance(event, FaultEvent) and event.outcome == "installed"}


def granted(told) -> set[str]:
    return {name for name, answers in privileges(told.felt).items() if True in answers}


def agree(told, *faults: str) -> None:
    """The run ended well, each of these faults was in force, and what was felt fits what is claimed."""
    assert told.result.trouble == ()
    assert confirmed(told) == set(faults)
    assert "\n".join(contradictions(told.events, told.felt)) == ""
    assert {"udp4", "tcp4"} <= channels(told.felt)  # an engine's bridge may keep multicast to itself


def ends(told) -> list[tuple[str, str]]:
    """How each fault ended, and why."""
    return [
        (event.outcome, event.why) for event in told.events if isinstance(event, FaultEvent) and event.phase == "end"
    ]


@pytest.mark.nightly("a minute; Docker's hosts suffer the same faults by the same agent, local ones prove their cuts")
@pytest.mark.namespaces
def test_on_local_hosts(telltale, root):
    told = telltale("local", "everything")
    agree(told, "partition", "clock", "kill", "stop", "restart", "pause")
    assert "multicast4" in channels(told.felt)
    assert not [channel for channel in channels(told.felt) if "6" in channel]
    assert granted(told) <= GRANTED["local"]


@pytest.mark.slow
@pytest.mark.docker
def test_on_docker(telltale):
    told = telltale("docker", "everything")
    agree(told, "partition", "clock", "kill", "stop", "restart", "pause")
    assert not [channel for channel in channels(told.felt) if "6" in channel]
    assert granted(told) <= GRANTED["docker"]


@pytest.mark.nightly("a minute on hosts that need another image; local and Docker hosts suffer the same faults")
@pytest.mark.docker
def test_on_machines_over_ssh(telltale, field):
    told = telltale("ssh", "everything", hosts=field.file)
    agree(told, "partition", "clock", "kill", "stop", "restart", "pause")
    assert granted(told) <= GRANTED["ssh"]


@pytest.mark.nightly("a minute on hosts that need another image; local and Docker hosts suffer the same faults")
@pytest.mark.docker
def test_on_containers_of_somebody_else_with_two_networks_and_ipv6(telltale, theirs):
    told = telltale("attach", "without_clocks", host=(f"label={theirs.label}",))
    agree(told, "partition", "kill", "stop", "restart", "pause")
    assert {"udp6", "tcp6", "multicast6"} <= channels(told.felt)
    cut = [event for event in told.events if isinstance(event, Converged) and event.after.cuts and event.confirmed]
    families = {":" in address for event in cut for address in event.evidence["rules"]["addresses"]}
    assert families == {False, True}


@pytest.mark.nightly("another run on Docker; lost rules are noticed in tests of the agent, too")
@pytest.mark.docker
def test_a_node_that_flushes_rules_makes_the_cut_uncertain(telltale):
    told = telltale("docker", "cut", system="telltale-strong", settings={"mode": "flush"})
    assert "\n".join(contradictions(told.events, told.felt)) == ""
    lost = [event for event in told.events if isinstance(event, Noise) and event.kind == "rules-lost"]
    assert {event.host for event in lost} == {"n1", "n2", "n3"}
    assert all(event.span.hi > event.span.lo for event in lost)
    (outcome, why) = ends(told)[0]
    assert outcome == "indeterminate"
    assert "our chain" in why or "our rules" in why or "its hook" in why


@pytest.mark.nightly("another run on Docker; an evasion of its own kind")
@pytest.mark.docker
def test_a_node_that_has_the_agent_heal_its_own_cut_is_found_out(telltale):
    told = telltale("docker", "cut", system="telltale-strong", settings={"mode": "heal"})
    assert "\n".join(contradictions(told.events, told.felt)) == ""
    if "agent-socket" in granted(told):
        (outcome, why) = ends(told)[0]
        assert outcome == "indeterminate", why
        assert "arrived although it was still cut" in why or "agent" in why


@pytest.mark.nightly("another run on Docker; nodes die unasked in simulated runs, too")
@pytest.mark.docker
def test_a_node_that_dies_unasked_is_in_the_history(telltale):
    told = telltale("docker", "cut", settings={"mode": "die"})
    assert "\n".join(contradictions(told.events, told.felt)) == ""
    ended = [event for event in told.events if isinstance(event, NodeProcess) and event.phase == "exited"]
    assert [(event.node, event.asked, event.code) for event in ended][:1] == [("n3", False, 2)]
    if "crash" in registry.names(registry.CHECKERS):
        judged = {verdict.checker: verdict.outcome for verdict in told.result.judgement.verdicts}
        assert judged["crash"] == "fail"
