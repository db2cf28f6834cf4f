"""The leader's side: taking office, appending, answers, the high watermark, the check of its quorum.

Guarantees: an epoch opens with a record of its own, without which nothing could be committed in it; the high watermark
moves only by records of the own epoch that a majority of the voters holds, and a client is answered when it passes its
record; a leader counts itself only up to what its own disk holds. A parked fetch is answered once. Out of scope: which
fetches are valid (`fetching`).

Source: Apache Kafka 3.3.1, LeaderState, BatchAccumulator, KafkaRaftClient (buildFetchResponse) and FetchPurgatory; 3.7
for the check of the quorum (KAFKA-15489).
"""

from __future__ import annotations

from collections.abc import Sequence

from dethrone.clusters.targets.client_api import Append, Ok, Put
from dethrone.clusters.targets.kraft.leading import FAR, Leading, Replica
from dethrone.clusters.targets.kraft.messages import (
    NOBODY,
    UNKNOWN_OFFSET,
    Command,
    CurrentLeader,
    FetchRequest,
    FetchResponse,
    LeaderChange,
    Record,
)
from dethrone.clusters.targets.kraft.node import QUORUM, IllegalTransition, Node
from dethrone.clusters.targets.kraft.requests import drive
from dethrone.clusters.targets.kraft.rules import LEADER
from dethrone.clusters.targets.kraft.transitions import become_resigned, say
from dethrone.harness.core.machine import Send

# --- taking office --------------------------------------------------------------------------------------------------


def become_leader(n: Node, granted: Sequence[int], *, cause: str = "elected") -> None:
    """Lead the present epoch."""
    if not n.rules.may_lead_from(n.state) and cause == "elected":
        raise IllegalTransition(f"{n.state} in epoch {n.epoch} to {LEADER}")
    before = n.state
    n.stop_timers()
    n.connections.clear()
    n.backing_off = False
    n.resigning = None
    n.state, n.leader, n.voted = LEADER, n.me, NOBODY
    n.touch()
    say(n, before, n.epoch, cause)
    n.count("elected")
    voters = {"voters": [n.names[voter] for voter in n.voters]}
    n.note("elected", {"term": n.epoch, "voters": sorted(n.names[voter] for voter in granted), "config": voters})
    log = n.log
    lead = n.leading = Leading(log.end)
    lead.voters = {voter: Replica(n.rules.initial_end(log.end)) for voter in n.voters}
    lead.voters[n.me] = Replica(log.durable, acknowledged=True)
    if n.rules.appends_leader_change():
        append(n, lead, LeaderChange(n.me, n.voters, tuple(sorted(granted))))
        n.write_log()
    restart_quorum_check(n, lead)
    drive(n)


# --- appending ------------------------------------------------------------------------------------------------------


def append(n: Node, lead: Leading, command: Command, request: int | None = None) -> int:
    """Append one record of the own epoch in memory; ``request`` is answered when it is committed. Its offset."""
    offset = n.log.end
    n.log.append(Record(offset, n.epoch, command))
    n.note("append", {"offset": offset, "epoch": n.epoch})
    if request is not None:
        lead.waiting[offset] = request
        if n.rules.acks_client("appended") and isinstance(command, Append | Put):
            del lead.waiting[offset]
            n.note("write_acked", {"index": offset + 1, "term": n.epoch})
            n.reply(request, Ok(offset + 1 if isinstance(command, Append) else None, offset + 1, n.epoch))
    return offset


def on_linger_timer(n: Node) -> None:
    """The linger time is over: append the gathered batch, and answer the fetches that wait for it."""
    lead = n.leading
    if lead is None or not lead.unappended:
        return
    batch, lead.unappended = lead.unappended, []
    for request, command in batch:
        append(n, lead, command, request)
    if not n.log_batches:
        n.write_log()
    if n.rules.own_append_is_contact():
        restart_quorum_check(n, lead)
    wake(n, lead)


def on_log_written(n: Node) -> None:
    """More of the own log is durable."""
    lead = n.leading
    if lead is None:
        return
    own = lead.voters.get(n.me)
    if own is not None and n.log.durable > own.end:
        own.end = n.log.durable
        advance(n, lead)


# --- answers to valid fetches, at once or after they were parked ----------------------------------------------------


def answer(n: Node, lead: Leading, src: str, m: FetchRequest) -> None:
    """Records from there on, committed or not, and the high watermark."""
    offset = m.fetch_offset
    records = tuple(n.log.entries[offset : offset + n.knobs.max_records_per_fetch])
    leads = CurrentLeader(n.me, n.epoch)
    n.out.append(Send(src, FetchResponse(m.correlation_id, "NONE", lead.hw, 0, leads, records=records)))


def wake(n: Node, lead: Leading, *, everybody: bool = False) -> None:
    """Answer the parked fetches for which there is something new now."""
    end = n.log.end
    for peer, parked in list(lead.parked.items()):
        if everybody or parked.request.fetch_offset < end:
            del lead.parked[peer]
            answer(n, lead, parked.src, parked.request)


# --- the high watermark ---------------------------------------------------------------------------------------------


def advance(n: Node, lead: Leading) -> None:
    """Move the high watermark to what a majority of the voters holds."""
    offset = n.rules.majority_offset(sorted((replica.end for replica in lead.voters.values()), reverse=True))
    if offset == UNKNOWN_OFFSET or not n.rules.may_advance(offset, lead.epoch_start) or offset == lead.hw:
        return
    if offset < lead.hw:
        n.note("violation", {"what": "a voter lost what it held: the high watermark would fall", "from": lead.hw})
        return
    old, lead.hw = lead.hw, offset
    n.note(
        "hw_advance",
        {"old": old, "new": offset, "voters": {n.names[voter]: r.end for voter, r in lead.voters.items()}},
    )
    set_commit(n, min(offset, n.log.end))
    if n.leading is lead and n.rules.answers_on_commit():
        wake(n, lead, everybody=True)


def set_commit(n: Node, hw: int) -> None:
    """The high watermark moved, here or at the leader: apply new records, answer the waiting requests."""
    before, n.commit = n.commit, hw
    entry_term = n.log.entries[hw - 1].epoch if 0 < hw <= n.log.end else 0
    n.note("commit", {"old": before, "new": hw, "entry_term": entry_term})
    lead = n.leading
    while n.applied < min(hw, n.log.end):
        _apply(n, lead, n.applied)
    if lead is not None and not lead.announced and n.rules.may_advance(hw, lead.epoch_start):
        lead.announced = True
        while lead.reads:
            request, key = lead.reads.popleft()
            n.reply(request, Ok(n.machine.read(key)))


def _apply(n: Node, lead: Leading | None, offset: int) -> None:
    record = n.log.entries[offset]
    n.applied = offset + 1
    command = record.command
    if isinstance(command, LeaderChange):
        return
    result = n.machine.apply(offset + 1, command)
    request = None if lead is None else lead.waiting.pop(offset, None)
    if request is not None:
        n.answer(request, result, offset + 1, record.epoch)


# --- the quorum -----------------------------------------------------------------------------------------------------


def restart_quorum_check(n: Node, lead: Leading) -> None:
    """A majority was heard: restart the wait."""
    lead.fetched.clear()
    span = n.rules.check_quorum_ns()
    if span is not None and len(n.voters) > 1:
        lead.quorum_at = n.now() + span
        n.arm(QUORUM, lead.quorum_at)


def on_quorum_timer(n: Node) -> None:
    """No majority fetched for too long: this leader is cut off, and leads no longer."""
    lead = n.leading
    if lead is None or lead.quorum_at == FAR or n.now() < lead.quorum_at:
        return
    n.note("check_quorum_expired", {"fetched": sorted(n.names[peer] for peer in lead.fetched)})
    become_resigned(n, "check_quorum")
