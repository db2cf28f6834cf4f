"""Epochs: an election on top of Paxos. Instance −k decides who leads epoch k.

Each contender proposes its own name; the decided one leads until epoch k + 1 is decided. The leader sends heartbeats; a
node that hears none for a random time contends for the next epoch. Guarantees: safety is that of Paxos alone: one
leader per epoch, independent of clocks and heartbeats. A leader that is cut off does not notice that it was replaced.
After a restart an epoch is learned again, never read from disk (unless ``learner=disk``). Out of scope: leases.

Source: ours; "Paxos Made Simple", 3, elects its leader by other means.
"""

from __future__ import annotations

from dethrone.clusters.targets.paxos import learner, proposer
from dethrone.clusters.targets.paxos.messages import Heartbeat, Leader, Value
from dethrone.clusters.targets.paxos.node import BEAT, CONTEND, Node


def begin(n: Node) -> None:
    """A node starts to listen."""
    if n.knobs.election:
        _listen(n)


def on_contend_timer(n: Node) -> None:
    """No leader was heard: propose oneself for the next epoch."""
    if n.leads:
        return
    epoch = max(n.epoch + 1, n.top_epoch)
    if n.contends_for != epoch:
        _withdraw(n)
        n.contends_for = epoch
        n.trace("election_started", -epoch, {"epoch": epoch, "leader": n.leader})
    proposer.want(n, -epoch, Leader(n.me))
    _listen(n)


def on_decided(n: Node, epoch: int, value: Value, voters: list[str]) -> None:
    """Epoch ``epoch`` has its leader; it ends every earlier one."""
    if epoch <= n.epoch or not isinstance(value, Leader):
        return
    before, was_role = n.leads, n.shown_role()
    if n.contends_for != epoch:
        _withdraw(n)
    n.epoch, n.leader = epoch, value.node
    n.top_epoch = max(n.top_epoch, epoch)
    n.leads = value.node == n.me
    n.contends_for = 0
    if before and not n.leads:
        n.trace("step_down", -epoch, {"cause": f"epoch {epoch} was decided"})
    if n.shown_role() != was_role:
        n.trace("role_change", -epoch, {"was": was_role, "to": n.shown_role()})
    if n.leads:
        n.trace("elected", -epoch, {"voters": voters, "members": list(n.acceptors)})
        n.timer(CONTEND, None)
        on_beat_timer(n)
    else:
        n.trace("leader_seen", -epoch, {"leader": n.leader})
        n.timer(BEAT, None)
        _listen(n)


def on_beat_timer(n: Node) -> None:
    """The leader of an epoch announces itself."""
    if n.leads:
        n.send_peers(Heartbeat(n.epoch))
        n.arm(BEAT, n.rules.knobs.heartbeat_interval)


def on_heartbeat(n: Node, src: str, body: Heartbeat) -> None:
    """The leader of an epoch is there. Of an unknown epoch the acceptors are asked: a heartbeat proves no decision."""
    if not n.knobs.election or body.epoch < n.epoch or (n.leads and body.epoch == n.epoch):
        return
    n.beat_at = n.mono
    if body.epoch > n.epoch:
        learner.ask(n, n.instance(-body.epoch))
    elif src != n.leader:
        return
    elif n.contends_for:
        _withdraw(n)
    if not n.leads:
        _listen(n)


def _listen(n: Node) -> None:
    """Contend after a fresh silence."""
    wait = n.rules.silence(n.rng)
    n.contend_at = n.clock() + wait
    n.arm(CONTEND, wait)


def _withdraw(n: Node) -> None:
    """Stop contending, unless the own name was already proposed: then it may be chosen anyway."""
    inst = n.instances.get(-n.contends_for)
    if n.contends_for and inst is not None and inst.attempt is not None and not inst.attempt.own_sent:
        proposer.stop(n, inst)
        n.contends_for = 0
