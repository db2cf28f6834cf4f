"""Reads at the leader: local, through the log, by read-index, under a lease.

Guarantees: a read-index read is answered only once an entry of the leader's own term is committed, a majority has
answered a round that STARTED after the read arrived, and everything up to its index is applied. Rounds are shared, one
is outstanding at a time, and every heartbeat is one. A lease is computed for each read after it arrived, from the
sending times of answered rounds; a read that it does not cover is confirmed by a round instead. Any other node
redirects a read to the leader. Out of scope: follower reads.

Source: thesis 6.4 (read-index, leases).
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Get, Holder, Ok, Refused
from dethrone.clusters.targets.raft.knobs import READ_MODES
from dethrone.clusters.targets.raft.leading import FAR, NEVER, Leading, Read
from dethrone.clusters.targets.raft.node import Node
from dethrone.clusters.targets.raft.replication import broadcast
from dethrone.harness.core.clock import MS, Ns


def on_get(n: Node, lead: Leading, request: int, body: Get | Holder) -> None:
    """A client's read at the leader, in any mode but ``log`` (that one is a command like any other)."""
    mode = body.mode or n.knobs.reads
    why = _cannot(n, mode)
    if why:
        n.note("read_refused", {"mode": mode, "why": why})
        n.reply(request, Refused(why))
    elif mode == "local":
        _serve(n, Read(request, body, mode))
    else:
        read = Read(request, body, mode)
        ready = n.rules.announces_leader(own_term_committed=lead.own_term_committed)
        if mode == "lease" and ready and _covered(n, lead):
            read.index = n.commit
            _serve(n, read, lease_left=lease_end(n, lead) - _lease_now(n))
            return
        if ready and not n.rules.confirms_reads():
            _serve(n, read)
            return
        lead.reads.append(read)
        if ready:
            read.index = n.commit
            _start_round(n, lead)


def _cannot(n: Node, mode: str) -> str:
    if mode not in READ_MODES:
        return f"no read mode {mode!r}; one of: {', '.join(READ_MODES)}"
    if mode == "readindex" and not n.knobs.noop:
        return "readindex reads need noop=on"
    return n.knobs.lease_allowed() if mode == "lease" else ""


def release_early(n: Node, lead: Leading) -> None:
    """An entry of the own term was committed: reads that waited for it get their index and a round."""
    waiting = [read for read in lead.reads if read.index < 0]
    for read in waiting:
        read.index = n.commit
    if waiting:
        _start_round(n, lead)


def _start_round(n: Node, lead: Leading) -> None:
    """Start a round for the reads that have none, unless one is outstanding: then they share the next."""
    if lead.read_seq == 0 and not lead.stuck:
        join_round(lead, broadcast(n, lead))
        confirm(n, lead)


def join_round(lead: Leading, seq: int) -> None:
    """The round ``seq`` starts now and serves every read that arrived before it."""
    joined = False
    for read in lead.reads:
        if read.seq == 0 and read.index >= 0:
            read.seq = seq
            joined = True
    if joined:
        lead.read_seq = seq


def confirm(n: Node, lead: Leading) -> None:
    """Answer the reads whose round a majority answered; start the next round if some wait for it."""
    progress = lead.progress
    acked = [FAR if voter == n.me else p.acked_seq if (p := progress.get(voter)) else 0 for voter in n.voters]
    acked.sort()
    confirmed = acked[-n.rules.quorum_size(len(acked))]
    waiting = []
    while lead.reads:
        read = lead.reads.popleft()
        by_round = 0 < read.seq <= confirmed
        if n.rules.read_ready(confirmed=by_round, applied=n.applied, read_index=read.index):
            _serve(n, read)
        else:
            waiting.append(read)
    lead.reads.extend(waiting)
    if 0 < lead.read_seq <= confirmed:
        lead.read_seq = 0
        if any(read.seq == 0 and read.index >= 0 for read in waiting):
            _start_round(n, lead)


def _serve(n: Node, read: Read, *, lease_left: Ns | None = None) -> None:
    data: dict[str, object] = {"mode": read.mode, "readIndex": read.index if read.index >= 0 else n.commit}
    if lease_left is not None:
        data["lease_left"] = lease_left
    n.note("read_served", data)
    n.reply(read.id, Ok(n.machine.answer(read.asked)))


# --- leases -----------------------------------------------------------------------------------------------------


def _lease_now(n: Node) -> Ns:
    return n.wall if n.lease_wall else n.mono


def lease_end(n: Node, lead: Leading) -> Ns:
    """When the lease ends, on its clock; NEVER where there is none. Being elected gives none: only answers do."""
    now = _lease_now(n)
    sent = sorted(
        (
            now if voter == n.me else NEVER if p is None else p.acked_lease if n.lease_wall else p.acked_at
            for voter, p in ((voter, lead.progress.get(voter)) for voter in n.voters)
        ),
        reverse=True,
    )
    newest = sent[n.rules.quorum_size(len(n.voters)) - 1]
    return NEVER if newest == NEVER else newest + n.rules.lease_length()


def _covered(n: Node, lead: Leading) -> bool:
    """Whether a read that just arrived is covered by the lease; notes when that changed."""
    end = lease_end(n, lead)
    covered = (
        not lead.lease_disabled
        and n.leading is lead
        and n.rules.lease_valid(now=_lease_now(n), end=end, ticked=lead.ticked, checked=lead.lease_checked)
    )
    if covered != lead.lease_shown:
        lead.lease_shown = covered
        why = "transfer" if lead.lease_disabled else "no quorum in time"
        n.note("lease", {"extended_to_ms": end // MS} if covered else {"void": why})
    return covered


def look_at_lease(n: Node, lead: Leading, *, late: bool) -> None:
    """Each tick: when its timer rang, and once in a timeout whether the lease stood. The honest rule uses neither."""
    now = _lease_now(n)
    if not late:
        lead.ticked = now
    if n.mono - lead.lease_checked_at >= n.knobs.election_timeout_max or not lead.lease_checked:
        lead.lease_checked_at = n.mono
        lead.lease_checked = now < lease_end(n, lead)
