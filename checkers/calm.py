"""Stretches of a history in which nothing happens to logs but the usual, replayed at once instead of event by event.

The usual: nodes append behind the ends of their logs what is the same everywhere, acknowledge and commit it.
Guarantees: all is afterwards as if event after event had been replayed; a stretch that is not calm is refused, and
nothing is changed. Out of scope: what to do with those (``replicas``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dethrone.checkers.dense import Dense, Patch
from dethrone.checkers.replay_state import Committed, State
from dethrone.checkers.rolled import rolled
from dethrone.checkers.stored_logs import Replica
from dethrone.harness.core.chunks import Note
from dethrone.harness.core.columns import Bools, Codes, Ints, changes
from dethrone.harness.core.log_columns import LogColumns

OWN_TERM = frozenset({"vote", "elected", "acked", "persisted", "commit"})
"""Shell events that carry the node's own term."""
LEAST = 48
"""Events of a stretch that is worth it."""
SPREAD = 4
"""How many times the entries that a stretch adds those may be that it is compared with."""
APPENDED, ACKED, COMMITTED = 1, 2, 3


@dataclass(frozen=True, slots=True)
class _Pins:
    """Commits that are compared with the log, in order: where in the stretch, the index, ``seq`` of the commit."""

    at: Ints
    index: Ints
    seq: Ints


@dataclass(frozen=True, slots=True)
class _Node:
    """What a stretch holds of one node. ``rows``: from index ``first`` on, what it committed for the first time."""

    replica: Replica
    places: Ints
    entries: Ints
    rolls: Ints
    commits: Ints
    mine: Ints
    """Of these the ones of a leader that have an entry."""
    pins: int
    advances: _Pins
    first: int
    rows: Sequence[Ints]
    pending: tuple[int, Note] | None
    """A follower's commit that waits for an acknowledgement behind the stretch."""
    leading: tuple[int, Note] | None
    """A leader's commit that waits for an entry behind it."""


class Calm:
    """The stretches of one chunk."""

    def __init__(self, state: State, table: LogColumns, replicas: Mapping[tuple[str, str], Replica]) -> None:
        self._state, self._table = state, table
        word, code = table.words.word, table.words.code
        pairs = table.group.astype(np.int64) * (len(table.words) + 1) + table.node
        _, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        self._who: Ints = inverse.reshape(-1)
        self._replicas = [
            replicas[word(int(table.group[at])) or "", word(int(table.node[at])) or ""] for at in firsts.tolist()
        ]
        self._kind: Codes = np.zeros(len(table), dtype=np.int32)
        self._kind[(table.name == code("log_append")) & table.shell] = APPENDED
        self._kind[(table.name == code("acked")) & table.shell] = ACKED
        self._kind[table.name == code("commit")] = COMMITTED
        self._own_term = table.words.among(table.name, OWN_TERM) & table.shell
        self._counts: Ints = np.bincount(table.owner, minlength=len(table))
        self._owners = self._who[table.owner]
        self._marks = np.flatnonzero(self._restless())

    def _restless(self) -> Bools:
        """Events that no calm stretch has."""
        table, code = self._table, self._table.words.code
        found: Bools = ~table.plain | (table.name == code("elected"))
        found |= table.words.among(table.name, {"log_truncate", "log_kept"}) & table.shell
        order = np.argsort(self._who, kind="stable")
        who, life = self._who[order], table.incarnation[order]
        begins = changes(who, life)
        lives = [self._replicas[number].incarnation for number in who[begins].tolist()]
        fresh = np.ones(len(begins), dtype=np.bool_)
        for place in np.searchsorted(begins, changes(who)).tolist():
            fresh[place] = lives[place] != life[begins[place]]
        found[order[begins[fresh]]] = True
        return found

    def parts(self) -> Iterator[tuple[int, int, bool]]:
        """All events in parts: from where to where, and whether the part may be calm."""
        borders = [-1, *self._marks.tolist(), len(self._table)]
        first = 0
        for before, mark in pairwise(borders):
            if mark - before > LEAST:
                if before + 1 > first:
                    yield first, before + 1, False
                yield before + 1, mark, True
                first = mark
        if first < len(self._table):
            yield first, len(self._table), False

    def take(self, first: int, end: int) -> bool:
        """Replay these events, if they are calm."""
        who = self._who[first:end]
        order = first + np.argsort(who, kind="stable")
        bounds = [*changes(self._who[order]).tolist(), len(order)]
        lo, hi = np.searchsorted(self._table.owner, (first, end)).tolist()
        nodes = []
        for begin, stop in pairwise(bounds):
            places = order[begin:stop]
            code = int(self._who[places[0]])
            entries = lo + np.flatnonzero(self._owners[lo:hi] == code)
            node = self._node(self._replicas[code], places, entries)
            if node is None:
                return False
            nodes.append(node)
        appended, committed = self._appended(nodes), self._committed(nodes)
        if appended is None or committed is None:
            return False
        for (replica, term), patch in appended.items():
            patch.store()
            replica.prefixes.hold(term, patch.dense)
        for patch in committed:
            patch.store()
        new = sum(len(patch) - patch.held for patch in appended.values())
        self._state.compared += sum(len(node.entries) for node in nodes) - new
        for node in nodes:
            self._apply(node)
        return True

    def _node(self, replica: Replica, places: Ints, entries: Ints) -> _Node | None:
        """What this stretch holds of one node; None: it is not calm."""
        table, log = self._table, replica.log
        if replica.truncated or replica.leading is not None or replica.prefixes.rivals or not log.shared:
            return None
        term, payload = table.entry_term[entries], table.payload[entries]
        rolls = rolled(log.last, term, payload)
        following = log.end + 1 + np.arange(len(entries))
        if not np.array_equal(table.entry_index[entries], following):
            return None
        kind, index = self._kind[places], table.index[places]
        ends = log.end + np.cumsum(self._counts[places])
        known = (np.cumsum(kind == APPENDED) > 0) | replica.known
        commits = np.flatnonzero((kind == COMMITTED) & (index >= 0))
        said = index[commits[~table.shell[places[commits]]]]
        if replica.told is not None:
            said = np.append(replica.told[0], said)
        leads = np.isin(table.term[places[commits]], list(replica.led))
        mine, others = commits[leads], commits[~leads]
        early = mine[ends[mine] < index[mine]]
        if _falls(said) or not bool(known[mine].all()) or _falls(index[early]):
            return None
        kept, stored = _stored(early, index[early], ends)
        waits = kept[stored == len(places)]
        leading = self._noted(replica, places[waits[-1]], int(index[waits[-1]])) if len(waits) else None
        late, stored = kept[stored < len(places)], stored[stored < len(places)]
        acked = np.flatnonzero(kind == ACKED)
        found = self._followed(replica, places, others, acked)
        waiting = found.at == len(acked)
        pending = self._pending(replica, places, found, waiting)
        at, seen = acked[found.at[~waiting]], found.index[~waiting]
        if bool(np.any(known[at] & (seen > ends[at]))):
            return None
        here, mine = known[at] & (seen > 0), mine[(index[mine] > 0) & (ends[mine] >= index[mine])]
        when, mine = np.append(mine, stored), np.append(mine, late)
        pins = _in_order(
            np.append(when, at[here]),
            np.append(index[mine], seen[here]),
            np.append(table.seq[places[mine]], found.seq[~waiting][here]),
        )
        before = np.maximum.accumulate(np.append(replica.pinned, pins.index))[:-1]
        further = pins.index > before
        advances = _Pins(pins.at[further], pins.index[further], pins.seq[further])
        first = replica.settled() + 1
        rows = self._rows(replica, first, advances, (term, payload, rolls))
        if rows is None:
            return None
        return _Node(
            replica, places, entries, rolls, commits, mine, len(pins.at), advances, first, rows, pending, leading
        )

    def _followed(self, replica: Replica, places: Ints, others: Ints, acked: Ints) -> _Pins:
        """Of the commits before each acknowledgement (``at``: which) the first of the furthest."""
        index, seq = self._table.index[places[others]], self._table.seq[places[others]]
        if replica.pending is not None:
            others = np.append(-1, others)
            index, seq = np.append(replica.pending[0], index), np.append(replica.pending[1].seq, seq)
        before = np.searchsorted(acked, others)
        order = np.lexsort((others, -index, before))
        best = order[changes(before[order])]
        return _Pins(before[best], index[best], seq[best])

    def _pending(self, replica: Replica, places: Ints, found: _Pins, waiting: Bools) -> tuple[int, Note] | None:
        """The commit that waits for an acknowledgement behind the stretch."""
        if not bool(waiting.any()):
            return None
        index, seq = int(found.index[waiting][0]), int(found.seq[waiting][0])
        if replica.pending is not None and replica.pending[1].seq == seq:
            return replica.pending
        return self._noted(replica, places[np.searchsorted(self._table.seq[places], seq)], index)

    def _noted(self, replica: Replica, at: int, index: int) -> tuple[int, Note]:
        """The commit at this place."""
        table = self._table
        seq, life, term, shell = (
            int(table.seq[at]),
            int(table.incarnation[at]),
            int(table.term[at]),
            bool(table.shell[at]),
        )
        return index, Note(seq, replica.group, replica.node, life, "commit", term, shell, index, None)

    def _rows(
        self, replica: Replica, first: int, advances: _Pins, fresh: tuple[Ints, Ints, Ints]
    ) -> Sequence[Ints] | None:
        """Of the entries from ``first`` up to the last advance: term, payload, hash of the prefix, ``seq`` of the
        commit. None: they do not stand in arrays."""
        end = int(advances.index[-1]) + 1 if len(advances.index) else first
        if end <= first:
            return ()
        border = replica.log.end + 1
        old = replica.log.rows(first, min(end, border)) if first < border else None
        if first < border and old is None:
            return None
        new = [column[max(0, first - border) : end - border] if end > border else column[:0] for column in fresh]
        rows = new if old is None else [np.concatenate(both) for both in zip(old, new, strict=True)]
        wanted = np.arange(first, end)
        return [*rows, advances.seq[np.searchsorted(advances.index, wanted)]]

    def _appended(self, nodes: Sequence[_Node]) -> dict[tuple[Replica, int], Patch] | None:
        """The entries of all nodes by term (and a node of the group); None: one differs."""
        table = self._table
        added: dict[tuple[str, int], list[tuple[Replica, int, list[Ints]]]] = defaultdict(list)
        for node in nodes:
            entries = node.entries
            bounds = [*changes(table.entry_term[entries]).tolist(), len(entries)]
            for lo, hi in pairwise(bounds):
                some = entries[lo:hi]
                rows = [node.rolls[lo:hi], table.payload[some], table.seq[table.owner[some]]]
                key = (node.replica.group, int(table.entry_term[some[0]]))
                added[key].append((node.replica, int(table.entry_index[some[0]]), rows))
        found = {}
        for (_, term), parts in added.items():
            patch = _patched(parts[0][0].prefixes.dense(term), parts, compared=2)
            if patch is None:
                return None
            found[parts[0][0], term] = patch
        return found

    def _committed(self, nodes: Sequence[_Node]) -> list[Patch] | None:
        """What all nodes committed; None: something differs."""
        added: dict[str, list[tuple[Replica, int, Sequence[Ints]]]] = defaultdict(list)
        for node in nodes:
            if node.rows:
                added[node.replica.group].append((node.replica, node.first, node.rows))
        found = []
        for group, parts in added.items():
            patch = _patched(self._state.committed[group], parts, compared=3)
            if patch is None:
                return None
            found.append(patch)
        return found

    def _apply(self, node: _Node) -> None:
        """One node behind the stretch."""
        state, table, replica, places = self._state, self._table, node.replica, node.places
        entries, log = node.entries, replica.log
        state.appended += len(entries)
        state.commits += len(node.commits)
        state.pinned += node.pins
        terms = table.entry_term[entries]
        for term in set(np.unique(terms).tolist()) & replica.led:
            last = int(entries[np.flatnonzero(terms == term)[-1]])
            key, index = (replica.group, replica.node, term), int(table.entry_index[last])
            if key not in state.own or index > state.own[key][0]:
                state.own[key] = index, int(table.seq[table.owner[last]])
        if len(entries):
            log.extend(int(table.entry_index[entries[0]]), terms, int(node.rolls[-1]))
        replica.known = replica.known or bool(np.any(self._kind[places] == APPENDED))
        said = node.commits[~table.shell[places[node.commits]]]
        if len(said):
            replica.told = int(table.index[places[said[-1]]]), int(table.seq[places[said[-1]]])
        replica.pending, replica.leading = node.pending, node.leading
        advances = node.advances
        if len(advances.index):
            replica.pinned, replica.pin_seq = int(advances.index[-1]), int(advances.seq[-1])
            if node.rows:
                replica.last_settled = replica.pinned, int(node.rows[2][-1])
        self._lead(replica, places[node.mine])
        self._acknowledge(replica, places[self._kind[places] == ACKED])
        own = places[self._own_term[places]]
        if len(own):
            replica.own_term = int(table.term[own[-1]])

    def _lead(self, replica: Replica, places: Ints) -> None:
        """Its commits as leader at these places."""
        known, terms = self._state.known, self._table.term[places]
        for term in np.unique(terms).tolist():
            some = places[terms == term]
            index = self._table.index[some]
            held = replica.log.terms(index)
            best = np.lexsort((some, -index, -held))[0]
            at, entry_term = int(index[best]), int(held[best])
            known.count += len(some) - 1
            if known.further(replica.group, term, (entry_term, at, -replica.rank)):
                how, seq = f"{replica.node} committed it as leader", int(self._table.seq[some[best]])
                known.add(Committed(replica.group, term, entry_term, at, how, (seq,)), rank=replica.rank)

    def _acknowledge(self, replica: Replica, places: Ints) -> None:
        """Its acknowledgements at these places."""
        index, terms = self._table.index[places], self._table.term[places]
        sound = (index > 0) & (terms > 0)
        for term in np.unique(terms[sound]).tolist():
            some = np.flatnonzero(sound & (terms == term))
            best = some[np.argmax(index[some])]
            acks = self._state.acks[replica.group, term]
            if index[best] > acks.get(replica.node, (0, 0))[0]:
                acks[replica.node] = int(index[best]), int(self._table.seq[places[best]])


def _falls(numbers: Ints) -> bool:
    return bool(np.any(numbers[1:] < numbers[:-1]))


def _stored(early: Ints, index: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Of a leader's commits of entries that it had not stored itself, those that are compared with its log, and where
    in the stretch: when its log is long enough (``len(ends)``: behind the stretch), unless one of a higher index came
    before that. ``index``: never falls."""
    at = np.searchsorted(ends, index)
    following = np.searchsorted(index, index, side="right")
    later = np.append(early, len(ends))[following]
    kept = (later >= at) & ~np.append([False], index[1:] == index[:-1])[: len(early)]
    return early[kept], at[kept]


def _in_order(at: Ints, index: Ints, seq: Ints) -> _Pins:
    order = np.argsort(at, kind="stable")
    return _Pins(at[order], index[order], seq[order])


def _patched(dense: Dense, parts: Sequence[tuple[Replica, int, Sequence[Ints]]], *, compared: int) -> Patch | None:
    """These rows with what is there; None: some differ, or cannot stand in arrays."""
    first = min(begin for _, begin, _ in parts)
    end = max(begin + len(rows[0]) for _, begin, rows in parts)
    if end - first > SPREAD * sum(len(rows[0]) for _, _, rows in parts) + 4096:
        return None
    patch = Patch(dense, first, end, compared=compared)
    sound = patch.fits and all(patch.add(begin, rows, replica.rank) for replica, begin, rows in parts) and patch.whole
    return patch if sound else None
