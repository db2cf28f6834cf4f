"""The adapter: what it promises under which knobs, and the door through which it comes."""

from __future__ import annotations

import pytest

from dethrone.clusters.systems.dledger import SYSTEM
from dethrone.harness.core.interfaces import Yes
from dethrone.harness.core.promise import SAFETY

SECOND = 1_000_000_000


def promise(settings=None, profile="dledger", voters=5):
    knobs = SYSTEM.knobs(settings or {}, profile=profile, variant=None)
    return SYSTEM.promise(knobs, profile=profile, voters=voters)


def test_the_known_weaknesses_of_the_election_are_not_promised():
    made = promise()
    assert set(made.exempt) == {"leader-stability", "convergence-after-heal"}
    assert "DL-B1" in made.exempt["convergence-after-heal"].reason
    assert "DL-B2" in made.exempt["leader-stability"].reason
    assert made.tiers == ("T1", "T2")
    assert not made.linearizable_reads
    assert made.leader_bound_to_term
    assert not made.pre_vote


@pytest.mark.parametrize(
    "broken",
    [
        {"persist_mode": "none"},
        {"persist_mode": "upstream"},
        {"ledger_end_term": "curr_term"},
        {"commit_own_term_only": "false"},
        {"push_checks_leader": "false"},
        {"fsync": "async"},
        {"get_committed_only": "false"},
    ],
)
def test_safety_stays_promised_whatever_a_knob_breaks(broken):
    assert all(promise(broken).owes(name) for name in SAFETY)


def test_a_knob_that_mends_a_weakness_adds_the_promise():
    made = promise({"K4": "true"})
    assert made.owes("convergence-after-heal")
    assert made.converge_ns > made.leader_bound_ns
    assert promise(profile="dledger-mended").owes("convergence-after-heal")
    immediate = promise({"K1": "immediate"})
    assert not immediate.owes("leader-when-owed")
    assert not immediate.owes("no-livelock")


def test_clock_steps_are_tolerated_with_the_monotonic_clock_only():
    assert {"partition", "kill", "stop", "restart", "pause", "powerloss", "disk"} <= set(promise().tolerates)
    assert set(promise({"clock": "monotonic"}).tolerates) - set(promise().tolerates) == {"clock"}
    assert "clock" in promise().tolerated_for_safety  # votes and commits read no clock


def test_bounds_cover_the_figures_of_the_specification_and_scale():
    made = promise()
    assert made.election_timeout_ns == 6 * SECOND
    assert made.heartbeat_ns == 2 * SECOND
    assert 13 * SECOND < made.leader_bound_ns == made.later_gap_ns < 36 * SECOND
    assert 6 * SECOND < made.step_down_ns < 9 * SECOND
    tenth = promise({"time_factor": "0.1"})
    assert tenth.leader_bound_ns < made.leader_bound_ns / 8
    assert tenth.delay_max_ns == made.delay_max_ns // 10
    assert promise({"K2": "leak"}).leader_bound_ns > made.leader_bound_ns
    assert made.loss_percent_max == 0  # a pusher that lost something is behind its clients' patience


def test_the_default_run_is_short_enough_for_a_minute():
    defaults = SYSTEM.defaults()
    assert defaults.settings == {"time_factor": "0.1", "noop_on_elect": "true"}
    assert all(SYSTEM.fault_support(kind) == Yes() for kind in defaults.faults)
    assert set(SYSTEM.observable()) >= {"traced", "witness", "ops", "atomic", "log_end", "commit", "voted_for", "found"}
