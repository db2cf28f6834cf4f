"""Polls from columns are the polls of the history, sorted, whatever is asked of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.checkers import polls
from dethrone.checkers.facts import answers, leaders_polled, leading
from dethrone.checkers.polls import Polls
from dethrone.checkers.term_never_decreases import Terms, falls
from dethrone.checkers.traced_terms import traced_terms
from dethrone.harness.core.clock import SECOND, Span
from dethrone.harness.core.events import Observed
from dethrone.harness.core.history import History
from dethrone.harness.core.views import columns

ROWS = st.tuples(st.sampled_from(["n1", "n2"]), st.integers(0, 9), st.integers(0, 5), st.booleans(), st.integers(-1, 4))


def history_of(rows) -> History:
    return History(
        [
            Observed(
                seq=seq,
                t=seq,
                span=Span(lo, lo + length),
                node=node,
                incarnation=1,
                role="leader" if leads else "follower",
                leads=leads,
                term=length,
                commit=None if commit < 0 else commit,
            )
            for seq, (node, lo, length, leads, commit) in enumerate(rows)
        ]
    )


def lives(rows) -> History:
    """Polls of two nodes a third of a second apart, or more; some restarted in between."""
    events, life, t = [], {"n1": 1, "n2": 1}, 0
    for node, restarts, term, leads, thirds in rows:
        life[node] += restarts
        t += SECOND // 3 * thirds
        role = "leader" if leads else "follower"
        span = Span(t, t + 1)
        events.append(
            Observed(
                seq=len(events), t=t, span=span, node=node, incarnation=life[node], role=role, leads=leads, term=term
            )
        )
    return History(events)


LIVES = st.tuples(
    st.sampled_from(["n1", "n2"]),
    st.sampled_from([0, 0, 0, 1]),
    st.integers(0, 3),
    st.sampled_from([False, False, True]),
    st.integers(0, 3),
)


@given(st.lists(LIVES, max_size=25))
def test_of_terms_over_lives_the_polls_that_tell_something_show_what_all_polls_show(rows):
    history = lives(rows)
    every = Terms(witnessed=False)
    for event in history.events:
        if event.term > 0:
            every.polled_life(event)
    expected = {(fall.before.seq, fall.after.seq) for one in every.lives.values() if (fall := one.fall())}
    found = {
        (fall.before.seq, fall.after.seq)
        for fall in falls(history, columns(history), traced_terms(history))
        if fall.before.incarnation != fall.after.incarnation
    }
    assert found == expected


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polls, "BLOCK", 3)
        patch.setattr(polls, "BLOCKS_MAX", 2)
        yield


@pytest.mark.parametrize("by", ["lo", "hi", "seq"])
@given(rows=st.lists(ROWS, min_size=1, max_size=20), lo=st.integers(-1, 15), length=st.integers(0, 15))
def test_they_are_in_order_and_windows_of_them_are_those_with_a_key_within(by, rows, lo, length):
    history = history_of(rows)
    table = columns(history)
    found = Polls(table, table.observed.order, by=by)

    def key(row: Observed) -> int:
        return row.seq if by == "seq" else getattr(row.span, by)

    assert list(found) == sorted(table.rows(table.observed.order.tolist()), key=key)
    assert found.within(lo, lo + length) == [row for row in found if lo <= key(row) <= lo + length]
    assert list(found.last_until(lo)) == [row for row in found if key(row) <= lo][::-1]
    assert [row.node == "n2" for row in found] == found.of_node("n2").tolist()
    assert list(found.numbers(1, len(found), "seq", "term")) == [(row.seq, row.term) for row in found][1:]


@given(rows=st.lists(ROWS, min_size=1, max_size=20), end=st.integers(0, 20))
def test_the_furthest_commit_is_the_first_one_as_high_as_any_before(rows, end):
    found = answers(history_of(rows))
    before = list(found)[:end]
    place = found.furthest(min(end, len(found)))
    committed = [row for row in before if row.commit is not None]
    if not committed:
        assert place is None
    else:
        assert place is not None
        assert found.at(place) == max(committed, key=lambda row: row.commit)


@given(rows=st.lists(ROWS, max_size=20))
def test_leaders_are_those_that_said_so_and_terms_rise_with_them(rows):
    history = history_of(rows)
    said = sorted((row for row in history.of(Observed) if row.leads), key=lambda row: (row.span.hi, row.seq))
    assert list(leading(history)) == said
    assert leaders_polled(history) == {(row.group, row.term, row.node) for row in said}
    assert leading(history).highest_term.tolist() == [
        max(row.term for row in said[: place + 1]) for place in range(len(said))
    ]
