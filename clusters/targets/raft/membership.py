"""Single-server membership changes: one voter added or removed at a time, learners first.

Guarantees: a change starts only when the last configuration and an entry of the leader's own term are committed; a new
voter is a learner until a catch-up round takes less than an election timeout (at most 10 rounds and 10 timeouts in
all), and is removed again where catching up fails; the client gets Ok when the final configuration is committed. Out of
scope: joint consensus.

Source: thesis chapter 4; its erratum "bug in single-server membership changes" (raft-dev, 2015) for the own-term rule.
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import ChangeConfig, Ok, Refused
from dethrone.clusters.targets.raft.leading import Change, Leading, Progress
from dethrone.clusters.targets.raft.messages import Config
from dethrone.clusters.targets.raft.node import Node
from dethrone.clusters.targets.raft.replication import append_own

CATCH_UP_ROUNDS_MAX = 10


def on_change(n: Node, lead: Leading, request: int, body: ChangeConfig) -> None:
    """A client asks to add or to remove one voter."""
    why = _cannot(n, lead, body)
    if why:
        n.reply(request, Refused(why))
        return
    voters, learners = n.config.voters, n.config.learners
    if body.remove is not None:
        change = lead.change = Change(request, body.remove, n.mono)
        left = tuple(name for name in voters if name != body.remove)
        change.index = append_own(n, lead, Config(left, tuple(name for name in learners if name != body.remove)))
        return
    added = body.add or ""
    change = lead.change = Change(request, added, n.mono)
    if added not in learners:
        append_own(n, lead, Config(voters, (*learners, added)))
    change.target = n.log.end
    change.rounds = 1


def _cannot(n: Node, lead: Leading, body: ChangeConfig) -> str:
    if n.knobs.membership != "single_server":
        return "membership is static"
    if (body.add is None) == (body.remove is None):
        return "give exactly one of add and remove"
    if lead.change is not None or lead.handover is not None:
        return "another change or a transfer is under way"
    if not n.rules.may_change_config(
        last_committed=n.config_index <= n.commit, own_term_committed=lead.own_term_committed
    ):
        return "the last configuration, or an entry of this term, is not committed yet"
    if body.add is not None:
        return f"{body.add} is a voter already" if body.add in n.voters else ""
    if body.remove not in n.voters and body.remove not in n.config.learners:
        return f"{body.remove} is no member"
    return "the last voter stays" if n.voters == (body.remove,) else ""


def on_match(n: Node, lead: Leading, peer: str, p: Progress) -> bool:
    """A peer stored more: perhaps the learner finished a catch-up round. Whether it became a voter or was given up."""
    change = lead.change
    if change is None or change.index or change.node != peer or p.match < change.target:
        return False
    took = n.mono - change.since
    if took < n.knobs.election_timeout_max and n.config_index <= n.commit:
        config = n.config
        learners = tuple(name for name in config.learners if name != peer)
        change.index = append_own(n, lead, Config((*config.voters, peer), learners))
        return True
    if took >= n.knobs.election_timeout_max:
        if change.rounds >= CATCH_UP_ROUNDS_MAX:
            _give_up(n, lead, change)
            return True
        change.rounds += 1
    # else: fast enough, but the learner's own entry is not committed yet: one more round, not counted
    change.since = n.mono
    change.target = n.log.end
    return False


def on_tick(n: Node, lead: Leading) -> None:
    """Each heartbeat: neither a learner nor a removed peer that answers nothing may hold the leader for ever."""
    _let_go(n, lead)
    change = lead.change
    if change is None or change.index:
        return
    p = lead.progress.get(change.node)
    if p is not None and on_match(n, lead, change.node, p):
        return
    if n.mono - change.started > CATCH_UP_ROUNDS_MAX * n.knobs.election_timeout_max:
        _give_up(n, lead, change)


def _let_go(n: Node, lead: Leading) -> None:
    """Forget removed peers that know of their committed removal, or have been silent for long."""
    patience = CATCH_UP_ROUNDS_MAX * n.knobs.election_timeout_max
    for peer, p in list(lead.progress.items()):
        if not 0 < p.leaving <= n.commit:
            continue
        p.leave_seq = p.leave_seq or lead.seq + 1
        knows = p.match >= p.leaving and p.acked_seq >= p.leave_seq
        if knows or n.mono - max(p.acked_at, lead.since) > patience:
            del lead.progress[peer]


def _give_up(n: Node, lead: Leading, change: Change) -> None:
    lead.change = None
    n.reply(change.id, Refused("the new member did not catch up"))
    if n.config_index <= n.commit:
        append_own(n, lead, Config(n.voters, tuple(name for name in n.config.learners if name != change.node)))


def on_commit(n: Node, lead: Leading) -> None:
    """The commit index moved: perhaps over the configuration that ends a change, perhaps over one without this node."""
    change = lead.change
    if change is not None and change.index and change.index <= n.commit:
        lead.change = None
        n.note("write_acked", {"index": change.index, "term": n.term})
        n.reply(change.id, Ok(None, change.index, n.term))
    elif change is not None:
        p = lead.progress.get(change.node)
        if p is not None:
            on_match(n, lead, change.node, p)
    _let_go(n, lead)
    if n.me not in n.voters and n.config_index and n.config_index <= n.commit:
        n.stop_leading("removed")
