"""Commit and apply: when an entry counts as stored by a majority, and which clients then get their answer.

Guarantees: entries are applied in order, once per incarnation; the leader counts itself only up to what its own disk
holds; a committed configuration ends its change, and a leader outside that configuration steps down afterwards. Out of
scope: how followers learn of commits (`following`).

Source: Raft paper, 5.3, 5.4.2 and figure 8; thesis 4.2.2 (a leader outside its configuration does not count itself).
"""

from __future__ import annotations

from dethrone.clusters.targets.kit.machine import Refusal
from dethrone.clusters.targets.raft import membership, reads
from dethrone.clusters.targets.raft.leading import Leading
from dethrone.clusters.targets.raft.messages import Command
from dethrone.clusters.targets.raft.node import Node
from dethrone.clusters.targets.raft.replication import append_own, broadcast


def submit(n: Node, lead: Leading, command: Command, request: int | None = None) -> int:
    """Append a command as the leader; ``request`` is answered when it is committed and applied. Its index."""
    decided = n.machine.early(command) if request is not None else None
    index = append_own(n, lead, command if decided is None else decided[0])
    if decided is not None:
        lead.early[index] = decided[1]
    if request is not None:
        lead.writes[index] = request
    if n.log.durable >= index:
        advance(n)  # only without a disk: otherwise the batch just started
    return index


def advance(n: Node) -> None:
    """Commit what a majority of the voters now stores, as the leader."""
    lead = n.leading
    if lead is None:
        return
    progress = lead.progress
    stored = [p.match for voter in n.voters if (p := progress.get(voter)) is not None and voter != n.me]
    if n.me in n.voters:
        stored.append(n.log.durable)
    need = n.rules.quorum_size(len(n.voters))
    if len(stored) < need:
        return
    stored.sort()
    index = min(stored[-need], n.log.end)
    if index <= n.commit or not n.rules.may_commit(n.log.term_at(index), n.term):
        return
    set_commit(n, index)
    if n.leading is lead and n.rules.notices_commit_eagerly():
        broadcast(n, lead)


def set_commit(n: Node, index: int) -> None:
    """Move the commit index and apply what is new; also for followers."""
    before, n.commit = n.commit, index
    n.note("commit", {"old": before, "new": index, "entry_term": n.log.term_at(index)})
    configs = len(n.log.configs) > 1
    if configs:
        n.refresh_config("committed")
        for at, config in n.log.configs:
            if before < at <= index:
                members = {"voters": list(config.voters), "learners": list(config.learners)}
                n.note("config", {"what": "committed", "index": at, **members})
    lead = n.leading
    first, end = n.applied + 1, min(index, n.log.end)
    if first <= end:
        several = {"from": first} if first < end else {}
        n.note("apply", {**several, "index": end, "digest": n.log.digests[end - 1]})
    for at in range(first, end + 1):
        _apply(n, lead, at)
    if lead is None:
        return
    if not lead.own_term_committed and index >= lead.own_first:
        lead.own_term_committed = True
        reads.release_early(n, lead)
    if configs:
        membership.on_commit(n, lead)
    if lead.reads and n.leading is lead:
        reads.confirm(n, lead)


def _apply(n: Node, lead: Leading | None, index: int) -> None:
    entry = n.log.entries[index - 1]
    result = n.machine.apply(index, entry.command, n.mono)
    n.applied = index
    if lead is None:
        return
    request = lead.writes.pop(index, None)
    if request is None:
        return
    if not isinstance(result, Refusal):
        result = lead.early.pop(index, result)
    n.answer(request, result, index, entry.term)
