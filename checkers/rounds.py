"""What nodes did about leadership, round by round, in their own order; and the votes that they split.

A round is a pre-vote round that was opened (``prevote_started``), or a vote for itself that no won pre-vote round led
to. It was lost if the node opens another one without being elected, acknowledging a leader or seeing one in between.
Rounds that a node reports at the end of a slow sync are dropped unless they are asked for, since what it did meanwhile
was held back, so that its time is unknown. Out of scope: judging.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dethrone.checkers.facts import elections
from dethrone.checkers.traces import traces
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.events import Traced
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.promise import Promise

LATE_NS: Ns = 10 * MS
LATE_SHARE = 10
"""After a slow sync everything that was held back is reported within LATE_NS, or, since what waited may have to be
synced itself, one batch after the other, within this part of the time that the sync took."""


STEPS = traces(
    "prevote_started", "prevote_result", "leader_seen", "fsync_slow", "elected", "acked", "vote", once="acked"
)
"""What ``steps`` reads."""
OWN_VOTES = traces("vote")


def steps(node: str, events: Iterable[Traced], *, late: bool = False) -> Iterator[tuple[Traced, bool]]:
    """What a node did about leadership, in its own order: True for a new round, False for its end in success.

    ``late``: also rounds that are reported at the end of a slow sync, at a time that is not theirs.
    """
    won = False
    late_until: Ns = -1
    for event in events:
        if event.source == "core":
            if event.name == "prevote_started":
                won = False
                if late or event.span.lo > late_until:
                    yield event, True
            elif event.name == "prevote_result" and event.data.get("result") == "won":
                won = True
            elif event.name == "leader_seen" and event.data.get("leader"):
                yield event, False
        elif event.name == "fsync_slow":
            late_until = event.span.hi + max(LATE_NS, int(event.data.get("ms", 0)) * MS // LATE_SHARE)
        elif event.name in ("elected", "acked"):
            yield event, False
        elif stands(event, node):
            if not won and (late or event.span.lo > late_until):
                yield event, True
            won = False


def stands(event: Traced, node: str) -> bool:
    """Whether the node votes for itself here."""
    return event.source == "shell" and event.name == "vote" and event.term > 0 and event.data.get("candidate") == node


def worn_out(history: History, promise: Promise, group: str, nodes: Iterable[str], at: Ns) -> bool:
    """Whether two of the nodes had lost more rounds in a row at this moment than their waits stay random for.

    They may then stand in step for ever. Always False where no such number is promised (``Promise.rounds_random``).
    """
    most = promise.rounds_random
    if most is None:
        return False
    worn = 0
    for node in nodes:
        row = 0
        for event, seeks in steps(node, STEPS(history).get((group, node), ()), late=True):
            if event.span.lo > at:
                break
            row = row + 1 if seeks else 0
        worn += row > most
    return worn > 1


@dataclass(frozen=True, slots=True)
class Contest:
    """A term in which nodes stood: of each its votes for itself; and whether any of them was elected."""

    term: int
    stood: Mapping[str, Sequence[Traced]]
    won: bool

    @property
    def firsts(self) -> list[Traced]:
        """The first vote for itself of each node that stood."""
        return [votes[0] for votes in self.stood.values()]

    @property
    def split(self) -> bool:
        """Whether two or more stood and none was elected."""
        return len(self.stood) > 1 and not self.won


@per_history
def contests(history: History) -> Mapping[str, Sequence[Contest]]:
    """Group → its terms in which nodes stood."""
    stood: dict[tuple[str, int], dict[str, list[Traced]]] = {}
    for (group, node), events in OWN_VOTES(history).items():
        for event in events:
            if stands(event, node):
                stood.setdefault((group, event.term), {}).setdefault(node, []).append(event)
    won = {(fact.group, fact.term) for fact in elections(history)}
    found: dict[str, list[Contest]] = defaultdict(list)
    for (group, term), who in stood.items():
        found[group].append(Contest(term, who, (group, term) in won))
    return found


def split_terms(history: History, group: str, nodes: Iterable[str], within: tuple[Ns, Ns]) -> int:
    """In how many terms of that time two or more of the nodes stood, and no node was elected."""
    (lo, hi), mine = within, set(nodes)
    return sum(
        sum(node in mine and any(lo <= one.span.lo <= hi for one in votes) for node, votes in contest.stood.items()) > 1
        for contest in contests(history).get(group, ())
        if contest.split
    )


def split_wait_ns(history: History, promise: Promise, group: str, nodes: Iterable[str], within: tuple[Ns, Ns]) -> Ns:
    """By how much votes that were split by chance prolong an outage: an election timeout each (``splits_max``)."""
    if not promise.splits_max:
        return 0
    return min(split_terms(history, group, nodes, within), promise.splits_max) * promise.election_timeout_ns
