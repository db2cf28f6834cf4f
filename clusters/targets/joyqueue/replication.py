"""Heartbeats and the log: sending, storing, committing, applying, and answering clients.

Guarantees: one append per replica is outstanding, and the next follows its answer at once; after a lost one the leader
resumes at its next heartbeat once the request has timed out. A replica that refuses is asked one entry earlier. A
leader counts itself only up to what its own disk holds. Replication starts one entry before the right end, as the
original does for added replicas, so that idle replicas are matched, too. A heartbeat carries the commit position as far
as the replica is known to match, because the original sends it with entries only. A leader never steps down for lack of
answers (JQ-B5). Out of scope: elections.

Source: docs/sources.md, joyqueue: ``RaftLeaderElection`` for the messages; ``ReplicaGroup`` for positions, retries and
the median of write positions. The commit rule of the own term is ours (knob).
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append, Cas, ClientRequest, Failed, Get, NotLeader, Ok, Put, Refused
from dethrone.clusters.targets.joyqueue import transfer
from dethrone.clusters.targets.joyqueue.group import LEADER, TRANSFERRING, Group, Replica
from dethrone.clusters.targets.joyqueue.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    Command,
    Entry,
    JoyQueueAnswer,
)
from dethrone.clusters.targets.joyqueue.node import Call, Task
from dethrone.clusters.targets.kit.machine import Refusal

PENDING_MAX = 10_000
_LEADING = frozenset((LEADER, TRANSFERRING))

# --- heartbeats -------------------------------------------------------------------------------------------------


def start_leading(g: Group) -> None:
    """Fresh progress of every replica, learners included."""
    start = max(0, g.log.end - 1)
    g.replicas = {peer: Replica(start) for peer in (*g.voters, *g.learners) if peer != g.me}


def start_new_heartbeat(g: Group) -> None:
    """``startNewHeartbeat``: one round, in the term as it is now; then the next one is scheduled."""
    if g.role not in _LEADING:
        return
    send_heartbeats(g)
    g.reset_heartbeat_timer()


def send_heartbeats(g: Group) -> None:
    """Submit one request per replica."""
    longest = g.knobs.ns(g.knobs.heartbeat_max_timeout_ms)
    peers = []
    for peer, replica in g.replicas.items():
        if longest and replica.taken_at and g.node.mono - replica.taken_at > longest:
            continue
        commit = min(g.commit, replica.match)
        g.node.submit(g, "heartbeat", peer, AppendEntriesRequest(g.name, g.term, g.me, -1, 0, 0, commit, 0, 0, (), 0))
        peers.append(peer)
    g.note("hb_sent", {"to": peers})


def run_heartbeat_task(task: Task[Group]) -> None:
    """Send the round's request."""
    g, m = task.group, task.body
    if not g.started:
        return
    number = g.node.call(g, "heartbeat", task.peer)
    g.send(
        task.peer,
        AppendEntriesRequest(g.name, m.term, g.me, -1, 0, 0, m.commit_position, 0, 0, (), number),
    )


def on_heartbeat_timer(g: Group) -> None:
    """Start the next round, and send unanswered appends again."""
    if not g.started:
        g.note("error", {"what": "heartbeat timer, election service not started"})
        return
    start_new_heartbeat(g)
    overdue = g.node.mono - g.node.call_ns
    for replica in g.replicas.values():
        if replica.inflight and replica.sent_at <= overdue:
            replica.inflight = 0
    feed(g)


def handle_heartbeat_response(g: Group, answer: JoyQueueAnswer) -> None:
    """``handleHeartbeatResponse``: a higher term deposes; the answers are not counted."""
    if isinstance(answer, AppendEntriesResponse) and answer.term > g.term:
        g.step_down(answer.term, "heartbeat_answer")


# --- the leader's appends ---------------------------------------------------------------------------------------


def feed(g: Group) -> None:
    """Send what is due to every replica that has nothing outstanding."""
    right = g.log.end
    for peer, replica in g.replicas.items():
        if not replica.inflight and replica.next < right:
            send_append(g, peer, replica)


def send_append(g: Group, peer: str, replica: Replica) -> None:
    """The next batch, from ``replica.next`` on."""
    start = replica.next
    entries = tuple(g.log.entries[start : start + g.rules.entries_per_append()])
    number = g.node.call(g, "append", peer)
    replica.inflight = number
    replica.sent_at = g.node.mono
    prev = start - 1
    g.send(
        peer,
        AppendEntriesRequest(
            g.name, g.term, g.me, prev, g.log.term_at(prev + 1), start, g.commit, 0, entries[0].term, entries, number
        ),
    )


def handle_append_response(g: Group, number: int, call: Call[Group], answer: JoyQueueAnswer) -> None:
    """An answer to an append of the present term: match or step back, commit, continue."""
    replica = g.replicas.get(call.peer)
    if replica is not None and replica.inflight == number:
        replica.inflight = 0
    if not isinstance(answer, AppendEntriesResponse):
        return
    if call.term != g.term:
        return
    if answer.term > g.term:
        g.step_down(answer.term, "append_answer")
        return
    if replica is None or g.role not in _LEADING:
        return
    if answer.success:
        replica.taken_at = g.node.mono
        replica.match = max(replica.match, answer.next_position)
        replica.next = answer.next_position
        if g.handover is not None:
            transfer.on_replicated(g, call.peer, replica)
        advance(g)
    else:
        back = replica.next if answer.next_position < 0 else answer.next_position
        replica.next = max(0, back - 1)
    feed(g)


def advance(g: Group) -> None:
    """Commit what a majority of the voters stores: the median of their positions."""
    if g.role not in _LEADING:
        return
    replicas = g.replicas
    stored = sorted(
        (
            g.log.durable if name == g.me else replicas[name].match
            for name in g.voters
            if name == g.me or name in replicas
        ),
        reverse=True,
    )
    position = min(stored[len(g.voters) // 2], g.log.end)
    if position <= g.commit or not g.rules.may_commit(g.log.term_at(position), g.term):
        return
    set_commit(g, position)
    if g.rules.notices_commit_eagerly():
        send_heartbeats(g)


# --- the follower's log -----------------------------------------------------------------------------------------


def append_entries(g: Group, m: AppendEntriesRequest) -> tuple[bool, int]:
    """``appendEntries``: whether the entries are in the log now, and where to continue."""
    log, start = g.log, m.start_position
    if start > log.end:
        goes_on_at = max(log.end, m.left_position)
        g.note("append_refused", {"leader": m.leader_id, "why": "gap", "start": start, "right": log.end})
        return False, goes_on_at
    if start > m.left_position and not g.rules.matches_prev(log.term_at(m.prev_position + 1), m.prev_term):
        g.note("append_refused", {"leader": m.leader_id, "why": "prev", "prev": (m.prev_term, m.prev_position)})
        return False, -1
    matched = start + len(m.entries)
    cut_at, removed = _store(g, m)
    g.await_log(matched)
    if removed:
        g.note("truncate", {"from": cut_at + 1, "removed": len(removed), "old_terms": removed[:64]})
        if cut_at < g.commit:
            g.note("violation", {"what": "a committed entry was removed", "from": cut_at + 1, "commit": g.commit})
    learn_commit(g, m.commit_position, matched=matched)
    return True, matched


def _store(g: Group, m: AppendEntriesRequest) -> tuple[int, list[int]]:
    """Remove what conflicts, append what is missing: where it was cut, and the terms of what was removed."""
    log, at = g.log, m.start_position
    cut_at, removed = -1, list[int]()
    for skip, entry in enumerate(m.entries):
        if at + skip >= log.end:
            break
        if g.rules.truncates(log.term_at(at + skip + 1), entry.term):
            cut_at = at + skip
            removed = g.cut_log(cut_at)
            break
    new = m.entries[max(0, log.end - at) :]
    for entry in new:
        log.append(entry)
    if new:
        g.write_log()
        g.note("append", {"index": log.end, "term": log.last_term, "count": len(new)})
    return cut_at, removed


def learn_commit(g: Group, leader_commit: int, *, matched: int) -> None:
    """Adopt the leader's commit position, as far as the logs are known to be equal."""
    if leader_commit == g.commit:
        return
    commit = g.rules.follower_commit(leader_commit=leader_commit, matched=matched, commit=g.commit)
    if commit != g.commit:
        set_commit(g, commit)


# --- commit and apply -------------------------------------------------------------------------------------------


def set_commit(g: Group, position: int) -> None:
    """Move the commit position and apply what is new."""
    before, g.commit = g.commit, position
    g.note("commit", {"old": before, "new": position, "entry_term": g.log.term_at(position)})
    end = min(position, g.log.end)
    while g.applied < end:
        entry = g.log.entries[g.applied]
        g.applied += 1
        result = g.machine.apply(g.applied, entry.command)
        request = g.pending.pop(g.applied, None)
        if request is None:
            continue
        if isinstance(result, Refusal):
            g.reply(request, Failed(result.why))
        else:
            g.note("write_acked", {"index": g.applied, "term": entry.term})
            g.reply(request, _ok(g, result, g.applied, entry.term))


def _ok(g: Group, value: object, index: int, term: int) -> Ok:
    """Each group has a log of its own, so an index is reported only where there is one group."""
    return Ok(value) if g.label else Ok(value, index, term)


def on_log_durable(g: Group, right: int) -> None:
    """The own disk stored the log up to ``right``."""
    g.log.durable = max(g.log.durable, min(right, g.log.end))
    if g.log.waits():
        g.write_log()
    advance(g)


# --- clients ----------------------------------------------------------------------------------------------------


def on_request(g: Group, request: int, body: ClientRequest) -> None:
    """Serve, redirect or refuse one request."""
    if g.role == TRANSFERRING:
        g.reply(request, Refused("leadership is being handed over"))
    elif g.role != LEADER or not g.online:
        g.reply(request, NotLeader(g.leader if g.leader != g.me else None))
    elif len(g.pending) >= PENDING_MAX:
        g.reply(request, Refused(f"{PENDING_MAX} requests wait already"))
    elif isinstance(body, Get) and not g.rules.reads_through_log():
        g.reply(request, Ok(g.machine.read(body.key)))
    elif isinstance(body, Append | Put | Cas | Get):
        _submit(g, request, body)
    else:
        g.reply(request, Refused("not served by joyqueue"))


def _submit(g: Group, request: int, command: Command) -> None:
    g.log.append(Entry(g.term, command))
    index = g.log.end
    g.note("append", {"index": index, "term": g.term})
    if isinstance(command, Append | Put) and g.rules.acks_client("appended"):
        g.note("write_acked", {"index": index, "term": g.term})
        g.reply(request, _ok(g, index if isinstance(command, Append) else None, index, g.term))
    else:
        g.pending[index] = request
    if not g.log_batch():
        g.write_log()
    feed(g)
