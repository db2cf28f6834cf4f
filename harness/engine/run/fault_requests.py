"""Faults that ask the system itself for something, between their request and what came of it. Pure.

Guarantees: each request is answered, or counts as unanswered when the run ends; what was refused certainly did not
happen (*skipped*); *installed* only if a node said so in answer to a poll that left after the request, within the bound
after the answer; everything else is *indeterminate*. Requests hold up no other fault of their step. Out of scope: when
a fault begins (``nemesis_driver``), and what shows that it came about (``Requesting``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.interfaces import ClusterView, OpOutcome, OpPlan, Reading, Requesting
from dethrone.harness.engine.run.realised_faults import Active, RealisedFaults, Settled


class _Pending:
    """One request that was sent. ``term``: what the node that is asked was believed to be in."""

    def __init__(self, active: Active, kind: Requesting, plan: OpPlan, asked: Ns, term: int) -> None:
        self.active = active
        self.kind = kind
        self.plan = plan
        self.asked = asked
        self.term = term
        self.done: w.RequestDone | None = None


class FaultRequests:
    """All requests of one run. ``readings``: what each node said last, and when it was asked, as it changes.

    ``timeout_ns``: how long an answer is awaited; ``bound_ns``: how long its effect, from the answer on.
    """

    def __init__(self, readings: Mapping[str, tuple[Span, Reading]], *, timeout_ns: Ns, bound_ns: Ns) -> None:
        self._readings = readings
        self._timeout_ns = timeout_ns
        self._bound_ns = bound_ns
        self._tokens = 0
        self._unsent: list[w.Request] = []
        self._pending: dict[int, _Pending] = {}

    @property
    def pending(self) -> tuple[Active, ...]:
        """The faults of which it is not known yet what came of them."""
        return tuple(one.active for one in self._pending.values())

    def begin(self, active: Active, kind: Requesting, now: Ns, view: ClusterView) -> None:
        """This fault's request is to be sent."""
        realised = active.realised
        plan = kind.request(realised.victims, realised.params)
        self._tokens += 1
        self._pending[self._tokens] = _Pending(active, kind, plan, now, view.terms.get(plan.target, 0))
        self._unsent.append(w.Request(self._tokens, plan, self._timeout_ns))

    def to_send(self) -> list[w.Request]:
        """The requests that were not taken before."""
        out, self._unsent = self._unsent, []
        return out

    def answered(self, done: w.RequestDone) -> None:
        """The system answered, or did not in time."""
        if done.token in self._pending:
            self._pending[done.token].done = done

    def deadline(self) -> Ns | None:
        """Until when the next effect is awaited."""
        answers = [one.done.at for one in self._pending.values() if one.done is not None]
        return min(answers) + self._bound_ns if answers else None

    def settle(self, now: Ns, realised: RealisedFaults) -> Iterator[tuple[Active, list[Settled]]]:
        """Each fault of which it is known by now what came of it, in the order in which they were asked for."""
        for token, one in list(self._pending.items()):
            settled = None if one.done is None else self._outcome(one, one.done, now, realised)
            if settled is not None:
                del self._pending[token]
                yield one.active, settled

    def give_up(self, now: Ns, realised: RealisedFaults) -> Iterator[tuple[Active, list[Settled]]]:
        """The run ends: what came of the others is not known."""
        for one in self._pending.values():
            at, said = (now, {}) if one.done is None else (one.done.at, _said(one.done.outcome))
            yield one.active, _happened(one, at, said, realised, doubt="the run ended before its effect was seen")
        self._pending.clear()

    def _outcome(self, one: _Pending, done: w.RequestDone, now: Ns, realised: RealisedFaults) -> list[Settled] | None:
        answer, fault, who = done.outcome, one.active.realised, one.plan.target
        if answer.status == "fail":
            return [realised.refused(one.active, now, f"{who} refused: {answer.error or 'no reason'}")]
        for node, (asked, reading) in self._readings.items():
            if asked.lo < one.asked or reading.term <= one.term:
                continue
            if one.kind.shown(fault.victims, fault.params, answer, node, reading):
                shown = {**_said(answer), "leader": node, "term": reading.term}
                return _happened(one, max(done.at, asked.hi), shown, realised)
        if now < done.at + self._bound_ns:
            return None
        words = "agreed" if answer.status == "ok" else f"did not say what came of it ({answer.error or 'no reason'})"
        doubt = f"{who} {words}, and no effect was seen within {show_duration(self._bound_ns)}"
        return _happened(one, done.at, _said(answer), realised, doubt=doubt)


def _happened(
    one: _Pending, until: Ns, said: Mapping[str, Any], realised: RealisedFaults, *, doubt: str = ""
) -> list[Settled]:
    """It came about, or may have; then nothing of it is left."""
    begun = realised.begun(one.active, Span(one.asked, until), [doubt] if doubt else [], {"answer": said})
    return [begun, realised.ended(one.active, Span(until, until), [], {})]


def _said(answer: OpOutcome) -> dict[str, Any]:
    return {"status": answer.status, **({"error": answer.error} if answer.error else {})}
