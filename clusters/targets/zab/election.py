"""Fast leader election: votes, rounds, and the decision which node is nominated.

Guarantees: it only nominates; discovery decides whether a node leads, and in which epoch. A node that leads or follows
answers with the vote that it decided on, so that a newcomer finds a working leader. The core sees the role that a
decision gives, and starts it. Out of scope: connections.

Source: docs/sources.md, zab: FastLeaderElection; ZOOKEEPER-1732 and 1805 for votes of nodes that do not look.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.client_api import Unknown
from dethrone.clusters.targets.zab.messages import Closed, Notification, Vote
from dethrone.clusters.targets.zab.node import CONNECT, FINALIZE, NOTIFY, TICK, Node
from dethrone.clusters.targets.zab.rules import ELECTION, FOLLOWING, LEADING, LOOKING


def look(n: Node, why: str) -> None:
    """Leave the current role, and look for a leader."""
    if n.role != LOOKING:
        n.note("step_down" if n.role == LEADING else "looking", {"why": why})
    if n.lead is not None:
        for peer in n.lead.peers.values():
            n.send(peer.to, Closed(peer.number))
    if n.follow is not None:
        n.send(n.follow.to, Closed(n.follow.number))
    shows_end = n.rules.shows_log_end or n.role == LOOKING
    n.vote = n.own_vote = Vote(n.me, n.log.last if shows_end else n.log.term_at(n.commit), n.current)
    n.lead = n.follow = n.leader = None
    n.role, n.phase = LOOKING, ELECTION
    for request in n.waiting.values():
        n.reply(request, Unknown(why))  # it may or may not take effect
    n.waiting, n.origins = {}, {}
    for timer in (TICK, CONNECT, FINALIZE):
        n.timer(timer, None)
    n.round += 1
    n.received, n.outside = {}, {}
    n.finalizing = False
    n.note("election_started", {"round": n.round, "vote": list(n.vote), "why": why})
    n.interval = n.knobs.min_notification_interval
    n.timer(NOTIFY, n.interval)
    _send_all(n)


def on_notify_timer(n: Node) -> None:
    """Send the vote again, at growing intervals."""
    if n.role == LOOKING:
        n.interval = min(2 * n.interval, n.knobs.max_notification_interval)
        n.timer(NOTIFY, n.interval)
        _send_all(n)


def on_finalize_timer(n: Node) -> None:
    """No better vote was heard: decide."""
    if n.finalizing:
        voters = [sid for sid, other in n.received.items() if other.vote == n.vote]
        _decide(n, n.vote, voters)


def on_notification(n: Node, src: str, body: Notification) -> None:
    """The table of fast leader election."""
    if src not in n.sids or body.vote.leader not in n.sids:
        return
    if n.role != LOOKING:
        if body.state == LOOKING:
            n.send(src, _notification(n))
        return
    if n.finalizing:
        if not _better(n, body.vote, n.vote):
            n.timer(FINALIZE, n.knobs.finalize_wait)
            return
        n.finalizing = False
        n.timer(FINALIZE, None)
    if body.state == LOOKING:
        _heard_looking(n, src, body)
    else:
        _heard_decided(n, src, body)


def _heard_looking(n: Node, src: str, body: Notification) -> None:
    if body.round < n.round:
        n.send(src, _notification(n))
        return
    if body.round > n.round:
        if not n.rules.adopts_round:
            return
        n.round = body.round
        n.received = {}
        n.vote = body.vote if _better(n, body.vote, n.own_vote) else n.own_vote
        _send_all(n)
    elif _better(n, body.vote, n.vote):
        n.vote = body.vote
        n.note("vote_changed", {"by": src, "vote": list(n.vote), "round": n.round})
        _send_all(n)
    n.received[src] = body
    _tally(n)


def _heard_decided(n: Node, src: str, body: Notification) -> None:
    for votes in (n.received, n.outside) if body.round == n.round else (n.outside,):
        votes[src] = body
        agree = _agreeing(votes, body)
        if len(agree) >= n.quorum and _leader_ok(n, votes, body):
            n.round = body.round
            _decide(n, body.vote, agree)
            return


def _better(n: Node, a: Vote, b: Vote) -> bool:
    first, second = (n.rules.rank(vote.peer_epoch, vote.zxid, n.sids[vote.leader]) for vote in (a, b))
    return first > second


def _notification(n: Node) -> Notification:
    return Notification(n.vote, n.round, n.role)


def _send_all(n: Node) -> None:
    own = _notification(n)
    for other in n.others:
        n.send(other, own)
    n.received[n.me] = own
    if not n.finalizing:
        _tally(n)


def _tally(n: Node) -> None:
    same = [sid for sid, other in n.received.items() if other.vote == n.vote and other.round == n.round]
    if len(same) >= n.quorum:
        n.finalizing = True
        n.timer(FINALIZE, n.knobs.finalize_wait)


def _agreeing(among: Mapping[str, Notification], body: Notification) -> list[str]:
    """Nodes that follow or lead and name the same leader and epoch; zxid and round may differ."""
    wanted = body.vote.leader, body.vote.peer_epoch
    return [
        sid
        for sid, other in among.items()
        if other.state != LOOKING and (other.vote.leader, other.vote.peer_epoch) == wanted
    ]


def _leader_ok(n: Node, among: Mapping[str, Notification], body: Notification) -> bool:
    """The leader itself reports that it leads; the own nomination counts in its own round."""
    if body.vote.leader == n.me:
        return body.round == n.round
    own = among.get(body.vote.leader)
    return own is not None and own.state == LEADING


def _decide(n: Node, vote: Vote, voters: list[str]) -> None:
    n.vote = vote
    n.finalizing = False
    n.timer(NOTIFY, None)
    n.timer(FINALIZE, None)
    n.role = LEADING if vote.leader == n.me else FOLLOWING
    n.note("fle_decided", {"leader": vote.leader, "round": n.round, "voters": sorted(voters)})
