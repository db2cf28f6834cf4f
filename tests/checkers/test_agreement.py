"""agreement against histories with a known verdict: shortest bad ones, near misses, and what holds for any history."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.checkers.agreement import CHECKER
from dethrone.harness.core import registry
from dethrone.harness.core.promise import NotPromised
from tests.checkers.histories import ENCODER, Tale, plan, promise

STORIES = {}


def story(outcome, words="", **changes):
    def keep(tell):
        def build():
            tale = Book(changes.get("nodes", 3))
            tell(tale)
            return tale

        STORIES[tell.__name__] = (outcome, words, build, changes)
        return tell

    return keep


class Book(Tale):
    """Tales of instances."""

    def propose(self, instance, value, *, node="n1", decided=..., status="ok"):
        op = self.invoke("propose", [instance, value], node)
        if status == "lost":
            return self
        return self.back(op, status, (value if decided is ... else decided) if status == "ok" else None, node)

    def learn(self, instance, value, *, node="n1"):
        return self.back(self.invoke("learn", instance, node), "ok", value, node)

    def says(self, node, name, instance, value, **data):
        return self.core(node, name, instance, instance=instance, value=value, **data)

    def accepted(self, nodes, number, instance, value, **data):
        for node in nodes.split():
            self.traced(node, "accepted", instance, instance=instance, id=number, value=value, **data)
        return self


@story("fail", "Instance 1 has two decisions: 'x' (n1 answered) and 'y' (n2 answered)")
def two_clients_are_told_two_values(t):
    t.propose(1, "x").propose(1, "y", node="n2")


@story("pass")
def the_second_proposer_is_told_the_first_value(t):
    t.propose(1, "x").propose(1, "y", node="n2", decided="x")


@story("pass")
def two_instances_decide_two_values(t):
    t.propose(1, "x").propose(2, "y").learn(1, "x", node="n3").learn(2, "y", node="n3")


@story("fail", "(n2 answered)")
def a_decision_changes(t):
    t.propose(1, "x").propose(1, "y", status="info").learn(1, "x", node="n2").learn(1, "y", node="n2")


@story("fail", "(n2 learned after a restart)")
def a_decision_changes_over_a_restart(t):
    t.propose(1, "x").propose(1, "y", status="lost").says("n2", "learned", 1, "x").restarted("n2")
    t.says("n2", "learned", 1, "y")


@story("pass")
def a_decision_is_learnt_again_after_a_restart(t):
    t.propose(1, "x").says("n2", "learned", 1, "x").restarted("n2").says("n2", "learned", 1, "x")


@story("fail", "n1, n2 accepted under number 8")
def two_majorities_accepted_two_values_and_nobody_learned(t):
    t.propose(1, "x", status="info").propose(1, "y", status="info")
    t.accepted("n2 n3", 5, 1, "x").accepted("n1 n2", 8, 1, "y")


@story("unknown", "no decision was reported twice")
def the_same_value_accepted_under_different_numbers_is_no_majority(t):
    t.propose(1, "x", status="info").propose(1, "y", status="info")
    t.accepted("n1", 4, 1, "x").accepted("n3", 7, 1, "x").accepted("n1 n2", 8, 1, "y")


@story("pass", nodes=5)
def two_of_five_are_no_majority(t):
    t.propose(1, "x", status="info").accepted("n1 n2", 4, 1, "x")
    t.propose(1, "y").accepted("n3 n4 n5", 8, 1, "y")


@story("fail", "but it had not been proposed")
def a_value_out_of_nothing(t):
    t.propose(1, "x", decided="z")


@story("fail", "but it had not been proposed")
def a_value_that_was_proposed_for_another_instance(t):
    t.propose(2, "z").propose(1, "x", decided="z")


@story("fail", "but it had not been proposed")
def a_value_that_is_proposed_only_later(t):
    t.says("n1", "learned", 1, "x").propose(1, "x")


@story("fail", "but its proposal failed")
def a_failed_proposal_is_decided(t):
    t.propose(1, "x", status="fail").learn(1, "x")


@story("pass")
def an_unknown_proposal_is_decided(t):
    t.propose(1, "x", status="info").learn(1, "x").learn(1, "x", node="n2")


@story("pass")
def a_proposal_repeated_after_its_failure_is_decided(t):
    t.propose(1, "x", status="fail").propose(1, "x").learn(1, "x")


@story("pass")
def not_knowing_is_no_decision(t):
    t.learn(1, None).propose(1, "x").learn(1, None, node="n2").learn(1, "x", node="n2")


@story("unknown", "not exercised: no decision was reported twice")
def a_decision_told_once_shows_nothing(t):
    t.propose(1, "x").learn(2, None)


@story("unknown", "not exercised: nothing was decided", workload="agreement")
def nobody_decides(t):
    t.learn(1, None)


@story("n/a", "no node proposes or decides values by instance")
def a_workload_without_instances(t):
    t.append(1).mark("final").read([1])


@story("pass")
def commands_and_epochs_come_from_nodes(t):
    t.says("n1", "learned", 1, {"type": "command"}, kind="command")
    t.says("n2", "learned", 1, {"type": "command"}, kind="command")
    t.says("n1", "learned", -1, "n1", kind="leader").says("n2", "learned", -1, "n1", kind="leader")


@story("fail", "Instance -1 has two decisions: 'n1' (n1 learned) and 'n2' (n2 learned)")
def two_leaders_of_one_epoch(t):
    t.says("n1", "learned", -1, "n1", kind="leader").says("n2", "learned", -1, "n2", kind="leader")


@story("pass")
def three_kinds_of_one(t):
    t.propose(1, 1).propose(2, True).propose(3, {"b": 1, "a": 2})
    t.learn(1, 1).learn(2, True).learn(3, {"a": 2, "b": 1})


@story("fail", "has two decisions: 1 (n1 answered) and True (n2 answered)")
def one_is_not_true(t):
    t.propose(1, 1).propose(1, True, node="n2")


def the_plan(changes, **more):
    given = promise(**changes.get("promised", {}))
    return plan(changes.get("nodes", 3), given=given, workload=changes.get("workload", "log"), **more)


@pytest.mark.parametrize("name", STORIES)
def test_the_verdict_is_the_known_one(name):
    outcome, words, _, changes = STORIES[name]
    history = STORIES[name][2]().end()
    made = the_plan(changes)
    verdict = CHECKER.check(history, made.promise, made)
    told = " ".join([verdict.reason, *(found.sentence for found in verdict.findings)])
    assert (verdict.outcome, words in told) == (outcome, True), (verdict.outcome, told, verdict.evidence)
    for found in verdict.findings:
        assert 1 <= len(found.certificate) <= 8
        assert all(0 <= seq < len(history) for seq in found.certificate)


@pytest.mark.parametrize("name", [name for name, told in STORIES.items() if told[0] == "pass"])
def test_a_good_story_without_its_end_is_unknown(name):
    _, _, build, changes = STORIES[name]
    made = the_plan(changes)
    verdict = CHECKER.check(build().torn(), made.promise, made)
    assert (verdict.outcome, "not complete" in verdict.reason) == ("unknown", True)


@pytest.mark.parametrize("name", STORIES)
def test_a_watcher_stops_at_bad_stories_only_and_certificates_alone_prove_them(name):
    outcome, _, build, changes = STORIES[name]
    made = the_plan(changes)
    history = build().end()
    feed = CHECKER.watcher(made.promise, made)
    assert any([feed(event) for event in history]) == (outcome == "fail")  # noqa: C419 - feed them all


@pytest.mark.parametrize("name", [name for name, told in STORIES.items() if told[0] == "fail" and "two" in told[1]])
def test_the_events_of_a_certificate_are_a_bad_history_by_themselves(name):
    _, _, build, changes = STORIES[name]
    made = the_plan(changes)
    history = build().end()
    seqs = CHECKER.check(history, made.promise, made).findings[0].certificate
    feed = CHECKER.watcher(made.promise, made)
    assert any([feed(history.at(seq)) for seq in seqs])  # noqa: C419 - feed them all


def test_what_is_exempt_or_cannot_be_observed_is_not_judged():
    history = STORIES["two_clients_are_told_two_values"][2]().end()
    promised = promise(exempt={"agreement": NotPromised(reason="every node decides alone")})
    verdict = CHECKER.check(history, promised, plan(given=promised))
    assert (verdict.outcome, verdict.reason) == ("n/a", "not promised: every node decides alone")
    assert CHECKER.check(history, promise(), plan(observable=())).outcome == "n/a"
    assert not any(map(CHECKER.watcher(promised, plan(given=promised)), history))


def test_a_fault_beyond_the_promise_excuses_what_comes_after_it():
    tale = Book(3)
    tale.fault("wipe", "n1", tale.state)
    tale.propose(1, "x").propose(1, "y", node="n2")
    history = tale.end()
    verdict = CHECKER.check(history, promise(), plan())
    assert verdict.outcome == "pass"
    assert all(found.excused for found in verdict.findings)
    assert verdict.findings
    assert not any(map(CHECKER.watcher(promise(), plan()), history))


def test_the_quorum_of_the_promise_counts():
    tale = Book(4)
    tale.propose(1, "x", status="info").propose(1, "y", status="info")
    tale.accepted("n1 n2", 4, 1, "x").accepted("n3 n4", 8, 1, "y")
    assert CHECKER.check(tale.end(), promise(), plan(4)).outcome == "unknown"
    assert CHECKER.check(tale.end(), promise(quorum=2), plan(4)).outcome == "fail"


def test_its_workload_says_nothing_about_lists():
    from dethrone.checkers.acknowledged_survives import CHECKER as LISTS

    verdict = LISTS.check(STORIES["a_decision_changes"][2]().end(), promise(), plan(workload="agreement"))
    assert (verdict.outcome, "appends to no list" in verdict.reason) == ("n/a", True)


def test_it_is_registered_under_its_own_name():
    assert registry.load(registry.CHECKERS, "agreement") is CHECKER


# --- against brute force ----------------------------------------------------------------------------------------

VALUES = ("a", "b")
ENDS = (*VALUES, None, "fail")
events = st.lists(
    st.one_of(
        st.tuples(st.just("propose"), st.integers(1, 2), st.sampled_from(VALUES), st.sampled_from(ENDS)),
        st.tuples(st.just("learn"), st.integers(1, 2), st.sampled_from((*VALUES, None))),
        st.tuples(st.just("learned"), st.integers(1, 2), st.sampled_from(VALUES), st.sampled_from(("n1", "n2"))),
        st.tuples(
            st.just("accepted"),
            st.integers(1, 2),
            st.sampled_from(VALUES),
            st.sampled_from(("n1", "n2", "n3")),
            st.integers(1, 2),
        ),
    ),
    max_size=12,
)


def bad(told):
    """The property, word by word, over the list of what happened."""
    for instance in (1, 2):
        decided = set()
        for at, (what, where, value, *rest) in enumerate(told):
            if where != instance:
                continue
            heard = None
            if what == "propose" and rest[0] in VALUES:
                heard = rest[0]
            elif (what == "learn" and value is not None) or what == "learned":
                heard = value
            elif what == "accepted":
                same = {e[3] for e in told[: at + 1] if e[0] == what and (e[1], e[2], e[4]) == (where, value, rest[1])}
                heard = value if len(same) >= 2 else None
            if heard is None:
                continue
            decided.add(heard)
            upto = told[: at + 1] if what == "propose" else told[:at]
            tries = [e[3] for e in upto if e[0] == "propose" and (e[1], e[2]) == (where, heard)]
            if all(one == "fail" for one in tries):
                return True
        if len(decided) > 1:
            return True
    return False


@settings(max_examples=400, deadline=None)
@given(events)
def test_it_finds_what_brute_force_finds_and_nothing_else(told):
    tale = Book(3)
    for what, instance, value, *rest in told:
        if what == "propose":
            status = "fail" if rest[0] == "fail" else "info" if rest[0] is None else "ok"
            tale.propose(instance, value, decided=rest[0], status=status)
        elif what == "learn":
            tale.learn(instance, value)
        elif what == "learned":
            tale.says(rest[0], "learned", instance, value)
        else:
            tale.accepted(rest[0], rest[1], instance, value)
    history = tale.end()
    made = plan()
    assert (CHECKER.check(history, made.promise, made).outcome == "fail") == bad(told)
    feed = CHECKER.watcher(made.promise, made)
    assert any([feed(event) for event in history]) == bad(told)  # noqa: C419 - feed them all


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=4))
def test_malformed_bodies_are_passed_over(junk):
    tale = Book(3)
    tale.back(tale.invoke("propose", junk), "ok", junk)
    tale.back(tale.invoke("learn", junk), "ok", junk)
    tale.core("n1", "learned", 1, instance=junk, value=junk).traced(
        "n1", "accepted", 1, instance=1, id=junk, value=junk
    )
    history = tale.end()
    outcome = CHECKER.check(history, promise(), plan(workload="agreement")).outcome
    assert outcome in {"unknown", "pass", "fail"}
    json.loads(ENCODER.encode(CHECKER.check(history, promise(), plan())))
