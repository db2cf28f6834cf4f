"""What agents report of the machines below the nodes, as it stands in the history: stalls, slow disks, lost hosts.

Guarantees: nothing that names a machine is written: hosts of one kernel share a word instead; that a fault was not in
force, as an agent says, is reported to the schedule. Out of scope: what noise excuses (``checkers.noise``).
"""

from __future__ import annotations

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import AGENT_LOST, Noise
from dethrone.harness.core.interfaces import HostNews
from dethrone.harness.engine.run.nemesis_driver import NemesisDriver
from dethrone.harness.engine.run.write_before_effect import Outbox

LAPSING = frozenset({"rules-lost", "dead-man"})
"""Noise by which an agent says that what was asked of its host is, or was, not in force."""


class HostNoise:
    """The noise of all hosts of one run."""

    def __init__(self, nemesis: NemesisDriver, outbox: Outbox) -> None:
        self._nemesis = nemesis
        self._outbox = outbox
        self.fsync_max_ns: Ns = 0
        """The longest time that a disk took so far."""
        self._machines: dict[str, str] = {}
        """Boot of a kernel → the word for that machine."""

    def measured(self, now: Ns, news: HostNews) -> None:
        """An agent measured something, or says how it measures."""
        detail = dict(news.data)
        kind, value = str(detail.pop("kind", "")), int(detail.pop("value_ns", 0))
        if kind == "fsync":
            self.fsync_max_ns = max(self.fsync_max_ns, value)
        elif kind == "sources":
            # Which boot it is names the machine, so it stays out of the history; a host that cannot say is alone.
            boot = str(detail.pop("boot", "")) or f"of {news.host} alone"
            detail["machine"] = self._machines.setdefault(boot, f"m{len(self._machines) + 1}")
        elif kind in LAPSING:
            self._nemesis.lapse(news.host, str(detail.get("why") or "its agent healed the host by itself"))
        self._outbox.write(Noise, now, span=news.span, host=news.host, kind=kind, value_ns=value, detail=detail)

    def lost(self, now: Ns, news: HostNews) -> str:
        """The connection to an agent is lost: why."""
        why = str(news.data.get("why", "connection lost"))
        length, detail = news.span.hi - news.span.lo, {"back": False, "why": why}
        self._outbox.write(Noise, now, span=news.span, host=news.host, kind=AGENT_LOST, value_ns=length, detail=detail)
        return why

    def other(self, now: Ns, news: HostNews) -> None:
        """Any other news of a host."""
        detail = dict(news.data)
        self._outbox.write(Noise, now, span=news.span, host=news.host, kind=news.kind, value_ns=0, detail=detail)
