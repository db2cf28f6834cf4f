"""What a run may do to lent machines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.ssh.backend import flags
from dethrone.clusters.ssh.hosts import HostsFile, SshHost, parse_hosts
from dethrone.clusters.ssh.permissions import chosen, is_lost, not_allowed, over_the_minority, refuse_faults
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, DiskTrouble, HostState
from dethrone.harness.core.quorum import minority

NAMES = ("n1", "n2", "n3", "n4", "n5")
DOWN = HostState(down="SIGKILL")
WIPED = HostState(disk=DiskTrouble(kind="wiped"))
HARMLESS = (
    HEALTHY,
    HostState(frozen=True),
    HostState(cuts=("n1",)),
    HostState(disk=DiskTrouble(kind="slow", latency_ns=1)),
)


def made(*expendable: str, majority: bool = False) -> HostsFile:
    hosts = {name: SshHost(name=name, address=f"192.0.2.{index}") for index, name in enumerate(NAMES, 1)}
    return HostsFile(source="hosts.toml", hosts=hosts, expendable=frozenset(expendable), majority=majority)


def test_hosts_that_are_expendable_are_chosen_in_the_order_of_the_nodes():
    assert list(chosen(made("n1", "n2", "n3"), ("n3", "n1"))) == ["n3", "n1"]


def test_a_host_that_is_not_expendable_is_refused_with_a_line_that_makes_it_so():
    file = made("n1")
    with pytest.raises(ConfigError) as caught:
        chosen(file, ("n1", "n2", "n3"))
    assert caught.value.what.startswith("n2, n3 ")
    line = caught.value.next_step.rpartition(": ")[2]
    assert line == 'expendable = ["n1", "n2", "n3"]'
    written = parse_hosts(
        line + "".join(f'\n[hosts.{host.name}]\naddress = "{host.address}"' for host in file.hosts.values()),
        source="hosts.toml",
    )
    assert set(chosen(written, ("n1", "n2", "n3"))) == {"n1", "n2", "n3"}


def test_a_node_without_a_machine_is_refused():
    with pytest.raises(ConfigError, match="no machine for n6"):
        chosen(made(*NAMES), ("n1", "n6"))


def test_a_fault_that_the_file_does_not_allow_is_refused_by_name():
    refuse_faults(made(), ["partition", "clock"])
    with pytest.raises(ConfigError) as caught:
        refuse_faults(made(), ["partition", "wipe"])
    assert "does not allow wipe" in caught.value.what
    assert '"wipe"' in caught.value.next_step


@pytest.mark.parametrize(
    ("want", "kind"),
    [
        (HostState(cuts=("n2",)), "partition"),
        (HostState(down="SIGKILL"), "kill"),
        (HostState(down="SIGTERM"), "restart"),
        (HostState(frozen=True), "pause"),
        (HostState(clock=ClockSkew(offset_ns=1)), "clock"),
        (WIPED, "wipe"),
        (HostState(cpu_percent=0), "cpu"),
        (HostState(down="OOM"), "memory"),
    ],
)
def test_a_state_needs_one_of_its_kinds_to_be_allowed_and_health_needs_nothing(want, kind):
    nothing = HostsFile(source="hosts.toml", hosts={}, faults=frozenset())
    assert kind in not_allowed(nothing, want)
    assert not not_allowed(HostsFile(source="hosts.toml", hosts={}, faults=frozenset({kind})), want)
    assert not not_allowed(nothing, HEALTHY)


def test_one_trouble_that_is_allowed_does_not_carry_another_one():
    file = HostsFile(source="hosts.toml", hosts={}, faults=frozenset({"pause"}))
    assert "partition" in not_allowed(file, HostState(frozen=True, cuts=("n2",)))


def test_a_machines_clock_is_set_only_where_the_file_says_so():
    hosts = parse_hosts(
        '[hosts.n1]\naddress = "a"\n[hosts.n2]\naddress = "b"\nsettimeofday = true\n', source="hosts.toml"
    ).hosts
    assert flags(hosts["n1"], "192.0.2.9") == ["--spare", "192.0.2.9:22"]
    assert flags(hosts["n2"], "192.0.2.9") == ["--settimeofday", "--spare", "192.0.2.9:22"]
    assert flags(hosts["n1"], "2001:db8::9") == []  # no rule of ours looks at IPv6


def test_the_second_host_of_three_is_not_lost_while_the_first_one_is():
    refused = over_the_minority(made(), voters=NAMES[:3], now={"n1": DOWN}, wants={"n2": WIPED})
    assert list(refused) == ["n2"]
    assert "majority = true" in refused["n2"]
    assert over_the_minority(made(), voters=NAMES[:3], now={}, wants={"n2": WIPED}) == {}
    assert over_the_minority(made(majority=True), voters=NAMES[:3], now={"n1": DOWN}, wants={"n2": WIPED}) == {}


def test_a_host_that_is_being_healed_still_counts():
    refused = over_the_minority(made(), voters=NAMES[:3], now={"n1": DOWN}, wants={"n1": HEALTHY, "n2": DOWN})
    assert list(refused) == ["n2"]


def test_a_host_without_a_vote_may_always_be_lost():
    assert over_the_minority(made(), voters=NAMES[:3], now={"n1": DOWN}, wants={"n4": DOWN}) == {}


states = st.sampled_from([*HARMLESS, DOWN, WIPED])


@given(
    voters=st.integers(1, 5).map(lambda n: NAMES[:n]),
    steps=st.lists(st.dictionaries(st.sampled_from(NAMES), states, min_size=1), max_size=8),
)
def test_whatever_is_asked_for_no_more_than_a_minority_is_ever_lost_and_healing_is_never_refused(voters, steps):
    now: dict[str, HostState] = {}
    for wants in steps:
        refused = over_the_minority(made(), voters=voters, now=now, wants=wants)
        assert all(is_lost(wants[name]) for name in refused)
        now |= {name: want for name, want in wants.items() if name not in refused}
        lost = [name for name in voters if is_lost(now.get(name, HEALTHY))]
        assert len(lost) <= minority(len(voters))
