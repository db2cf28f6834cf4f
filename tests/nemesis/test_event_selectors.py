"""Selectors that speak of the event that triggered a fault, or of other faults of the step."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core.clock import Span
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import Occurrence
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis import selectors
from dethrone.nemesis.faults import partition
from tests.nemesis.views import view_of

SEEN = Occurrence(
    event="elected", span=Span(0, 0), key=(1,), roles={"actor": ("n2",), "voter": ("n4", "n5"), "candidate": ("n2",)}
)


def resolve(text, view, seed=1):
    return selectors.resolve(selectors.parse(text), view, Rng(seed))


def view(*, count=5, occurrence=SEEN, hit=None, state=None):
    base = view_of(count, leader="n1", state=state)
    return msgspec.structs.replace(base, occurrence=occurrence, hit=hit or {})


def test_the_words_of_an_event_mean_its_nodes():
    assert resolve("actor", view()) == ("n2",)
    assert resolve("candidate", view()) == ("n2",)
    assert resolve("voters", view()) == ("n4", "n5")
    assert {resolve("voter", view(), seed) for seed in range(20)} == {("n4",), ("n5",)}
    assert resolve("peers", view()) == ("n1", "n3", "n4", "n5")
    assert {resolve("peer", view(), seed)[0] for seed in range(60)} == {"n1", "n3", "n4", "n5"}
    assert len(resolve("peer:3", view())) == 3


def test_a_peer_runs():
    state = {
        **view().state,
        "n1": HostState(frozen=True),
        "n3": HostState(down="SIGKILL"),
        "n4": HostState(frozen=True),
    }
    assert resolve("peer", view(state=state)) == ("n5",)
    assert "1 running peers" in resolve("peer:2", view(state=state))


def test_without_an_event_or_without_such_a_role_it_says_so():
    assert "speaks of an event" in resolve("actor", view(occurrence=None))
    nobody = msgspec.structs.replace(SEEN, roles={"actor": ("n2",)})
    assert "names no voter" in resolve("voters", view(occurrence=nobody))


def test_faults_are_spoken_of_by_name():
    hit = {"a": ("n1",), "b": ("n2", "n3")}
    assert resolve("hit-by:a,b", view(hit=hit)) == ("n1", "n2", "n3")
    assert resolve("spared-by:a,b", view(hit=hit)) == ("n4", "n5")
    assert "no fault called c" in resolve("hit-by:c", view(hit=hit))
    assert "no node was spared" in resolve("spared-by:a,b", view(count=3, hit=hit))
    with pytest.raises(ConfigError, match="names no fault"):
        selectors.parse("hit-by:")


def test_links_between_selected_nodes_are_cut_in_the_direction_that_is_said():
    fault = PlannedFault(kind="partition", victims="actor", hold_ns=1, params={"links": [["actor", "spared-by:a"]]})
    partition.FAULT.check(fault, nodes=3)
    seen = view(count=3, hit={"a": ("n1", "n2")})
    victims, params = partition.FAULT.resolve(fault, seen, Rng(1))
    assert victims == ("n2",)
    assert params["cuts"] == [["n2", "n3"]]
    after = partition.FAULT.apply(seen.state, victims, params)
    assert after["n3"].cuts == ("n2",)
    assert after["n2"].cuts == ()


def test_equal_words_select_the_same_node_within_one_fault():
    fault = PlannedFault(
        kind="partition", victims="actor", hold_ns=1, params={"links": [["actor", "peer"], ["peer", "actor"]]}
    )
    for seed in range(20):
        _, params = partition.FAULT.resolve(fault, view(), Rng(seed))
        (src, dst), (back, forth) = params["cuts"]
        assert (src, dst) == (forth, back)


def test_a_partition_may_reset_what_it_cuts():
    fault = PlannedFault(
        kind="partition", victims="node:n1", hold_ns=1, params={"cuts": [["n1", "n2"]], "way": "reset"}
    )
    partition.FAULT.check(fault, nodes=3)
    state = partition.FAULT.apply({"n1": HEALTHY, "n2": HEALTHY}, ("n1",), fault.params)
    assert state["n2"] == HostState(cuts=("n1",), resets=("n1",))
    with pytest.raises(ConfigError):
        partition.FAULT.check(msgspec.structs.replace(fault, params={"shape": "halves", "way": "politely"}), nodes=3)


def test_bad_links_are_refused():
    for links in ("n1", [["n1"]], [["nobody", "actor"]]):
        fault = PlannedFault(kind="partition", victims="actor", hold_ns=1, params={"links": links})
        with pytest.raises(ConfigError):
            partition.FAULT.check(fault, nodes=3)
