from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import events as ev
from dethrone.harness.core.clock import MS, SECOND, Span
from dethrone.harness.core.history import History
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.report import lanes
from dethrone.harness.report.lanes import GAP_NS, RoleFold, TroubleFold
from dethrone.harness.report.marks import node_marks
from tests.traced import traced

NODES = ("n1", "n2")


def role_spans(events, nodes, *, long=False):
    """Node → its spans. ``long``: they leave as they end, as in a long history."""
    out = {node: [] for node in nodes}
    fold = RoleFold(nodes, lambda node, span: out[node].append(span))
    for event in events:
        fold.add(event)
        if long:
            fold.advance(event.t)
    fold.finish(event.t)
    assert not fold.late
    return out


def trouble_spans(events, nodes, *, long=False):
    """Host → its spans, by moment."""
    out = {node: [] for node in nodes}
    fold = TroubleFold(lambda host, span: out[host].append(span))
    for event in events:
        fold.add(event)
        if long:
            fold.advance(event.t)
    fold.finish(event.t)
    return {host: sorted(spans, key=lambda span: (span.lo, span.kind)) for host, spans in out.items()}


def observed(seq, lo, hi, node, *state):
    role, term = state
    return ev.Observed(
        seq=seq, t=hi, span=Span(lo, hi), node=node, incarnation=1, role=role, leads=role == "LEADER", term=term
    )


def history(events):
    begin = ev.Begin(seq=0, t=0, schema=1, system="x", nodes=NODES, seed=1)
    return History([begin, *events])


@st.composite
def histories(draw):
    t, events = 0, []
    for _ in range(draw(st.integers(1, 40))):
        t += draw(st.integers(1, 800)) * MS
        node = draw(st.sampled_from(NODES))
        role, term = draw(st.sampled_from(["LEADER", "FOLLOWER", "CANDIDATE"])), draw(st.integers(0, 4))
        seq = len(events) + 1
        kind = draw(st.sampled_from(["observed", "traced", "exited", "started", "converged"]))
        width = draw(st.integers(0, 2000)) * MS
        if kind == "observed":
            events.append(observed(seq, max(0, t - width), t, node, role, term))
        elif kind == "traced":
            events.append(
                traced("role_change", seq=seq, t=t, span=Span(t - MS, t), node=node, n=seq, term=term, role=role)
            )
        elif kind == "converged":
            after = draw(st.sampled_from([HEALTHY, HostState(cuts=("n2",)), HostState(frozen=True)]))
            events.append(
                ev.Converged(seq=seq, t=t, span=Span(t - MS, t), host=node, before=HEALTHY, after=after, confirmed=True)
            )
        else:
            events.append(
                ev.NodeProcess(seq=seq, t=t, span=Span(t - MS, t), node=node, incarnation=1, phase=kind, asked=True)
            )
    return history(events)


@given(histories())
def test_roles_of_a_node_never_overlap_and_never_leave_the_history(made):
    end = made.events[-1].t
    for spans in role_spans(made, NODES).values():
        for span in spans:
            assert 0 <= span.lo <= span.hi <= end
        for first, second in pairwise(spans):
            assert first.hi <= second.lo


@given(histories())
def test_troubles_of_one_kind_never_overlap(made):
    end = made.events[-1].t
    for spans in trouble_spans(made, NODES).values():
        for kind in {span.kind for span in spans}:
            same = [span for span in spans if span.kind == kind]
            assert all(0 <= span.lo <= span.hi <= end for span in same)
            assert all(a.hi <= b.lo for a, b in pairwise(same))


@given(histories())
def test_spans_that_leave_as_they_end_are_the_same(made):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lanes, "LATE_NS", 3 * SECOND)  # longer than any event of these histories is late
        assert role_spans(made, NODES, long=True) == role_spans(made, NODES)
        assert trouble_spans(made, NODES, long=True) == trouble_spans(made, NODES)


def test_a_sighting_that_comes_too_late_in_a_long_history_is_counted_and_not_drawn():
    drawn = []
    fold = RoleFold(NODES, lambda _, span: drawn.append(span))
    fold.add(observed(1, 60 * SECOND, 60 * SECOND, "n1", "LEADER", 1))
    fold.advance(100 * SECOND)
    fold.add(observed(2, SECOND, SECOND, "n1", "FOLLOWER", 0))
    fold.finish(100 * SECOND)
    assert [span.role for span in drawn] == ["LEADER"]
    assert fold.late == 1


@given(histories())
def test_marks_are_in_order_of_their_moments(made):
    marks = node_marks(made)
    assert [mark.t for mark in marks] == sorted(mark.t for mark in marks)


def test_nothing_is_claimed_over_a_long_silence():
    made = history([observed(1, 0, 10 * MS, "n1", "LEADER", 1), observed(2, 5 * SECOND, 5 * SECOND, "n1", "LEADER", 1)])
    first, second = role_spans(made, NODES)["n1"]
    assert first.hi < GAP_NS
    assert second.lo == 5 * SECOND


def test_a_poll_asked_before_a_traced_change_does_not_undo_it():
    change = traced("role_change", seq=2, t=101 * MS, span=Span(100 * MS, 100 * MS), term=2, role="LEADER")
    made = history(
        [
            observed(1, 0, 2 * MS, "n1", "FOLLOWER", 1),
            change,
            observed(3, 95 * MS, 115 * MS, "n1", "FOLLOWER", 1),
            observed(4, 200 * MS, 202 * MS, "n1", "LEADER", 2),
        ]
    )
    assert [(span.role, span.term) for span in role_spans(made, NODES)["n1"]] == [("FOLLOWER", 1), ("LEADER", 2)]


def test_the_answer_of_a_process_that_slept_while_being_asked_claims_nothing():
    made = history([observed(1, 0, 5 * SECOND, "n1", "LEADER", 1)])
    assert role_spans(made, NODES)["n1"] == []


def test_a_role_ends_with_its_process(passing):
    n3 = role_spans(passing.history, passing.nodes)["n3"]
    exited = next(event for event in passing.history.of(ev.NodeProcess) if event.phase == "exited")
    led = [span for span in n3 if span.role == "LEADER"]
    assert led[-1].hi <= exited.span.hi
    gone = [span for span in trouble_spans(passing.history, passing.nodes)["n3"] if span.kind == "down"]
    assert [(span.lo // SECOND, span.hi // SECOND) for span in gone] == [(19, 25)]


def test_a_cut_is_drawn_on_both_sides(passing):
    troubles = trouble_spans(passing.history, passing.nodes)
    assert all(any(span.kind == "cut" for span in troubles[node]) for node in passing.nodes)
    assert troubles["n1"][0].text == "hears nothing from n3, n4 and n5"


def test_a_death_long_after_the_last_sighting_does_not_prolong_it():
    gone = ev.NodeProcess(
        seq=3, t=9 * SECOND, span=Span(9 * SECOND, 9 * SECOND), node="n1", incarnation=1, phase="exited", asked=True
    )
    made = history([observed(1, 0, 10 * MS, "n1", "LEADER", 1), observed(2, 20 * MS, 30 * MS, "n1", "LEADER", 1), gone])
    (span,) = role_spans(made, NODES)["n1"]
    assert span.hi == 25 * MS
