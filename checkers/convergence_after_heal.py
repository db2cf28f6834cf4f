"""convergence-after-heal: within the promise after everything healed, every voter follows one leader, and has committed
all that was committed anywhere at the heal.

Judged: each stretch after a fault in which no fault is left and all voters certainly form a clique, if it lasts longer
than the promise. Where nodes that do not vote are needed (``owed_in_calm``), a fault on one of them ends it like any
other. Sources: polls within it. A node has converged once a poll names the common leader (in the common term, where the
promise binds them), and one reports a commit ≥ the highest that any node had reported before the heal.

Noise of the hosts is charged (``dethrone.checkers.noise``): voters that had not converged when the promise and the
charge were over fail; those that converged between the two, and stretches that end before, are unknown. Unknown, never
fail: a node that was not polled closely; one that leads in term 0, which is no term. Out of scope: the cold start,
commits that are not observable, stretches that end while votes are split by chance (``splits_max``), and all that comes
after a node that does not vote, but may be needed, has ended by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from dethrone.checkers.base import Base, breaks_nothing
from dethrone.checkers.excuses import excuses
from dethrone.checkers.facts import ELECTED, VOTES, groups, in_group
from dethrone.checkers.liveness_windows import Window, broken, outsider_ended, owed_windows
from dethrone.checkers.noise import VIEWS as NOISE
from dethrone.checkers.noise import certain, disturbance, unknown_by_noise
from dethrone.checkers.recognition import Key, Recognition, no_term, recognition, step_between
from dethrone.checkers.rounds import split_wait_ns, worn_out
from dethrone.checkers.traces import reporters
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.events import FaultEvent, Observed
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.core.views import columns


@dataclass(frozen=True, slots=True)
class Outcome:
    """When the voters had converged (None: not in time), and if not, why not."""

    at: Ns | None
    why: str = ""
    nodes: tuple[str, ...] = ()
    unseen: bool = False


class ConvergenceAfterHeal(Base):
    name = "convergence-after-heal"
    version = "2"
    kind = "liveness"
    channels = ("observed",)
    views = (columns, reporters, VOTES, ELECTED, *NOISE)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        bound = promise.converge_ns
        if bound is None:
            return self.na("not promised: no bound for convergence")
        if breaks_nothing(history, plan):
            return self.na("not exercised: the schedule breaks nothing")
        noise = disturbance(history, promise, plan)
        faults = broken(history)
        healed = [
            window
            for window in owed_windows(history, promise, plan)
            if window.tier == "T1"
            and faults
            and window.lo > faults[0].lo
            and not any(one.at(window.lo) for one in faults)
        ]
        ended = outsider_ended(history, plan)
        findings: list[Finding] = []
        doubts: list[str] = []
        by_noise: list[str] = []
        times: list[list[object]] = []
        judged = short = 0
        for group in groups(history):
            seen = recognition(history, promise, plan, group)
            for window in healed:
                until = window.hi if ended is None else min(window.hi, ended)
                if until - window.lo <= bound:
                    short += 1
                    continue
                found = _in_time(history, seen, plan, window, until)
                if found is None:
                    short += 1
                    continue
                outcome, allowed = found
                if outcome.at is not None:
                    judged += 1
                    times.append([outcome.at - window.lo, False])
                    continue
                times.append([bound, True])
                if worn_out(history, promise, group, window.members, window.lo):
                    short += 1
                    continue
                deadline = noise.deadline(window.members, window.lo, allowed)
                if outcome.unseen:
                    doubts.append(outcome.why)
                    continue
                late = outcome
                if window.lo + allowed < deadline < until:
                    late = converged(seen, plan, window, deadline - window.lo)
                if deadline >= until or late.at is not None:
                    end = min(until, deadline)
                    charged = noise.charged(window.members, window.lo, end)
                    by_noise.append(unknown_by_noise(f"after a heal, {outcome.why}", window.lo, end, charged))
                elif late.unseen:
                    doubts.append(late.why)
                else:
                    judged += 1
                    findings.append(_apart(history, promise, window, late, seen=seen, bound=deadline - window.lo))
        findings, blind = certain(noise, findings)
        return self.conclude(
            history,
            findings=findings,
            judged=judged,
            nothing=f"no heal was followed by {show_duration(bound)} without a fault",
            evidence={"heals": len(healed), "too_short": short, "bound_ns": bound},
            metrics={"convergence": times},
            doubts=[*doubts, *blind],
            noise=by_noise,
        )


def converged(seen: Recognition, plan: Plan, window: Window, bound: Ns) -> Outcome:
    """Whether and when all voters followed one leader and had committed all, within the bound."""
    until = window.lo + bound
    due = committed_before(seen, window.lo) if "commit" in plan.observable else None
    named: dict[Key, dict[str, Ns]] = {}
    caught_up: dict[str, Ns] = {}
    for row in seen.asked_within(window.lo, until):
        key = seen.named(row)
        if key is not None:
            named.setdefault(key, {}).setdefault(row.node, row.span.hi)
        if due is None or (row.commit is not None and row.commit >= (due.commit or 0)):
            caught_up.setdefault(row.node, row.span.hi)
    whole = [key for key, followers in named.items() if len(followers) == len(plan.voters)]
    behind = tuple(voter for voter in plan.voters if voter not in caught_up)
    if whole and not behind:
        followed = min(max(named[key].values()) for key in whole)
        return Outcome(max(followed, *caught_up.values()))
    unseen = [voter for voter in plan.voters if not _polled(seen, voter, window.lo, until, plan)]
    if unseen:
        return Outcome(
            None, f"{', '.join(unseen)} could not be polled closely after a heal", tuple(unseen), unseen=True
        )
    if behind and due is not None:
        why = f"{', '.join(behind)} had not committed up to {due.commit}, which {due.node} had reported before the heal"
        return Outcome(None, why, behind)
    untermed = seen.untermed(window.lo, until)
    if untermed is not None:
        return Outcome(None, no_term(untermed), (untermed,), unseen=True)
    best = max(named, key=lambda key: len(named[key]), default=None)
    followers: dict[str, Ns] = {} if best is None else named[best]
    strays = tuple(voter for voter in plan.voters if voter not in followers)
    leader = "any leader" if best is None else f"{best[0]}, whom {', '.join(sorted(followers))} followed"
    return Outcome(None, f"{', '.join(strays)} did not follow {leader}", strays)


def _in_time(history: History, seen: Recognition, plan: Plan, window: Window, until: Ns) -> tuple[Outcome, Ns] | None:
    """Whether they had converged within the bound and what split votes add to it, and how long that was; None: the
    window ended before."""
    promised = bound = plan.promise.converge_ns or 0
    while (outcome := converged(seen, plan, window, bound)).at is None:
        split = split_wait_ns(history, plan.promise, seen.group, window.members, (window.lo, window.lo + bound))
        if promised + split <= bound:
            break
        bound = promised + split
        if until - window.lo <= bound:
            return None
    return outcome, bound


def committed_before(seen: Recognition, t: Ns) -> Observed | None:
    """The poll with the highest commit that was answered before this moment."""
    place = seen.polls.furthest(seen.polls.until(t))
    return None if place is None else seen.polls.at(place)


def _polled(seen: Recognition, voter: str, lo: Ns, hi: Ns, plan: Plan) -> bool:
    step = step_between(plan, hi - lo)
    at = lo
    for row in seen.asked_within(lo, hi):
        if row.node != voter:
            continue
        if row.span.lo - at > step:
            return False
        at = row.span.hi
    return hi - at <= step


def _apart(
    history: History, promise: Promise, window: Window, outcome: Outcome, *, seen: Recognition, bound: Ns
) -> Finding:
    """The finding: that long after the heal they had not converged."""
    last: dict[str, int] = {}
    for row in seen.asked_within(window.lo, window.lo + bound):
        last[row.node] = row.seq
    heal = [event.seq for event in history.of(FaultEvent) if event.phase == "end" and event.span.lo <= window.lo][-1:]
    wanted = [*outcome.nodes, *(node for node in last if node not in outcome.nodes)]
    return Finding(
        sentence=f"{show_duration(bound)} after everything had healed, {outcome.why}{in_group(seen.group)}.",
        certificate=tuple(sorted({*heal, *(last[node] for node in wanted[:6] if node in last)})),
        nodes=outcome.nodes,
        excused=excuses(history, promise).liveness(window.lo, window.lo + bound),
        data={"healed_ns": window.lo},
    )


CHECKER = ConvergenceAfterHeal()
