"""What a node did about its election, read off its messages and its disk, independent of its core's own notes.

* ``vote`` (term, candidate): a campaign's vote for itself, when a vote request with the own record CANDIDATE leaves;
  and a grant, when the answer to a vote request leaves with ``term`` and ``voteFor`` of the candidate although the own
  term was lower when the request arrived. The ``voteFor`` of a refusal or of an accepted beat is a label, never a vote;
  so is one in a term in which the node has campaigned, or that it first stored with another vote.
* ``elected`` (term, voters): the first message that leaves with the own record LEADER in a term. Voters are the node
  itself, if it campaigned in that term, and those whose answers carried this term and this node.
* ``found`` (term, file): what meta.properties held at the start, without ``voteFor``, which a beat relabels, too.
* ``persisted`` (term, voted_for): a new meta.properties is in place.
* ``answered`` (term): an accepted beat is answered in that term for the first time.

Guarantees: the own term is the one last sent in an own record, or synced to meta.properties, or loaded together with a
vote; nothing is taken from the core. Messages may leave late and out of order (they wait for connections), answers may
never leave (the asker closed the connection). A change of term within one leadership (``term_jump``) is no election.

Out of scope: acknowledgements and log ends; this protocol has no log index. A leadership that ended before any message
left is not seen. A refusal can pass for a grant if the term was raised by data whose write was still under way when the
request arrived; the candidate counts that refusal as a vote, too.

Source: docs/sources.md, nacos.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.nacos import messages as m
from dethrone.clusters.targets.nacos import storage
from dethrone.harness.core.machine import DiskImage, DiskOp, Witnessed

_PENDING_MAX = 256
"""Vote requests of one candidate that wait for their answers; more are dropped, oldest first."""


class _Asked(NamedTuple):
    candidate: str
    term: int
    own_term: int


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
        except Unreadable:
            return [Witnessed("found", 0, {"file": "unreadable"})]
        # A term alone may be ignored at the start (``restart_term``), so only a term with its vote is a floor. A node
        # without a vote cannot name another in a refusal, so no refusal is mistaken for a vote.
        if meta.vote_for is not None:
            self._term = meta.term
        return [Witnessed("found", meta.term, {"file": "read" if storage.META in disk else "absent"})]

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """A message is about to leave."""
        if isinstance(body, m.VoteRequest):
            return self._sent_vote_request(body.vote)
        if isinstance(body, m.VoteAnswer):
            return self._sent_vote_answer(to, body.peer)
        if isinstance(body, m.BeatAnswer):
            return [*self._own(body.peer), *self._said(body.peer.term)]
        if isinstance(body, m.BeatRequest | m.PeerAnswer):
            return self._own(body.peer)
        if isinstance(body, m.DatumPublish | m.DatumDelete):
            return self._own(body.source)
        return []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """A message is about to be handled."""
        if isinstance(body, m.VoteRequest):
            asked = _Asked(body.vote.ip, body.vote.term, self._term)
            self._asked.setdefault(src, deque(maxlen=_PENDING_MAX)).append(asked)
        elif isinstance(body, m.VoteAnswer) and body.peer.vote_for == self._node:
            self._voters.setdefault(body.peer.term, set()).add(body.peer.ip)
        return []

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """A batch is done."""
        meta = storage.meta_written(ops)
        if meta is None:
            return []
        self._term = meta.term
        if meta.vote_for is not None:
            self._stored.setdefault(meta.term, meta.vote_for)
        return [Witnessed("persisted", meta.term, {"voted_for": meta.vote_for})]

    # --- rules --------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._term = 0
        self._answered = 0
        self._leads = False
        self._campaigns: set[int] = set()
        self._stored: dict[int, str] = {}
        """With whom a term was stored first. While a slow sync holds that back, a beat may put another name there."""
        self._led: set[int] = set()
        self._asked: dict[str, deque[_Asked]] = {}
        self._voters: dict[int, set[str]] = {}

    def _own(self, record: m.RaftPeer) -> list[Witnessed]:
        """Mirror the own record; say if it is LEADER for the first time in its term."""
        term = record.term
        leads = record.state == "LEADER"
        jumped = self._leads and term != self._term and term not in self._campaigns
        if term >= self._term:
            self._term, self._leads = term, leads
        if not leads or term in self._led:
            return []
        self._led.add(term)
        if jumped:
            return []
        voters = self._voters.get(term, set()) | ({self._node} if term in self._campaigns else set())
        return [Witnessed("elected", term, {"voters": sorted(voters)})]

    def _said(self, term: int) -> list[Witnessed]:
        """A beat is answered in this term for the first time."""
        if term <= self._answered:
            return []
        self._answered = term
        return [Witnessed("answered", term)]

    def _sent_vote_request(self, record: m.RaftPeer) -> list[Witnessed]:
        seen = self._own(record)
        if record.state == "CANDIDATE" and record.vote_for == self._node and record.term not in self._campaigns:
            self._campaigns.add(record.term)
            seen.append(Witnessed("vote", record.term, {"candidate": self._node, "cause": "campaign"}))
        return seen

    def _sent_vote_answer(self, to: str, record: m.RaftPeer) -> list[Witnessed]:
        seen = self._own(record)
        asked = self._asked.get(to, deque())
        granted = any(
            one.candidate == record.vote_for and one.term == record.term and one.term > one.own_term for one in asked
        )
        stored = self._stored.get(record.term, record.vote_for)
        voted_before = record.term in self._campaigns or stored != record.vote_for
        # Answers to one asker leave in order, so requests for this term or less were answered or never will be.
        while asked and asked[0].term <= record.term:
            asked.popleft()
        if granted and not voted_before:
            seen.append(Witnessed("vote", record.term, {"candidate": record.vote_for, "cause": "grant"}))
        return seen
