"""What clients see of Raft in virtual time: honest seeds pass, planted bugs fail, by the checker of their workload."""

from __future__ import annotations

import pytest

from harness.core.clock import SECOND
from harness.core.registry import CHECKERS, load
from harness.engine.model import RunOptions
from harness.engine.rehearsal import rehearse


def judged(workload, checker, seed, *, variant=None, **more):
    """The verdict of one checker on a run with many faults."""
    given = RunOptions(
        system="raft",
        backend="sim",
        nodes=3,
        seed=seed,
        workload=workload,
        faults=("partition", "kill", "pause", "restart", "powerloss"),
        strategy="triggered",
        variant=variant,
        time_limit_ns=60 * SECOND,
        nemesis_interval_ns=1 * SECOND,
        rate_per_s=100,
        processes=10,
        stop_at_first_failure=False,
        **more,
    )
    (verdict,) = rehearse(given, {checker: load(CHECKERS, checker)}, seed=seed).judgement.verdicts
    return verdict


@pytest.mark.parametrize("seed", [1, 2])
def test_honest_registers_are_linearizable_and_every_kind_of_answer_was_judged(seed):
    verdict = judged("register", "linearizable", seed)
    assert verdict.outcome == "pass", verdict.reason
    assert min(verdict.evidence[name] for name in ("reads", "writes_answered", "swaps")) > 500
    assert min(verdict.evidence[name] for name in ("swaps_refused", "unknown")) > 10


@pytest.mark.parametrize("variant", ["45-acks-after-local-append"])
def test_registers_of_a_planted_bug_are_not(variant):
    outcomes = []
    for seed in range(1, 9):
        verdict = judged("register", "linearizable", seed, variant=variant)
        outcomes.append(verdict.outcome)
        if verdict.outcome == "fail":
            assert all(1 <= len(found.certificate) <= 8 for found in verdict.findings)
            return
    raise AssertionError(outcomes)


def test_reads_that_are_not_promised_to_be_fresh_are_not_held_against_anybody():
    verdict = judged("register", "linearizable", 1, settings={"reads": "local"})
    assert (verdict.outcome, verdict.evidence["fresh_reads_judged"]) == ("pass", False)
