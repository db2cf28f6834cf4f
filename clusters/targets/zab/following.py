"""The follower: it accepts a leader's epoch, takes over its history, then logs and applies what is broadcast.

Guarantees: an epoch is stored before it is acknowledged, and counted for one leader only; the synced history is on disk
before currentEpoch, and both before NEWLEADER is acknowledged; proposals are logged in their order, each on disk before
its ACK, and applied in the order of their COMMITs. Anything out of order ends the connection. Out of scope: observers.

Source: Apache ZooKeeper, Learner and Follower.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.targets.zab import messages as m
from dethrone.clusters.targets.zab.election import look
from dethrone.clusters.targets.zab.messages import epoch_of, zxid_of
from dethrone.clusters.targets.zab.node import CONNECT, Following, Node
from dethrone.clusters.targets.zab.rules import BROADCAST, DISCOVERY, SYNCHRONIZATION


def begin(n: Node) -> None:
    """A leader was nominated: connect to it."""
    n.enter(DISCOVERY)
    connect(n)


def connect(n: Node) -> None:
    """Open a connection, if there are tries left."""
    tries = 0 if n.follow is None else n.follow.tries
    if tries == n.knobs.connect_tries:
        look(n, f"{n.vote.leader} cannot be reached")
        return
    n.link_number += 1
    n.follow = Following(n.vote.leader, n.link_number, n.mono, tries=tries + 1, last=n.log.last)
    n.pack(n.follow, m.FollowerInfo(n.accepted))


def on_closed(n: Node) -> None:
    """The leader does not know the connection, or ended it."""
    if n.phase == DISCOVERY:
        n.timer(CONNECT, n.knobs.connect_wait)
    else:
        look(n, "the connection was closed")


# --- discovery ------------------------------------------------------------------------------------------------------


def _epoch(n: Node, follow: Following, body: m.LeaderInfo) -> None:
    epoch = body.epoch
    if epoch < n.accepted:
        n.note("epoch_refused", {"epoch": epoch, "accepted": n.accepted})
        look(n, f"epoch {epoch} is below the accepted one")
        return
    counted = epoch > n.accepted
    if counted:
        n.accept(epoch, n.vote.leader, store=n.rules.follower_stores_accepted)
    n.note("epoch_accepted", {"epoch": epoch, "leader": n.vote.leader, "counted": counted})
    current = n.current if counted or not n.rules.counts_once else m.NOT_COUNTED
    n.pack(follow, m.AckEpoch(epoch, current, n.own_vote.zxid))
    n.enter(SYNCHRONIZATION)


# --- synchronization ------------------------------------------------------------------------------------------------


def _truncate(n: Node, follow: Following, body: m.Trunc) -> None:
    zxid = body.zxid
    keep = n.log.upto(zxid)
    if keep < n.commit:
        n.note("violation", {"what": "TRUNC below the own commit", "zxid": zxid, "commit": n.commit})
        look(n, "TRUNC below the own commit")
        return
    n.note("truncate", {"from": n.log.last, "to": zxid})
    n.store(n.log.keep(keep))
    follow.last = n.log.last
    if follow.last != zxid:
        look(n, f"the leader's {zxid} is not in the log")


def _take_all(_: Node, follow: Following, body: m.Snap) -> None:
    follow.snapshot = body.txns
    follow.last = body.txns[-1].zxid if body.txns else 0


def _proposed(n: Node, follow: Following, proposal: m.Proposal) -> None:
    zxid, last = proposal.txn.zxid, follow.last
    fits = zxid == last + 1 if epoch_of(zxid) == epoch_of(last) else zxid > last and zxid & m.COUNTER_MAX == 1
    if not fits:
        n.note("gap", {"after": last, "zxid": zxid})
        look(n, "a proposal is missing")
        return
    follow.last = zxid
    if n.phase == BROADCAST:
        _log(n, follow, proposal)
    else:
        follow.buffer.append(proposal)


def _committed(n: Node, follow: Following, zxid: int) -> None:
    if n.phase != BROADCAST:
        if n.leader is None or n.rules.keeps_commits:
            follow.commits.append(zxid)
    elif n.log.term_at(n.commit + 1) == zxid:
        n.deliver(n.commit + 1)
    else:
        n.note("violation", {"what": "COMMIT of what is not the first pending", "zxid": zxid})
        look(n, "a COMMIT out of order")


def _new_leader(n: Node, follow: Following, body: m.NewLeader) -> None:
    """The history is complete: to disk with it, then the epoch, then the acknowledgement."""
    epoch = epoch_of(body.zxid)
    known = set(follow.commits)
    history = [proposal.txn for proposal in follow.buffer if proposal.txn.zxid in known]
    follow.buffer = [proposal for proposal in follow.buffer if proposal.txn.zxid not in known]
    follow.commits = []
    ops = n.log.replace((*follow.snapshot, *history)) if follow.snapshot is not None else n.log.extend(history)
    acks = [body.zxid] if n.rules.acks_leader_first else [*(txn.zxid for txn in history), body.zxid]
    current = n.current_ops(epoch)
    if n.rules.log_before_current and n.rules.log_before_ack:
        n.store(ops)
        n.store(current)
    else:
        n.store(current)
        if n.rules.log_before_ack:
            n.store(ops)
    for zxid in acks:
        n.pack(follow, m.Ack(zxid))
    if not n.rules.log_before_ack:
        n.store(ops)
    n.leader = n.vote.leader
    n.note("sync_done", {"epoch": epoch, "zxid": n.log.last})
    n.note("leader_seen", {"leader": n.leader, "epoch": epoch})


def _up_to_date(n: Node, follow: Following, _: m.UpToDate) -> None:
    """Serve; what came during the sync is logged, acknowledged and applied in its order."""
    n.pack(follow, m.Ack(zxid_of(n.accepted)))
    n.phase = BROADCAST
    if n.rules.refreshes_stored_vote:
        n.vote = n.vote._replace(peer_epoch=n.accepted)
    n.deliver(n.log.end)
    buffered, follow.buffer = follow.buffer, []
    commits, follow.commits = follow.commits, []
    for proposal in buffered:
        _log(n, follow, proposal)
    for zxid in commits:
        if n.follow is follow:
            _committed(n, follow, zxid)


# --- broadcast ------------------------------------------------------------------------------------------------------


def _log(n: Node, follow: Following, proposal: m.Proposal) -> None:
    txn, origin = proposal.txn, proposal.origin
    if origin is not None and origin[:2] == (n.me, follow.number):
        n.origins[txn.zxid] = origin[2]
    ops = n.log.extend((txn,))
    if n.rules.syncs_before_ack:
        n.store(ops)
    else:
        n.write(ops)
    n.pack(follow, m.Ack(txn.zxid))


def on_tick(n: Node, follow: Following) -> None:
    """Half a tick passed: is the leader silent, or a wait over?"""
    if n.leader is None:
        if n.mono >= n.deadline:
            look(n, f"{n.phase} took longer than initLimit")
    elif n.mono - follow.heard > n.knobs.sync_ns:
        look(n, "the leader is silent")


# Of DIFF there is nothing to do: the log stays as it is.
HANDLERS: Mapping[type, Callable[[Node, Any, Any], None]] = {
    m.Ping: lambda n, follow, body: n.pack(follow, body),
    m.LeaderInfo: _epoch,
    m.Trunc: _truncate,
    m.Snap: _take_all,
    m.Proposal: _proposed,
    m.Commit: lambda n, follow, body: _committed(n, follow, body.zxid),
    m.NewLeader: _new_leader,
    m.UpToDate: _up_to_date,
}
