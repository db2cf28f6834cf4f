from __future__ import annotations

from fractions import Fraction

import pytest

from dethrone.clusters.targets.nacos.target import TARGET
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.machine import Await, Disk, Send
from tests.clusters.nacos.spec import One


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"namespace": "../x"}, "letters"),
        ({"namespace": ""}, "letters"),
        ({"persist_vote": "true", "restart_term": "zero"}, "contradict"),
    ],
)
def test_wrong_words_are_refused_with_a_hint(settings, part):
    with pytest.raises(ConfigError, match=part):
        TARGET.knobs(settings)


@pytest.mark.parametrize(("factor", "tick"), [("1", 500_000_000), ("0.1", 50_000_000), ("0.000333e1", 1_665_000)])
def test_a_factor_scales_every_timer_exactly(factor, tick):
    bench = One(time_factor=factor)
    bench.fire("election")
    assert bench.alarms()["election"] == tick
    bench.fire("beat")
    assert bench.alarms()["beat"] == tick
    assert bench.state.knobs.ns(5_000) == tick * 10
    assert bench.state.knobs.time_factor == Fraction(factor)


def test_a_node_by_itself_has_no_members():
    with pytest.raises(ConfigError, match="standalone"):
        TARGET.core(node="n1", members=("n1", "n2"), knobs=TARGET.knobs({"standalone": "true"}), variant=None)


# --- what each safe knob changes --------------------------------------------------------------------------------


def kinds(bench: One) -> list[type]:
    return [type(effect) for effect in bench.out if isinstance(effect, Disk | Await | Send)]


def test_persist_vote_has_term_and_vote_on_disk_before_either_kind_of_vote_leaves():
    bench = One(persist_vote="true").put(leader_due_ms=500)
    bench.fire("election")
    assert kinds(bench) == [Disk, Await, Send, Send]
    bench.vote("n2", 5)
    assert kinds(bench) == [Disk, Await, Send]
    assert bench.state.meta == (5, "n2")
    bench.vote("n3", 5)
    assert kinds(bench) == [Send]


def test_restart_term_zero_keeps_the_loaded_term_out_of_the_own_record():
    disk = {"data/naming/data/meta.properties": b"term=5\n"}
    for setting, term in [("loaded", 5), ("zero", 0)]:
        status = One(disk=disk, restart_term=setting).core.status(One().clocks())
        assert (status.term, status.extra["local_term"], status.extra["stored_term"]) == (term, 5, 5)
