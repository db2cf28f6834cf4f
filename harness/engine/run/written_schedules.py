"""Schedules that users write, in files and scenarios: read, and checked against what is installed.

Out of scope: schedules that are drawn, whose checks are the same (``planning``).
"""

from __future__ import annotations

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.interfaces import Condition, Fault
from dethrone.harness.core.schedule import Schedule
from dethrone.harness.core.schedule_text import read_schedule
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.scenario_lookup import find


def written_schedule(options: RunOptions, *, seed: int) -> Schedule | None:
    """The schedule that a user wrote, if he did; one of a scenario has the run's seed. Raises ConfigError."""
    if options.schedule is not None:
        schedule = read_schedule(options.schedule)
    elif options.scenario is not None:
        schedule = msgspec.structs.replace(find(options.scenario).schedule, seed=seed)
    else:
        return None
    check_schedule(schedule, nodes=options.nodes)
    return schedule


def check_schedule(schedule: Schedule, *, nodes: int) -> None:
    """Raise ConfigError for a fault or a trigger that is not installed, or cannot be as it is planned."""
    for step in schedule.steps:
        for fault in step.faults:
            kind: Fault = registry.load(registry.FAULTS, fault.kind)
            kind.check(fault, nodes=nodes)
    for trigger in schedule.triggers:
        condition: Condition = registry.load(registry.TRIGGERS, trigger.event)
        condition.check(trigger, nodes=nodes)
