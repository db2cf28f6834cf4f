"""Votes, elections, acknowledgements and log ends of one DLedger node, read off its wire and its disk.

Guarantees: it sees what was really sent, received and carried out, so no planted bug can hide; indexes and terms are
recorded one higher than DLedger's own, as everywhere outside the core. A grant is an ACCEPT that leaves. A candidate
votes for itself without a message: its vote is seen when its request leaves, unless this node is known (by its disk, or
by an ACCEPT that it sent) to have voted for another in that term, because a campaign may repeat a term whose vote is
taken. ``elected`` is the first heartbeat or push of a term that names this node as leader; its voters are those whose
ACCEPT of that term arrived, plus itself if it voted so. ``found`` is the term file as a new incarnation finds it;
``answered`` is recorded where an answer shows a term that nothing else showed. Out of scope: a group of one node (it
sends nothing), a second election in the same term, and rules: it imports messages and the storage format only.

Source: DLedger 0.2.7, the messages of ``DLedgerLeaderElector`` and ``DLedgerEntryPusher``.
"""

from __future__ import annotations

from typing import Any, Literal

from dethrone.clusters.targets.dledger.messages import (
    ACCEPT,
    SUCCESS,
    TERM_SMALL_THAN_LEDGER,
    HeartBeatRequest,
    HeartBeatResponse,
    PushEntryRequest,
    PushEntryResponse,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.dledger.storage import LOG, TERM, TermState, read_term, split_records
from dethrone.clusters.targets.kit.files import digest
from dethrone.clusters.targets.kit.witness import DiskWatch, Parsed, RecordLogWatch, StateFileWatch
from dethrone.harness.core.machine import DiskImage, Witnessed


class DledgerWitness(DiskWatch[TermState]):
    """The witness of one node. Everything that it keeps counts as observers do."""

    def forget(self) -> None:
        """What a process loses when it ends."""
        super().forget()
        self._taken: dict[int, str] = {}
        """Term → the candidate for which this node is known to have voted in it."""

    def watched(self) -> tuple[RecordLogWatch, StateFileWatch[TermState]]:
        """The log and the term file."""
        return RecordLogWatch(LOG, _parse), StateFileWatch(TERM, read_term)

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: the log that its disk holds, and the vote in its term file."""
        self.forget()
        file = self.file.found(disk)
        state = self.file.now or TermState(-1)
        self.stored("replaced", state)
        return [self.found(file, state.term + 1, state.voted_for), *self.log.booted(disk, self.marks)]

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        kind = type(body)
        if kind is HeartBeatRequest:
            return self._leads(body)
        if kind is PushEntryRequest:
            return self._leads(body) + self.commits(body.term + 1, body.commit_index + 1)
        if kind is HeartBeatResponse:
            return self.answers(body.term + 1, to)
        if kind is PushEntryResponse:
            if body.code == SUCCESS and body.index >= 0:
                return self.acks(body.term + 1, body.index + 1, to)
        elif kind is VoteResponse:
            if body.vote_result == ACCEPT:
                self._taken.setdefault(body.term + 1, to)
                return self.votes(body.term + 1, to)
            if body.vote_result != TERM_SMALL_THAN_LEDGER:
                return self.answers(body.term + 1, to)
        elif kind is VoteRequest and self._taken.get(body.term + 1, self.node) == self.node:
            return self.votes(body.term + 1, self.node)
        return []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled: votes are remembered by the term that they carry."""
        if type(body) is VoteResponse and body.vote_result == ACCEPT:
            self.granted(body.term + 1, src)
        return []

    def stored(self, change: Literal["replaced", "durable"], state: TermState) -> list[Witnessed]:
        """The term file says this."""
        if change == "durable":
            return [self.persisted(state.term + 1, state.voted_for)]
        if state.voted_for is not None:
            self._taken.setdefault(state.term + 1, state.voted_for)
        return []

    def _leads(self, body: HeartBeatRequest | PushEntryRequest) -> list[Witnessed]:
        term = body.term + 1
        if term == self.led or body.leader_id != self.node:
            return []
        voted = (term, self.node) in self.voted
        return self.leads(term, stood=voted or self.file.now == TermState(body.term, self.node))


def _parse(data: bytes, first: int, least: int) -> Parsed:
    """Up to the first bad record, as DLedger recovers a log."""
    records = split_records(data, first_index=first - 1, least_term=max(0, least - 1))
    return (
        [(index + 1, term + 1, digest(command)) for index, term, command, _ in records],
        [end for _, _, _, end in records],
        (),
    )
