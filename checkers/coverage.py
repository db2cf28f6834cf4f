"""coverage: whether the run showed what it was meant to show. A run that never hit anything passes nothing.

Asked of every run: the history is complete; an election was seen, where nodes lead; each node reported its status often
enough; not too many faults of unknown outcome; no trace line that was malformed; an acknowledged write, if the workload
writes; and no more than a fifth of the time lost to noise (``dethrone.checkers.noise``). Asked by the schedule
(``plan.schedule.obligations``), each met by one fault that was certainly in force:

* ``leader-cut-off``: a partition left the leader without two-way links to a majority; ``leader-isolated``: without any;
* ``leader-in-majority``: a partition cut a node off while the leader kept two-way links to a majority;
* ``minority-cut``: a partition left some voter without two-way links to a majority while others still had them;
* ``majority-without-leader``: a partition left a majority connected, and the leader out of it;
* what kinds of faults declare (``FaultTraits.owes``, ``shows``): one of the kind hit the leader, or a node that was
  certainly not it, or any node: ``leader-killed``, ``follower-paused``, ``clock-stepped``, ``restarted`` …

Asked by the plan (``Plan.evidence``), of the phases of the run: in its warm-up, under faults and in the quiet phase
after the last heal a quorum reported its status, and of the writes asked for then at least one in ten was acknowledged.
What only the last phase shows says nothing of the system under faults.

Of a schedule that was written, or is played again, every step begins. A drawn one owes its obligations only.

Unmet: ``unknown`` with what is missing and what to do. Out of scope: judging the system.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dethrone.checkers.base import WRITES, Base, incomplete, votes_needed, writes_expected
from dethrone.checkers.excuses import in_force
from dethrone.checkers.facts import ELECTED, elections, leaders_polled, leading
from dethrone.checkers.graph import Adjacency, Timeline, cliques, end_of_run, timeline
from dethrone.checkers.noise import VIEWS as NOISE
from dethrone.checkers.noise import Disturbance, disturbance
from dethrone.checkers.recognition import no_term
from dethrone.harness.core.client_ops import client_ops
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.events import TRACE_MALFORMED, FaultEvent, Mark, NodeProcess, Noise
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import FaultTraits, Shown, Unmet, declarations, declared
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import NOISE_SHARE_MAX_PERCENT, Promise
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.core.views import columns

OBSERVATIONS_MIN = 10
FOREVER_NS = 2**62
"""Answers of each node."""
FRESH_NS = 1 * SECOND
"""A poll of the leader is fresh for so long."""
PHASES = ("start", "warmup", "faults", "heal", "quiet", "final", "stop")
"""The marks that begin the phases of a run."""
ASKED_FOR = frozenset({"written", "replay"})
"""Strategies of schedules that name each of their steps."""
PHASE_ANSWERS_MIN = 3
"""Answers of each of a quorum of voters, in a phase."""
PHASE_WRITES_PERCENT = 10
"""Acknowledged writes, of those that were asked for in a phase."""
INDETERMINATE_MAX_PERCENT = 25
"""Faults of unknown outcome, of all that were not skipped."""


class Coverage(Base):
    name = "coverage"
    version = "3"
    kind = "coverage"
    views = (client_ops, columns, ELECTED, *NOISE)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        line = timeline(history, promise, plan)
        shown = shown_by_faults(history, line, votes_needed(promise, len(plan.voters)))
        missing: list[str] = []
        if not history.complete:
            missing.append(incomplete(history))
        elif history.end is not None and history.end.reason not in {"complete", "first-failure"}:
            missing.append(f"the run was cut short: {history.end.reason}")
        missing += _observations(history, plan) + _outcomes(history) + _malformed(history) + _steps(history, plan)
        elected = _elections(history, promise, plan)
        untermed = None if elected else next((row.node for row in leading(history) if row.term <= 0), None)
        if untermed is not None:
            missing.append(no_term(untermed))
        elif not elected and not promise.leaderless:
            missing.append("no election was seen; check whether the nodes can reach each other")
        ops = client_ops(history)
        acknowledged = int((ops.are(WRITES) & ops.ok).sum())
        if writes_expected(plan) and not acknowledged:
            missing.append("no write was acknowledged; check the errors of the operations")
        by_phase = _writes_by_phase(history)
        missing += _phases(history, promise, plan, by_phase)
        known = obligations(plan.schedule.kinds)
        for name in plan.schedule.obligations:
            if name not in known:
                missing.append(f"the schedule asks for {name!r}, which is no known obligation")
            elif not shown[name]:
                missing.append(f"{name} never happened; {known[name]}")
        faults = history.of(FaultEvent)
        noise = disturbance(history, promise, plan)
        figures = noise_figures(history, plan, noise)
        by_noise: list[str] = []
        if figures["excused_percent"] > NOISE_SHARE_MAX_PERCENT:
            by_noise.append(
                f"unknown by noise: {figures['excused_percent']} % of the run time is charged to noise of the hosts,"
                f" limit {NOISE_SHARE_MAX_PERCENT} %; use a quieter machine or longer timers"
            )
        return self.conclude(
            history,
            findings=(),
            judged=1,
            nothing="",
            evidence={
                "elections": elected,
                "acknowledged_writes": acknowledged,
                "writes": {phase: f"{done} of {asked}" for phase, (done, asked) in by_phase.items()},
                "observations": len(columns(history).observed),
                "faults": dict(Counter(event.kind for event in faults if in_force(event))),
                "skipped": sum(event.outcome == "skipped" for event in faults),
                "shown": {name: count for name, count in shown.items() if count},
                "obligations": list(plan.schedule.obligations),
                "elections_during_noise": _elections_during(history, plan, noise),
                "noise": figures,
            },
            doubts=missing,
            noise=by_noise,
        )

    def unmet(self, history: History, promise: Promise, plan: Plan) -> Sequence[Unmet]:
        """See ``dethrone.harness.core.interfaces.Demanding``: obligations, and kinds that never were in force."""
        if self.not_owed(promise) is not None:
            return ()
        shown = shown_by_faults(history, timeline(history, promise, plan), votes_needed(promise, len(plan.voters)))
        happened = {event.kind for event in history.of(FaultEvent) if event.outcome == "installed"}
        known = obligations(plan.schedule.kinds)
        owed = [name for name in plan.schedule.obligations if name in known and not shown[name]]
        out = [Unmet(what=name, kinds=_kinds_that_show(name, plan.schedule.kinds)) for name in owed]
        return [*out, *(Unmet(what=kind, kinds=(kind,)) for kind in plan.schedule.kinds if kind not in happened)]


_LONGER = "give the run more time, or another seed"
_OF_THE_GRAPH: Mapping[str, str] = {
    "leader-cut-off": f"{_LONGER}, or a partition whose victim is the leader",
    "leader-isolated": f"{_LONGER}, or isolate the leader",
    "leader-in-majority": f"{_LONGER}, or a partition whose victims are followers",
    "minority-cut": f"{_LONGER}, or a partition into halves",
    "majority-without-leader": f"{_LONGER}, or a partition whose victim is the leader",
}
"""Shown by what cuts links."""


def obligations(kinds: Collection[str] = ()) -> dict[str, str]:
    """Every obligation, with what to do if it is unmet. ``kinds``: also those of faults of one process."""
    return {
        **_OF_THE_GRAPH,
        **{
            shown.name: f"{_LONGER}, or {shown.remedy}"
            for traits in _with(kinds).values()
            for shown in traits.showing
            if shown.name not in _OF_THE_GRAPH
        },
    }


def _with(kinds: Collection[str]) -> dict[str, FaultTraits]:
    return {**declarations(), **{kind: declared(kind) for kind in kinds}}


def _kinds_that_show(name: str, kinds: Collection[str]) -> tuple[str, ...]:
    return tuple(
        kind
        for kind, traits in _with(kinds).items()
        if (traits.cuts if name in _OF_THE_GRAPH else name in {shown.name for shown in traits.showing})
    )


@dataclass(frozen=True, slots=True)
class _Shown:
    """One fault that was certainly in force, as the tests meet it. ``adjacency``: of what cuts, once it was in force;
    ``leader``: who led when it began, as a bit."""

    event: FaultEvent
    adjacency: Adjacency | None
    leader: int | None
    quorum: int


def shown_by_faults(history: History, line: Timeline, quorum: int) -> Counter[str]:
    """How often each obligation was met by a fault that was certainly in force."""
    shown: Counter[str] = Counter()
    for event in history.of(FaultEvent):
        if event.phase == "begin" and event.outcome == "installed":
            shown.update(name for name, met in shown_by(history, event, line, quorum).items() if met)
    return shown


def shown_by(history: History, event: FaultEvent, line: Timeline, quorum: int) -> dict[str, bool]:
    """Which obligations this fault, certainly in force, meets."""
    interval = line.at(event.span.hi)
    traits = declared(event.kind)
    adjacency = interval.adjacency if interval is not None and traits.cuts else None
    fault = _Shown(event, adjacency, _leader(history, event, line), quorum)
    found = {name: test(fault) for name, test in _TESTS.items()}
    return {**{shown.name: _hit(event, shown) for shown in traits.showing}, **found}


def _leader(history: History, event: FaultEvent, line: Timeline) -> int | None:
    """Who led when the fault began: as its roles say, else as the polls of the second before it say."""
    leader = next((host for host, role in event.roles.items() if role.lower() == "leader"), None)
    if leader is None:
        rows = leading(history).within(event.span.lo - FRESH_NS, event.span.lo)
        leader = max(rows, key=lambda row: (row.term, row.span.hi)).node if rows else None
    return line.voters.index(leader) if leader in line.voters else None


def _hit(event: FaultEvent, shown: Shown) -> bool:
    """Whether a fault hit whom it must: any node, the leader, or a node that was certainly not it."""
    roles = [event.roles.get(victim, "unknown").lower() for victim in event.victims]
    if shown.who == "anybody":
        return True
    return any(role == "leader" if shown.who == "leader" else role not in {"leader", "unknown"} for role in roles)


def _reach(adjacency: Adjacency, bit: int) -> int:
    """How many voters this one has two-way links to, itself included (by the links alone)."""
    return 1 + sum(
        bool(adjacency.open[bit] >> other & 1 and adjacency.open[other] >> bit & 1)
        for other in range(len(adjacency.voters))
        if other != bit
    )


def _leader_reach(fault: _Shown) -> int | None:
    if fault.adjacency is None or fault.leader is None:
        return None
    return _reach(fault.adjacency, fault.leader)


def _leader_cut_off(fault: _Shown) -> bool:
    reach = _leader_reach(fault)
    return reach is not None and reach < fault.quorum


def _leader_in_majority(fault: _Shown) -> bool:
    reach = _leader_reach(fault)
    return reach is not None and reach >= fault.quorum


def _minority_cut(fault: _Shown) -> bool:
    if fault.adjacency is None:
        return False
    whole = [_reach(fault.adjacency, bit) >= fault.quorum for bit in range(len(fault.adjacency.voters))]
    return any(whole) and not all(whole)


def _majority_without_leader(fault: _Shown) -> bool:
    if fault.adjacency is None or fault.leader is None or not _leader_cut_off(fault):
        return False
    others = fault.adjacency.healthy & ~(1 << fault.leader)
    return bool(cliques(fault.adjacency.two_way(others), others, fault.quorum))


_TESTS: Mapping[str, Callable[[_Shown], bool]] = {
    "leader-cut-off": _leader_cut_off,
    "leader-isolated": lambda fault: _leader_reach(fault) == 1,
    "leader-in-majority": _leader_in_majority,
    "minority-cut": _minority_cut,
    "majority-without-leader": _majority_without_leader,
}


# --- asked of every run -----------------------------------------------------------------------------------------


def _answers(history: History, lo: Ns = 0, hi: Ns = FOREVER_NS) -> Counter[str]:
    """Node → how many of its polls were recorded within [lo, hi)."""
    table = columns(history)
    t = table.observed.t
    codes, counts = np.unique(table.observed.node[(lo <= t) & (t < hi)], return_counts=True)
    return Counter(
        {table.words.words[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)}
    )


def _observations(history: History, plan: Plan) -> list[str]:
    if "observed" not in plan.observable:
        return []
    counts = _answers(history)
    few = [f"{node} ({counts[node]})" for node in plan.nodes if counts[node] < OBSERVATIONS_MIN]
    if not few:
        return []
    return [f"fewer than {OBSERVATIONS_MIN} answers of {', '.join(few)}; give the run more time, or check its log"]


def _outcomes(history: History) -> list[str]:
    begun = [event for event in history.of(FaultEvent) if event.phase == "begin" and event.outcome != "skipped"]
    ends = [event for event in history.of(FaultEvent) if event.phase == "end"]
    lapsed = {event.fault for event in ends if event.outcome == "indeterminate"}
    unclear = sum(event.outcome == "indeterminate" or event.fault in lapsed for event in begun)
    out = []
    if begun and unclear * 100 > INDETERMINATE_MAX_PERCENT * len(begun):
        out.append(f"{unclear} of {len(begun)} faults may or may not have been in force; check their evidence")
    failed = [event for event in history.of(FaultEvent) if event.outcome == "heal_failed"]
    if failed:
        out.append(f"{failed[0].kind} on {', '.join(failed[0].victims)} did not heal; run `dethrone heal`")
    return out


def _steps(history: History, plan: Plan) -> list[str]:
    """Steps that were asked for one by one and never began."""
    steps = plan.schedule.steps
    if plan.schedule.strategy not in ASKED_FOR or history.end is None or history.end.reason != "complete":
        return []
    begun = {mark.data["step"] for mark in history.of(Mark) if mark.name == "step" and mark.data["phase"] == "begin"}
    left = len(steps) - len(begun)
    if not begun or not left:
        return []
    return [f"{left} of {len(steps)} steps of the schedule never began; give the run more time"]


def _malformed(history: History) -> list[str]:
    """Trace lines that say nothing: what the node did there may be what would have failed the run."""
    found = [event for event in history.of(Noise) if event.kind == TRACE_MALFORMED]
    if not found:
        return []
    first = found[0]
    why, line = first.detail.get("why", ""), first.detail.get("line", "")
    return [f"malformed trace lines ({len(found)} are shown); the first, of {first.host}: {why}: {line}"]


def _elections(history: History, promise: Promise, plan: Plan) -> int:
    """Different (group, term, leader) that were elected or seen leading; term 0 counts only where leaders need none."""
    untermed = not promise.leader_bound_to_term or len(plan.voters) == 1
    seen = {(fact.group, fact.term, fact.node) for fact in elections(history)}
    seen |= {led for led in leaders_polled(history) if led[1] > 0 or untermed}
    return len(seen)


def _elections_during(history: History, plan: Plan, noise: Disturbance) -> int:
    """Elections at which noise of a voter is charged: they may be of the machine's making."""
    return len(
        {
            (fact.group, fact.term, fact.node)
            for fact in elections(history)
            if noise.within(plan.voters, fact.event.span.lo, fact.event.span.hi)
        }
    )


def noise_figures(history: History, plan: Plan, noise: Disturbance) -> dict[str, Any]:
    """Stretches, the longest, the share of the run that is charged to them, and the unwatched voters."""
    begun = min((mark.t for mark in history.of(Mark) if mark.name == "warmup"), default=None)
    if begun is None:
        begun = min((event.span.lo for event in history.of(NodeProcess)), default=0)
    return {
        "stretches": len(noise.stretches),
        "longest_ns": max((one.hi - one.lo for one in noise.stretches), default=0),
        "excused_percent": noise.share_percent(plan.voters, begun, end_of_run(history)),
        "unwatched": list(noise.blind),
    }


def _spans(history: History) -> dict[str, tuple[Ns, Ns]]:
    """Phase → from when to when, of those that the marks show."""
    marks = [mark for mark in history.of(Mark) if mark.name in PHASES]
    ends = [*(mark.t for mark in marks[1:]), history.at(len(history) - 1).t if len(history) else 0]
    return {mark.name: (mark.t, end) for mark, end in zip(marks, ends, strict=False)}


def _writes_by_phase(history: History) -> dict[str, tuple[int, int]]:
    """Phase → (acknowledged, asked for in it), of phases with writes."""
    ops = client_ops(history)
    writes, ok = ops.are(WRITES), ops.ok
    out = {}
    for phase, (lo, hi) in _spans(history).items():
        asked = writes & (lo <= ops.t) & (ops.t < hi)
        if asked.any():
            out[phase] = (int((asked & ok).sum()), int(asked.sum()))
    return out


def _phases(history: History, promise: Promise, plan: Plan, writes: Mapping[str, tuple[int, int]]) -> list[str]:
    """What the plan asks of phases, and the history does not show."""
    out = []
    spans = _spans(history)
    quorum = votes_needed(promise, len(plan.voters))
    for asked in plan.evidence:
        what, _, phase = asked.partition(":")
        if what == "answers" and "observed" in plan.observable:
            lo, hi = spans.get(phase, (0, 0))
            counts = _answers(history, lo, hi)
            told = [node for node in plan.voters if counts[node] >= PHASE_ANSWERS_MIN]
            if len(told) < quorum:
                out.append(
                    f"{len(told)} of {len(plan.voters)} voters reported their status "
                    f"{PHASE_ANSWERS_MIN} times in the phase"
                    f" {phase}, and {quorum} are needed; check their logs"
                )
        elif what == "writes" and writes_expected(plan):
            done, of = writes.get(phase, (0, 0))
            if not done or done * 100 < of * PHASE_WRITES_PERCENT:
                out.append(
                    f"{done} of {of} writes of the phase {phase} were acknowledged, and {PHASE_WRITES_PERCENT} % are"
                    " needed; check the errors of the operations"
                )
    return out


CHECKER = Coverage()
