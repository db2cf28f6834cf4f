"""A run that has not shown what it owes goes on; one that has is not touched; every kind that is asked for happens."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import Mark
from dethrone.harness.core.interfaces import Unmet
from dethrone.harness.core.schedule import PlannedFault, Step
from dethrone.harness.engine.run.continuation import next_step, unmet_by, worth_keeping
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.rehearsal import rehearse, rehearse_draft, with_schedule

CHECKERS = {name: checker for name, checker in load_checkers().items() if name in {"coverage", "leader-when-owed"}}
KINDS = ("partition", "kill", "pause")


def options(**more) -> RunOptions:
    plain = {"system": "raft", "backend": "sim", "nodes": 5, "faults": KINDS, "time_limit_ns": 60 * SECOND}
    return RunOptions(**{**plain, **more})


def misses(drafted):
    """The same draft with a schedule whose only step cannot hit anybody, which still owes what was drawn."""
    plan = drafted.plan
    step = Step(faults=(PlannedFault(kind="kill", victims="cut-off", hold_ns=SECOND),), gap_ns=SECOND)
    schedule = msgspec.structs.replace(plan.schedule, steps=(step,))
    return msgspec.structs.replace(drafted, plan=msgspec.structs.replace(plan, schedule=schedule))


def marks(run) -> list[Mark]:
    return [mark for mark in run.history.of(Mark) if mark.name == "more"]


@pytest.mark.slow
def test_a_run_whose_schedule_showed_everything_is_the_run_that_it_always_was():
    whole = rehearse(options(), CHECKERS, seed=2)
    ends = rehearse(options(conclusive=False), CHECKERS, seed=2)
    assert whole.judgement.outcome == ends.judgement.outcome == "pass" or not marks(whole)
    assert marks(whole) == []
    assert [msgspec.json.encode(one) for one in whole.history.events] == [
        msgspec.json.encode(one) for one in ends.history.events
    ]


@pytest.mark.slow
def test_a_run_that_missed_everything_goes_on_until_it_has_shown_it():
    drafted = misses(draft(options(), seed=2))
    run = rehearse_draft(drafted, CHECKERS)
    assert len(marks(run)) >= 2
    assert "leader-killed" in marks(run)[0].data["unmet"]
    assert run.plan.schedule.steps[: len(drafted.plan.schedule.steps)] == drafted.plan.schedule.steps
    assert len(run.plan.schedule.steps) == 1 + len(marks(run)), "the plan tells what was really meant"
    coverage = next(one for one in run.judgement.verdicts if one.checker == "coverage")
    assert coverage.outcome == "pass", coverage.reason
    again = rehearse_draft(misses(draft(options(), seed=2)), CHECKERS)
    assert msgspec.json.encode(run.history.events) == msgspec.json.encode(again.history.events)


@pytest.mark.slow
def test_the_same_run_that_may_not_go_on_is_unknown():
    drafted = msgspec.structs.replace(misses(draft(options(), seed=2)), more=None)
    run = rehearse_draft(drafted, CHECKERS)
    assert marks(run) == []
    coverage = next(one for one in run.judgement.verdicts if one.checker == "coverage")
    assert coverage.outcome == "unknown"


def test_a_run_goes_on_for_twice_its_time_limit_at_most():
    drafted = misses(draft(options(), seed=2))
    plan = drafted.plan
    schedule = msgspec.structs.replace(plan.schedule, obligations=(*plan.schedule.obligations, "restarted"))
    drafted = msgspec.structs.replace(drafted, plan=msgspec.structs.replace(plan, schedule=schedule))
    run = rehearse_draft(drafted, CHECKERS)
    heal = next(mark.t for mark in run.history.of(Mark) if mark.name == "heal")
    assert heal <= 2 * plan.time_limit_ns + 20 * SECOND


@pytest.mark.slow
def test_what_is_kept_of_a_run_says_the_same_as_the_whole_of_it():
    run = rehearse(options(), CHECKERS, seed=2)
    assess = unmet_by(CHECKERS)
    events = list(run.history.events[:-1])
    for end in range(0, len(events), max(1, len(events) // 12)):
        part = events[:end]
        if not part:
            continue
        kept = [event for event in part if worth_keeping(event)]
        assert assess(kept, run.plan, part[-1].t) == assess(part, run.plan, part[-1].t)
        assert len(kept) < len(part) / 3 or len(part) < 100


def test_a_written_schedule_ends_when_it_ends():
    drafted = draft(options(), seed=2)
    assert drafted.more is not None
    assert with_schedule(drafted, drafted.plan.schedule).more is None
    assert draft(options(scenario="raft-b1", faults=None), seed=2).more is None


def test_nothing_comes_after_damage_that_does_not_heal():
    assert draft(options(faults=("kill", "damage")), seed=2).more is None


def test_the_next_step_is_one_that_may_show_what_is_missing():
    def step(kind: str) -> Step:
        return Step(faults=(PlannedFault(kind=kind, victims="leader", hold_ns=1),), gap_ns=1)

    steps = [step("kill"), step("pause"), step("partition")]
    assert next_step(steps, [Unmet(what="leader-paused", kinds=("pause",))]) == 1
    assert next_step(steps, [Unmet(what="restarted", kinds=("restart",))]) is None
    assert next_step([], [Unmet(what="x", kinds=("kill",))]) is None


# --- each kind that is asked for ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_every_kind_that_was_asked_for_is_in_the_schedule_or_the_plan_is_refused(seed):
    """Two steps hold four faults of three kinds, but used to hold two kinds."""
    few = options(time_limit_ns=32 * SECOND, nemesis_interval_ns=5 * SECOND)
    assert set(draft(few, seed=seed).plan.schedule.kinds) == set(KINDS)


def test_a_draw_that_has_every_kind_is_taken_as_the_seed_gives_it():
    for seed in range(12):
        plain = draft(options(conclusive=False), seed=seed).plan.schedule
        whole = draft(options(), seed=seed).plan.schedule
        assert whole == plain or set(plain.kinds) != set(KINDS)


def test_kinds_for_which_there_is_no_room_are_refused_with_the_interval_that_fits():
    many = options(
        nodes=3, faults=("partition", "kill", "pause", "restart"), time_limit_ns=20 * SECOND,
        nemesis_interval_ns=6 * SECOND,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="too short for all requested fault kinds") as told:
        draft(many, seed=1)
    said = str(told.value)
    assert "--nemesis-interval" in said or "--time-limit" in said
    assert draft(msgspec.structs.replace(many, conclusive=False), seed=1).plan.schedule.steps


def test_the_interval_that_is_named_fits():
    many = options(
        nodes=3, faults=("partition", "kill", "pause", "restart"), time_limit_ns=20 * SECOND,
        nemesis_interval_ns=6 * SECOND,
    )  # fmt: skip
    with pytest.raises(ConfigError) as told:
        draft(many, seed=1)
    word = told.value.next_step.split(",")[0].removeprefix("use ")
    flag, value = word.split(" ")
    seconds = int(value.rstrip("s")) * SECOND
    field = {"--nemesis-interval": "nemesis_interval_ns", "--time-limit": "time_limit_ns"}[flag]
    found = draft(msgspec.structs.replace(many, **{field: seconds}), seed=1).plan.schedule
    assert set(found.kinds) == {"partition", "kill", "pause", "restart"}


def test_a_systems_own_kinds_are_never_refused():
    short = options(faults=None, time_limit_ns=20 * SECOND)
    assert draft(short, seed=1).plan.schedule.steps


def test_the_exam_draws_what_it_always_drew():
    from dethrone.harness.engine.exam.exam import Task, options_of

    system = registry.load(registry.SYSTEMS, "raft")
    planted = next(iter(system.planted().values()))
    task = Task(system="raft", planted=planted, plan=system.exam(), strategy="triggered")
    made = options_of(task, 0, variant=None)
    assert (made.conclusive, made.time_scale) == (False, 1)
    assert draft(made, seed=0).more is None
