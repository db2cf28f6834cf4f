"""upgrade and downgrade: who goes where, who is spared, and what is left when the fault has ended."""

import msgspec
import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HEALTHY, HostState, healthy_cluster
from dethrone.harness.core.interfaces import Changing, No, Yes
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.harness.core.version_limits import VersionLimits
from dethrone.nemesis.faults.version import DOWNGRADE, UPGRADE
from tests.nemesis.views import view_of

VERSIONS = ("1", "2", "3")
FREE = VersionLimits()
STRICT = VersionLimits(steps=1, below_all=False, source="the guide")


def resolved(fault, victims, *running, to=None, leader="n1", limits=FREE):
    view = msgspec.structs.replace(
        view_of(len(running), leader=leader),
        versions=VERSIONS,
        version_limits=limits,
        version_of={f"n{number}": version for number, version in enumerate(running, start=1)},
    )
    params = {} if to is None else {"to": to}
    planned = PlannedFault(kind=fault.kind, victims=victims, hold_ns=SECOND, params=params)
    fault.check(planned, nodes=len(running))
    return fault.resolve(planned, view, Rng(1))


@pytest.mark.parametrize("kind", ["upgrade", "downgrade"])
def test_both_are_installed_kinds_that_change_versions(kind):
    fault = registry.load(registry.FAULTS, kind)
    assert isinstance(fault, Changing)
    assert not isinstance(registry.load(registry.FAULTS, "restart"), Changing)


def test_a_node_goes_to_the_next_version_or_to_the_one_that_is_named():
    assert resolved(UPGRADE, "node:n2", "1", "1", "1") == (("n2",), {"to": "2"})
    assert resolved(UPGRADE, "node:n2", "1", "1", "1", to="3") == (("n2",), {"to": "3"})
    assert resolved(DOWNGRADE, "leader", "3", "1", "1") == (("n1",), {"to": "2"})


def test_several_go_to_one_version_and_who_is_there_already_is_spared():
    assert resolved(UPGRADE, "all", "2", "1", "1") == (("n2", "n3"), {"to": "2"})
    assert resolved(UPGRADE, "all", "2", "1", "3", to="3") == (("n1", "n2"), {"to": "3"})
    assert resolved(DOWNGRADE, "all", "3", "2", "1") == (("n1",), {"to": "2"})


def test_a_selector_by_chance_chooses_among_those_that_can_go():
    assert resolved(UPGRADE, "random:1", "3", "3", "1") == (("n3",), {"to": "2"})
    assert resolved(UPGRADE, "follower", "1", "3", "1") == (("n3",), {"to": "2"})
    assert resolved(UPGRADE, "random:2", "3", "3", "1", "3", "3") == (("n3",), {"to": "2"})
    drawn = UPGRADE.draw(Rng(1), nodes=5, hold_ns=SECOND, knobs={})
    assert drawn.victims in {"random:1", "random:2"}


def test_where_no_node_can_go_the_fault_is_skipped_with_the_reason():
    assert resolved(UPGRADE, "all", "3", "3", "3") == "no node has a version to upgrade to"
    assert resolved(UPGRADE, "node:n1", "3", "1", "1") == "n1: nothing to upgrade to from 3"
    assert resolved(DOWNGRADE, "all", "1", "2", "3", to="3") == "no node can go to 3"


def test_the_new_version_is_the_nodes_own_and_healing_does_not_take_it_back():
    state = UPGRADE.apply(healthy_cluster(("n1", "n2")), ("n1",), {"to": "2"})
    assert state == {"n1": HostState(down="SIGTERM", version="2"), "n2": HEALTHY}
    assert HEALTHY.version is msgspec.UNSET
    assert state["n1"].plus(HostState(down="SIGKILL")) == HostState(down="SIGKILL", version="2")


def test_a_run_can_only_change_what_lies_ahead_of_its_first_version():
    assert isinstance(UPGRADE.possible(VERSIONS, begins_with="2", limits=FREE), Yes)
    assert isinstance(UPGRADE.possible(VERSIONS, begins_with="3", limits=FREE), No)
    assert isinstance(DOWNGRADE.possible(VERSIONS, begins_with="3", limits=FREE), Yes)
    assert isinstance(DOWNGRADE.possible(VERSIONS, begins_with="1", limits=FREE), No)


def test_where_versions_must_be_close_the_oldest_nodes_move_first():
    assert resolved(UPGRADE, "random:1", "1", "2", "2", limits=STRICT) == (("n1",), {"to": "2"})
    assert resolved(UPGRADE, "all", "1", "1", "1", limits=STRICT) == (("n1", "n2", "n3"), {"to": "2"})
    assert resolved(UPGRADE, "all", "1", "1", "1", to="3", limits=STRICT) == (
        "no node can go to 3: 3 is more than 1 step from 1, which n1 runs (the guide)"
    )
    assert resolved(UPGRADE, "node:n2", "1", "2", "2", limits=STRICT) == (
        "n2: nothing to upgrade to from 2: 3 is more than 1 step from 1, which n1 runs (the guide)"
    )


def test_where_none_may_fall_behind_all_only_a_mixed_cluster_goes_back():
    assert resolved(DOWNGRADE, "random:2", "2", "2", "1", limits=STRICT)[1] == {"to": "1"}
    assert resolved(DOWNGRADE, "all", "2", "2", "2", limits=STRICT) == (
        "no node has a version to downgrade to: every node runs 2 or newer by now, and none may become older than that "
        "(the guide)"
    )
    refused = DOWNGRADE.possible(VERSIONS, begins_with="3", limits=STRICT)
    assert isinstance(refused, No)
    assert refused.why.startswith("every node runs 3")
    assert isinstance(UPGRADE.possible(VERSIONS, begins_with="1", limits=STRICT), Yes)


def test_a_version_is_named_by_a_text():
    with pytest.raises(ConfigError, match="is no text"):
        resolved(UPGRADE, "all", "1", "1", "1", to=2)
