"""What the history claims is what the node felt: a hostile system on every backend under every live fault."""

from __future__ import annotations

import pytest
from compare import channels, contradictions, privileges

from harness.core.events import Converged, FaultEvent


def confirmed(told) -> set[str]:
    """The kinds of faults that the history calls installed."""
    return {event.kind for event in told.events if isinstance(event, FaultEvent) and event.outcome == "installed"}


@pytest.mark.namespaces
def test_on_local_hosts(telltale):
    told = telltale("local", "everything")
    print(channels(told.felt), privileges(told.felt), len(told.felt), told.result.trouble)
    assert "\n".join(contradictions(told.events, told.felt)) == ""
    assert confirmed(told) == {"partition", "clock", "kill", "stop", "restart", "pause"}


@pytest.mark.docker
def test_on_docker(telltale):
    told = telltale("docker", "everything")
    print(channels(told.felt), privileges(told.felt), len(told.felt), told.result.trouble)
    assert "\n".join(contradictions(told.events, told.felt)) == ""
    assert confirmed(told) == {"partition", "clock", "kill", "stop", "restart", "pause"}


@pytest.mark.docker
def test_on_containers_of_somebody_else_with_two_networks_and_ipv6(telltale, theirs):
    told = telltale("attach", "without_clocks", host=(f"label={theirs.label}",))
    print(channels(told.felt), len(told.felt), told.result.trouble)
    assert "\n".join(contradictions(told.events, told.felt)) == ""
    assert confirmed(told) == {"partition", "kill", "stop", "restart", "pause"}
    assert {"udp4", "tcp4", "udp6", "tcp6", "multicast4", "multicast6"} <= channels(told.felt)
