from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dethrone.harness.core.rng import Rng
from tests.clusters.zk_ephemeral.spec import NAMES, World, fast
from tests.world.chaos import drawn, play, steps

SAFE = {"acks": "all", "truncate": "epoch"}
CONFIGS = {
    "race": {},
    "race, acks=all, epochs": SAFE,
    "controller": {"profile": "controller", "acks": "all"},
    "race-strict": {"profile": "race-strict"},
}

KIP_101 = [
    *(("wait", "a", "a", 40), ("crash_soon", "b", "b", 10), ("write", "a", "a", 10), ("freeze", "c", "c", 98)),
    *(("freeze", "a", "a", 139), ("start_all", "b", "b", 0), ("long", "a", "a", 100), ("write", "b", "b", 0)),
]
"""Restarted, b cuts the record that the others have committed, leads before it has fetched it again, and writes another
one in its place."""


def judge(w, *, keeps):
    """Ownership and epochs always; one log, and no confirmed write lost, where the settings say so."""
    assert not w.problems
    assert w.settle(), "no leader that all follow"
    assert not w.problems
    if keeps:
        one, *rest = w.values()
        assert all(other == one for other in rest)
        assert w.clients.acknowledged() <= set(one)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
@example(schedule=KIP_101, seed=224)
@given(schedule=steps(World, NAMES, most=50), seed=st.integers(0, 1 << 16))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_happens_one_node_owns_the_lead_of_an_epoch_and_what_is_promised_survives(name, schedule, seed):
    w = fast(seed, **CONFIGS[name])
    judge(play(w, schedule), keeps=name != "race")


@pytest.mark.parametrize(("truncate", "agree"), [("hw", False), ("epoch", True)])
def test_followers_cut_to_high_watermarks_may_hold_other_records_and_follow_all_the_same(truncate, agree):
    w = fast(224, truncate=truncate)
    play(w, KIP_101)
    assert w.settle()
    assert [w.boxes[name].status().leader for name in NAMES[:-1]] == ["b", "b", "b"]
    held = w.values()
    assert (held[0] == held[1] == held[2]) is agree


@pytest.mark.parametrize(
    "variant", ["longer-wait", "half-ping", "small-batches", "frequent-checkpoints", "early-doubt"]
)
@pytest.mark.parametrize("name", ["controller", "race-strict"])
def test_the_harmless_builds_raise_no_alarm(name, variant):
    for seed in range(15):
        w = fast(seed, variant=f"harmless-{variant}", **CONFIGS[name])
        judge(play(w, drawn(World, Rng(seed), NAMES, count=40)), keeps=True)
