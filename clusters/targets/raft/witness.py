"""Votes, elections, acknowledgements and log ends of one Raft node, read off its wire and its disk.

Guarantees: it sees what was really sent, received and carried out, so no planted bug can hide; steady heartbeats cost a
few comparisons and add nothing. ``found`` is the vote file as a new incarnation finds it; ``answered`` is recorded once
per term, where no vote, acknowledgement or election recorded that term already; ``refused`` is a vote denied because
this node already voted in that term; ``config`` is an entry of the log on disk that names the members. ``elected`` is
the first AppendEntries of a term that names this node as leader; its voters are those whose granted answers of that
term arrived, plus the node itself if it campaigned (it sent a request or, where it is the only voter, wrote its own
name). ``persisted`` needs the rename AND its fsync. Out of scope: a group of one node (it sends nothing that could show
its election), and rules: the witness imports messages and the storage format only.

Source: Raft paper, figure 2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import msgspec

from dethrone.clusters.targets.kit.files import digest, split_log
from dethrone.clusters.targets.kit.witness import DiskWatch, Parsed, RecordLogWatch, StateFileWatch
from dethrone.clusters.targets.raft.messages import (
    AppendEntries,
    AppendReply,
    Config,
    PreVoteReply,
    RequestVote,
    VoteReply,
)
from dethrone.clusters.targets.raft.storage import LOG, VOTE, HardState, read_vote
from dethrone.harness.core.machine import DiskImage, Witnessed

_CONFIG = b'{"type":"config"'
"""How the record of a configuration entry begins: everything else is passed over without decoding."""
_decode_config = msgspec.json.Decoder(Config).decode


class RaftWitness(DiskWatch[HardState]):
    """The witness of one node."""

    hears = frozenset({VoteReply})
    """The only messages that ``received`` makes anything of: a shell in haste asks it about no other."""

    def forget(self) -> None:
        """What a process loses when it ends."""
        super().forget()
        self._refused: set[tuple[int, str]] = set()
        self._leds: set[int] = set()

    def watched(self) -> tuple[RecordLogWatch, StateFileWatch[HardState]]:
        """The log and the vote file."""
        return RecordLogWatch(LOG, _parse), StateFileWatch(VOTE, read_vote)

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation: what its disk holds. Its vote is ``persisted`` once the node synced it again."""
        self.forget()
        file = self.file.found(disk)
        state = self.file.now or HardState()
        return [self.found(file, state.term, state.voted_for), *self.log.booted(disk, self.marks)]

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""
        kind = type(body)
        if kind is AppendReply:
            if not body.success:
                return self.answers(body.term, to)
            if (body.term, body.match_index) != self.acked:  # else the answer to a steady heartbeat
                return self.acks(body.term, body.match_index, to)
        elif kind is AppendEntries:
            if body.term != self.led or body.leader_commit > self.commit:  # else a steady heartbeat
                return self._sent_append(body)
        elif kind is VoteReply:
            return self.votes(body.term, to) if body.vote_granted else self._refusal(body, to)
        elif kind is RequestVote and body.candidate_id == self.node:
            return self.votes(body.term, self.node)
        elif kind is PreVoteReply:
            return self.answers(body.term, to)
        return []

    def _refusal(self, body: VoteReply, to: str) -> list[Witnessed]:
        """Refused because the vote of this term is gone: reported once per candidate and term."""
        out = self.answers(body.term, to)
        if body.reason == "voted" and (body.term, to) not in self._refused:
            self._refused.add((body.term, to))
            out.append(Witnessed("refused", body.term, {"candidate": to, "why": "voted"}))
        return out

    def _sent_append(self, body: AppendEntries) -> list[Witnessed]:
        out: list[Witnessed] = []
        if body.term not in self._leds and body.leader_id == self.node:  # what leaves late shows nothing new
            self._leds.add(body.term)
            voted = (body.term, self.node) in self.voted
            out = self.leads(body.term, stood=voted or self.file.now == HardState(body.term, self.node))
        return out + self.commits(body.term, body.leader_commit)

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled: granted votes are remembered by the term that they carry."""
        if type(body) is VoteReply and body.vote_granted:
            self.granted(body.term, src)
        return []

    def stored(self, change: Literal["replaced", "durable"], state: HardState) -> list[Witnessed]:
        """A vote that is durable."""
        return [self.persisted(state.term, state.voted_for)] if change == "durable" else []


@lru_cache(maxsize=64)  # in a simulation all nodes write the same bytes at about the same time
def _parse(data: bytes, first: int, _: int) -> Parsed:
    records, _ = split_log(data, path=LOG, first=first)
    return (
        tuple((index, term, digest(command)) for index, term, command, _ in records),
        tuple(end for _, _, _, end in records),
        tuple(_config(index, term, command) for index, term, command, _ in records if command.startswith(_CONFIG)),
    )


def _config(index: int, term: int, command: bytes) -> Witnessed:
    config = _decode_config(command)
    members = {"voters": list(config.voters), "learners": list(config.learners)}
    return Witnessed("config", term, {"index": index, **members})
