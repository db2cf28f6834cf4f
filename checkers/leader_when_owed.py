"""leader-when-owed: in every window of a promised tier a leader serves within B, and is never away for longer than B′.

Windows come from the realised faults (``dethrone.checkers.liveness_windows``); where nodes that do not vote are needed,
too, only what of them is free of any fault counts (``Promise.owed_in_calm``). Progress is a client's write that
succeeds, or a leader that a quorum recognises. A window fails if

* no progress was made for longer than the bound, and enough voters were polled closely enough to be sure that no leader
  was recognised in that time; or
* one leader was recognised for that long, yet every write that clients sent to it, and waited for long enough, failed
  or did not come back within it.

Noise of a host of the window is charged (``dethrone.checkers.noise``): what it leaves of a gap fails if it is longer
than the bound, and is unknown otherwise. Unknown, never fail: too few polls to be sure; a node that says it leads in
term 0, which is no term; no window of a tier for which the plan asks (``Plan.evidence``).
Nothing is owed in a gap that begins after more lost rounds than the system's waits stay random for, if it says so
(``Promise.rounds_random``), or for as long as votes that were split by chance took (``splits_max``). Windows shorter
than B are reported and pass nothing; recovery times are censored where the window ends first. Out of scope: tiers that
are not promised (counted), and windows shorter than one election timeout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from dethrone.checkers.base import WRITES, Base
from dethrone.checkers.excuses import excuses
from dethrone.checkers.facts import groups, in_group
from dethrone.checkers.graph import explain
from dethrone.checkers.liveness_windows import HALTS, Window, owed_windows
from dethrone.checkers.noise import VIEWS as NOISE
from dethrone.checkers.noise import Disturbance, certain, disturbance, unknown_by_noise
from dethrone.checkers.recognition import Point, Recognition, no_term, recognition, step_between
from dethrone.checkers.rounds import STEPS, split_wait_ns, worn_out
from dethrone.harness.core.client_ops import client_ops
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import Unmet, declared
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise, Tier
from dethrone.harness.core.verdict import Finding, Verdict

_LONGER: Mapping[Tier, str] = {
    "T1": "give the run more time, or raise --nemesis-interval",
    "T2": "raise --nemesis-interval above that, so that a cut or a dead node lasts long enough",
}
"""What makes windows of a tier longer, of the tiers that plans ask for."""

ATTEMPTS_MIN = 3
"""Failed writes at a recognised leader, by at least two clients, that make a stuck leader certain."""
PARTS = 8
"""Where in a gap an absence may begin to be certain: at each such part of the bound."""
LOOKS_MAX = 5_000
"""In at most this number of places, however long a damaged history says that the gap is."""


@dataclass(slots=True)
class _Tally:
    exercised: Counter[str] = field(default_factory=Counter)
    short: Counter[str] = field(default_factory=Counter)
    not_promised: Counter[str] = field(default_factory=Counter)
    recoveries: list[tuple[Ns, bool]] = field(default_factory=list)
    """(ns, censored)."""
    noisy: int = 0
    unseen: int = 0
    worn_out: int = 0
    splits: int = 0
    findings: list[Finding] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    by_noise: list[str] = field(default_factory=list)


class LeaderWhenOwed(Base):
    name = "leader-when-owed"
    version = "2"
    kind = "liveness"
    channels = ("observed", "traced", "ops")
    views = (client_ops, STEPS, HALTS, *NOISE)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        if not promise.tiers:
            return self.na("not promised: no tier of connectivity")
        tally = _Tally()
        noise = disturbance(history, promise, plan)
        for group in groups(history):
            judge = _Judge(history, promise, plan, group=group, noise=noise, tally=tally)
            for window in owed_windows(history, promise, plan):
                judge.window(window)
        known = sorted(ns for ns, censored in tally.recoveries if not censored)
        evidence: dict[str, Any] = {
            "windows": {tier: tally.exercised[tier] for tier in promise.tiers},
            "too_short": dict(tally.short),
            "not_promised": dict(tally.not_promised),
            "not_exercised": [tier for tier in promise.tiers if not tally.exercised[tier]],
            "unknown_by_noise": tally.noisy,
            "unknown_by_too_few_polls": tally.unseen,
            "not_owed_after_rounds_in_vain": tally.worn_out,
            "not_owed_by_split_votes": tally.splits,
            "bound_ns": promise.leader_bound_ns,
        }
        findings, blind = certain(noise, tally.findings)
        tally.doubts += _not_exercised(plan, promise, tally)
        return self.conclude(
            history,
            findings=findings,
            judged=sum(tally.exercised.values()),
            nothing=f"no window of a promised tier lasted {show_duration(promise.leader_bound_ns)}",
            evidence=evidence,
            metrics={
                "recovery_worst_ns": known[-1] if known else None,
                "recovery_median_ns": known[len(known) // 2] if known else None,
                "recoveries": [[ns, censored] for ns, censored in tally.recoveries],
            },
            doubts=[*tally.doubts, *blind],
            noise=tally.by_noise,
        )

    def unmet(self, history: History, promise: Promise, plan: Plan) -> Sequence[Unmet]:
        """See ``dethrone.harness.core.interfaces.Demanding``: a window in which a majority without the others owes a
        leader."""
        if f"window:{_LESSENED}" not in plan.evidence or self.not_owed(promise) is not None:
            return ()
        for window in owed_windows(history, promise, plan):
            if window.tier == _LESSENED and window.length >= promise.leader_bound_ns:
                return ()
        what = f"a window of {_LESSENED} of {show_duration(promise.leader_bound_ns)}"
        kinds = tuple(kind for kind in plan.schedule.kinds if declared(kind).leaves_majority)
        return (Unmet(what=what, kinds=kinds),)


_LESSENED = "T2"
"""The tier of a majority that hears each other while some node is gone."""


def _not_exercised(plan: Plan, promise: Promise, tally: _Tally) -> list[str]:
    """A doubt for each tier of which the plan asks for a window, and none was long enough."""
    return [
        f"not exercised: no {tier} window lasted {show_duration(promise.leader_bound_ns)}"
        f" ({tally.short[tier]} shorter ones); {_LONGER[tier]}"
        for tier in promise.tiers
        if f"window:{tier}" in plan.evidence and not tally.exercised[tier]
    ]


class _Judge:
    """Judges windows of one group."""

    def __init__(
        self, history: History, promise: Promise, plan: Plan, *, group: str, noise: Disturbance, tally: _Tally
    ) -> None:
        self._history = history
        self._promise = promise
        self._plan = plan
        self._seen: Recognition = recognition(history, promise, plan, group)
        self._noise = noise
        self._tally = tally
        self._ops = ops = client_ops(history)
        self._writes = ops.are(WRITES) & (ops.group == ops.words.code(group))
        self._successes = np.sort(ops.back_t[self._writes & ops.ok])
        """When writes were acknowledged."""

    def window(self, window: Window) -> None:
        """Judge one window."""
        tally, promise = self._tally, self._promise
        if window.tier not in promise.tiers:
            tally.not_promised[window.tier] += 1
            return
        points = self._seen.points(window.lo, window.hi)
        ends = np.searchsorted(self._successes, window.lo), np.searchsorted(self._successes, window.hi, side="right")
        successes: list[Ns] = self._successes[slice(*ends)].tolist()
        progress = sorted([*(point.t for point in points), *successes])
        if window.length >= promise.election_timeout_ns:
            tally.recoveries.append((progress[0] - window.lo if progress else window.length, not progress))
        if window.length < promise.leader_bound_ns:
            tally.short[window.tier] += window.length >= promise.election_timeout_ns
            return
        first = True
        at, chance = window.lo, tally.worn_out + tally.splits
        for until in [*progress, window.hi]:
            bound = promise.leader_bound_ns if first else promise.later_gap_ns
            if until - at > bound:
                self._gap(window, at, until, bound, first=first)
            at, first = until, False
        if tally.worn_out + tally.splits > chance:
            return  # nothing was owed in a part of it: it shows nothing
        tally.exercised[window.tier] += 1
        if not window.client_cut and self._writes.any():
            self._stuck(window, points, successes)

    def _gap(self, window: Window, lo: Ns, hi: Ns, bound: Ns, *, first: bool) -> None:
        """No progress in [lo, hi]: a finding if noise leaves more than the bound of it, and that is certain."""
        if worn_out(self._history, self._promise, self._seen.group, window.members, lo):
            self._tally.worn_out += 1
            return
        bound += split_wait_ns(self._history, self._promise, self._seen.group, window.members, (lo, hi))
        if hi - lo <= bound:
            self._tally.splits += 1
            return
        what = "had no leader" if first else "lost their leader and elected none"
        what += in_group(self._seen.group)
        if self._noise.uncharged(window.members, lo, hi) <= bound:
            self._tally.noisy += 1
            gap = f"{', '.join(window.members)} {what} for {show_duration(hi - lo)}, limit {show_duration(bound)}"
            self._tally.by_noise.append(unknown_by_noise(gap, lo, hi, self._noise.charged(window.members, lo, hi)))
            return
        untermed = self._seen.untermed(lo, hi)
        if untermed is not None:
            self._tally.unseen += 1
            self._tally.doubts.append(no_term(untermed))
            return
        if not self._leaderless(window, lo, hi, bound):
            self._tally.unseen += 1
            self._tally.doubts.append(
                f"no progress was seen for {show_duration(hi - lo)}, but too few polls to be sure "
                "that no leader was there"
            )
            return
        more = self._noise.charge_note(window.members, lo, hi)
        self._add(
            window,
            lo,
            hi,
            f"{', '.join(window.members)} {what} for {show_duration(hi - lo)} (limit {show_duration(bound)}{more}),"
            f" although all could talk to each other ({window.tier}).",
        )

    def _leaderless(self, window: Window, lo: Ns, hi: Ns, bound: Ns) -> bool:
        """Whether no leader was certainly there in some part of [lo, hi] of which noise leaves at least the bound."""
        step, dead = step_between(self._plan, bound), frozenset(window.dead)
        for since in range(lo, hi - bound + 1, max(1, bound // PARTS, (hi - lo) // LOOKS_MAX)):
            until = self._noise.deadline(window.members, since, bound)
            if until > hi:
                return False
            if self._seen.certainly_none(since, until, dead=dead, step_ns=step):
                return True
        return False

    def _stuck(self, window: Window, points: list[Point], successes: list[Ns]) -> None:
        """A recognised leader at which every write fails for longer than the bound; it may be a new one."""
        if not self._promise.leader_serves:
            return
        at, first = window.lo, True
        for until in [*successes, window.hi]:
            bound = self._promise.leader_bound_ns if first else self._promise.later_gap_ns
            if until - at > bound:
                self._stuck_gap(window, points, at, until, bound)
            at, first = until, False

    def _stuck_gap(self, window: Window, points: list[Point], lo: Ns, hi: Ns, bound: Ns) -> None:
        inside = (point for point in points if lo <= point.t <= hi)
        for (leader, *_), of_it in groupby(inside, key=lambda point: point.key):
            self._stuck_at(window, leader, list(of_it), bound)

    def _stuck_at(self, window: Window, leader: str, inside: list[Point], bound: Ns) -> None:
        """The same, while this one leads."""
        since, until = inside[0].t, inside[-1].t
        if until - since <= bound:
            return
        ops = self._ops
        there = self._writes & (ops.target == ops.words.code(leader)) & (since <= ops.t) & (ops.t < until)
        if bool((there & ops.ok & (ops.back_t <= until)).any()):
            return
        tried = np.flatnonzero(there)
        back = ops.back_t[tried]
        asked_ns = int(ops.t[tried].min(initial=until))
        ended_ns = int(np.where(back >= 0, np.minimum(until, back), until).max(initial=asked_ns))
        waited = ended_ns - asked_ns  # whether as many short attempts or as few long ones
        if len(tried) < ATTEMPTS_MIN or len(np.unique(ops.process[tried])) < 2 or waited <= bound // 2:
            return
        what = (
            f"{leader} was recognised as leader{in_group(self._seen.group)} by a quorum for"
            f" {show_duration(until - since)} ({window.tier}), but none of {len(tried)} writes sent to it succeeded"
        )
        left = self._noise.uncharged(window.members, asked_ns, ended_ns)
        if self._noise.uncharged(window.members, since, until) <= bound or left <= bound // 2:
            self._tally.noisy += 1
            self._tally.by_noise.append(
                unknown_by_noise(what, since, until, self._noise.charged(window.members, since, until))
            )
            return
        self._add(
            window,
            since,
            until,
            f"{what}.",
            certificate=(*ops.seq[tried[:4]].tolist(), inside[0].seq, inside[-1].seq),
        )

    def _add(self, window: Window, lo: Ns, hi: Ns, sentence: str, certificate: tuple[int, ...] = ()) -> None:
        history = self._history
        rows = [row for row in self._seen.asked_within(lo, hi) if row.node in window.members]
        newest: dict[str, int] = {row.node: row.seq for row in rows}
        self._tally.findings.append(
            Finding(
                sentence=sentence,
                certificate=tuple(sorted({*certificate, *list(newest.values())[: 8 - len(certificate)]})),
                nodes=window.members,
                excused=excuses(history, self._promise).liveness(lo, hi),
                data={"lo_ns": lo, "hi_ns": hi, "tier": window.tier, "graph": explain(window.adjacency)},
            )
        )


CHECKER = LeaderWhenOwed()
