"""A slice of the exam: no checker fails where nothing is wrong, and bugs of each protocol are found."""

from __future__ import annotations

import functools
import os
import time

import msgspec
import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.planted import Planted
from dethrone.harness.engine.campaign.worker_processes import spread
from dethrone.harness.engine.exam.exam import Task, examine
from dethrone.harness.engine.exam.exam_tasks import carry_out, examinable
from dethrone.harness.engine.run.judge import load_checkers

pytestmark = pytest.mark.slow

FEW = 2
MANY = 300
"""Clean seeds of each protocol. A run costs 0.3 to 0.8 s of one core."""

LONG = pytest.mark.nightly("12 to 25 minutes of one core")

LIMIT_NS = 60 * SECOND
"""Simulated time of each, also where the exam's own runs are longer."""

CHUNK = 15
"""Seeds of one task: enough to hide the start of a worker, few enough that none is idle at the end."""


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=LONG)])
@pytest.mark.parametrize("name", examinable())
def test_no_checker_fails_on_the_build_without_bugs(name, seeds, tmp_path):
    system = registry.load(registry.SYSTEMS, name)
    nobody = Planted(name="clean", says="the build without any bug")
    plan = system.exam()
    plan = msgspec.structs.replace(plan, time_limit_ns=min(plan.time_limit_ns, LIMIT_NS))
    tasks = [
        Task(
            system=name,
            plan=plan,
            strategy="triggered",
            planted=nobody,
            baseline=True,
            first_seed=first,
            seeds=min(CHUNK, seeds - first),
            budget_ns=3600 * SECOND,
        )
        for first in range(0, seeds, CHUNK)
    ]
    found = []
    spread(
        functools.partial(carry_out, out=tmp_path),
        tasks,
        jobs=os.cpu_count() or 1,
        keep=lambda row: found.append(row.found),
    )
    assert [one.trouble for one in found if one.trouble] == []
    assert [alarm for one in found for alarm in one.alarms] == []
    assert sum(one.runs for one in found) == seeds
    assert seeds == FEW or sum(one.unknown for one in found) < seeds or name == "master-slave"


@pytest.mark.parametrize("name", examinable())
def test_some_planted_bug_of_each_protocol_is_found_by_the_checker_named_for_it(name):
    system = registry.load(registry.SYSTEMS, name)
    bugs = [bug for bug in system.planted().values() if not bug.harmless]
    checkers = load_checkers()
    plan = system.exam()
    for bug in bugs:
        task = Task(
            system=name, plan=plan, strategy="triggered", planted=bug, seeds=3, budget_ns=60 * SECOND, profile=None
        )
        result = examine(task, checkers, core_ns=time.process_time_ns)
        assert result.alarms == ()
        if result.by:
            return
    raise AssertionError(f"none of {[bug.name for bug in bugs]}")
