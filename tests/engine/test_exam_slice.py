"""A slice of the exam in every CI run: no checker fails where nothing is wrong, and bugs of each protocol are found."""

from __future__ import annotations

import time

import pytest

from harness.core import registry
from harness.core.clock import SECOND
from harness.core.planted import Planted
from harness.engine.exam import Task, examine, watch
from harness.engine.exam_jobs import examinable
from harness.engine.judge import load_checkers

pytestmark = pytest.mark.slow
SEEDS = 30


@pytest.mark.parametrize("name", examinable())
def test_no_checker_fails_on_the_build_without_bugs(name):
    system = registry.load(registry.SYSTEMS, name)
    nobody = Planted(name="clean", says="the build without any bug")
    task = Task(
        system=name,
        plan=system.exam(),
        strategy="triggered",
        planted=nobody,
        baseline=True,
        seeds=SEEDS,
        budget_ns=3600 * SECOND,
    )
    found = watch(task, load_checkers(), core_ns=time.process_time_ns)
    assert found.alarms == ()
    assert found.runs == SEEDS
    assert found.unknown < SEEDS or name == "master-slave"


@pytest.mark.parametrize("name", examinable())
def test_some_planted_bug_of_each_protocol_is_found_by_the_checker_named_for_it(name):
    system = registry.load(registry.SYSTEMS, name)
    bugs = [bug for bug in system.planted().values() if not bug.harmless]
    checkers = load_checkers()
    plan = system.exam()
    found = []
    for bug in bugs:
        task = Task(
            system=name, plan=plan, strategy="triggered", planted=bug, seeds=3, budget_ns=60 * SECOND, profile=None
        )
        result = examine(task, checkers, core_ns=time.process_time_ns)
        assert result.alarms == ()
        found += [bug.name] if result.by else []
        if len(found) >= 2:
            return
    assert found, f"none of {[bug.name for bug in bugs]}"
