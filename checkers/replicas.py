"""Logs of all nodes, rebuilt from what their shells witnessed on disk, in one pass over a history.

Gives: where two logs disagree, where a commit went back or beyond its log, which entries are known committed, and each
new leader's log end. Guarantees: linear in the entries, by rolling hashes of prefixes; an entry that nodes share costs
some fifty bytes, not each copy of it; nothing is judged on a log that was not witnessed in that incarnation, nor on a
batch that may still have been on its way to the disk: a follower's commit is compared with its log at its next
acknowledgement, a leader's once its own log has reached it. Out of scope: whose fault it is, and polls.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from dethrone.checkers.base import votes_needed
from dethrone.checkers.calm import LEAST, OWN_TERM, Calm
from dethrone.checkers.dense import Row
from dethrone.checkers.facts import elections
from dethrone.checkers.members import configurations
from dethrone.checkers.replay_state import LAST, Committed, Known, State
from dethrone.checkers.stored_logs import UNKNOWN, LeaderEnd, Prefixes, Regression, Replica
from dethrone.harness.core.chunks import Chunk, Note, by_node
from dethrone.harness.core.history import History, View
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rolling import number

LOGS = frozenset({"elected", "commit", "log_append", "log_kept", "log_truncate", "acked"})
INDEXED = frozenset({"commit", "acked", "vote", "persisted"})
"""Events of which the index is all that is read of their data, if they name one."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two nodes (or one node twice) differ where they must not.

    ``what``: ``log`` (same index and term, another prefix) or ``commit`` (another entry at a committed index).
    """

    what: str
    group: str
    index: int
    term: int
    nodes: tuple[str, str]
    seqs: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of a replay. ``compared``: entries that a second log held as well; ``pinned``: commits whose entries
    are known."""

    disagreements: list[Disagreement]
    regressions: list[Regression]
    ends: list[LeaderEnd]
    appended: int
    compared: int
    commits: int
    pinned: int


class _Replayer:
    """The fold."""

    def __init__(self) -> None:
        self._groups: dict[str, Prefixes] = defaultdict(Prefixes)
        self._replicas: dict[tuple[str, str], Replica] = {}
        self.state = State()
        self._reported: dict[tuple[str, str, int], tuple[tuple[int, int, int, int], Disagreement]] = {}

    def take(self, chunk: Chunk) -> None:
        """Take the next part of the history."""
        for who, _ in by_node(chunk):
            if who not in self._replicas:
                group, node = who
                prefixes = self._groups[group]
                self._replicas[who] = Replica(group, node, len(prefixes.names), prefixes)
                prefixes.names.append(node)
        columns = chunk.logs(LOGS | OWN_TERM)
        if columns is None:
            self._events(chunk, slice(None))
            return
        calm = Calm(self.state, columns, self._replicas)
        for first, end, perhaps in calm.parts():
            if perhaps:
                self._calmly(chunk, calm, first, end)
            else:
                self._events(chunk, slice(first, end))

    def _calmly(self, chunk: Chunk, calm: Calm, first: int, end: int) -> None:
        """At once, or the halves of it."""
        if end - first < LEAST:
            self._events(chunk, slice(first, end))
        elif not calm.take(first, end):
            middle = (first + end) // 2
            self._calmly(chunk, calm, first, middle)
            self._calmly(chunk, calm, middle, end)

    def _events(self, chunk: Chunk, within: slice) -> None:
        for event in chunk.notes(LOGS | OWN_TERM, INDEXED, within):
            self._event(self._replicas[event.group, event.node], event)

    def _event(self, replica: Replica, event: Note) -> None:
        if event.incarnation != replica.incarnation:
            replica.incarnation = event.incarnation
            replica.forget_memory()
        name, shell = event.name, event.shell
        if replica.truncated and shell and name in OWN_TERM:
            self._still_led(replica, event.term)
        if name == "elected":
            self._elected(replica, event)
        elif name == "commit":
            self._commit(replica, event)
        elif shell and name == "log_append":
            self._append(replica, event)
        elif shell and name == "log_truncate":
            self._truncate(replica, event)
        elif shell and name == "log_kept":
            self._kept(replica, event)
        elif shell and name == "acked":
            self._acked(replica, event)
        if shell and name in OWN_TERM:
            replica.own_term = event.term

    def _elected(self, replica: Replica, event: Note) -> None:
        if event.term <= 0:
            return
        replica.led.add(event.term)
        if replica.known and not replica.log.offset:
            end = replica.log.last_before(event.term)
            replica.ends.append(LeaderEnd(event.group, event.node, event.term, end, event.seq))

    def _append(self, replica: Replica, event: Note) -> None:
        entries = (event.data or {}).get("entries")
        if not isinstance(entries, list | tuple):
            return
        replica.known = True
        for item in entries:
            if not isinstance(item, list | tuple) or len(item) != 3:
                continue
            index, term, payload = item
            if type(index) is int and index > 0 and isinstance(term, int) and isinstance(payload, str | int):
                self.state.appended += 1
                self._entry(replica, event, index, term, number(payload))
        if replica.leading is not None and replica.log.end >= replica.leading[0]:
            index, commit = replica.leading
            replica.leading = None
            self._pin(replica, index, commit, leader=True)

    def _entry(self, replica: Replica, event: Note, index: int, term: int, payload: int) -> None:
        log = replica.log
        if term in replica.led:
            last = self.state.own.get((replica.group, replica.node, term))
            if last is None or index > last[0]:  # not what it got back as a follower
                self.state.own[replica.group, replica.node, term] = (index, event.seq)
        before = log.at(index) if index <= log.end else None
        if before is not None and before[0] == term and before[1] == payload:
            self.state.compared += 1  # it was when it was stored first
            return
        roll = log.put(index, term, payload)
        if before is not None and index <= replica.pinned:
            replica.broke_its_commit(event, "replaced an entry that it had committed")
        if roll != UNKNOWN and replica.prefixes.same(index, term, roll, replica.rank):
            self.state.compared += 1  # nearly always
        else:
            self._compare(replica, index, term, (roll, payload, event.seq, replica.rank))

    def _compare(self, replica: Replica, index: int, term: int, mine: tuple[int, int, int, int]) -> None:
        """An entry of this term at this index: the same as the first stored one?"""
        prefixes = replica.prefixes
        shared = prefixes.get(index, term)
        if shared is None:
            prefixes.put(index, term, mine)
            return
        self.state.compared += 1
        roll, payload, seq, rank = mine
        if _differ(shared, mine):
            replica.log.keep(index, roll, payload)
        first = prefixes.rivals.get((index, term), shared)
        if _differ(first, mine):
            self._disagree("log", replica.group, index, term, sorted(((first[3], first[2]), (rank, seq))))
            if rank < first[3]:
                prefixes.rivals[index, term] = mine
        elif rank < first[3] or (first[0] == UNKNOWN and roll != UNKNOWN):
            if first is shared:
                prefixes.put(index, term, mine)
            else:
                prefixes.rivals[index, term] = mine

    def _disagree(self, what: str, group: str, index: int, term: int, nodes: list[tuple[int, int]]) -> None:
        """Keep the lowest index of each kind (and term): what follows it differs because of it."""
        (one, at), (other, seq) = nodes
        key, order = (what, group, term if what == "log" else 0), (index, other, one, seq)
        best = self._reported.get(key)
        if best is None or order < best[0]:
            names = self._groups[group].names
            new = Disagreement(what, group, index, term, (names[one], names[other]), (at, seq))
            self._reported[key] = order, new

    def _kept(self, replica: Replica, event: Note) -> None:
        """A new life found its first entries as its shells had shown them, or so this one says."""
        data = event.data or {}
        count, known = data.get("count"), data.get("hash")
        if type(count) is not int or count <= 0 or not isinstance(known, str):
            return
        replica.known = True
        log = replica.log
        if log.offset or count > log.end or f"{log.prefix(count):016x}" != known:
            log.lose(count)  # lines were lost on the way

    def _truncate(self, replica: Replica, event: Note) -> None:
        start = (event.data or {}).get("from")
        if not isinstance(start, int) or isinstance(start, bool):
            return
        replica.known = True
        if start <= replica.log.end:
            if start <= replica.pinned:
                replica.broke_its_commit(event, "removed an entry that it had committed")
            if replica.own_term is not None and replica.own_term in replica.led:
                replica.truncated.append((len(replica.regressions), replica.own_term, event))
        replica.log.cut(start)

    def _still_led(self, replica: Replica, term: int) -> None:
        """The next event that shows the node's own term, after it truncated its log while it led."""
        for place, led, event in reversed(replica.truncated):
            if led == term:
                what = "removed entries of its log while it led"
                replica.regressions.insert(place, Regression(what, event.group, event.node, event.term, (event.seq,)))
        replica.truncated = []

    def _commit(self, replica: Replica, event: Note) -> None:
        index = event.log_index
        if index is None:
            data = event.data or {}
            index = next((data[key] for key in ("new", "commit") if _number(data.get(key))), None)
        if index is None or index < 0:
            return
        self.state.commits += 1
        if not event.shell:
            if replica.told is not None and index < replica.told[0]:
                before, at = replica.told
                replica.regressed(event, f"went back from commit {before} to {index}", at, event.seq)
            replica.told = (index, event.seq)
        if event.term in replica.led:
            if replica.known and replica.log.end >= index:
                self._pin(replica, index, event, leader=True)
            elif replica.leading is None or index > replica.leading[0]:
                replica.leading = (index, event)
        elif replica.pending is None or index > replica.pending[0]:
            replica.pending = (index, event)

    def _acked(self, replica: Replica, event: Note) -> None:
        if replica.pending is not None:
            index, commit = replica.pending
            replica.pending = None
            end = replica.log.end
            if replica.known and index > end:
                what = f"committed up to {index} although its log ended at {end}"
                replica.regressed(event, what, commit.seq, event.seq, term=commit.term)
            if replica.known:
                self._pin(replica, min(index, end), commit, leader=False)
        stored = event.log_index
        if stored is not None and stored > 0 and event.term > 0:
            acks = self.state.acks[event.group, event.term]
            if stored > acks.get(event.node, (0, 0))[0]:
                acks[event.node] = (stored, event.seq)

    def _pin(self, replica: Replica, index: int, commit: Note, *, leader: bool) -> None:
        """The node committed its log up to ``index``; compare with what any node committed there."""
        log, rank = replica.log, replica.rank
        if not log.offset < index <= log.end:
            return
        self.state.pinned += 1
        if leader and self.state.known.further(commit.group, commit.term, (log.term(index), index, -rank)):
            how = f"{commit.node} committed it as leader"
            one = Committed(commit.group, commit.term, log.term(index), index, how, (commit.seq,))
            self.state.known.add(one, rank=rank)
        committed = self.state.committed[commit.group]
        fresh: list[tuple[int, Row]] = []
        settled = replica.settled()
        for at in range(index, settled, -1):
            mine = log.at(at)
            if mine is None:
                break
            row = (*mine, commit.seq, rank)
            theirs = committed.get(at)
            if theirs is None:
                fresh.append((at, row))
            elif mine[:2] != theirs[:2]:
                nodes = sorted(((theirs[4], theirs[3]), (rank, commit.seq)))
                term = mine[0] if nodes[1][0] == rank else theirs[0]
                self._disagree("commit", commit.group, at, term, nodes)
            elif rank < theirs[4]:
                committed.put(at, row)
        for at, stored in reversed(fresh):  # rows that follow each other cost least
            committed.put(at, stored)
        if index > settled:
            replica.last_settled = index, log.prefix(index)
        if index > replica.pinned:
            replica.pinned, replica.pin_seq = index, commit.seq

    def done(self) -> _Replayer:
        """All parts."""
        return self

    def result(self) -> Replay:
        """What came of it."""
        replicas = self._replicas.values()
        found = sorted(self._reported.values(), key=lambda row: (row[0][1], row[0][3]))
        return Replay(
            disagreements=[one for _, one in found],
            regressions=[one for replica in replicas for one in replica.regressions],
            ends=[one for replica in replicas for one in replica.ends],
            appended=self.state.appended,
            compared=self.state.compared,
            commits=self.state.commits,
            pinned=self.state.pinned,
        )

    def by_acknowledgements(self, history: History, promise: Promise, plan: Plan) -> list[Committed]:
        """Entries of a leader's own term that a quorum, itself included, was witnessed to store."""
        voters = frozenset(plan.voters)
        facts = elections(history)
        if configurations(history) or any(fact.members not in (None, voters) for fact in facts):
            return []  # the members changed; whose acknowledgements counted is not known here
        leaders: dict[tuple[str, int], set[str]] = defaultdict(set)
        for fact in facts:
            leaders[fact.group, fact.term].add(fact.node)
        needed = votes_needed(promise, len(voters))
        out = []
        for (group, term), acks in self.state.acks.items():
            who = leaders.get((group, term), set())
            if len(who) != 1:
                continue
            leader = next(iter(who))
            stored = {node: at for node, at in acks.items() if node in voters and node != leader}
            own = self.state.own.get((group, leader, term))
            if own is not None:
                stored[leader] = own
            ranked = sorted(stored.values(), reverse=True)
            if len(ranked) < needed:
                continue
            index = ranked[needed - 1][0]
            if self._groups[group].get(index, term) is not None:
                seqs = tuple(sorted(seq for at, seq in ranked[:needed]))
                out.append(Committed(group, term, term, index, f"{needed} nodes stored it in that term", seqs))
        return out


class _Acknowledged:
    """Writes whose client received (index, term): known committed."""

    def __init__(self) -> None:
        self._known = Known()

    def take(self, chunk: Chunk) -> None:
        """Take the next part of the history."""
        for seq, group, value in chunk.answers("index"):
            index: Any = value["index"]
            term: Any = value.get("term")
            if _positive(index) and _positive(term) and self._known.further(group, term, (term, index, 0)):
                self._known.add(Committed(group, term, term, index, "a client received the acknowledgement", (seq,)))

    def done(self) -> Known:
        """All parts."""
        return self._known


_replayer: View[_Replayer] = View(_Replayer)
_acknowledged: View[Known] = View(_Acknowledged)
VIEWS: tuple[View[Any], ...] = (_replayer, _acknowledged)


def replay(history: History) -> Replay:
    """The replay of this history."""
    return _replayer(history).result()


def known_committed(history: History, promise: Promise, plan: Plan) -> Known:
    """What is known committed: by leaders, by the acknowledgements of a quorum, and by those that clients received."""
    replayer = _replayer(history)
    known = Known()
    known.join(replayer.state.known)
    for one in replayer.by_acknowledgements(history, promise, plan):
        known.add(one, rank=LAST)
    known.join(_acknowledged(history))
    return known


def _differ(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether entries of one index and term differ: in their prefixes, or, if one is not known, in themselves."""
    known = one[0] != UNKNOWN and other[0] != UNKNOWN
    return one[0] != other[0] if known else one[1] != other[1]


def _number(value: Any) -> bool:
    return type(value) is int


def _positive(value: Any) -> bool:
    return type(value) is int and value > 0
