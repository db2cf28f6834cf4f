"""leader-stability: a working leader stays while no fault touches it or its quorum; and, with pre-vote, no node raises
its term without having won a pre-vote round.

Two rules, each only where the realised faults leave no doubt:

* *deposed*: a quorum W that holds the leader was a clique over clean links, its nodes and clocks untouched, for at
  least B before the leader was still seen leading term T with all of W naming it; and then a node leads a higher term
  while W is untouched still. Faults of others, and their heals, do not touch W. Exempt: a leader that a fault had
  asked, in that term, to hand over (``dethrone.checkers.asked``); a node had opened, and won, a pre-vote round for the
  higher term before W followed that leader (it deposes once, when it returns); without traces, any voter outside W.
* *raised*: with pre-vote, a node that certainly hears no node rises in term after two election timeouts of that; no
  node can have granted it a round, or sent it the term. Exempt: its disk held back what it had received.

Unknown, never fail: a change at which noise of W is charged (``dethrone.checkers.noise``): a stretch that began before
the next leader was elected and ended no more than one election round before the old one was last seen leading, a node
of W stood for election, or the next one can have won, whichever came first; an older stretch explains nothing. (A
leader that steps down because of noise leaves an election behind that may take several rounds.) The same holds for each
rise of a term. Out of scope: leaders that never worked for B.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import attrgetter

from dethrone.checkers.asked import asked_of
from dethrone.checkers.base import Base, votes_needed
from dethrone.checkers.excuses import excuses
from dethrone.checkers.facts import elections, groups, in_group
from dethrone.checkers.graph import Timeline, timeline
from dethrone.checkers.noise import Disturbance, certain, disturbance, unknown_by_noise
from dethrone.checkers.recognition import Key, Recognition, recognition
from dethrone.checkers.step_down_without_quorum import deaf_stretches
from dethrone.checkers.traces import traces
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.events import Observed, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.core.views import columns

STOOD = traces("prevote_started", "prevote_result", "vote", "persisted")
"""What ``campaigns`` reads."""
SLOW_SYNCS = traces("fsync_slow")
_END = attrgetter("hi")


@dataclass(frozen=True, slots=True)
class Lead:
    """First evidence that a node leads this term: certainly not before ``lo``, certainly by ``hi``."""

    leader: str
    term: int
    lo: Ns
    hi: Ns
    seq: int


@dataclass(frozen=True, slots=True)
class Campaign:
    """``node`` stood in ``term``. ``won``: a pre-vote round for it was won; ``opened``: when that round began."""

    node: str
    term: int
    won: bool
    opened: Ns


class LeaderStability(Base):
    name = "leader-stability"
    version = "3"
    kind = "liveness"
    channels = ("observed",)
    views = (columns, STOOD, SLOW_SYNCS)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        noise = disturbance(history, promise, plan)
        line = timeline(history, promise, plan)
        findings: list[Finding] = []
        by_noise: list[str] = []
        judged = exempt = isolated = 0
        for group in groups(history):
            judge = _Judge(history, promise, plan, line, recognition(history, promise, plan, group))
            for deposed in judge.changes():
                hosts = line.names(deposed.quorum)
                excusing = judge.exemption(deposed)
                if excusing is not None:
                    exempt += 1
                elif noise.within(hosts, since := judge.not_before(deposed, hosts), deposed.after.hi):
                    lost = f"{deposed.leader} lost its term {deposed.term} to {deposed.after.leader}"
                    since, until = since - promise.election_timeout_ns, deposed.after.hi
                    by_noise.append(unknown_by_noise(lost, since, until, noise.charged(hosts, since, until)))
                else:
                    findings.append(judge.finding(deposed))
            judged += judge.stable_leads()
            if promise.pre_vote:
                found, seen = judge.raised(noise, by_noise)
                findings += found
                isolated += seen
        findings, blind = certain(noise, findings)
        return self.conclude(
            history,
            findings=findings,
            judged=judged,
            nothing=f"no leader worked for {show_duration(promise.leader_bound_ns)} with an untouched quorum",
            evidence={"untouched_leaderships": judged, "exempt": exempt, "isolated_nodes_watched": isolated},
            doubts=blind,
            noise=by_noise,
        )


@dataclass(frozen=True, slots=True)
class Deposed:
    """A leader that lost its term although its quorum was untouched."""

    leader: str
    term: int
    quorum: int
    quiet_since: Ns
    seen: Observed
    after: Lead


class _Judge:
    """One group."""

    def __init__(self, history: History, promise: Promise, plan: Plan, line: Timeline, seen: Recognition) -> None:
        self._history = history
        self._promise = promise
        self._plan = plan
        self._line = line
        self._seen = seen
        self._group = seen.group
        self._needed = votes_needed(promise, len(plan.voters))
        self._stood: list[Campaign] | None = None
        self._known: dict[tuple[int, Ns], Ns | None] = {}
        self._naming: dict[Key, dict[str, Ns]] = defaultdict(dict)
        """(leader, term) → voter → when its first poll that names it was answered."""
        self._leading: dict[tuple[str, int], list[int]] = defaultdict(list)
        """(leader, term) → the places of its polls among those of the group."""
        self._firsts: dict[int, Lead] = {}
        """Term → who led it first."""
        fields = ("node", "leads", "leader", "term", "lo", "hi", "seq")
        rows = seen.polls.numbers(0, len(seen.polls), *fields)
        for place, (code, leads, other, term, lo, hi, seq) in enumerate(rows):
            if term <= 0:
                continue
            node = seen.word(code) or ""
            who = node if leads else seen.word(other)
            if who:
                self._naming[who, term].setdefault(node, hi)
            if leads:
                self._leading[node, term].append(place)
                if term not in self._firsts:
                    self._firsts[term] = Lead(node, term, lo, hi, seq)

    def stable_leads(self) -> int:
        """Leaderships that worked for B with an untouched quorum: those that rule one could judge."""
        ends = self._seen.polls.column("hi")
        return sum(
            self._worked(leader, term, places, int(ends[places[-1]])) is not None
            for (leader, term), places in self._leading.items()
        )

    def changes(self) -> list[Deposed]:
        """Leaderships that ended by a higher term although their quorum was untouched."""
        leads = sorted(self._leads(), key=_when)
        ends, asked = self._seen.polls.column("hi"), self._seen.polls.column("lo")
        out = []
        for (leader, term), places in self._leading.items():
            since = bisect.bisect_right(leads, int(ends[places[0]]), key=_END)
            after = next((lead for lead in islice(leads, since, None) if lead.term > term), None)
            if after is None:
                continue
            found = self._worked(leader, term, [place for place in places if asked[place] < after.hi], after.hi)
            if found is not None:
                seen, quorum, since = found
                out.append(Deposed(leader, term, quorum, since, seen, after))
        return out

    def _worked(self, leader: str, term: int, places: list[int], until: Ns) -> tuple[Observed, int, Ns] | None:
        """The last poll at which this leader certainly worked, its largest untouched quorum, and since when that is."""
        followers = self._naming[leader, term]
        lead = self._line.mask([leader])
        for row in map(self._seen.polls.at, reversed(places[-200:])):
            names = [voter for voter, at in followers.items() if at <= row.span.hi]
            everyone = self._line.mask([*names, leader])
            for quorum in _subsets(everyone, self._needed):
                since = self._since(quorum, until) if quorum & lead else None
                if since is not None and row.span.lo - since >= self._promise.leader_bound_ns:
                    return row, quorum, since
        return None

    def _since(self, mask: int, until: Ns) -> Ns | None:
        key = (mask, until)
        if key not in self._known:
            self._known[key] = self._line.clique_since(mask, until)
        return self._known[key]

    def _leads(self) -> list[Lead]:
        first: dict[int, Lead] = {}
        found = [
            Lead(fact.node, fact.term, fact.event.span.lo, fact.event.span.hi, fact.event.seq)
            for fact in elections(self._history)
            if fact.group == self._group
        ]
        if self._promise.leader_bound_to_term:
            found += self._firsts.values()
        for lead in found:
            if lead.term not in first or lead.hi < first[lead.term].hi:
                first[lead.term] = lead
        return list(first.values())

    def not_before(self, deposed: Deposed, inside: Sequence[str]) -> Ns:
        """The earliest moment at which this change can have begun: until then the old leader was seen leading, no node
        ``inside`` stood for election, and the next leader was polled in an earlier term."""
        after, polls = deposed.after, self._seen.polls
        asked = polls.column("lo")
        earlier = polls.of_node(after.leader) & (polls.column("term") < after.term)
        won = int(asked[earlier & (polls.column("hi") <= after.hi)].max(initial=deposed.quiet_since))
        led = [lo for place in self._leading[deposed.leader, deposed.term] if (lo := int(asked[place])) < after.hi]
        stood = [
            one.opened
            for one in self._campaigns()
            if one.node in inside and deposed.term < one.term <= after.term and one.opened > deposed.quiet_since
        ]
        return min(after.lo, won, led[-1], *stood)

    # --- the exemption --------------------------------------------------------------------------------------------

    def exemption(self, deposed: Deposed) -> str | None:
        """Why this change may have been honest."""
        began = int(self._seen.polls.column("lo")[self._leading[deposed.leader, deposed.term][0]])
        asked = asked_of(self._history, deposed.leader, began, deposed.after.hi)
        if asked is not None:
            return f"{deposed.leader} had been asked to hand over (fault {asked.fault})"
        if not self._promise.pre_vote:
            return None
        inside = self._line.names(deposed.quorum)
        if "witness" not in self._plan.observable:
            outside = [voter for voter in self._plan.voters if voter not in inside]
            return f"{', '.join(outside)} may have raised a term unseen" if outside else None
        naming = self._naming[deposed.leader, deposed.term]
        followed = max(naming[voter] for voter in inside if voter in naming)
        settled = max(followed, deposed.quiet_since + 2 * self._promise.election_timeout_ns)
        for stood in self._campaigns():
            if stood.won and deposed.term < stood.term <= deposed.after.term and stood.opened <= settled:
                return f"{stood.node} had won a pre-vote round for term {stood.term}"
        return None

    def _campaigns(self) -> list[Campaign]:
        """Who stood in which term, with or without a won pre-vote round."""
        if self._stood is None:
            self._stood = [
                campaign
                for (group, node), events in STOOD(self._history).items()
                if group == self._group
                for campaign in campaigns(node, events)
            ]
        return self._stood

    def finding(self, deposed: Deposed) -> Finding:
        """The finding for a deposed leader."""
        after = deposed.after
        names = ", ".join(self._line.names(deposed.quorum))
        who = "it itself" if after.leader == deposed.leader else after.leader
        first = self._seen.polls.at(self._leading[deposed.leader, deposed.term][0])
        return Finding(
            sentence=(
                f"{deposed.leader} led term {deposed.term}{in_group(self._group)} with {names}, which no fault had"
                f" touched for {show_duration(after.hi - deposed.quiet_since)}, and was deposed: {who} then led term"
                f" {after.term}."
            ),
            certificate=tuple(sorted({first.seq, deposed.seen.seq, after.seq})),
            nodes=(deposed.leader, after.leader),
            term=deposed.term,
            excused=excuses(self._history, self._promise).liveness(deposed.quiet_since, after.hi),
        )

    # --- rule two -------------------------------------------------------------------------------------------------

    def raised(self, noise: Disturbance, by_noise: list[str]) -> tuple[list[Finding], int]:
        """Nodes that rose in term while they certainly heard no node; and how many such nodes were watched.

        A rise at which noise is charged may be of a term that the node received before: that is added to ``by_noise``.
        """
        findings: list[Finding] = []
        watched = 0
        patience = max(self._promise.election_timeout_ns, self._promise.noise_max_ns) * 2
        for alone in deaf_stretches(self._line, self._needed):
            if not self._hears_nobody(alone.node, alone.lo, alone.hi):
                continue
            rows = [
                row
                for row in self._seen.asked_within(alone.lo + patience, alone.hi - 1)
                if row.node == alone.node and row.term > 0
            ]
            if len(rows) < 2:
                continue
            watched += 1
            first, last = rows[0], rows[-1]
            if last.term <= first.term or last.incarnation != first.incarnation:
                continue
            if self._held_back(alone.node, alone.lo + patience, last.span.hi):
                continue
            rises = [(one, two) for one, two in pairwise(rows) if two.term > one.term]
            if all(noise.within((alone.node,), one.span.lo, two.span.hi) for one, two in rises):
                said = f"{alone.node} raised its term from {first.term} to {last.term} while it heard no other node"
                charged = noise.charged((alone.node,), alone.lo, last.span.hi)
                by_noise.append(unknown_by_noise(said, alone.lo, last.span.hi, charged))
                continue
            findings.append(
                Finding(
                    sentence=(
                        f"{alone.node} raised its term from {first.term} to {last.term} while it heard no other node"
                        f"{in_group(self._group)}, so it cannot have won a pre-vote round."
                    ),
                    certificate=(first.seq, last.seq),
                    nodes=(alone.node,),
                    term=last.term,
                    excused=excuses(self._history, self._promise).liveness(alone.lo, last.span.hi),
                )
            )
        return findings, watched

    def _held_back(self, node: str, lo: Ns, hi: Ns) -> bool:
        """Whether a slow sync that began before ``lo`` ended in [lo, hi]: what was stored then was received before."""
        return any(
            event.name == "fsync_slow"
            and lo <= event.span.hi <= hi
            and event.span.lo - int(event.data.get("ms", 0)) * MS < lo
            for event in SLOW_SYNCS(self._history).get((self._group, node), ())
        )

    def _hears_nobody(self, node: str, lo: Ns, hi: Ns) -> bool:
        bit = self._line.voters.index(node)
        others = ((1 << len(self._line.voters)) - 1) & ~(1 << bit)
        inside = [interval for interval in self._line.intervals if interval.lo < hi and interval.hi > lo]
        return all(interval.adjacency.hears(bit)[0] == others for interval in inside)


def _when(lead: Lead) -> tuple[Ns, int]:
    return lead.hi, lead.term


def campaigns(node: str, events: Sequence[Traced]) -> list[Campaign]:
    """The campaigns of one node, from its trace in its own order: its votes for itself, sent or stored."""
    out: list[Campaign] = []
    stood: set[int] = set()
    won = False
    opened: Ns = 0
    for event in events:
        if event.name == "prevote_started":
            opened = event.span.lo
        elif event.name == "prevote_result" and event.data.get("result") == "won":
            won = True
        elif event.source == "shell" and (
            (event.name == "vote" and event.data.get("candidate") == node)
            or (event.name == "persisted" and event.data.get("voted_for") == node)
        ):
            if event.term in stood:
                continue
            out.append(Campaign(node, event.term, won, min(opened, event.span.lo) if won else event.span.lo))
            stood.add(event.term)
            won = False
    return out


def _subsets(mask: int, least: int) -> list[int]:
    """All parts of this mask with at least that many members, the largest first (voters are few)."""
    out = []
    part = mask
    while part:
        if part.bit_count() >= least:
            out.append(part)
        part = (part - 1) & mask
    return sorted(out, key=lambda one: -one.bit_count())


CHECKER = LeaderStability()
