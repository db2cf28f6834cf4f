from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.rng import Rng
from tests.clusters.zk_ephemeral.chaos import acknowledged, drawn, logs, play, settle, steps, values, world

SAFE = {"acks": "all", "truncate": "epoch"}
CONFIGS = {
    "race": {},
    "race, acks=all, epochs": SAFE,
    "controller": {"profile": "controller", "acks": "all"},
    "race-strict": {"profile": "race-strict"},
}


def judge(w, writes, *, keeps):
    """Ownership and epochs always; one log, and no confirmed write lost, where the settings say so."""
    assert not w.problems
    assert settle(w), "no leader that all follow"
    assert not w.problems
    if keeps:
        one, *rest = [values(log) for log in logs(w)]
        assert all(other == one for other in rest)
        assert acknowledged(w, writes) <= set(one)


@pytest.mark.parametrize("name", CONFIGS)
@given(schedule=steps(), seed=st.integers(0, 1 << 16))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_happens_one_node_owns_the_lead_of_an_epoch_and_what_is_promised_survives(name, schedule, seed):
    w = world(seed, **CONFIGS[name])
    judge(w, play(w, schedule), keeps=name != "race")


@pytest.mark.parametrize(
    "variant", ["longer-wait", "half-ping", "small-batches", "frequent-checkpoints", "early-doubt"]
)
@pytest.mark.parametrize("name", ["controller", "race-strict"])
def test_the_harmless_builds_raise_no_alarm(name, variant):
    for seed in range(15):
        w = world(seed, variant=f"harmless-{variant}", **CONFIGS[name])
        judge(w, play(w, drawn(Rng(seed), count=40)), keeps=True)


def test_the_same_seed_gives_the_same_run():
    def once():
        w = world(5, **CONFIGS["controller"])
        play(w, drawn(Rng(5), count=50))
        return [(note.name, note.term, dict(note.data)) for box in w.boxes.values() for note in box.notes]

    first = once()
    assert len(first) > 20
    assert first == once()
