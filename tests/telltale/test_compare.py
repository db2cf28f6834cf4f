"""The comparison itself: each contradiction is found in a small history, and nothing in one where all agrees."""

from __future__ import annotations

from dethrone.harness.core.clock import Span
from dethrone.harness.core.events import Converged, NodeProcess, Noise
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState
from tests.telltale.compare import MS, SECOND, Felt, certain_states, contradictions


def at(seconds: float) -> int:
    return int(seconds * SECOND)


def converged(host, since, until, before, after, *, confirmed=True):
    span = Span(at(since), at(until))
    return Converged(seq=0, t=at(until), span=span, host=host, before=before, after=after, confirmed=confirmed)


def fault(host, state):
    """``state`` on a host, certainly from 2.1 to 4 s, healed by 4.1 s; the run lasts 10 s."""
    return [
        converged(host, 2, 2.1, HEALTHY, state),
        converged(host, 4, 4.1, state, HEALTHY),
        *(
            NodeProcess(seq=0, t=at(10), span=Span(at(1), at(1)), node=node, incarnation=1, phase="started", asked=True)
            for node in ("n1", "n2")
        ),
    ]


def heard(sent, received, channel="udp4", node="n1", src="n2"):
    data = {"channel": channel, "from": src, "sent": at(sent), "to": ""}
    return Felt(node, at(received), "heard", data)


CUT = HostState(cuts=("n2",))
BEFORE = [heard(1.5, 1.5), heard(1.6, 1.6)]
AFTER = [heard(8, 8)]


def test_a_letter_that_is_sent_and_received_within_a_cut_is_a_leak():
    said = contradictions(fault("n1", CUT), [*BEFORE, heard(2.5, 2.5, "udp6"), *AFTER])
    assert said == ["n1 heard n2 over udp6 1 times while the history calls it cut (from 2.10 s)"]


def test_what_was_sent_before_the_cut_or_arrived_while_it_ended_is_none():
    near = [heard(2.05, 2.5), heard(3.9, 4.05), heard(2.5, 2.5, node="n2", src="n1")]
    assert contradictions(fault("n1", CUT), [*BEFORE, *near, *AFTER, heard(8, 8, node="n2", src="n1")]) == []


def test_where_rules_were_lost_and_where_a_cut_was_not_confirmed_nothing_is_claimed():
    leak = [*BEFORE, heard(2.5, 2.5), *AFTER]
    lost = Noise(seq=0, t=at(4), span=Span(at(2.2), at(3)), host="n1", kind="rules-lost", value_ns=at(0.8))
    assert contradictions([*fault("n1", CUT), lost], leak) == []
    unsure = [converged("n1", 2, 2.1, HEALTHY, CUT, confirmed=False), *fault("n1", CUT)[1:]]
    assert contradictions(unsure, leak) == []
    assert [state.host for state in certain_states(unsure) if state.lo < at(3) < state.hi] == ["n2"]


def test_a_link_that_stays_silent_after_its_heal_is_red():
    said = contradictions(fault("n1", CUT), BEFORE)
    assert said == ["n1 did not hear n2 over udp4 again by 10.00 s, healed at 4.10 s"]


def test_a_process_that_does_something_while_it_is_paused_or_down_is_red():
    line = Felt("n1", at(3), "clock", {"mono": 0, "wall": 0, "waited": 40 * MS})
    for state, word in ((HostState(frozen=True), "paused"), (HostState(down="SIGKILL"), "down")):
        assert contradictions(fault("n1", state), [line]) == [
            f"n1 logged 1 lines (clock) while the history calls it {word}"
        ]


def reading(moment, skew, waited=40 * MS):
    data = {"mono": at(moment), "wall": at(moment) + skew, "waited": waited}
    return Felt("n1", at(moment), "clock", data)


def test_a_clock_that_did_not_move_or_moved_by_itself_is_red():
    state = HostState(clock=ClockSkew(offset_ns=at(5)))
    right = [reading(1, 0), reading(3, at(5)), reading(8, 0)]
    assert contradictions(fault("n1", state), right) == []
    assert "the fault says" in contradictions(fault("n1", state), [reading(1, 0), reading(3, 0)])[0]
    assert "no fault was on it" in contradictions(fault("n1", state), [reading(1, 0), reading(8, at(5))])[0]
    assert "took 10.0 ms" in contradictions(fault("n1", state), [reading(1, 0, waited=10 * MS)])[0]


def test_a_panic_of_which_the_history_knows_nothing_is_red():
    panic = Felt("n1", at(5), "ending", {"by": "panic"})
    assert "panicked" in contradictions(fault("n2", CUT), [panic])[0]
    end = NodeProcess(
        seq=0, t=at(5), span=Span(at(5), at(5)), node="n1", incarnation=1, phase="exited", asked=False, code=2
    )
    assert contradictions([*fault("n2", CUT), end], [panic]) == []
