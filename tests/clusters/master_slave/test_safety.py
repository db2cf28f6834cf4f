"""Random worlds without wipes and operators: slaves hold prefixes of their master's log, and roles never change."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.harness.core.rng import Rng
from tests.clusters.master_slave.spec import NAMES, World, cluster, values
from tests.world.chaos import drawn, play, steps


@pytest.mark.parametrize("profile", ["master-slave", "sync"])
@given(schedule=steps(World, NAMES, most=50), seed=st.integers(0, 1 << 16))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_slaves_hold_prefixes_and_roles_never_change_and_what_was_acknowledged_survives(profile, schedule, seed):
    w = play(cluster(profile=profile, seed=seed), schedule)
    assert not w.problems
    assert w.recovers()
    assert not w.problems
    assert w.clients.acknowledged() <= set(values(w, "m"))


@pytest.mark.parametrize(
    "variant", ["half-heartbeat", "registers-more", "small-batches", "flushes-more", "never-suggests"]
)
def test_the_harmless_builds_raise_no_alarm(variant):
    for seed in range(10):
        w = cluster(profile="sync", seed=seed, variant=f"harmless-{variant}")
        play(w, drawn(World, Rng(seed), NAMES, count=40))
        w.recovers()
        assert not w.problems
