"""Votes, elections, acknowledgements and log ends of one node, read off its wire and its disk, group by group.

* ``vote``: a granted answer to a request that was no pre-vote leaves; and a node's vote for itself, when its vote
  request leaves while its metadata on disk names it in that term. A request that leaves without that is no vote: a late
  send task asks in terms in which the node is no candidate (JQ-B3).
* ``elected``: the first append or heartbeat of a term that names this node as leader. Voters are those whose granted
  answers to VOTE requests of that term arrived, and the node itself if it asked in that term or its metadata names it.
  Answers to pre-votes look the same on the wire; they are told apart by the ids of the requests.
* ``acked``: a successful answer to a request WITH entries. A heartbeat's answer compares nothing.
* ``found``: the metadata as a new incarnation finds it; of a group without any file, with its first write.
* ``answered``: once a term, where no vote, acknowledgement or election of that term told it already.

Promises: it sees what was really sent, received and carried out; every table is bounded. ``persisted`` needs the rename
AND its fsync. Where a node has several groups, each event says which in ``data["group"]``. Leaves out a group of one
node (it sends nothing), and rules: it imports messages and the storage format only.

Source: specification of JoyQueue's ``RaftLeaderElection``, §4 and §6 (JQ-B1, JQ-B2: elections without votes).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.protocols.joyqueue.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    VoteRequest,
    VoteResponse,
)
from clusters.protocols.joyqueue.storage import (
    LOG,
    METADATA,
    TEMPORARY,
    Stored,
    label_of,
    read_metadata,
)
from clusters.protocols.kit.files import Unreadable, digest, file_of, split_log
from harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Unlink, Witnessed, Write

OPEN_MAX = 1024
"""Requests of one kind that wait for their answers; the oldest are forgotten."""


class _Group:
    """What is seen of one partition group within one incarnation."""

    __slots__ = (
        "acked",
        "answered",
        "asked",
        "commit",
        "damaged",
        "ends",
        "found",
        "grants",
        "label",
        "led",
        "renamed",
        "temporary",
        "voted",
    )

    def __init__(self, label: str) -> None:
        self.label = label
        self.found = False
        self.answered = 0
        self.grants: dict[int, set[str]] = {}
        self.asked: set[int] = set()
        self.voted: set[tuple[int, str]] = set()
        self.led = -1
        self.acked = (-1, -1)
        self.commit = 0
        self.ends: list[int] = []
        self.damaged = False
        self.temporary: Stored | None = None
        self.renamed: Stored | None = None

    def says(self, name: str, term: int, data: Mapping[str, Any]) -> Witnessed:
        return Witnessed(name, term, {**data, "group": self.label} if self.label else data)


class JoyQueueWitness:
    """The witness of one node, whatever the number of its groups."""

    __slots__ = ("_appends", "_groups", "_node", "_requests", "_sent")

    def __init__(self, node: str) -> None:
        self._node = node
        self._forget()

    def _forget(self) -> None:
        """What a process loses when it ends."""
        self._groups: dict[str, _Group] = {}
        self._sent: dict[int, tuple[str, int]] = {}
        """Own vote requests: id → (group, term)."""
        self._requests: dict[tuple[str, int], int] = {}
        """Vote requests of others, no pre-votes: (sender, id) → term."""
        self._appends: dict[tuple[str, int], None] = {}
        """Requests of others with entries: (sender, id)."""

    def _group(self, name: str) -> _Group:
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = _Group(label_of(name))
        return found

    # --- the disk -------------------------------------------------------------------------------------------------

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: the logs on its disk. Its votes are ``persisted`` once the node synced them again."""
        self._forget()
        out: list[Witnessed] = []
        for name in sorted({path.rpartition("/")[0] for path in disk}):
            group = self._group(name)
            out.append(_found(group, disk.get(f"{name}/{METADATA}")))
            if f"{name}/{LOG}" in disk:
                out += _boot_log(group, disk, f"{name}/{LOG}")
        return out

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch was carried out."""
        out: list[Witnessed] = []
        for op in ops:
            path = op.dst if isinstance(op, Rename) else op.path
            name, _, file = path.rpartition("/")
            group = self._group(name)
            if not group.found:
                out.append(_found(group, None))
            if isinstance(op, Write):
                if file == LOG:
                    out += _wrote_log(group, op)
                elif file == TEMPORARY:
                    group.temporary = _stored(op.data)
                elif file == METADATA:
                    group.renamed = _stored(op.data)
            elif isinstance(op, Rename) and file == METADATA:
                group.renamed = group.temporary
            elif isinstance(op, Fsync) and file == METADATA and group.renamed is not None:
                stored = group.renamed
                out.append(group.says("persisted", stored.term, {"voted_for": stored.voted_for}))
            elif isinstance(op, Unlink) and file == LOG:
                group.ends = []
                out.append(group.says("log_truncate", 0, {"from": 1}))
        return out

    # --- the wire -------------------------------------------------------------------------------------------------

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled."""
        kind = type(body)
        if kind is AppendEntriesRequest:
            if body.entries:
                _remember(self._appends, (src, body.id), None)
        elif kind is VoteRequest:
            if not body.pre_vote:
                _remember(self._requests, (src, body.id), body.term)
        elif kind is VoteResponse:
            asked = self._sent.pop(body.id, None)
            if asked is not None and body.vote_granted:
                name, term = asked
                self._group(name).grants.setdefault(term, set()).add(src)
        return []

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        kind = type(body)
        if kind is AppendEntriesRequest:
            return self._sent_append(body)
        if kind is AppendEntriesResponse:
            return self._sent_append_answer(to, body)
        if kind is VoteRequest:
            if not body.pre_vote and body.candidate_id == self._node:
                return self._sent_vote_request(body)
        elif kind is VoteResponse:
            term = self._requests.pop((to, body.id), None)
            group = self._group(body.topic_partition_group)
            if term is not None and body.vote_granted:
                return _vote(group, term, to)
            return _answered(group, body.term, to)
        return []

    def _sent_append_answer(self, to: str, body: AppendEntriesResponse) -> list[Witnessed]:
        group = self._group(body.topic_partition_group)
        if (to, body.id) not in self._appends:
            return _answered(group, body.term, to) if body.term > group.answered else []
        del self._appends[to, body.id]
        if not body.success:
            return _answered(group, body.term, to)
        now = (body.term, body.next_position)
        if now == group.acked:
            return []
        group.acked = now
        group.answered = max(group.answered, body.term)
        return [group.says("acked", body.term, {"index": body.next_position, "leader": to})]

    def _sent_vote_request(self, body: VoteRequest) -> list[Witnessed]:
        group = self._group(body.topic_partition_group)
        group.asked.add(body.term)
        _remember(self._sent, body.id, (body.topic_partition_group, body.term))
        if group.renamed == Stored(body.term, self._node):
            return _vote(group, body.term, self._node)
        return []

    def _sent_append(self, body: AppendEntriesRequest) -> list[Witnessed]:
        group = self._group(body.topic_partition_group)
        if body.term == group.led and body.commit_position <= group.commit:
            return []
        out: list[Witnessed] = []
        if body.term != group.led and body.leader_id == self._node:
            group.led = body.term
            group.answered = max(group.answered, body.term)
            voters = set(group.grants.get(body.term, ()))
            if body.term in group.asked or group.renamed == Stored(body.term, self._node):
                voters.add(self._node)
            out.append(group.says("elected", body.term, {"voters": sorted(voters)}))
        if body.commit_position > group.commit:
            group.commit = body.commit_position
            out.append(group.says("commit", body.term, {"index": body.commit_position}))
        return out


def _remember(table: dict[Any, Any], key: Any, value: Any) -> None:
    table[key] = value
    if len(table) > OPEN_MAX:
        del table[next(iter(table))]


def _vote(group: _Group, term: int, candidate: str) -> list[Witnessed]:
    if (term, candidate) in group.voted:
        return []
    group.voted.add((term, candidate))
    group.answered = max(group.answered, term)
    return [group.says("vote", term, {"candidate": candidate})]


def _answered(group: _Group, term: int, to: str) -> list[Witnessed]:
    """An answer that grants nothing still tells the term that this node is in."""
    if term <= group.answered:
        return []
    group.answered = term
    return [group.says("answered", term, {"to": to})]


def _found(group: _Group, content: bytes | str | None) -> Witnessed:
    """The metadata as it lies there, whatever the node makes of it."""
    group.found = True
    if content is None:
        return group.says("found", 0, {"voted_for": None, "file": "absent"})
    stored = group.renamed = None if isinstance(content, str) else _stored(content)
    if stored is None:
        return group.says("found", 0, {"voted_for": None, "file": "unreadable"})
    return group.says("found", stored.term, {"voted_for": stored.voted_for, "file": "read"})


def _stored(content: bytes) -> Stored | None:
    try:
        metadata = read_metadata(content)
    except Unreadable:
        return None
    return Stored(metadata.current_term, metadata.voted_for)


def _boot_log(group: _Group, disk: DiskImage, path: str) -> list[Witnessed]:
    try:
        found = _parse(group, file_of(disk, path) or b"")
    except Unreadable:
        group.damaged = True
        return []
    out = [group.says("log_truncate", 0, {"from": len(group.ends) + 1})]
    if found:
        out.append(group.says("log_append", found[-1][1], {"from": 1, "entries": found}))
    return out


def _wrote_log(group: _Group, op: Write) -> list[Witnessed]:
    """Records cut off and records appended by one write."""
    if group.damaged:
        return []
    out: list[Witnessed] = []
    end = group.ends[-1] if group.ends else 0
    offset = end if op.offset is None else op.offset
    if offset < end:
        while group.ends and group.ends[-1] > offset:
            group.ends.pop()
        out.append(group.says("log_truncate", 0, {"from": len(group.ends) + 1}))
    if op.data:
        first = len(group.ends)
        try:
            found = _parse(group, op.data, first=first, base=offset)
        except Unreadable:
            group.damaged = True
            return out
        if found:
            out.append(group.says("log_append", found[-1][1], {"from": first + 1, "entries": found}))
    return out


def _parse(group: _Group, data: bytes, *, first: int = 0, base: int = 0) -> list[tuple[int, int, str]]:
    """(index from 1, term, digest) of each record."""
    records, _ = split_log(data, path=LOG, first=first, base=base)
    group.ends.extend(end for _, _, _, end in records)
    return [(position + 1, term, digest(command)) for position, term, command, _ in records]
