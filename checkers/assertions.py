"""always, unreachable, sometimes: what the nodes assert of themselves, in trace lines of a system's own.

* ``always NAME``: its condition holds whenever a node evaluates it. One line with a false condition fails.
* ``unreachable NAME``: no node ever comes to that place. One line fails. That no node came there is shown by nodes
  that print trace lines at all; being of kind ``process``, its ``pass`` is no evidence for safety or liveness.
* ``sometimes NAME``: its condition held at least once in the run, an obligation of coverage: a run in which it never
  did has not shown what it was meant to show, and is ``unknown``. Names that the description lists need no line.

Excused as any other safety: a line after a fault beyond the promise. Out of scope: whether an assertion is meaningful.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from dethrone.checkers.base import Base, finding
from dethrone.checkers.facts import in_group
from dethrone.checkers.traces import named
from dethrone.harness.core.events import Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Kind, Verdict

DETAILS_MAX = 200
EACH_MAX = 3
"""Findings of one assertion; the evidence counts its lines."""
ALWAYS, SOMETIMES, UNREACHABLE = named("always"), named("sometimes"), named("unreachable")


class Always(Base):
    name = "always"
    channels = ("always",)
    views = (ALWAYS,)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        del plan
        lines = ALWAYS(history)
        broken = [line for line in lines if not line.data.get("condition")]
        return self.conclude(
            history,
            findings=_findings(history, promise, broken, "although it asserts that it always does"),
            judged=len(lines),
            nothing="no node evaluated an assertion: print a line each time, not only when the condition is false",
            evidence={"evaluated": _counted(lines), "false": _counted(broken)},
        )


class Unreachable(Base):
    name = "unreachable"
    kind: Kind = "process"
    channels = ("unreachable",)
    views = (UNREACHABLE,)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        del plan
        lines = UNREACHABLE(history)
        return self.conclude(
            history,
            findings=_findings(history, promise, lines, "which it asserts to be unreachable"),
            judged=len(history.of(Traced)),
            nothing="no node printed a trace line",
            evidence={"reached": _counted(lines)},
        )


class Sometimes(Base):
    name = "sometimes"
    kind: Kind = "coverage"
    channels = ("sometimes",)
    views = (SOMETIMES,)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        del plan
        lines = SOMETIMES(history)
        held = _counted([line for line in lines if line.data.get("condition")])
        asked = dict.fromkeys([*promise.sometimes, *_counted(lines)])
        missing = [name for name in asked if name not in held]
        return self.conclude(
            history,
            findings=(),
            judged=len(held),
            nothing="no node evaluated an assertion",
            evidence={"held": held, "evaluated": _counted(lines)},
            doubts=[f"{name} never held; give the run more time, other faults or another load" for name in missing],
        )


def _counted(lines: Sequence[Traced]) -> dict[str, int]:
    return dict(sorted(Counter(str(line.data.get("assertion")) for line in lines).items()))


def _findings(history: History, promise: Promise, lines: Sequence[Traced], claim: str) -> list[Finding]:
    out: list[Finding] = []
    shown: Counter[str] = Counter()
    for line in lines:
        name = str(line.data.get("assertion"))
        shown[name] += 1
        if shown[name] > EACH_MAX:
            continue
        details = line.data.get("details")
        said = "" if details is None else f" ({json.dumps(details, ensure_ascii=False):.{DETAILS_MAX}})"
        what = f"{name} does not hold on" if line.name == "always" else f"{name} was reached on"
        term = f" in term {line.term}" if line.term else ""
        out.append(
            finding(
                history,
                promise,
                f"{what} {line.node}{in_group(line.group)}{term}, {claim}{said}.",
                (line.seq,),
                nodes=(line.node,),
                term=line.term or None,
            )
        )
    return out


CHECKERS = (Always(), Unreachable(), Sometimes())
ALWAYS_HOLDS, NEVER_REACHED, HELD_ONCE = CHECKERS
