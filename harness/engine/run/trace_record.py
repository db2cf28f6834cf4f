"""What nodes did, by their traces: lines of output, or events of simulated nodes, as they stand in the history.

Guarantees: a line that is not understood, or whose adapter raises, costs no other line; all of these are counted and at
most ``MALFORMED_MAX`` are shown; lines that do not number themselves are numbered by node and incarnation. Out of
scope: what a line means (the system's adapter, the checkers).
"""

from __future__ import annotations

from collections.abc import Sequence

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.events import TRACE_MALFORMED, Noise, Traced
from dethrone.harness.core.interfaces import HostNews, Malformed, System, Telling, TraceLine
from dethrone.harness.core.limits import trace_trouble
from dethrone.harness.engine.run.write_before_effect import Outbox

LINE_SHOWN = 200
ENDS = frozenset({"crashed", "shell_failed"})
"""Last words of our own node processes that say who failed."""
MALFORMED_MAX = 20
"""At most this number of malformed trace lines is shown; all are counted."""


class TraceRecord:
    """The traces of all nodes of one run."""

    def __init__(self, system: System, outbox: Outbox) -> None:
        self._system = system
        self._several = system.trace_lines if isinstance(system, Telling) else None
        self._outbox = outbox
        self._ends: dict[tuple[str, int], str] = {}
        """(node, incarnation) → ``crashed`` (its core raised) or ``shell_failed`` (our shell around it did)."""
        self._lines: dict[tuple[str, int], int] = {}
        """(node, incarnation) → lines of its trace that do not number themselves."""
        self.elections: set[tuple[str, int, str | None]] = set()
        """(group, term, node) of each election that a node traced."""
        self.counts = {"traced": 0, "foreign_lines": 0, "malformed_lines": 0}

    def last_words(self, node: str, incarnation: int) -> str | None:
        """Who failed, by this process' own trace: one of ``ENDS``; None: it does not say."""
        return self._ends.get((node, incarnation))

    def simulated(self, now: Ns, traces: w.Traces) -> None:
        """What a node did, from a world in which no log file lies in between."""
        lines = traces.lines
        self.counts["traced"] += len(lines)
        node, incarnation, span = traces.node, traces.incarnation, traces.span
        outbox = self._outbox
        heard = outbox.watchers or Traced in outbox.triggers.hears
        seq, events = outbox.seq, outbox.events
        for n, name, term, role, source, data, group in lines:
            if name == "elected":
                self.elections.add((group, term, node))
            elif name in ENDS and source == "shell":
                self._ends[node, incarnation] = name
            event = Traced(
                seq=seq,
                t=now,
                group=group,
                span=span,
                node=node,
                incarnation=incarnation,
                n=n,
                name=name,
                term=term,
                role=role,
                source=source,
                data=data,
            )
            if heard:
                outbox.append(event)
                seq = outbox.seq
            else:
                events.append(event)
                seq += 1
        outbox.seq = seq

    def printed(self, now: Ns, news: HostNews) -> None:
        """Lines of output, as an agent tailed them."""
        for raw in news.data["lines"]:
            if not raw:
                continue
            held = self._lines_in(raw)
            self.counts["foreign_lines"] += not held
            for line in held:
                if isinstance(line, Malformed):
                    self._malformed(now, news, line)
                elif trouble := trace_trouble(line):
                    self._malformed(now, news, Malformed(_beginning(raw), trouble))
                else:
                    self._traced(now, news, line)

    def _lines_in(self, raw: bytes) -> Sequence[TraceLine | Malformed]:
        """What a line of output holds of the trace. An adapter that raises leaves a line that is not understood."""
        try:
            if self._several is not None:
                return self._several(raw)
            single = self._system.trace(raw)
        except Exception as error:  # noqa: BLE001 - a bug of an adapter must not cost the history
            return (Malformed(_beginning(raw), f"{type(error).__name__}: {error!s:.200}"),)
        return () if single is None else (single,)

    def _malformed(self, now: Ns, news: HostNews, line: Malformed) -> None:
        self.counts["malformed_lines"] += 1
        if self.counts["malformed_lines"] <= MALFORMED_MAX:
            detail = {"why": line.why, "line": line.line}
            self._outbox.write(
                Noise, now, span=news.span, host=news.host, kind=TRACE_MALFORMED, value_ns=0, detail=detail
            )

    def _traced(self, now: Ns, news: HostNews, line: TraceLine) -> None:
        lo_offset, hi_offset = news.data["offset"]  # history time − the host's monotonic clock, bounds
        incarnation, n, span = line.incarnation, line.n, news.span
        if not incarnation:
            incarnation = int(news.data["incarnation"])
        if not n:
            n = self._lines[news.host, incarnation] = self._lines.get((news.host, incarnation), 0) + 1
        if line.mono_ns is not None:
            span = Span(line.mono_ns + lo_offset, line.mono_ns + hi_offset)
        self.counts["traced"] += 1
        if line.name == "elected":
            self.elections.add((line.group, line.term, news.host))
        elif line.name in ENDS and line.source == "shell":
            self._ends[news.host, incarnation] = line.name
        self._outbox.write(
            Traced,
            now,
            group=line.group,
            span=span,
            node=news.host,
            incarnation=incarnation,
            n=n,
            name=line.name,
            term=line.term,
            role=line.role,
            source=line.source,
            data=line.data,
        )


def _beginning(raw: bytes) -> str:
    return raw[:LINE_SHOWN].decode("utf-8", "replace")
