"""What clients saw in runs of ours: the same checkers, with promises, excuses and damage."""

from __future__ import annotations

import pytest

from dethrone.checkers.acknowledged_survives import AcknowledgedSurvives
from dethrone.checkers.linearizable import Linearizable
from dethrone.checkers.list_append import ListAppend
from dethrone.checkers.lock_holds import LockHolds
from dethrone.checkers.log_reads import LogReads
from dethrone.checkers.set_reads import SetReads
from dethrone.harness.core.events import Invoke, Return
from dethrone.harness.core.history import History
from dethrone.harness.core.promise import NotPromised
from dethrone.harness.engine.run.judge import judge
from tests.checkers.histories import Tale, plan, promise


def check(checker, tale, **changes):
    history = tale.end() if isinstance(tale, Tale) else tale
    given = plan(given=promise(**changes))
    return checker.check(history, given.promise, given)


def lists(*steps, told=None):
    """A tale of transactions: (asked, told)."""
    tale = Tale()
    for asked, answer in steps:
        op = tale.invoke("txn", asked)
        tale.back(op, "ok", answer)
    return tale


def test_keys_of_a_run_are_objects_of_their_own():
    tale = Tale().append(1, "a").append(2, "b").read([1], "a").read([2], "b")
    verdict = check(LogReads(), tale)
    assert (verdict.outcome, verdict.evidence["logs"]) == ("pass", 2)


def test_one_key_in_two_groups_is_two_objects():
    tale = Tale()
    for group, value in (("a", 1), ("b", 2)):
        for f, asked, told in (("append", ["k", value], None), ("read", "k", [value])):
            tale.add(Invoke, op=tale.ops, process=0, f=f, value=asked, target="n1", group=group)
            tale.wait(1).add(Return, op=tale.ops, status="ok", value=told, group=group)
            tale.wait(1).ops += 1
    verdict = check(LogReads(), tale)
    assert (verdict.outcome, verdict.evidence["logs"]) == ("pass", 2)


def test_a_lost_append_of_a_run_fails_with_its_events():
    tale = Tale().append(1).append(2).read([2])
    history = tale.end()
    verdict = check(LogReads(), history)
    assert verdict.outcome == "fail"
    assert verdict.findings[0].data["anomaly"] in ("lost", "reordered")
    assert all(history.at(seq).seq == seq for seq in verdict.findings[0].certificate)


def test_old_reads_are_judged_only_where_fresh_ones_are_promised():
    tale = Tale().append(1).read([]).append(2).read([1, 2])
    assert check(LogReads(), tale).outcome == "fail"
    verdict = check(LogReads(), tale, linearizable_reads=False)
    assert (verdict.outcome, "reads may be old" in verdict.reason) == ("n/a", True)


def test_a_fault_beyond_the_promise_excuses_what_comes_after_it():
    tale = Tale()
    tale.kill("n1")
    tale.append(1).append(2).read([2])
    verdict = check(LogReads(), tale, tolerates={"partition": None})
    assert (verdict.outcome, bool(verdict.findings[0].excused)) == ("pass", True)


@pytest.mark.parametrize("checker", [LogReads(), SetReads(), ListAppend(), LockHolds()])
def test_a_run_without_such_operations_is_not_judged(checker):
    verdict = check(checker, Tale().mark("faults"))
    assert (verdict.outcome, "not exercised" in verdict.reason) == ("n/a", True)


@pytest.mark.parametrize("checker", [LogReads(), SetReads(), ListAppend(), LockHolds()])
def test_what_is_not_promised_is_not_judged(checker):
    exempt = {checker.name: NotPromised(reason="says so")}
    assert check(checker, Tale().append(1).read([]), exempt=exempt).outcome == "n/a"


def test_of_old_reads_only_the_last_ones_must_show_everything():
    def tale():
        return Tale().did("add", ["s", 1]).did("read", "s", []).mark("final")

    assert check(SetReads(), tale(), linearizable_reads=False).outcome == "unknown"
    assert check(SetReads(), tale().did("read", "s", []), linearizable_reads=False).outcome == "fail"
    verdict = check(SetReads(), tale().did("read", "s", [1]), linearizable_reads=False)
    assert (verdict.outcome, verdict.metrics["tolerated"]) == ("pass", {"stale": 1})


@pytest.mark.parametrize("checker", [SetReads(), ListAppend(), Linearizable(), LogReads()])
def test_where_acknowledged_writes_may_be_lost_nothing_that_rests_on_them_is_judged(checker):
    exempt = {"acknowledged-survives": NotPromised(reason="spread over groups")}
    tale = Tale().did("add", ["s", 1]).did("read", "s", []).did("put", ["r", 1]).did("get", "r").append(1)
    verdict = check(checker, tale, exempt=exempt)
    assert (verdict.outcome, "spread over groups" in verdict.reason) == ("n/a", True)
    assert check(LockHolds(), Tale().lock("acquire", "a", 1), exempt=exempt).outcome == "pass"


def test_of_writes_that_may_be_lost_a_judgement_says_how_many_were():
    exempt = {"acknowledged-survives": NotPromised(reason="replication is asynchronous")}
    promised, checkers = promise(exempt=exempt), {"acknowledged-survives": AcknowledgedSurvives()}

    def told(history):
        return judge(history, plan(given=promised), checkers).verdicts[0]

    tale = Tale().append(1).append(2).append(3).mark("final").read([3])
    verdict = told(tale.end())
    assert (verdict.outcome, verdict.findings, verdict.metrics) == ("n/a", (), {"lost": 2, "of": 3})
    why = "not promised: replication is asynchronous"
    assert verdict.reason == f"{why}; here 2 of 3 appends are missing at the end"
    for silent in (Tale().append(1).end(), tale.torn(), Tale().end()):
        assert (told(silent).reason, told(silent).metrics) == (why, {})


def test_a_checker_that_crashes_over_what_is_not_promised_makes_nothing_unknown():
    class Crashing(AcknowledgedSurvives):
        def revealed(self, history, promise, plan):
            raise ValueError("odd")

    exempt = {"acknowledged-survives": NotPromised(reason="may be lost")}
    made = plan(given=promise(exempt=exempt))
    (verdict,) = judge(Tale().append(1).end(), made, {"acknowledged-survives": Crashing()}).verdicts
    assert verdict.outcome == "n/a"
    assert "the checker crashed: ValueError: odd" in verdict.reason


def test_a_history_without_its_end_is_never_passed():
    assert check(LogReads(), Tale().append(1).read([1]).torn()).outcome == "unknown"


def test_a_set_of_a_run_is_told_by_its_key():
    tale = Tale()
    tale.back(tale.invoke("add", ["s", 1]), "ok", None)
    tale.back(tale.invoke("read", "s"), "ok", [])
    verdict = check(SetReads(), tale)
    assert (verdict.outcome, "of s" in verdict.findings[0].sentence) == ("fail", True)


def test_locks_of_a_run_carry_owner_and_ttl():
    assert check(LockHolds(), Tale().lock("acquire", "a", 1).wait(600).lock("acquire", "b", 2)).outcome == "pass"
    assert check(LockHolds(), Tale().lock("acquire", "a", 1).wait(100).lock("acquire", "b", 2)).outcome == "fail"
    released = Tale().lock("acquire", "a", 1).lock("release", "a", 1).lock("acquire", "b", 2)
    assert check(LockHolds(), released).outcome == "pass"


def test_drift_that_a_promise_bears_shortens_a_lease():
    tale = Tale().lock("acquire", "a", 1, ttl=500).wait(470).lock("acquire", "b", 2, ttl=500)
    assert check(LockHolds(), tale).outcome == "fail"
    assert check(LockHolds(), tale, drift_ppm_max=200_000).outcome == "pass"


def test_transactions_are_strict_only_where_reads_are_promised_to_be_fresh():
    def tale():
        return lists(
            ([["append", "x", 1]], [["append", "x", 1]]),
            ([["r", "x", None]], [["r", "x", []]]),
        )

    verdict = check(ListAppend(), tale())
    assert (verdict.outcome, verdict.findings[0].data["drawing"]["kind"]) == ("fail", "cycle")
    assert check(ListAppend(), tale(), linearizable_reads=False).outcome == "pass"


def test_a_killed_run_of_another_workload_is_no_phantom():
    history = Tale().append(1).read([1]).end()
    killed = History(history.events[:-1], damage="no end record (the run was killed)")
    assert check(SetReads(), history).outcome == "n/a"
    verdict = check(SetReads(), killed)
    assert (verdict.outcome, verdict.findings) == ("unknown", ())
    assert "not complete" in verdict.reason
