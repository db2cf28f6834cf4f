"""step-down-without-quorum: a leader that cannot hear a majority stops claiming to lead within its promise.

A voter is *deaf* while it runs, is not frozen, and more than n − q other voters certainly cannot reach it (their
packets are cut, or they are down or frozen); while the members change, only while all other voters cannot. The clock
starts when the cut is confirmed, when a frozen leader was thawed, or when a node that was deaf already is first seen to
lead. Sources: polls that were asked later than that by more than the promise and still say LEADER, in the same term.
Noise of that host is charged as what makes it late (``dethrone.checkers.noise``): stepping down takes no votes, so a
claim is a finding after the promise, the stretches in which the host stood still, and one election round.
Unknown, never fail: no poll of the deaf leader after the bound. Out of scope: a leader that no node hears but that
hears a majority.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dethrone.checkers.base import Base, breaks_nothing, votes_needed
from dethrone.checkers.excuses import excuses
from dethrone.checkers.facts import groups, in_group
from dethrone.checkers.graph import Timeline, timeline
from dethrone.checkers.noise import Disturbance, certain, disturbance, unknown_by_noise
from dethrone.checkers.polls import Polls
from dethrone.checkers.recognition import no_term
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.events import Converged, Observed
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.core.views import columns


@dataclass(frozen=True, slots=True)
class Deaf:
    """[lo, hi) in which this voter runs and certainly cannot hear a majority."""

    node: str
    lo: Ns
    hi: Ns


class StepDownWithoutQuorum(Base):
    name = "step-down-without-quorum"
    version = "2"
    kind = "liveness"
    channels = ("observed",)
    views = (columns,)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        bound = promise.step_down_ns
        if bound is None:
            return self.na("not promised: no bound for stepping down")
        if breaks_nothing(history, plan):
            return self.na("not exercised: the schedule breaks nothing")
        noise = disturbance(history, promise, plan)
        stretches = deaf_stretches(timeline(history, promise, plan), votes_needed(promise, len(plan.voters)))
        findings: list[Finding] = []
        doubts: list[str] = []
        by_noise: list[str] = []
        judged = short = 0
        times: list[list[object]] = []
        for group in groups(history):
            polls = _asked(history, group)
            for deaf in stretches:
                rows = polls.get(deaf.node)
                claim = None if rows is None else _led_at(rows, deaf)
                if rows is None or claim is None:
                    continue
                since = max(deaf.lo, claim.span.hi)
                inside = [row for row in rows.within(since + 1, deaf.hi) if row.span.hi < deaf.hi]
                stopped = next((row for row in inside if not _claims(row, claim)), None)
                times.append([(stopped.span.hi if stopped else deaf.hi) - since, stopped is None])
                if deaf.hi - since <= bound:
                    short += 1
                    continue
                late = [row for row in inside if row.span.lo > since + bound]
                if not late:
                    doubts.append(
                        f"{deaf.node} was not polled while it was cut off for longer than {show_duration(bound)}"
                    )
                    continue
                still = [row for row in late if _claims(row, claim)]
                sure = [row for row in still if _late(noise, deaf.node, since, row) > bound]
                if still and not sure:
                    limit = show_duration(bound)
                    said = f"{deaf.node} claimed to lead term {claim.term} after losing its majority, limit {limit}"
                    until = still[-1].span.lo
                    by_noise.append(unknown_by_noise(said, since, until, noise.late((deaf.node,), since, until)))
                    continue
                if still and claim.term <= 0 and promise.leader_bound_to_term:
                    doubts.append(no_term(deaf.node))
                    continue
                judged += 1
                if sure:
                    findings.append(_clings(history, promise, deaf, claim, sure))
        findings, blind = certain(noise, findings)
        return self.conclude(
            history,
            findings=findings,
            judged=judged,
            nothing=f"no leader was cut off from the majority for longer than {show_duration(bound)}",
            evidence={"leaders_cut_off": judged + short, "too_short": short, "bound_ns": bound},
            metrics={"step_down": times},
            doubts=[*doubts, *blind],
            noise=by_noise,
        )


def deaf_stretches(line: Timeline, quorum: int) -> list[Deaf]:
    """All stretches in which a running voter certainly hears fewer than a quorum, itself included."""
    out: list[Deaf] = []
    spare = len(line.voters) - quorum
    for bit, voter in enumerate(line.voters):
        since: Ns | None = None
        for interval in line.intervals:
            unheard, _ = interval.adjacency.hears(bit)
            missing = unheard.bit_count()
            # While the members change, a quorum may be two: then only a node that hears no other is certainly deaf.
            cut_off = missing > spare if interval.settled else missing == len(line.voters) - 1 and not line.alone
            deaf = cut_off and bool(interval.adjacency.alive >> bit & 1)
            if deaf and since is None:
                since = interval.lo
            elif not deaf and since is not None:
                out.append(Deaf(voter, since, interval.lo))
                since = None
        if since is not None:
            out.append(Deaf(voter, since, line.intervals[-1].hi))
    return sorted(out, key=lambda one: one.lo)


def _late(noise: Disturbance, node: str, since: Ns, row: Observed) -> Ns:
    """How long before this poll the node has led without a majority, without what noise explains."""
    return row.span.lo - since - noise.late((node,), since, row.span.lo)


def _claims(row: Observed, claim: Observed) -> bool:
    """Whether this poll still says what the claim said: the same process leads, in the same term."""
    return row.leads and row.incarnation == claim.incarnation and row.term == claim.term


def _asked(history: History, group: str) -> dict[str, Polls]:
    """Node → its polls of this group, by the moment of the question."""
    table = columns(history)
    words, polls = table.words, table.observed
    mine = polls.group == words.code(group)
    return {
        words.words[code]: Polls(table, np.flatnonzero(mine & (polls.node == code)), by="lo")
        for code in np.unique(polls.node[mine]).tolist()
    }


def _led_at(rows: Polls, deaf: Deaf) -> Observed | None:
    """The last poll answered before the stretch, if it says LEADER; else the first within it that does."""
    before = next((row for row in rows.last_until(deaf.lo) if row.span.hi <= deaf.lo), None)
    if before is not None and before.leads:
        return before
    return next((row for row in rows.within(deaf.lo, deaf.hi) if row.span.hi < deaf.hi and row.leads), None)


def _clings(history: History, promise: Promise, deaf: Deaf, claim: Observed, still: list[Observed]) -> Finding:
    cuts = [event.seq for event in history.of(Converged) if event.span.hi <= deaf.lo and event.host == deaf.node][-1:]
    last = still[-1]
    return Finding(
        sentence=(
            f"{deaf.node} still claimed to lead term {claim.term}{in_group(claim.group)},"
            f" {show_duration(last.span.lo - deaf.lo)} after losing its majority (limit "
            f"{show_duration(promise.step_down_ns or 0)})."
        ),
        certificate=tuple(sorted({claim.seq, *cuts, still[0].seq, last.seq})),
        nodes=(deaf.node,),
        term=claim.term,
        excused=excuses(history, promise).liveness(deaf.lo, last.span.hi),
        data={"deaf_from_ns": deaf.lo, "deaf_to_ns": deaf.hi},
    )


CHECKER = StepDownWithoutQuorum()
