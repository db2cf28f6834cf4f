"""What a node did about its election, read off its messages and its disk, whatever its core says.

* ``vote`` (term, candidate): a campaign's vote for itself, when a vote request with the own record CANDIDATE leaves;
  and a grant, when the answer to a vote request leaves with ``term`` and ``voteFor`` of the candidate although the own
  term was lower before. The ``voteFor`` of a refusal or of an accepted beat is a label, never a vote.
* ``elected`` (term, voters): the first message that leaves with the own record LEADER after one that was not. Voters
  are the node itself, if it campaigned in that term, and those whose answers carried this term and this candidate.
* ``persisted`` (term, voted_for): a new meta.properties is in place.

Promises: the own term before a message is what was last sent in an own record, or synced to meta.properties, or loaded
together with a vote; nothing is taken from the core. A change of term within one leadership (``term_jump``) is no
election.

Leaves out: acknowledgements and log ends; this protocol has no log index.

Source: specification of Nacos 1.4.1 naming Raft, "Added decisions".
"""

from __future__ import annotations

from collections import deque
from typing import Any

from clusters.protocols.nacos import storage
from clusters.protocols.nacos.messages import (
    BeatAnswer,
    BeatRequest,
    CallError,
    DatumDelete,
    DatumPublish,
    PeerAnswer,
    RaftPeer,
    VoteAnswer,
    VoteRequest,
)
from harness.core.machine import DiskImage, DiskOp, Witnessed

_PENDING_MAX = 256
"""Vote requests of one candidate that wait for their answers; more are dropped, oldest first."""


class NacosWitness:
    """The witness of one node over all its incarnations."""

    def __init__(self, *, node: str, members: tuple[str, ...]) -> None:
        self._node = node
        self._members = members
        self._forget()

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation knows of itself only what it loaded."""
        self._forget()
        try:
            meta = storage.load_meta(disk)
        except storage.Damaged:
            return []
        # A term alone may be ignored at the start (``restart_term``), so only a term with its vote is a floor. A node
        # without a vote cannot refuse with somebody's name, so nothing is taken for a vote that is none.
        if meta.vote_for is not None:
            self._term = meta.term
        return []

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """A message is about to leave."""
        if isinstance(body, VoteRequest):
            return self._sent_vote_request(body.vote)
        if isinstance(body, VoteAnswer):
            return self._sent_vote_answer(to, body.peer)
        if isinstance(body, BeatRequest | BeatAnswer | PeerAnswer):
            return self._own(body.peer)
        if isinstance(body, DatumPublish | DatumDelete):
            return self._own(body.source)
        if isinstance(body, CallError) and body.call == "vote":
            self._take_pending(to)
        return []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """A message is about to be handled."""
        if isinstance(body, VoteRequest):
            self._pending.setdefault(src, deque(maxlen=_PENDING_MAX)).append(body.vote)
        elif isinstance(body, VoteAnswer):
            self._answers[body.peer.ip] = (body.peer.term, body.peer.vote_for)
        return []

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """A batch was carried out."""
        meta = storage.meta_written(ops)
        if meta is None:
            return []
        self._term = meta.term
        return [Witnessed("persisted", meta.term, {"voted_for": meta.vote_for})]

    # --- rules --------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._term = 0
        self._state = "FOLLOWER"
        self._campaign: int | None = None
        self._pending: dict[str, deque[RaftPeer]] = {}
        self._answers: dict[str, tuple[int, str | None]] = {}

    def _take_pending(self, src: str) -> RaftPeer | None:
        pending = self._pending.get(src)
        return pending.popleft() if pending else None

    def _own(self, record: RaftPeer) -> list[Witnessed]:
        """Mirror the own record; say if it became LEADER."""
        was, self._state, self._term = self._state, record.state, record.term
        if record.state != "LEADER" or was == "LEADER":
            return []
        term = record.term
        voters = {ip for ip, answer in self._answers.items() if answer == (term, self._node)}
        if self._campaign == term:
            voters.add(self._node)
        return [Witnessed("elected", term, {"voters": sorted(voters)})]

    def _sent_vote_request(self, record: RaftPeer) -> list[Witnessed]:
        first = self._campaign != record.term or self._state != "CANDIDATE"
        seen = self._own(record)
        if record.state == "CANDIDATE" and record.vote_for == self._node and first:
            self._campaign = record.term
            self._answers.clear()
            seen.append(Witnessed("vote", record.term, {"candidate": self._node, "cause": "campaign"}))
        return seen

    def _sent_vote_answer(self, to: str, record: RaftPeer) -> list[Witnessed]:
        candidate = self._take_pending(to)
        before = self._term
        seen = self._own(record)
        if (
            candidate is not None
            and candidate.term > before
            and record.term == candidate.term
            and record.vote_for == candidate.ip
        ):
            seen.append(Witnessed("vote", record.term, {"candidate": candidate.ip, "cause": "grant"}))
        return seen
