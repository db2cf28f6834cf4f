"""What each fault did to leadership, one fault at a time: the leader of before was kept, or lost to another.

For each fault that was in force and healed, with no other one until the next began: *lost*, if a node then led a later
term, or another node led; *kept*, if the leader of before was still polled in its term after the heal, and no other
node led. Doubt is *unknown*: no leader just before, an election that may be older, no poll of the leader afterwards. A
stall of a voter that may have caused (or prevented) an election is *noise*. Of several groups one that is lost counts.

Guarantees: pure. Unlike in findings about liveness, a stall during a skew of clocks counts as noise, since a skew
stalls no process; but a leader that is kept under a skew is noise only if more than half of that time was stalls: they
depose leaders, and what a step of a clock does to timers shows as soon as a stall is over. Out of scope: what a system
promises, and how long elections take (``failover``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dethrone.checkers.facts import answers, elections, leading
from dethrone.checkers.graph import end_of_run
from dethrone.checkers.noise import disturbance, measured_anywhere
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.interfaces import declared
from dethrone.harness.core.intervals import Interval, union
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.views import columns

Fate = Literal["kept", "lost", "noise", "unknown"]
_RANK: tuple[Fate, ...] = ("lost", "noise", "unknown", "kept")


@dataclass(frozen=True, slots=True)
class Under:
    """What became of leadership under one fault. ``after_ns``: from the fault's begin to the new leader, if lost."""

    fault: int
    kind: str
    fate: Fate
    why: str
    after_ns: Ns | None = None

    def plain(self) -> dict[str, Any]:
        """As a value of JSON."""
        return {"fault": self.fault, "kind": self.kind, "fate": self.fate, "why": self.why, "after_ns": self.after_ns}


@dataclass(frozen=True, slots=True)
class _Window:
    """When a fault began, when it was healed, and until when what happens is put down to it."""

    begin: Ns
    healed: Ns
    until: Ns


def leadership_under_faults(history: History, plan: Plan) -> list[Under]:
    """One row for each fault that was certainly in force, in their order."""
    events = sorted(history.of(FaultEvent), key=lambda event: (event.span.lo, event.seq))
    begins = [event for event in events if event.phase == "begin" and event.outcome != "skipped"]
    ends = {event.fault: event for event in events if event.phase == "end"}
    over = end_of_run(history)
    out, busy_until = [], -1
    for number, begin in enumerate(begins):
        until = begins[number + 1].span.lo if number + 1 < len(begins) else over
        end = ends.get(begin.fault)
        alone = busy_until < begin.span.lo and end is not None and end.span.hi < until
        busy_until = max(busy_until, over if end is None else end.span.hi)
        if begin.outcome != "installed":
            continue
        if end is None or end.outcome != "healed":
            why = "the fault was not certainly in force until it was healed"
            out.append(Under(begin.fault, begin.kind, "unknown", why))
        elif not alone:
            out.append(Under(begin.fault, begin.kind, "unknown", "another fault was in force at the same time"))
        else:
            out.append(_under(history, plan, begin, _Window(begin.span.lo, end.span.hi, until)))
    return out


def _under(history: History, plan: Plan, begin: FaultEvent, window: _Window) -> Under:
    def row(fate: Fate, why: str, at: Ns | None = None) -> Under:
        after = None if at is None else max(0, at - begin.span.hi)
        return Under(begin.fault, begin.kind, fate, why, after)

    fates = [_of_group(history, plan, group, window) for group in _led_groups(history)]
    fate, why, won = min(fates, key=lambda found: _RANK.index(found[0]))
    if fate in ("kept", "lost") and _noisy(history, plan, begin, window, won):
        return row("noise", f"{why}, and a node stalled meanwhile")
    return row(fate, why, None if won is None else won[1])


@per_history
def _led_groups(history: History) -> list[str]:
    """The groups of which polls name a leader; the unnamed one, whose traces may have a name, where none do."""
    table = columns(history)
    polls = table.observed
    return sorted({table.words.words[code] for code in set(polls.group[polls.leads].tolist())}) or [""]


def _of_group(history: History, plan: Plan, group: str, window: _Window) -> tuple[Fate, str, Interval | None]:
    """What became of its leader, why that is known, and within which time another one won, if one did."""
    begin, until = window.begin, window.until
    in_terms = plan.promise.leader_bound_to_term
    polls = leading(history)
    before = next((row for row in polls.last_until(begin) if row.group == group), None)
    if before is None or before.span.hi < begin - plan.promise.election_timeout_ns:
        return "unknown", "no leader was seen just before the fault", None

    def other(node: str, term: int) -> bool:
        return term > before.term if in_terms else node != before.node

    seen = [
        (row.span.lo, row.span.hi, row.node, row.term)
        for row in polls.within(before.span.hi, until)
        if row.group == group
    ]
    seen += [
        (fact.event.span.lo, fact.event.span.hi, fact.node, fact.term)
        for fact in elections(history)
        if group in {fact.group, ""} and before.span.hi < fact.event.span.hi <= until
    ]
    changed = min((found for found in seen if other(found[2], found[3])), key=lambda found: found[1], default=None)
    was = f"{before.node} led" + (f" term {before.term}" if in_terms else "")
    if changed is not None:
        _, hi, node, term = changed
        now = f"{node} then led" + (f" term {term}" if in_terms else "")
        if hi < begin:
            return "unknown", f"{now} before the fault began", None
        return "lost", f"{was}; {now}", (max(begin, _not_before(history, node, term if in_terms else None, hi)), hi)
    if not any(lo >= window.healed and node == before.node for lo, _, node, _ in seen):
        return "unknown", f"{was}, and no node was seen to lead after the heal", None
    return "kept", was, None


def _not_before(history: History, node: str, term: int | None, seen_ns: Ns) -> Ns:
    """The earliest moment at which a node can have won: when it was last polled in an earlier term, or as no leader."""
    latest = 0
    for row in answers(history).last_until(seen_ns):
        if row.span.hi <= latest:
            break
        if row.node == node and (not row.leads if term is None else row.term < term):
            latest = max(latest, row.span.lo)
    return latest


def _noisy(history: History, plan: Plan, begin: FaultEvent, window: _Window, won: Interval | None) -> bool:
    """Whether noise may have caused what is seen: the loss, or that nothing happened.

    As in ``leader_stability``, a stall may have deposed a leader if it ended no more than one election round before.
    """
    promise, of_clocks = plan.promise, declared(begin.kind).harms == "clock"
    stalls = measured_anywhere(history, promise, plan) if of_clocks else []
    voters = [one for one in stalls if not one.host or one.host in plan.voters]
    lo, hi = won or (window.begin, window.healed)
    if won is None and of_clocks:
        stalled = union((max(one.lo, lo), min(one.hi, hi)) for one in voters if one.hi > lo and one.lo < hi)
        return 2 * sum(end - since for since, end in stalled) > hi - lo
    since = lo - promise.election_timeout_ns
    return disturbance(history, promise, plan).within(plan.voters, lo, hi) or any(
        one.hi >= since and one.lo <= hi for one in voters
    )
