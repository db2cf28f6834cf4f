"""What polls and hosts say of the nodes' processes, as it stands in the history: answers, starts, ends, last lines.

Guarantees: an answer belongs to one incarnation, or is not an answer; a process that ended unasked is written as a
death with its last lines, bounded. Out of scope: what a death means for the run (``director``), traces
(``trace_record``), and beliefs about the cluster (``cluster_view``).
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.deaths import bounded, crashed_early, not_its_own, printable
from dethrone.harness.core.events import FatalLine, NodeDied, NodeProcess, Observed, Sighted, Silent
from dethrone.harness.core.interfaces import HostNews, Reading
from dethrone.harness.engine.run.cluster_view import ViewKeeper
from dethrone.harness.engine.run.write_before_effect import Outbox


class NodeRecord:
    """The processes of all nodes of one run."""

    def __init__(self, keeper: ViewKeeper, outbox: Outbox) -> None:
        self._keeper = keeper
        self._outbox = outbox
        self._ready: dict[str, int] = {}
        """Node → the newest incarnation that answered."""
        self._down: set[str] = set()
        """Nodes whose process ended, and whose new process has not been reported yet."""
        self.reports: dict[str, tuple[int, str | None]] = {}
        """Node → the incarnation that answered last for the first time, and which version it said it is."""
        self.dead: set[str] = set()
        """Nodes whose last process ended although the harness had not asked for it."""
        self.elections: set[tuple[str, int, str | None]] = set()
        """(group, term, node) of each leader that answered."""
        self.observed = 0
        self._last: dict[str, tuple[Reading, Observed]] = {}
        """Node → its newest answer and what was recorded of it: simulated nodes give the same one again and again."""

    def polled(self, now: Ns, polled: w.Polled) -> None:
        """A node answered, or did not."""
        reading, node, span = polled.reading, polled.node, polled.span
        if reading is None:
            self._keeper.silent(node, now)
            self._outbox.write(Silent, now, span=span, node=node, error=polled.error)
            return
        last = self._last.get(node)
        if last is not None and last[0] is reading:
            self.observed += 1
            self._keeper.answered(node, span, reading)
            self._observed(replace(last[1], seq=self._outbox.seq, t=now, span=span))
            return
        incarnation = reading.incarnation
        if incarnation is None:
            if node in self._down:
                self._outbox.write(Silent, now, span=span, node=node, error="an answer from an unknown process")
                return
            incarnation = self._keeper.incarnation[node]
        self.observed += 1
        self._keeper.answered(node, span, reading)
        if self._ready.get(node) != incarnation:
            self._ready[node] = incarnation
            said = {} if reading.version is None or not self._keeper.versions else {"version": reading.version}
            self._outbox.write(
                NodeProcess, now, span=span, node=node, incarnation=incarnation, phase="ready", asked=True, **said
            )
            self.reports[node] = (incarnation, reading.version)
        for one in (reading, *reading.others):
            if one.leads:
                self.elections.add((one.group, one.term, node))
            event = Observed(
                seq=self._outbox.seq,
                t=now,
                group=one.group,
                span=span,
                node=node,
                incarnation=incarnation,
                role=one.role,
                leads=one.leads,
                term=one.term,
                leader=one.leader,
                voted_for=one.voted_for,
                log_end=one.log_end,
                commit=one.commit,
                atomic=one.atomic,
            )
            self._observed(event)
        if reading.incarnation is not None and not reading.others:
            self._last[node] = reading, event

    def _observed(self, event: Observed) -> None:
        outbox = self._outbox
        if outbox.watchers or Observed in outbox.triggers.hears:
            outbox.append(event)
        else:  # what ``append`` does of it: there are more answers than anything else
            if outbox.keeps and event.leads:
                outbox.kept.append(event)
            outbox.seq += 1
            outbox.events.append(event)
        outbox.observed[event.node, event.group] = event

    def started(self, now: Ns, news: HostNews) -> None:
        """A host reports a new process."""
        self._keeper.incarnation[news.host] = int(news.data["incarnation"])
        self._down.discard(news.host)
        self.dead.discard(news.host)
        version = news.data.get("version")
        known = {} if version is None else {"version": str(version)}
        self._keeper.version_of |= {news.host: str(version)} if known else {}
        asked = bool(news.data.get("asked", True))
        self._write(NodeProcess, now, news, phase="started", asked=asked, code=None, **known)

    def exited(self, now: Ns, news: HostNews) -> bool:
        """A host reports the end of its process; whether the node died, as no one asked for that."""
        asked = bool(news.data.get("asked"))
        self._down.add(news.host)
        self.dead.discard(news.host)
        code = news.data.get("code")
        self._write(NodeProcess, now, news, phase="exited", asked=asked, code=code)
        if asked:
            return False
        self.dead.add(news.host)
        lines, detail = bounded(news.data.get("lines", ())), dict(news.data.get("detail", {}))
        self._write(NodeDied, now, news, code=code, lines=lines, detail=detail)
        return True

    def _write(self, kind: type[NodeProcess | NodeDied | FatalLine], now: Ns, news: HostNews, **fields: Any) -> None:
        incarnation = int(news.data.get("incarnation", 0))
        self._outbox.write(kind, now, span=news.span, node=news.host, incarnation=incarnation, **fields)

    def crashed(self, news: HostNews, last_words: str | None) -> bool:
        """Whether this end of a process before any fault is the node's own doing. ``last_words``: of its trace."""
        code, lines = news.data.get("code"), bounded(news.data.get("lines", ()))
        ready = self._ready.get(news.host) == int(news.data["incarnation"])
        crashed = last_words == "crashed" or (last_words is None and crashed_early(code, lines, ready=ready))
        return crashed and not not_its_own(code, lines, dict(news.data.get("detail", {})))

    def fatal(self, now: Ns, news: HostNews) -> None:
        """A host reports a line of its node's output that means the node is lost."""
        pattern, line = str(news.data.get("pattern", "")), printable(str(news.data.get("line", "")))
        self._write(FatalLine, now, news, pattern=pattern, line=line)

    def sighted(self, now: Ns, news: HostNews) -> None:
        """An agent saw what it looks for; of interest, and written, only while a trigger waits for such a thing."""
        if not self._outbox.awaited(Sighted):
            return
        data = dict(news.data)
        incarnation, n = int(data.pop("incarnation", 0)), int(data.pop("n", 0))
        by, name = str(data.pop("by", "")), str(data.pop("name", ""))
        if "line" in data:
            data["line"] = printable(str(data["line"]))
        self._outbox.write(
            Sighted, now, span=news.span, node=news.host, incarnation=incarnation, n=n, by=by, name=name, data=data
        )
