"""The leader's side of replication: rounds of AppendEntries, one batch in flight per follower, own appends.

Guarantees: every send belongs to a numbered round with a recorded sending time, from which check-quorum, leases and
reads count; at most one batch of entries per follower is outstanding and is sent again after rpcTimeout, without limit;
meanwhile heartbeats continue, empty. A steady heartbeat costs one message per follower and no notes. Out of scope:
answers (`acks`) and commits (`commit`).

Source: Raft paper, 5.3; thesis 10.2.1 (the leader sends before its own write is done), 10.2.2 (batching).
"""

from __future__ import annotations

from dethrone.clusters.targets.raft.leading import NEVER, Leading, Progress
from dethrone.clusters.targets.raft.messages import AppendEntries, Command, Config, Entry
from dethrone.clusters.targets.raft.node import Node
from dethrone.harness.core.machine import Send

ROUNDS_MAX = 4096
"""Rounds whose sending time is remembered; an answer to an older one proves nothing that is still of use."""


def new_round(n: Node, lead: Leading) -> int:
    """Number a round of sends that starts now."""
    seq = lead.seq = lead.seq + 1
    rounds = lead.rounds
    rounds[seq] = n.mono
    if n.lease_wall:
        lead.rounds_lease[seq] = n.wall
    if seq > ROUNDS_MAX:
        rounds.pop(seq - ROUNDS_MAX, None)
        lead.rounds_lease.pop(seq - ROUNDS_MAX, None)
    return seq


def broadcast(n: Node, lead: Leading) -> int:
    """Send a round to all peers: entries where some are due, else a heartbeat. Its number."""
    n.out += [Send(peer, body) for peer, body in next_round(n, lead)]
    return lead.seq


def next_round(n: Node, lead: Leading) -> list[tuple[str, AppendEntries]]:
    """The messages of a new round to all peers."""
    seq = new_round(n, lead)
    last = n.log.end
    shared: AppendEntries | None = None
    out: list[tuple[str, AppendEntries]] = []
    for peer, p in lead.progress.items():
        if p.next > last:
            if shared is None:
                shared = AppendEntries(n.term, n.me, last, n.log.last_term, (), n.commit, seq)
            out.append((peer, shared))
        elif p.inflight_at != NEVER and n.mono - p.inflight_at < n.knobs.rpc_timeout:
            out.append((peer, _empty(n, p, seq)))
        elif (due := _batch(n, lead, p, seq)) is not None:
            out.append((peer, due))
    if n.contact_on_send:
        for p in lead.progress.values():
            p.acked_at = n.mono
    return out


def send_empty(n: Node, peer: str, p: Progress, seq: int) -> None:
    """A heartbeat that still asks whether the follower holds what is next."""
    n.out.append(Send(peer, _empty(n, p, seq)))


def _empty(n: Node, p: Progress, seq: int) -> AppendEntries:
    prev = p.next - 1
    return AppendEntries(n.term, n.me, prev, n.log.term_at(prev), (), n.commit, seq)


def send_entries(n: Node, lead: Leading, peer: str, p: Progress, seq: int) -> None:
    """The next batch, from ``p.next`` on; it becomes the one in flight."""
    batch = _batch(n, lead, p, seq)
    if batch is not None:
        n.out.append(Send(peer, batch))


def _batch(n: Node, lead: Leading, p: Progress, seq: int) -> AppendEntries | None:
    """None: the follower was silent for too long to be sent what it lacks."""
    if not n.rules.tries_again(n.mono - max(p.acked_at, lead.since)):
        return None
    prev = p.next - 1
    entries = tuple(n.log.entries[prev : prev + n.knobs.max_entries_per_append])
    p.inflight_at = n.mono
    p.inflight_to = prev + len(entries)
    return AppendEntries(n.term, n.me, prev, n.log.term_at(prev), entries, n.commit, seq)


def feed(n: Node, lead: Leading) -> None:
    """Send what is due to every follower that has nothing in flight; none while the own disk is stuck."""
    if lead.stuck:
        return
    last = n.log.end
    seq = 0
    for peer, p in lead.progress.items():
        if p.next <= last and p.inflight_at == NEVER:
            seq = seq or new_round(n, lead)
            send_entries(n, lead, peer, p, seq)


def append_own(n: Node, lead: Leading, command: Command) -> int:
    """Append a command to the own log, start its write, send it on. Its index.

    While a log batch is under way, the record waits and shares the next one (group commit).
    """
    index = n.log.end + 1
    n.log.append(Entry(index, n.term, command))
    n.note("append", {"index": index, "term": n.term})
    if type(command) is Config:
        n.refresh_config("appended")
    if not n.rules.appends_before_sending():
        feed(n, lead)
    if not n.log_batch_pending():
        n.write_log()
    feed(n, lead)
    return index
