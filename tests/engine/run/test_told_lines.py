"""Trace lines that somebody else writes: numbered and dated here, malformed ones counted, shown, and never passed."""

import msgspec

from dethrone.checkers.coverage import CHECKER
from dethrone.harness.core import world as w
from dethrone.harness.core.clock import SECOND, Span
from dethrone.harness.core.events import TRACE_MALFORMED, End, Noise, Observed, Silent, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import HostNews, Malformed, Reading, TraceLine
from dethrone.harness.engine.run.director import Director
from dethrone.harness.engine.run.trace_record import MALFORMED_MAX

from .fake import FakeSystem, FakeWorld, draft, play


class Talker(FakeSystem):
    """Its lines: ``elected`` alone, two of them, ``?`` for a malformed one, anything else is no trace."""

    def trace_lines(self, line):
        return [one for word in line.split() if (one := self.of(word)) is not None]

    def of(self, word):
        if word == b"?":
            return Malformed("?", "a question is no answer")
        if word != b"elected":
            return None
        return TraceLine(incarnation=0, n=0, mono_ns=None, name="elected", term=2, role="", source="shell", data={})


def told(*lines, at=4 * SECOND, incarnation=1):
    span = Span(at - 5, at)
    data = {"lines": list(lines), "incarnation": incarnation, "offset": (0, 0)}
    return at, w.HostSaid(HostNews(host="n1", kind="trace", span=span, data=data))


def played(*happenings):
    director = Director(msgspec.structs.replace(draft(), system=Talker()))
    return director, play(director, FakeWorld(list(happenings)))


def test_lines_without_a_number_or_a_time_get_those_of_the_process_and_of_the_agents_look():
    _, history = played(told(b"elected elected", b"noise"), told(b"elected", at=5 * SECOND, incarnation=2))
    found = [event for event in history if isinstance(event, Traced) and event.node == "n1"]
    assert [(event.incarnation, event.n) for event in found] == [(1, 1), (1, 2), (2, 1)]
    assert found[0].span == Span(4 * SECOND - 5, 4 * SECOND)


def test_malformed_lines_are_all_counted_and_the_first_of_them_shown():
    director, history = played(told(*[b"?"] * (MALFORMED_MAX + 7), b"elected", b"other words"))
    shown = [event for event in history if isinstance(event, Noise) and event.kind == TRACE_MALFORMED]
    assert director.counts["malformed_lines"] == MALFORMED_MAX + 7
    assert len(shown) == MALFORMED_MAX
    assert shown[0].detail == {"why": "a question is no answer", "line": "?"}
    assert director.counts["foreign_lines"] == 1


def covered(*happenings):
    director, history = played(*happenings)
    last = history[-1]
    whole = [*history, End(seq=last.seq + 1, t=last.t, count=last.seq + 1, digest="", reason="complete")]
    return CHECKER.check(History(whole), director.plan.promise, director.plan)


def test_a_run_with_a_malformed_line_is_not_covered_and_one_without_is():
    assert covered(told(b"elected", b"noise")).outcome == "pass"
    verdict = covered(told(b"elected", b"?"))
    assert verdict.outcome == "unknown"
    assert "a question is no answer: ?" in verdict.reason


def test_an_answer_while_no_process_is_known_to_run_is_no_observation():
    reading = Reading(role="leader", leads=True, term=77)
    exited = HostNews(
        host="n1", kind="exited", span=Span(6 * SECOND, 6 * SECOND), data={"incarnation": 1, "code": -9, "asked": True}
    )
    started = HostNews(
        host="n1", kind="started", span=Span(7 * SECOND, 7 * SECOND), data={"incarnation": 2, "asked": True}
    )

    def poll(at):
        return at, w.Polled("n1", Span(at - 1, at), reading)

    _, history = played(
        (6 * SECOND, w.HostSaid(exited)), poll(6 * SECOND + 9), (7 * SECOND, w.HostSaid(started)), poll(7 * SECOND + 9)
    )
    seen = [event for event in history if isinstance(event, Observed) and event.term == 77]
    assert [event.incarnation for event in seen] == [2]
    assert any(isinstance(event, Silent) and "from an unknown process" in event.error for event in history)
