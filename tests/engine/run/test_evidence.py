"""What a run must show whatever its schedule asks for: of each phase, and of each tier that its faults make."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core.plan import Plan
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft, evidence

PHASES = {f"{what}:{phase}" for what in ("answers", "writes") for phase in ("warmup", "faults", "quiet")}


def asked(system="raft", **given):
    return set(draft(RunOptions(system=system, backend="sim", **given), seed=1).plan.evidence)


@pytest.mark.parametrize(
    ("given", "windows"),
    [
        ({}, {"window:T1", "window:T2"}),
        ({"faults": ("partition",)}, {"window:T1", "window:T2"}),
        ({"faults": ("clock",)}, {"window:T1"}),
        ({"system": "zk-ephemeral"}, {"window:T1"}),
        ({"system": "master-slave"}, set()),
    ],
)
def test_a_drawn_schedule_owes_a_window_of_each_tier_that_its_faults_make(given, windows):
    assert asked(**given) == PHASES | windows


def test_a_run_without_faults_has_no_phase_of_them():
    assert asked(faults=()) == {one for one in PHASES if "faults" not in one} | {"window:T1"}


def test_a_schedule_that_somebody_wrote_or_that_is_in_haste_leaves_the_windows_that_it_leaves():
    plan = draft(RunOptions(system="raft", backend="sim"), seed=1).plan
    assert set(evidence(plan.schedule, plan.promise, drawn=False)) == PHASES
    hasty = msgspec.structs.replace(plan.schedule, health_bound_ns=0)
    assert set(evidence(hasty, plan.promise, drawn=True)) == PHASES | {"window:T1"}


def test_a_plan_of_an_older_version_asks_for_nothing():
    plan = draft(RunOptions(system="raft", backend="sim"), seed=1).plan
    stored = msgspec.json.decode(msgspec.json.encode(plan, enc_hook=str))
    del stored["evidence"]
    assert msgspec.json.decode(msgspec.json.encode(stored), type=Plan).evidence == ()
