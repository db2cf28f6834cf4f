"""The command that a run that stayed unknown names."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.report.next_command import resolving
from dethrone.harness.report.rundir import RunFiles
from dethrone.harness.report.screens import commands
from tests.checkers.histories import Tale

PLAN = draft(RunOptions(system="raft", backend="sim", time_limit_ns=60 * SECOND), seed=1).plan


def judged(**more) -> Judgement:
    return Judgement(**{"outcome": "unknown", "reason": "", "verdicts": (), **more})


def doubt(checker: str, by: str) -> Verdict:
    return Verdict(checker=checker, version="1", kind="liveness", outcome="unknown", evidence={"unknown_by": by})


def test_noise_is_answered_by_a_slower_run():
    noisy = judged(verdicts=(doubt("failover", "noise"),), host_noise=True)
    assert resolving(noisy, PLAN, "dethrone run raft") == "dethrone run raft --time-limit 60s --time-scale 1.5"
    slow = msgspec.structs.replace(PLAN, time_scale=4.0, time_limit_ns=240 * SECOND)
    assert resolving(judged(host_noise=True), slow, "x") == "x --time-limit 60s --time-scale 6"


def test_missing_evidence_is_answered_by_more_time():
    mixed = judged(verdicts=(doubt("failover", "noise"), doubt("coverage", "evidence")))
    assert resolving(mixed, PLAN, "x") == "x --time-limit 120s"


def test_a_run_in_haste_is_answered_by_room_between_faults():
    hasty = draft(
        RunOptions(system="raft", backend="sim", time_limit_ns=60 * SECOND, nemesis_interval_ns=SECOND), seed=1
    ).plan
    assert resolving(judged(), hasty, "x") == "x --nemesis-interval 4s --time-limit 120s"


def test_trouble_and_damage_are_answered_by_the_same_run():
    assert resolving(judged(trouble=("agent-lost",)), PLAN, "x") == "x --time-limit 60s"
    assert resolving(judged(damage="torn"), PLAN, "x") == "x --time-limit 60s"


@pytest.mark.parametrize("time_scale", [1.0, 2.0])
def test_every_command_that_runs_it_again_keeps_the_data_where_it_was(time_scale):
    plan = msgspec.structs.replace(PLAN, data_in="memory", time_scale=time_scale)
    files = RunFiles(directory=Path("run"), history=Tale(3).end(), plan=plan, judgement=None)
    again = [line.plain for line in commands(files, judged(host_noise=True)) if "dethrone run" in line.plain]
    assert len(again) == 2
    assert all("--data-in memory" in line for line in again)
    on_disk = msgspec.structs.replace(files, plan=PLAN)
    assert not any("--data-in" in line.plain for line in commands(on_disk, judged(host_noise=True)))
