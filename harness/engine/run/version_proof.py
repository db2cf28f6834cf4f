"""Whether a node that changed its version runs as the new one: by what its process reports after the start.

The answer to a convergence that starts a node as another version is held back until the node has answered its probe, or
has ended, or its time is up. Guarantees: pure; only an answer to a question that was asked after the start counts; a
version that was not reported is a reason in words, never a guess. Out of scope: what follows from it
(``nemesis_driver``).
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.interfaces import Evidence
from dethrone.harness.engine.run.cluster_view import ViewKeeper

BOUND_NS = 20 * SECOND
"""How long a node may take from its start to its answer; nothing else is done to the cluster meanwhile."""
REPORTED = "reported"
"""What ``Evidence.detail`` says of it: ``wanted``, ``version`` (the reported one), and ``why`` they are not equal."""


class VersionProof:
    """Of one run, in which one convergence at a time is under way."""

    def __init__(self, keeper: ViewKeeper) -> None:
        self._keeper = keeper
        self._held: tuple[Ns, w.Converge, w.ConvergeDone] | None = None

    @property
    def under_way(self) -> bool:
        """Whether an answer is held back."""
        return self._held is not None

    def holds(self, now: Ns, asked: w.Converge, done: w.ConvergeDone) -> bool:
        """Keep this answer if a node in it changed its version; else it can be taken as it is."""
        if not _wanted(asked, done):
            return False
        self._held = (now + BOUND_NS, asked, done)
        return True

    def complete(self, now: Ns, dead: Collection[str]) -> w.ConvergeDone | None:
        """The answer that was held back, once it is complete. ``dead``: nodes whose process ended by itself."""
        if self._held is None:
            return None
        until, asked, done = self._held
        evidence = dict(done.evidence)
        for host, version in _wanted(asked, done).items():
            found = evidence[host]
            last = self._keeper.readings.get(host)
            why, reported = "", None
            if asked.wants[host].down is not None:
                why = "another fault holds it down, so it could not say which version it is"
            elif last is not None and last[0].lo >= found.span.hi:
                reported = last[1].version
                if reported != version:
                    why = f"it was started as version {version} and reports {reported or 'none'}"
            elif host in dead:
                why = f"its process ended before it could say whether it is version {version}"
            elif now >= until:
                why = f"it did not answer within {show_duration(BOUND_NS)} of its start as version {version}"
            else:
                return None
            evidence[host] = _with_report(found, wanted=version, version=reported, why=why)
        self._held = None
        return msgspec.structs.replace(done, evidence=evidence)


def _wanted(asked: w.Converge, done: w.ConvergeDone) -> dict[str, str]:
    """Host → as which version it was to start, of those that were brought into the state that was asked for."""
    return {
        host: before.version
        for host, before in asked.before.items()
        if before.version and not asked.wants[host].version and host in done.evidence and done.evidence[host].confirmed
    }


def _with_report(found: Evidence, *, wanted: str, version: str | None, why: str) -> Evidence:
    report = {"wanted": wanted, "version": version, **({"why": why} if why else {})}
    return msgspec.structs.replace(found, detail={**found.detail, REPORTED: report})
