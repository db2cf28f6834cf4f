"""The exam: found only by who is named, only within the budget, only where the clean build passes."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import Mark
from dethrone.harness.core.planted import ExamPlan, Planted
from dethrone.harness.core.registry import CHECKERS
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.engine.exam.exam import Task, examine, kinds_of, options_of, watch
from dethrone.harness.engine.exam.exam_tasks import read_rows, run_exam, tasks_for
from dethrone.harness.report.exam_table import exam_lines, exam_object

PLAN = ExamPlan(workloads=("log", "lease"), faults=("kill",), intervals_ns=(2 * SECOND, 5 * SECOND))
BUG = Planted(name="01-x", says="forgets", caught_by=("one-vote-per-term", "one-leader-per-term"))


class Checker:
    """Fails where the history names it."""

    version, kind, needs = "1", "safety", frozenset()

    def __init__(self, name):
        self.name = name

    def check(self, history, promise, plan):
        return verdict(self.name, failed=self.name in history)


def verdict(name, *, failed):
    findings = (Finding(sentence=f"{name} broke", certificate=(1, 2)),) if failed else ()
    return Verdict(
        checker=name, version="1", kind="safety", outcome="fail" if failed else "pass", findings=findings, reason=""
    )


CHECK = {name: Checker(name) for name in ("one-vote-per-term", "one-leader-per-term", "log-matching")}


class World:
    """Runs that fail what a table says; time passes a second a run."""

    def __init__(self, failing, clean=None):
        self.failing, self.clean = failing, clean or {}
        self.runs = []

    def now(self):
        return len(self.runs) * SECOND

    def run(self, options, checkers):
        self.runs.append(options)
        table = self.failing if options.variant else self.clean
        names = table.get(options.seed, ())
        verdicts = [verdict(name, failed=name in names) for name in checkers]
        history = Names(names)
        judgement = SimpleNamespace(verdicts=verdicts, outcome="fail" if names else "pass")
        return SimpleNamespace(
            simulated_ns=60 * SECOND,
            judgement=judgement,
            history=history,
            plan=SimpleNamespace(
                promise=SimpleNamespace(exempt={}),
                system="raft",
                profile="raft",
                variant=None,
                nodes=("n1", "n2", "n3"),
                secrets=(),
                settings={},
            ),
            realised=SimpleNamespace(faults=()),
            failing=lambda: frozenset(v.checker for v in verdicts if v.outcome == "fail"),
        )


class Names(set):
    """A history that only says who must fail."""

    damage, complete = None, True

    def of(self, _):
        return []

    def at(self, seq):
        return Mark(seq=seq, t=seq * SECOND, name="step")

    def prepare(self, *_):
        pass


def task(**more):
    return Task(system="raft", plan=PLAN, strategy="triggered", planted=BUG, **more)


def test_a_bug_is_found_by_the_checker_named_for_it_at_the_first_seed_that_shows_it():
    world = World({3: ("one-vote-per-term", "log-matching")})
    found = examine(task(), CHECK, core_ns=world.now, run=world.run)
    assert (found.by, found.seed, found.runs) == ("one-vote-per-term", 3, 4)
    assert found.also == ("log-matching", "one-vote-per-term")
    assert found.events == 2
    assert [one.variant for one in world.runs] == ["01-x"] * 4 + [None]


def test_the_simulated_time_to_find_ends_with_the_last_event_of_the_first_certificate():
    world = World({3: ("one-vote-per-term",)})
    found = examine(task(), CHECK, core_ns=world.now, run=world.run)
    assert (found.found_at_ns, found.simulated_ns) == ((3 * 60 + 2) * SECOND, 4 * 60 * SECOND)
    (told,) = exam_object([found], strategy="triggered", interrupted=False)["bugs"]
    assert (told["found_at_s"], told["runs_s"]) == (182.0, 240.0)
    missed = examine(task(seeds=2), CHECK, core_ns=world.now, run=World({}).run)
    assert (missed.found_at_ns, missed.simulated_ns) == (None, 2 * 60 * SECOND)


def test_another_checkers_failure_does_not_count():
    world = World({0: ("log-matching",)})
    found = examine(task(seeds=5), CHECK, core_ns=world.now, run=world.run)
    assert found.by == ""
    assert found.runs == 5


def test_a_failure_that_the_clean_build_shows_with_the_same_seed_is_an_alarm_and_no_find():
    world = World({0: ("one-vote-per-term",), 2: ("one-vote-per-term",)}, clean={0: ("one-vote-per-term",)})
    found = examine(task(), CHECK, core_ns=world.now, run=world.run)
    assert found.seed == 2
    assert [(alarm.seed, alarm.checker, alarm.build) for alarm in found.alarms] == [(0, "one-vote-per-term", "clean")]


def test_what_the_honest_build_fails_by_its_specification_under_the_settings_of_a_bug_is_no_alarm():
    world = World({0: ("one-vote-per-term",), 2: ("one-vote-per-term",)}, clean={0: ("one-vote-per-term",)})
    own = msgspec.structs.replace(BUG, settings={"mode": "race"}, weak=("one-vote-per-term",))
    found = examine(msgspec.structs.replace(task(), planted=own), CHECK, core_ns=world.now, run=world.run)
    assert (found.seed, found.alarms) == (2, ())


def test_the_budget_is_kept():
    world = World({})
    found = examine(task(budget_ns=10 * SECOND), CHECK, core_ns=world.now, run=world.run)
    assert found.by == ""
    assert found.runs <= 11


def test_run_number_k_differs_from_bug_to_bug_by_the_variant_only():
    other = Planted(name="02-y", says="", caught_by=("log-matching",))
    for seed in range(12):
        mine = options_of(task(), seed, variant="01-x")
        others = options_of(Task(system="raft", plan=PLAN, strategy="triggered", planted=other), seed, variant="01-x")
        assert mine == others
    sizes = {
        (o.nodes, o.workload, o.nemesis_interval_ns) for o in (options_of(task(), k, variant=None) for k in range(8))
    }
    assert len(sizes) == 8


def test_every_rate_is_met_with_every_interval():
    plan = ExamPlan(workloads=("log",), faults=("kill",), intervals_ns=(SECOND, 2 * SECOND), rates_per_s=(None, 2))
    drawn = [
        options_of(Task(system="raft", plan=plan, strategy="triggered", planted=BUG), seed, variant=None)
        for seed in range(2 * 2 * 2)
    ]
    assert len({(one.nodes, one.nemesis_interval_ns, one.rate_per_s) for one in drawn}) == len(drawn)


def test_clean_builds_are_watched_by_every_checker_and_known_weaknesses_are_no_alarm():
    world = World({}, clean={1: ("log-matching",), 2: ("one-vote-per-term",)})
    plan = ExamPlan(workloads=("log",), faults=("kill",), intervals_ns=(SECOND,), weak=("log-matching",))
    nobody = Planted(name="clean", says="")
    one = Task(system="nacos", plan=plan, strategy="mixed", planted=nobody, baseline=True, seeds=4)
    found = watch(one, CHECK, core_ns=world.now, run=world.run)
    assert found.runs == 4
    assert [(alarm.seed, alarm.checker) for alarm in found.alarms] == [(2, "one-vote-per-term")]
    value = exam_object([found], strategy="mixed", interrupted=False)
    assert value["triggers"] == {"hits": 0, "misses": 0}
    assert len(value["alarms"]) == 1
    assert "ALARM nacos clean seed 2" in "\n".join(exam_lines(value))


@pytest.mark.slow
def test_schedules_can_be_drawn_of_some_kinds_only_and_such_rows_are_rows_of_their_own(tmp_path):
    def ask(*faults):
        bug = ["28-never-steps-down"]
        return tasks_for(["raft"], bugs=bug, strategy="random", budget_ns=30 * SECOND, faults=faults)

    (task,) = ask("partition")
    assert task.plan.faults == ("partition",)
    (row,), _ = run_exam([task], tmp_path, jobs=1, on_row=lambda *_: None)
    assert row.found.by == "step-down-without-quorum"
    seen = []
    run_exam(ask("partition"), tmp_path, jobs=1, on_row=lambda *told: seen.append(told))
    assert seen == []
    assert row.key not in {other.key for other in run_exam(ask(), tmp_path, jobs=1, on_row=lambda *_: None)[0]}
    with pytest.raises(ConfigError, match="unknown fault"):
        ask("partitoin")


def test_an_unknown_bug_or_a_system_without_bugs_is_told_before_anything_starts():
    with pytest.raises(ConfigError, match="unknown planted bug"):
        tasks_for(["raft"], bugs=["01-vote-not-writen"], strategy="triggered", budget_ns=SECOND)
    with pytest.raises(ConfigError, match="has no planted bugs"):
        tasks_for(["etcd"], strategy="triggered", budget_ns=SECOND)


def test_every_bug_in_the_lists_names_checkers_that_exist():
    from dethrone.harness.core import registry
    from dethrone.harness.engine.exam.exam_tasks import examinable

    known = registry.names(CHECKERS)
    for name in examinable():
        system = registry.load(registry.SYSTEMS, name)
        for bug in system.planted().values():
            assert bug.harmless or set(bug.caught_by) & set(known), (name, bug.name)
        assert sum(bug.harmless for bug in system.planted().values()) == 5, name


@pytest.mark.slow
def test_rows_are_kept_and_not_computed_again(tmp_path):
    tasks = tasks_for(["raft"], bugs=["28-never-steps-down"], strategy="random", budget_ns=30 * SECOND)
    seen = []
    rows, interrupted = run_exam(tasks, tmp_path, jobs=1, on_row=lambda *told: seen.append(told))
    assert not interrupted
    assert rows[0].found.by == "step-down-without-quorum"
    again, _ = run_exam(tasks, tmp_path, jobs=1, on_row=lambda *told: seen.append(told))
    assert len(seen) == 1
    assert again == rows == read_rows(tmp_path / "exam.jsonl")


def test_a_torn_last_row_is_computed_again(tmp_path):
    (tmp_path / "exam.jsonl").write_bytes(b'{"strategy":"random"')
    assert read_rows(tmp_path / "exam.jsonl") == []


def test_half_of_the_runs_have_all_kinds_of_faults_and_the_others_a_choice_of_two_at_least():
    kinds = ("partition", "kill", "pause", "clock", "link")
    drawn = [kinds_of(kinds, seed) for seed in range(400)]
    assert 150 < drawn.count(kinds) < 250
    assert {len(some) for some in drawn} == {2, 3, 4, 5}
    assert all(tuple(kind for kind in kinds if kind in some) == some for some in drawn)
    assert {kind for some in drawn if len(some) == 2 for kind in some} == set(kinds)
    assert kinds_of(("kill",), 3) == ("kill",)


@pytest.mark.slow
def test_a_bug_that_was_not_found_is_looked_for_again_if_there_is_more_time(tmp_path):
    def run(budget_ns):
        tasks = tasks_for(["raft"], bugs=["47-lease-on-wall-clock"], strategy="random", budget_ns=budget_ns)
        run_exam(tasks, tmp_path, jobs=1, on_row=lambda *told: seen.append(told))

    seen = []
    run(1)
    run(1)
    assert len(seen) == 1
    assert not seen[0][0].found.by
    run(SECOND)
    assert len(seen) == 2


def test_settings_in_turn_stand_over_those_of_all_runs_and_under_those_of_the_bug():
    plan = msgspec.structs.replace(PLAN, settings={"a": "1", "b": "1"}, in_turn=({}, {"a": "2", "c": "2"}))
    mine = msgspec.structs.replace(BUG, settings={"c": "3"})
    tasks = (Task(system="raft", plan=plan, strategy="triggered", planted=bug) for bug in (BUG, mine))
    base, own = ([dict(options_of(one, seed, variant=None).settings) for seed in range(16)] for one in tasks)
    assert base[:8] == [{"a": "1", "b": "1"}] * 8
    assert base[8:] == [{"a": "2", "b": "1", "c": "2"}] * 8
    assert all(settings["c"] == "3" for settings in own)
    assert own[15]["a"] == "2"
