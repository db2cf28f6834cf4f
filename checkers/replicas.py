"""Logs of all nodes, rebuilt from what their shells witnessed on disk, replayed once a history.

Gives: where two logs disagree, where a commit went back or beyond its log, which entries are known committed, and each
new leader's log end. Guarantees: O(entries) by rolling prefix hashes; nothing is judged on a log that was not witnessed
in that incarnation, nor on a batch that may still have been on its way to the disk: a follower's commit is compared
with its log at its next acknowledgement, a leader's once its own log has reached it. Out of scope: whose fault it is,
and polls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dethrone.checkers.base import votes_needed
from dethrone.checkers.facts import election, elections, traces
from dethrone.checkers.members import configurations
from dethrone.harness.core.events import Return, Traced
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise

Entry = tuple[int, Any]
"""(term, payload hash)."""


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
class Regression:
    """One node's commit or log went where it must not. ``seqs``: the events that show it."""

    what: str
    group: str
    node: str
    term: int
    seqs: tuple[int, ...]


class Committed(msgspec.Struct, frozen=True):
    """The entry (``entry_term``, ``index``) is known committed in ``term``; ``how`` is for people."""

    group: str
    term: int
    entry_term: int
    index: int
    how: str
    seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LeaderEnd:
    """The log end (term, index) with which ``node`` became leader of ``term``: its last entry of an older term."""

    group: str
    node: str
    term: int
    end: tuple[int, int]
    seq: int


@dataclass(slots=True)
class Replay:
    """What came of a replay."""

    disagreements: list[Disagreement] = field(default_factory=list)
    regressions: list[Regression] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    ends: list[LeaderEnd] = field(default_factory=list)
    appended: int = 0
    compared: int = 0
    """Entries that a second log held as well."""
    commits: int = 0
    pinned: int = 0
    """Commits whose entries are known."""


@per_history
def replay(history: History, promise: Promise, plan: Plan) -> Replay:
    """The replay of this history; it depends on promise and plan through the quorum only."""
    out = _Replayer(history)
    for (group, node), events in traces(history).items():
        out.run(group, node, events)
    out.result.committed += out.by_acknowledgements(promise, plan)
    return out.result


def acknowledged(history: History) -> list[Committed]:
    """Writes whose client received (index, term): known committed."""
    out = []
    for back in history.of(Return):
        if back.status != "ok" or not isinstance(back.value, Mapping):
            continue
        index: Any = back.value.get("index")
        term: Any = back.value.get("term")
        if _positive(index) and _positive(term):
            out.append(Committed(back.group, term, term, index, "a client received the acknowledgement", (back.seq,)))
    return out


class _Replica:
    """One node's log, as far as it is known: entries behind ``offset``, with rolling hashes of their prefixes."""

    def __init__(self) -> None:
        self.offset = 0
        self.log: list[Entry] = []
        self.rolls: list[int | None] = []
        self.forget_memory()

    def forget_memory(self) -> None:
        """A new incarnation begins."""
        self.known = False
        """Whether anything of the log was witnessed in this incarnation."""
        self.led: set[int] = set()
        self.told: tuple[int, int] | None = None
        """The core's last commit: (index, seq)."""
        self.pinned = 0
        self.pin_seq = -1
        self.pending: tuple[int, Traced] | None = None
        self.leading: tuple[int, Traced] | None = None
        """A leader's commit that its own log has not reached yet."""

    @property
    def end(self) -> int:
        """The last index."""
        return self.offset + len(self.log)

    def at(self, index: int) -> Entry | None:
        """The entry at this index, if known."""
        position = index - self.offset - 1
        return self.log[position] if 0 <= position < len(self.log) else None

    def roll(self, index: int) -> int | None:
        """The hash of the prefix up to this index, if known."""
        if index == 0:
            return 0
        position = index - self.offset - 1
        return self.rolls[position] if 0 <= position < len(self.rolls) else None

    def cut(self, start: int) -> None:
        """Drop everything from this index on."""
        keep = max(0, start - self.offset - 1)
        del self.log[keep:]
        del self.rolls[keep:]

    def put(self, index: int, entry: Entry) -> None:
        """Store an entry; one that differs replaces the rest of the log, a gap makes everything before it unknown."""
        end = self.offset + len(self.log)
        if index == end + 1 and end > self.offset:  # nearly always: the next one
            before = self.rolls[-1]
        else:
            if index <= self.offset or index > end + 1:
                self.offset, self.log, self.rolls = index - 1, [], []
            elif index <= end:
                if self.at(index) == entry:
                    return
                self.cut(index)
            before = self.roll(index - 1)
        self.log.append(entry)
        self.rolls.append(None if before is None else hash((before, entry)))


class _Replayer:
    def __init__(self, history: History) -> None:
        self.result = Replay()
        self._history = history
        self._entries: dict[tuple[str, int, int], tuple[int | None, Any, int, str]] = {}
        """(group, index, term) → (rolling hash, payload hash, seq, node) of its first appearance."""
        self._committed: dict[tuple[str, int], tuple[Entry, int | None, int, str]] = {}
        self._acks: dict[tuple[str, int], dict[str, tuple[int, int]]] = defaultdict(dict)
        """(group, term) → node → (index stored up to, seq)."""
        self._own: dict[tuple[str, str, int], tuple[int, int]] = {}
        """(group, node, term) → (last index of that term that it stored in the life in which it led it, seq)."""
        self._reported: dict[tuple[str, str, int], Disagreement] = {}

    def run(self, group: str, node: str, events: list[Traced]) -> None:
        """Replay one node's events in its own order."""
        replica = _Replica()
        incarnation: int | None = None
        for position, event in enumerate(events):
            if event.incarnation != incarnation:
                incarnation = event.incarnation
                replica.forget_memory()
            if event.name == "elected":
                self._elected(replica, event)
            elif event.name == "commit":
                self._commit(replica, event)
            elif event.source != "shell":
                continue
            elif event.name == "log_append":
                self._append(replica, group, node, event)
            elif event.name == "log_truncate":
                self._truncate(replica, event, events, position)
            elif event.name == "acked":
                self._acked(replica, event)

    def _elected(self, replica: _Replica, event: Traced) -> None:
        fact = election(event)
        if fact is None:
            return
        replica.led.add(fact.term)
        if not replica.known or replica.offset:
            return
        position = len(replica.log)
        while position and replica.log[position - 1][0] >= fact.term:
            position -= 1
        end = (replica.log[position - 1][0], position) if position else (0, 0)
        self.result.ends.append(LeaderEnd(fact.group, fact.node, fact.term, end, event.seq))

    def _append(self, replica: _Replica, group: str, node: str, event: Traced) -> None:
        entries = event.data.get("entries")
        if not isinstance(entries, list | tuple):
            return
        replica.known = True
        own, seq = self._own, event.seq
        self.result.appended += len(entries)
        for item in entries:
            if not isinstance(item, list | tuple) or len(item) != 3:
                self.result.appended -= 1
                continue
            index, term, payload = item
            if not (type(index) is int and index > 0 and isinstance(term, int) and isinstance(payload, str | int)):
                self.result.appended -= 1
                continue
            entry = (term, payload)
            before = replica.at(index)
            replica.put(index, entry)
            if before is not None and before != entry and index <= replica.pinned:
                self._regressed(replica, event, "replaced an entry that it had committed")
            if term in replica.led:
                last = own.get((group, node, term))
                if last is None or index > last[0]:  # not what it got back as a follower
                    own[group, node, term] = (index, seq)
            self._compare((group, index, term), (replica.roll(index), payload, seq, node))
        if replica.leading is not None and replica.end >= replica.leading[0]:
            index, commit = replica.leading
            replica.leading = None
            self._pin(replica, index, commit, leader=True)

    def _compare(self, where: tuple[str, int, int], found: tuple[int | None, Any, int, str]) -> None:
        """An entry at (group, index, term): the same as the first stored one?"""
        known = self._entries.get(where)
        if known is None:
            self._entries[where] = found
            return
        self.result.compared += 1
        roll, payload, seq, node = found
        other, other_payload, at, other_node = known
        if other is None or roll is None:
            if other is None and roll is not None:
                self._entries[where] = found
            same = payload == other_payload
        else:
            same = other == roll
        if not same:
            group, index, term = where
            self._disagree(Disagreement("log", group, index, term, (other_node, node), (at, seq)))

    def _disagree(self, new: Disagreement) -> None:
        """Keep the lowest index of each kind (and term): what follows it differs because of it."""
        key = (new.what, new.group, new.term if new.what == "log" else 0)
        old = self._reported.get(key)
        if old is None or new.index < old.index:
            self._reported[key] = new
            if old is not None:
                self.result.disagreements.remove(old)
            self.result.disagreements.append(new)

    def _truncate(self, replica: _Replica, event: Traced, events: list[Traced], position: int) -> None:
        start = event.data.get("from")
        if not isinstance(start, int) or isinstance(start, bool):
            return
        replica.known = True
        if start <= replica.end:
            if start <= replica.pinned:
                self._regressed(replica, event, "removed an entry that it had committed")
            if _still_leads(replica, events, position):
                self._regressed(replica, event, "removed entries of its log while it led")
        replica.cut(start)

    def _commit(self, replica: _Replica, event: Traced) -> None:
        data = event.data
        index = data.get("index")
        if not _number(index):
            index = next((data[key] for key in ("new", "commit") if _number(data.get(key))), None)
        if index is None or index < 0:
            return
        self.result.commits += 1
        if event.source == "core":
            if replica.told is not None and index < replica.told[0]:
                self.result.regressions.append(
                    Regression(
                        f"went back from commit {replica.told[0]} to {index}",
                        event.group,
                        event.node,
                        event.term,
                        (replica.told[1], event.seq),
                    )
                )
            replica.told = (index, event.seq)
        if event.term in replica.led:
            if replica.known and replica.end >= index:
                self._pin(replica, index, event, leader=True)
            elif replica.leading is None or index > replica.leading[0]:
                replica.leading = (index, event)
        elif replica.pending is None or index > replica.pending[0]:
            replica.pending = (index, event)

    def _acked(self, replica: _Replica, event: Traced) -> None:
        if replica.pending is not None:
            index, commit = replica.pending
            replica.pending = None
            if replica.known and index > replica.end:
                self.result.regressions.append(
                    Regression(
                        f"committed up to {index} although its log ended at {replica.end}",
                        event.group,
                        event.node,
                        commit.term,
                        (commit.seq, event.seq),
                    )
                )
            if replica.known:
                self._pin(replica, min(index, replica.end), commit, leader=False)
        stored: Any = event.data.get("index")
        if _positive(stored) and event.term > 0:
            acks = self._acks[event.group, event.term]
            if stored > acks.get(event.node, (0, 0))[0]:
                acks[event.node] = (stored, event.seq)

    def _pin(self, replica: _Replica, index: int, commit: Traced, *, leader: bool) -> None:
        """The node committed its log up to ``index``; compare with what any node committed there."""
        entry = replica.at(index)
        if entry is None:
            return
        self.result.pinned += 1
        if leader:
            how = f"{commit.node} committed it as leader"
            self.result.committed.append(Committed(commit.group, commit.term, entry[0], index, how, (commit.seq,)))
        for at in range(index, replica.pinned, -1):
            mine = replica.at(at)
            if mine is None:
                break
            roll = replica.roll(at)
            known = self._committed.get((commit.group, at))
            if known is None:
                self._committed[commit.group, at] = (mine, roll, commit.seq, commit.node)
                continue
            theirs, their_roll, seq, node = known
            if mine != theirs:
                self._disagree(
                    Disagreement("commit", commit.group, at, mine[0], (node, commit.node), (seq, commit.seq))
                )
            elif roll is not None and roll == their_roll:
                break
        if index > replica.pinned:
            replica.pinned, replica.pin_seq = index, commit.seq

    def _regressed(self, replica: _Replica, event: Traced, what: str) -> None:
        seqs = (replica.pin_seq, event.seq) if replica.pin_seq >= 0 and "committed" in what else (event.seq,)
        self.result.regressions.append(Regression(what, event.group, event.node, event.term, seqs))

    def by_acknowledgements(self, promise: Promise, plan: Plan) -> list[Committed]:
        """Entries of a leader's own term that a quorum, itself included, was witnessed to store."""
        voters = frozenset(plan.voters)
        facts = elections(self._history)
        if configurations(self._history) or any(fact.members not in (None, voters) for fact in facts):
            return []  # the members changed; whose acknowledgements counted is not known here
        leaders: dict[tuple[str, int], set[str]] = defaultdict(set)
        for fact in facts:
            leaders[fact.group, fact.term].add(fact.node)
        needed = votes_needed(promise, len(voters))
        out = []
        for (group, term), acks in self._acks.items():
            who = leaders.get((group, term), set())
            if len(who) != 1:
                continue
            leader = next(iter(who))
            stored = {node: at for node, at in acks.items() if node in voters and node != leader}
            own = self._own.get((group, leader, term))
            if own is not None:
                stored[leader] = own
            ranked = sorted(stored.values(), reverse=True)
            if len(ranked) < needed:
                continue
            index = ranked[needed - 1][0]
            if (group, index, term) in self._entries:
                seqs = tuple(sorted(seq for at, seq in ranked[:needed]))
                out.append(Committed(group, term, term, index, f"{needed} nodes stored it in that term", seqs))
        return out


def _still_leads(replica: _Replica, events: list[Traced], position: int) -> bool:
    """Whether the node certainly led one term both before and after this event."""
    incarnation = events[position].incarnation
    before = _own_term(events, range(position - 1, -1, -1), incarnation)
    after = _own_term(events, range(position + 1, len(events)), incarnation)
    return before is not None and before == after and before in replica.led


def _own_term(events: list[Traced], positions: range, incarnation: int) -> int | None:
    """The term that the nearest event shows which carries the node's own."""
    for position in positions:
        event = events[position]
        if event.incarnation != incarnation:
            return None
        if event.source == "shell" and event.name in {"vote", "elected", "acked", "persisted", "commit"}:
            return event.term
    return None


def _number(value: Any) -> bool:
    return type(value) is int


def _positive(value: Any) -> bool:
    return type(value) is int and value > 0
