"""The convergences of hosts under way: what was asked, what the hosts proved, and what lapsed before it was to end.

Guarantees: every answer is written for every host it concerns, a missing one as unconfirmed; no convergence waits for
longer than ``CONVERGE_BOUND_NS``; what was not in force until its end is reported to the schedule. Out of scope: what
is asked for, and what an answer leads to (``director``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.events import Converged, Noise
from dethrone.harness.core.hoststate import HostState
from dethrone.harness.core.interfaces import Evidence
from dethrone.harness.engine.run.cluster_view import ViewKeeper
from dethrone.harness.engine.run.nemesis_driver import NemesisDriver
from dethrone.harness.engine.run.phase_bounds import CONVERGE_BOUND_NS
from dethrone.harness.engine.run.version_proof import REPORTED
from dethrone.harness.engine.run.write_before_effect import Outbox

Purpose = Literal["nemesis", "heal"]


class HostConvergence:
    """All convergences of one run."""

    def __init__(self, keeper: ViewKeeper, nemesis: NemesisDriver, outbox: Outbox) -> None:
        self._keeper = keeper
        self._nemesis = nemesis
        self._outbox = outbox
        self._token = 0
        self._asked: dict[int, tuple[Purpose, w.Converge, Ns]] = {}
        self._proved_until: dict[str, Ns] = {}
        """Until when each host's state was last proved, for what is found to have lapsed since."""

    @property
    def under_way(self) -> bool:
        """Whether an answer is awaited."""
        return bool(self._asked)

    def ask(self, now: Ns, purpose: Purpose, before: Mapping[str, HostState], wants: Mapping[str, HostState]) -> None:
        """Hosts are to go from one state to another."""
        self._token += 1
        action = w.Converge(self._token, before, wants)
        self._asked[action.token] = (purpose, action, now)
        self._outbox.act(action)

    def asked(self, token: int) -> w.Converge:
        """The question of this token, which is still to be answered."""
        return self._asked[token][1]

    def overdue(self, now: Ns) -> list[tuple[w.Converge, w.ConvergeDone]]:
        """What was not answered in time, each with the answer that it counts as: none of any host."""
        return [
            (action, w.ConvergeDone(token, Span(since, now), {}, {}))
            for token, (_, action, since) in self._asked.items()
            if now - since > CONVERGE_BOUND_NS
        ]

    def answered(self, now: Ns, done: w.ConvergeDone) -> tuple[Purpose, w.Converge]:
        """Hosts answered: what it was asked for, and the question."""
        purpose, asked, _ = self._asked.pop(done.token)
        for host in sorted(asked.wants):
            found = done.evidence.get(host)
            confirmed = found is not None and found.confirmed
            detail: dict[str, Any] = dict(found.detail) if found else {}
            if host in done.resets:
                detail["reset"] = done.resets[host]
            self._keeper.state[host] = asked.wants[host]
            self._lapsed(now, host, detail, found)
            unlike = detail.get(REPORTED, {}).get("why")
            if unlike:
                self._nemesis.lapse(host, unlike, of_version=True)
            self._proved_until[host] = found.span.hi if confirmed and found else now
            self._outbox.write(
                Converged,
                now,
                span=found.span if found else done.span,
                host=host,
                before=asked.before[host],
                after=asked.wants[host],
                confirmed=confirmed,
                why=found.why if found else "the host did not answer",
                evidence=detail,
            )
        return purpose, asked

    def _lapsed(self, now: Ns, host: str, detail: Mapping[str, Any], found: Evidence | None) -> None:
        """What was asked of a host was found not to be in force when it was to end."""
        before = detail.get("before")
        if found is None or not before or before.get("held", True):
            return
        self._nemesis.lapse(host, str(before["why"]))
        if not before.get("told"):  # else its agent said so itself, with the exact time
            since = min(self._proved_until.get(host, 0), found.span.lo)
            span = Span(since, max(since, found.span.lo))
            why = {"why": before["why"]}
            self._outbox.write(
                Noise, now, span=span, host=host, kind="rules-lost", value_ns=span.hi - span.lo, detail=why
            )
