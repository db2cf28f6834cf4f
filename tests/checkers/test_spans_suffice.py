"""Safety under noise: stalls of hosts and clients widen spans, and no width turns a correct history into a failed one.

A stall delays when a client is answered or asks, and when a line is read; it moves nothing that a server or a node did.
So a correct history is drawn by what really happened, at one moment each, and seen through spans of any width.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.checkers.lease_exclusion import CHECKER as LEASES
from dethrone.checkers.lock_holds import CHECKER as LOCKS
from dethrone.checkers.members_only import CHECKER as MEMBERS
from dethrone.harness.core.clock import MS, Span
from dethrone.harness.core.events import SCHEMA, Begin, End, Invoke, Noise, Return, Traced
from dethrone.harness.core.history import History
from tests.checkers.histories import Tale, plan, promise
from tests.checkers.stories import STORIES

OWNERS = ("a", "b", "c")
stalls = st.sampled_from([0, 1, 5, 80, 400, 3000])
asks = st.lists(
    st.tuples(
        st.sampled_from(range(len(OWNERS))),
        st.sampled_from(["acquire", "renew", "release"]),
        st.sampled_from([50, 500, 2000]),
        st.integers(1, 600),
        stalls,
        stalls,
    ),
    min_size=2,
    max_size=14,
)


def served(drawn):
    """What a correct lock service does at one moment of each operation, and what its clients see of it.

    An operation is asked ``before`` ms before that moment and answered ``after`` ms after it; a client asks again only
    when it was answered.
    """
    now, token, holder, until = 0, 0, None, 0
    free = dict.fromkeys(range(len(OWNERS)), 0)
    events = []
    for number, (who, f, ttl, wait, before, after) in enumerate(drawn):
        now = max(now, free[who]) + wait
        asked = max(free[who], now - before)
        if holder is not None and now >= until:
            holder = None
        ok = (holder is None) if f == "acquire" else holder == who
        told = None
        if ok and f == "acquire":
            token += 1
        if ok:
            holder, until, told = (None, 0, token) if f == "release" else (who, now + ttl, token)
        free[who] = now + after + 1
        value = ["l", OWNERS[who], *([] if f == "release" else [ttl])]
        invoke = (
            asked,
            1,
            Invoke(seq=0, t=asked * MS, op=number, process=who, f=f, value=value, target="n1"),
        )
        back = (free[who], 0, Return(seq=0, t=free[who] * MS, op=number, status="ok" if ok else "fail", value=told))
        events += [invoke, back]
    return finished([event for *_, event in sorted(events, key=lambda one: one[:2])])


def finished(events):
    begin = Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=("n1", "n2", "n3"), seed=7)
    last = max((event.t for event in events), default=0)
    end = End(seq=0, t=last, count=len(events) + 1, digest="", reason="complete")
    return History([msgspec.structs.replace(event, seq=seq) for seq, event in enumerate([begin, *events, end])])


JUDGES = pytest.mark.parametrize(
    ("checker", "of"),
    [(LEASES, plan(workload="lease")), (LOCKS, plan(workload="lock"))],
    ids=["lease-exclusion", "lock"],
)


@JUDGES
@settings(max_examples=100, deadline=None)
@given(drawn=asks)
def test_no_stall_of_clients_makes_a_correct_lock_service_fail(checker, of, drawn):
    verdict = checker.check(served(drawn), of.promise, of)
    assert verdict.outcome != "fail", verdict.reason


@JUDGES
def test_two_holds_that_really_overlap_are_found_whatever_stalls_lie_around_them(checker, of):
    asked = [(0, 0, 0), (1, 900, 100)]  # who, when, how long until the answer
    events = []
    for number, (who, at, took) in enumerate(asked):
        events.append(
            Invoke(seq=0, t=at * MS, op=number, process=who, f="acquire", value=["l", OWNERS[who], 5000], target="n1")
        )
        events.append(Return(seq=0, t=(at + took + 1) * MS, op=number, status="ok", value=number + 1))
    events.insert(2, Noise(seq=0, t=500 * MS, span=Span(0, 500 * MS), host="n1", kind="stall", value_ns=500 * MS))
    assert checker.check(finished(events), of.promise, of).outcome == "fail"


CORRECT = sorted(name for name, one in STORIES.items() if (one.checker, one.outcome) == ("members-only", "pass"))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(CORRECT), st.data())
def test_no_width_of_spans_makes_a_correct_membership_fail(name, data):
    """What a node did lies anywhere within its span; its own order is told by the trace and stays."""
    story = STORIES[name]
    history = story.tell().end()
    before, after = (
        data.draw(st.fixed_dictionaries(dict.fromkeys(("n1", "n2", "n3", "n4", "n5"), stalls))) for _ in range(2)
    )
    events = [
        msgspec.structs.replace(
            event, span=Span(event.span.lo - before[event.node] * MS, event.span.hi + after[event.node] * MS)
        )
        if isinstance(event, Traced)
        else event
        for event in history.events
    ]
    of = story.plan()
    verdict = MEMBERS.check(History(events), of.promise, of)
    assert verdict.outcome != "fail", verdict.reason


def test_there_are_correct_histories_to_widen():
    assert len(CORRECT) >= 4
    tale = Tale(3).vote("n2", 1, "n1").elected("n1", 1, "n1 n2 x1")
    assert MEMBERS.check(tale.end(), promise(), plan()).outcome == "fail"
