"""The exam on real hosts: what its plans are cut to, which runs are kept, and what trouble is not."""

from __future__ import annotations

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.planted import ExamPlan, Planted
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.engine.exam.exam_tasks import tasks_for
from dethrone.harness.engine.exam.live_runs import LiveRuns, fitting, telling
from dethrone.harness.engine.run import runner
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.engine.run.judgement import RunResult
from dethrone.harness.engine.run.options import RunOptions

PLAN = ExamPlan(
    workloads=("log", "lease", "membership"),
    faults=("kill", "drift", "partition", "link", "clock"),
    intervals_ns=(2 * SECOND, 5 * SECOND),
    settings={"sim.trace_us": "0", "membership": "single_server"},
)


def test_a_plan_keeps_what_real_hosts_can_suffer_and_no_setting_of_another_world():
    plan = fitting(PLAN, registry.load(registry.SYSTEMS, "raft"), "docker")
    assert plan.faults == ("kill", "partition", "link", "clock")
    assert plan.settings == {"membership": "single_server"}


@pytest.mark.parametrize(
    ("caught_by", "workloads", "intervals"),
    [
        (("lease-exclusion",), ("lease",), (2,)),
        (("members-only", "leader-stability"), ("membership",), (2, 5)),
        (("leader-when-owed", "no-livelock"), ("log", "lease", "membership"), (5,)),
        (("one-vote-per-term", "vote-is-durable"), ("log", "lease", "membership"), (2,)),
        ((), ("log", "lease", "membership"), (2, 5)),
    ],
)
def test_runs_are_spent_where_the_checkers_of_a_bug_can_judge(caught_by, workloads, intervals):
    plan = telling(PLAN, Planted(name="x", says="", caught_by=caught_by), load_checkers())
    assert plan.workloads == workloads
    assert plan.intervals_ns == tuple(n * SECOND for n in intervals)
    assert plan.faults == PLAN.faults


def test_every_bug_of_every_system_has_a_plan_on_real_hosts():
    from dethrone.harness.engine.exam.exam_tasks import examinable

    for task in tasks_for(examinable(), strategy="triggered", budget_ns=SECOND, backend="docker"):
        assert task.backend == "docker"
        assert task.plan.faults
        assert not [name for name in task.plan.settings if "." in name]


def simulated(trouble=()):
    """Runs in simulation under the name of real ones; ``trouble``: of the first ones."""
    real, left = runner.run, list(trouble)
    asked = []

    def run(options, listener, *, checkers=None):
        asked.append(options)
        done = real(options, listener, checkers=checkers)
        if left:
            words = left.pop(0)
            (done.run_dir / "run.json").unlink()
            return RunResult(
                run_dir=done.run_dir,
                seed=0,
                plan=done.plan,
                judgement=done.judgement,
                trouble=words,
                interrupted=False,
                exit_code=3,
            )
        return done

    return run, asked


OPTIONS = RunOptions(
    system="raft", backend="sim", nodes=3, seed=3, faults=("kill",), time_limit_ns=17 * SECOND, strategy="random"
)


JUDGING = {name: load_checkers()[name] for name in ("one-vote-per-term", "leader-when-owed")}


@pytest.mark.slow
def test_an_honest_run_is_run_once_for_all_bugs_and_judged_again(tmp_path, monkeypatch):
    run, asked = simulated()
    monkeypatch.setattr(runner, "run", run)
    runs = LiveRuns(tmp_path)
    first = runs(OPTIONS, JUDGING)
    assert first.judgement.outcome == "pass"
    again = LiveRuns(tmp_path)(OPTIONS, {"one-vote-per-term": load_checkers()["one-vote-per-term"]})
    assert len(asked) == 1
    assert not asked[0].stop_at_first_failure
    assert again.history.end == first.history.end
    assert [verdict.checker for verdict in again.judgement.verdicts] == ["one-vote-per-term"]
    assert first.realised.faults


@pytest.mark.slow
def test_trouble_is_no_answer_it_is_run_again_and_twice_is_an_error(tmp_path, monkeypatch):
    run, asked = simulated(trouble=[("the agent was lost",)])
    monkeypatch.setattr(runner, "run", run)
    done = LiveRuns(tmp_path)(OPTIONS, JUDGING)
    assert len(asked) == 2
    assert done.history.complete
    assert list((tmp_path / "clean").glob("*.set-aside"))
    run, asked = simulated(trouble=[("the agent was lost",)] * 2)
    monkeypatch.setattr(runner, "run", run)
    with pytest.raises(ClusterError, match="the agent was lost"):
        LiveRuns(tmp_path / "other")(OPTIONS, load_checkers())
    assert len(asked) == 2


class Moody:
    """A checker that can judge every other run."""

    name, version, kind, needs = "moody", "1", "safety", frozenset()

    def __init__(self, *moods):
        self.moods = list(moods)

    def check(self, history, promise, plan):
        outcome = self.moods.pop(0) if len(self.moods) > 1 else self.moods[0]
        return Verdict(checker=self.name, version="1", kind="safety", outcome=outcome, reason="")


@pytest.mark.slow
@pytest.mark.parametrize("moods", [("unknown", "pass"), ("unknown", "unknown")])
def test_an_honest_run_that_could_not_be_judged_is_run_once_more(tmp_path, monkeypatch, moods):
    run, asked = simulated()
    monkeypatch.setattr(runner, "run", run)
    moody = Moody("pass", moods[0], "pass", moods[1])  # each run is judged as it ends, and as it is read
    done = LiveRuns(tmp_path)(OPTIONS, {**JUDGING, "moody": moody})
    assert len(asked) == 2
    assert {v.checker: v.outcome for v in done.judgement.verdicts}["moody"] == moods[1]
