"""crash: no node process ends unless the harness ends it, and no node prints a line that its description calls fatal.

An exit that no one asked for fails, whenever it happens; the last lines of the node's output are in the finding. Not
judged: an exit whose trace ends in ``halt`` (the node refused to continue on purpose and said why), and exit codes
that the description lists as harmless (``Promise.exits_ok``). Excused: an exit during or after a fault that the system
does not promise to tolerate. ``unknown``: an end that the machine or another user may have caused (SIGKILL, lack of
memory, SIGTERM from outside, an exit code that cannot be seen), one before the first fault without evidence of a crash
(a wrong command ends a process too), a failure of our own shell around the core, and histories of older versions, which
record no last lines. Being of kind ``process``, its ``pass`` is no evidence for safety or liveness.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dethrone.checkers.base import Base
from dethrone.checkers.excuses import Excuses, excuses
from dethrone.checkers.traces import named
from dethrone.harness.core.deaths import code_words, crashed_early, not_its_own, telling_line
from dethrone.harness.core.events import LOG_SKIPPED, FatalLine, Mark, NodeDied, NodeProcess, Noise, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Kind, Verdict

HALTS, CRASHED, SHELL_FAILED = named("halt"), named("crashed"), named("shell_failed")
Life = tuple[str, int]
"""Node and incarnation."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the history says of the nodes' lives."""

    died: dict[Life, NodeDied]
    ready: frozenset[Life]
    halted: frozenset[Life]
    crashed: dict[Life, Traced]
    shell_failed: frozenset[Life]
    faults_from: int | None
    """``seq`` of the mark at which the first fault may begin."""


class Crash(Base):
    name = "crash"
    kind: Kind = "process"
    views = (HALTS, CRASHED, SHELL_FAILED)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        del plan
        processes = history.of(NodeProcess)
        if not processes:
            return self.na("not observable: the history records no node processes")
        facts, excused = _facts(history), excuses(history, promise)
        exits = [event for event in processes if event.phase == "exited" and not event.asked]
        harmless = [event for event in exits if event.code is not None and event.code in promise.exits_ok]
        halts = [event for event in exits if _life(event) in facts.halted]
        findings: list[Finding] = []
        doubts: list[str] = []
        for event in exits:
            if event in harmless or event in halts:
                continue
            judged = _judged(event, facts, excused)
            if isinstance(judged, Finding):
                findings.append(judged)
            else:
                doubts.append(judged)
        findings += _fatal_lines(history, excused)
        doubts += _skipped(history)
        return self.conclude(
            history,
            findings=findings,
            judged=sum(event.phase == "started" for event in processes),
            nothing="no start of a node process was recorded",
            evidence={
                "unasked": len(exits),
                "halts": len(halts),
                "harmless": len(harmless),
                "fatal_lines": len(history.of(FatalLine)),
            },
            doubts=doubts,
        )


def _life(event: NodeProcess | NodeDied | Traced | FatalLine) -> Life:
    return event.node, event.incarnation


def _facts(history: History) -> _Facts:
    return _Facts(
        died={_life(event): event for event in history.of(NodeDied)},
        ready=frozenset(_life(event) for event in history.of(NodeProcess) if event.phase == "ready"),
        halted=frozenset(_life(event) for event in HALTS(history)),
        crashed={_life(event): event for event in CRASHED(history) if event.source == "shell"},
        shell_failed=frozenset(_life(event) for event in SHELL_FAILED(history) if event.source == "shell"),
        faults_from=next((event.seq for event in history.of(Mark) if event.name == "faults"), None),
    )


def _judged(event: NodeProcess, facts: _Facts, excused: Excuses) -> Finding | str:
    """The finding, or why it is in doubt."""
    life, how = _life(event), f"{event.node} exited on its own {code_words(event.code)}"
    died, trace = facts.died.get(life), facts.crashed.get(life)
    if died is None:
        return f"{how}, and the history does not record its last lines; check its log"
    if life in facts.shell_failed:
        return f"{how}: the harness' own shell around the core failed: {telling_line(died.lines)}"
    why = not_its_own(died.code, died.lines, died.detail)
    if why:
        return f"{how}: {why}"
    early = facts.faults_from is None or event.seq < facts.faults_from
    certain = trace is not None or crashed_early(died.code, died.lines, ready=life in facts.ready)
    if early and not certain:
        return f"{how} before it could be used, which a wrong command or configuration does too; check its log"
    when = " before the first fault" if early else ""
    last = telling_line(died.lines)
    return Finding(
        sentence=f"{how}{when}, and no one asked for it" + (f": {last}" if last else " (its log is empty)"),
        certificate=tuple(sorted({event.seq, died.seq, *([trace.seq] if trace is not None else [])})),
        nodes=(event.node,),
        excused=excused.anything(event.span.lo, event.span.hi),
        data={"code": event.code, "incarnation": event.incarnation, "log": list(died.lines)},
    )


def _fatal_lines(history: History, excused: Excuses) -> Iterator[Finding]:
    """One finding for each node and pattern: its first line."""
    counts: dict[tuple[str, str], int] = {}
    first: dict[tuple[str, str], FatalLine] = {}
    for event in history.of(FatalLine):
        key = (event.node, event.pattern)
        counts[key] = counts.get(key, 0) + 1
        first.setdefault(key, event)
    for key, event in first.items():
        yield Finding(
            sentence=f"{event.node} printed a line that its description calls fatal ({event.pattern!r}): {event.line}",
            certificate=(event.seq,),
            nodes=(event.node,),
            excused=excused.anything(event.span.lo, event.span.hi),
            data={"pattern": event.pattern, "lines": counts[key]},
        )


def _skipped(history: History) -> list[str]:
    skipped = [event for event in history.of(Noise) if event.kind == LOG_SKIPPED]
    if not skipped:
        return []
    return [f"a part of the log of {skipped[0].host} was not searched for fatal lines: it grew too fast"]


CHECKER = Crash()
