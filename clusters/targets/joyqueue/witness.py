"""Votes, elections, acknowledgements and log ends of one node, read off its wire and its disk, group by group.

* ``vote``: a granted answer to a request other than a pre-vote leaves; and a node's vote for itself, when its vote
  request leaves while its metadata on disk names it in that term. A request that leaves without that is no vote: a late
  send task asks in terms in which the node is not a candidate (JQ-B3).
* ``elected``: the first append or heartbeat of a term that names this node as leader. Voters are those whose granted
  answers to VOTE requests of that term arrived, and the node itself if it asked in that term or its metadata names it.
  Answers to pre-votes look the same on the wire; the ids of the requests distinguish them.
* ``acked``: a successful answer to a request WITH entries. A heartbeat's answer compares nothing.
* ``found``: the metadata as a new incarnation finds it; for a group without any file, with its first write.
* ``answered``: once per term, where no vote, acknowledgement or election recorded that term already.

Guarantees: it sees what was really sent, received and carried out; every table is bounded. ``persisted`` needs the
rename AND its fsync. Where a node has several groups, each event names its own in ``data["group"]``. Out of scope: a
group of one node (it sends nothing), and rules: it imports messages and the storage format only.

Source: docs/sources.md, joyqueue: ``RaftLeaderElection`` (JQ-B1, JQ-B2: elections without votes).
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.joyqueue.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.joyqueue.storage import LOG, METADATA, Stored, label_of, read_metadata
from dethrone.clusters.targets.kit.witness import ElectionWatch, RecordLogWatch, StateFileWatch, log_parser
from dethrone.harness.core.log_marks import LogMarks
from dethrone.harness.core.machine import DiskImage, DiskOp, Rename, Witnessed

OPEN_MAX = 1024
"""Requests of one kind that wait for their answers; the oldest are forgotten."""


class _Group(ElectionWatch):
    """What is seen of one partition group within one incarnation."""

    def __init__(self, node: str, name: str) -> None:
        label = label_of(name)

        def says(event: str, term: int, data: dict[str, Any]) -> Witnessed:
            return Witnessed(event, term, {**data, "group": label} if label else data)

        super().__init__(node, says)
        self.known = False
        """Whether ``found`` was reported."""
        self.asked: set[int] = set()
        self.log = RecordLogWatch(f"{name}/{LOG}", log_parser(LOG, first=0), says)
        self.file = StateFileWatch(f"{name}/{METADATA}", _stored)

    def finds(self, disk: DiskImage) -> Witnessed:
        """The metadata as it lies there, regardless of how the node reads it."""
        self.known = True
        file = self.file.found(disk)
        stored = self.file.now or Stored()
        return self.found(file, stored.term, stored.voted_for)


class JoyQueueWitness:
    """The witness of one node, for any number of groups."""

    def __init__(self, node: str) -> None:
        self._node = node
        self.marks = LogMarks()
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
        return self._begins(name, {})[0] if found is None else found

    def _begins(self, name: str, disk: DiskImage) -> tuple[_Group, list[Witnessed]]:
        """A group that this life did not know, and what its log on disk shows."""
        group = self._groups[name] = _Group(self._node, name)
        seen = group.log.booted(disk, self.marks)
        return group, seen if group.log.path in disk else []

    # --- the disk -------------------------------------------------------------------------------------------------

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: the logs on its disk. Its votes are ``persisted`` once the node synced them again."""
        self._forget()
        out: list[Witnessed] = []
        for name in sorted({path.rpartition("/")[0] for path in disk}):
            group, seen = self._begins(name, disk)
            out += [group.finds(disk), *seen]
        return out

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch is done."""
        out: list[Witnessed] = []
        for op in ops:
            path = op.dst if isinstance(op, Rename) else op.path
            group = self._group(path.rpartition("/")[0])
            if not group.known:
                out.append(group.finds({}))
            if path == group.log.path:
                out += group.log.carried(op)
            elif group.file.carried(op) == "durable" and (stored := group.file.now):
                out.append(group.persisted(stored.term, stored.voted_for))
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
                self._group(name).granted(term, src)
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
                return group.votes(term, to)
            return group.answers(body.term, to)
        return []

    def _sent_append_answer(self, to: str, body: AppendEntriesResponse) -> list[Witnessed]:
        group = self._group(body.topic_partition_group)
        compared = (to, body.id) in self._appends
        self._appends.pop((to, body.id), None)
        if compared and body.success:
            return group.acks(body.term, body.next_position, to)
        return group.answers(body.term, to)

    def _sent_vote_request(self, body: VoteRequest) -> list[Witnessed]:
        group = self._group(body.topic_partition_group)
        group.asked.add(body.term)
        _remember(self._sent, body.id, (body.topic_partition_group, body.term))
        return group.votes(body.term, self._node) if group.file.now == Stored(body.term, self._node) else []

    def _sent_append(self, body: AppendEntriesRequest) -> list[Witnessed]:
        group = self._group(body.topic_partition_group)
        out: list[Witnessed] = []
        if body.term != group.led and body.leader_id == self._node:
            stood = body.term in group.asked or group.file.now == Stored(body.term, self._node)
            out = group.leads(body.term, stood=stood)
        return out + group.commits(body.term, body.commit_position)


def _remember(table: dict[Any, Any], key: Any, value: Any) -> None:
    table[key] = value
    if len(table) > OPEN_MAX:
        del table[next(iter(table))]


def _stored(content: bytes) -> Stored:
    metadata = read_metadata(content)
    return Stored(metadata.current_term, metadata.voted_for)
