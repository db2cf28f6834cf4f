"""agreement: what holds for any history. Its shortest bad ones and near misses are among the stories."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.checkers.agreement import CHECKER
from dethrone.harness.core import registry
from dethrone.harness.core.promise import NotPromised
from tests.checkers.histories import ENCODER, plan, promise
from tests.checkers.stories import STORIES, Teller

BAD = [name for name, one in STORIES.items() if (one.checker, one.outcome) == ("agreement", "fail")]


@pytest.mark.parametrize("name", [name for name in BAD if "two" in STORIES[name].words])
def test_the_events_of_a_certificate_are_a_bad_history_by_themselves(name):
    made = STORIES[name].plan()
    history = STORIES[name].tell().end()
    seqs = CHECKER.check(history, made.promise, made).findings[0].certificate
    feed = CHECKER.watcher(made.promise, made)
    assert any([feed(history.at(seq)) for seq in seqs])  # noqa: C419 - feed them all


def test_what_is_exempt_or_cannot_be_observed_is_not_judged():
    history = STORIES["two_clients_are_told_two_values"].tell().end()
    promised = promise(exempt={"agreement": NotPromised(reason="every node decides alone")})
    verdict = CHECKER.check(history, promised, plan(given=promised))
    assert (verdict.outcome, verdict.reason) == ("n/a", "not promised: every node decides alone")
    assert CHECKER.check(history, promise(), plan(observable=())).outcome == "n/a"
    assert not any(map(CHECKER.watcher(promised, plan(given=promised)), history))


def test_its_workload_says_nothing_about_lists():
    from dethrone.checkers.acknowledged_survives import CHECKER as LISTS

    verdict = LISTS.check(STORIES["a_decision_changes"].tell().end(), promise(), plan(workload="agreement"))
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
    tale = Teller(3)
    for what, instance, value, *rest in told:
        if what == "propose":
            status = "fail" if rest[0] == "fail" else "info" if rest[0] is None else "ok"
            tale.propose(instance, value, decided=rest[0], status=status)
        elif what == "learn":
            tale.learn(instance, value)
        elif what == "learned":
            tale.learned(rest[0], instance, value)
        else:
            tale.accepted(rest[0], rest[1], instance, value)
    history = tale.end()
    made = plan()
    assert (CHECKER.check(history, made.promise, made).outcome == "fail") == bad(told)
    feed = CHECKER.watcher(made.promise, made)
    assert any([feed(event) for event in history]) == bad(told)  # noqa: C419 - feed them all


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=4))
def test_malformed_bodies_are_passed_over(junk):
    tale = Teller(3)
    tale.back(tale.invoke("propose", junk), "ok", junk)
    tale.back(tale.invoke("learn", junk), "ok", junk)
    tale.core("n1", "learned", 1, instance=junk, value=junk).traced(
        "n1", "accepted", 1, instance=1, id=junk, value=junk
    )
    history = tale.end()
    outcome = CHECKER.check(history, promise(), plan(workload="agreement")).outcome
    assert outcome in {"unknown", "pass", "fail"}
    json.loads(ENCODER.encode(CHECKER.check(history, promise(), plan())))
