"""Mode ``race``: the replicas themselves race for the partition's leader node.

Guarantees: a winner leads only once the service holds its new epoch, written with compare-and-set over the state that
it read; so no epoch has two leaders, regardless of stalls. Others learn an epoch from the leader node, which names it
only from then on. Out of scope: replication (`replica`).

Source: docs/sources.md, zk-ephemeral.
"""

from __future__ import annotations

from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral import replica
from dethrone.clusters.targets.zk_ephemeral.state import Broker, StoredState, read_state


def look(b: Broker, *, rewatch: bool = True) -> None:
    """Read the leader node, setting the watch, and act on it; once more if that is asked for while it is read."""
    if b.looking:
        b.look_twice = True
        return
    b.looking = True
    b.session.call(m.Exists(m.LEADER_PATH, watch=rewatch), lambda answer: _looked(b, answer))


def _looked(b: Broker, answer: m.Answer) -> None:
    b.looking = False
    if b.look_twice:  # what was read may be older than what was heard meanwhile
        b.look_twice = False
        look(b, rewatch=b.rules.rewatches())
        return
    if answer.code != m.OK:
        b.session.call(m.GetNode(m.STATE_PATH), lambda state: _vacant(b, state))
        return
    data = answer.data if isinstance(answer.data, dict) else {}
    owner, epoch = data.get("id"), data.get("epoch")
    if b.leading is not None and not b.rules.gives_up("other"):
        return
    if answer.owner == b.session.id:
        if b.leading is None and not b.claiming:  # it stepped down and is still the owner: a new epoch
            _claim(b)
    elif not isinstance(owner, str) or owner == b.me or not isinstance(epoch, int):
        # an owner that has no epoch yet, or this node's former life, whose session still lives
        if b.leading is not None:
            replica.stop_leading(b, "the leader node belongs to another session")
        replica.stop_following(b)
        b.leader = None
        b.become(b.FOLLOWER, "waits for the owner of the leader node")
    elif b.leading is not None and b.term > epoch:
        return  # an answer from before this node's own election
    elif b.rules.accepts_epoch(b.term, epoch) or b.term <= epoch:
        replica.follow(b, owner, epoch)


def _vacant(b: Broker, answer: m.Answer) -> None:
    """There is no leader node: contend, or wait for a replica that may."""
    stored = read_state(answer.data) if answer.code == m.OK else None
    if b.leading is not None:
        replica.stop_leading(b, "the leader node is gone")
    replica.stop_following(b)
    b.leader = None
    isr = stored.isr if stored is not None else None
    if b.rules.resumes_leadership(node=b.me, leader=stored.leader if stored is not None else None) and stored:
        replica.lead(b, stored.epoch, stored.isr, answer.version, ())
        return
    if b.rules.may_contend(b.me, isr, unclean=False):
        contend(b, stored, answer.version, unclean=False)
        return
    b.become(b.FOLLOWER, "not in the ISR")
    if b.knobs.unclean_leader_election and stored is not None:
        _any_alive(b, stored, answer.version, list(stored.isr))


def _any_alive(b: Broker, stored: StoredState, version: int, left: list[str]) -> None:
    """Whether a member of the ISR holds a session; if none does, an unclean election."""
    if not left:
        b.note("unclean_election", {"id": b.me, "isr": list(stored.isr)})
        contend(b, stored, version, unclean=True)
        return
    b.session.call(
        m.Exists(m.IDS + left[0], watch=True),
        lambda answer: None if answer.code == m.OK else _any_alive(b, stored, version, left[1:]),
    )


def contend(b: Broker, stored: StoredState | None, version: int, *, unclean: bool) -> None:
    """Try to create the leader node."""
    b.become(b.CONTENDING, "unclean" if unclean else "the leader node is free")
    b.note("contend", {"path": m.LEADER_PATH, "epoch_known": 0 if stored is None else stored.epoch})
    b.claiming = True
    isr = None if stored is None else stored.isr

    def told(answer: m.Answer) -> None:
        b.claiming = False
        mine = answer.code == m.NODE_EXISTS and answer.owner == b.session.id
        if mine or answer.code == m.OK:
            b.note("ephemeral_created", {"path": m.LEADER_PATH})
            _publish(b, stored, version, unclean=unclean)
            return
        data = answer.data if isinstance(answer.data, dict) else {}
        b.note("create_refused", {"path": m.LEADER_PATH, "owner": data.get("id")})
        look(b)

    b.contenders = tuple(isr or b.brokers)
    create = m.Create(m.LEADER_PATH, {"id": b.me, "epoch": None}, ephemeral=b.rules.creates_ephemeral)
    b.session.call(create, told)


def _claim(b: Broker) -> None:
    """This node owns the leader node and does not lead: read the state, then publish a new epoch."""
    b.claiming = True
    b.become(b.CONTENDING, "owns the leader node")

    def told(answer: m.Answer) -> None:
        b.claiming = False
        stored = read_state(answer.data) if answer.code == m.OK else None
        _publish(b, stored, answer.version, unclean=False)

    b.session.call(m.GetNode(m.STATE_PATH), told)


def _publish(b: Broker, stored: StoredState | None, version: int, *, unclean: bool) -> None:
    """Write {leader, epoch + 1, ISR} over exactly the state that was read; then lead."""
    epoch = b.rules.next_epoch(0 if stored is None else stored.epoch)
    isr = (b.me,)  # followers join as they catch up
    state = StoredState(b.me, epoch, isr, 0)
    b.claiming = True

    def told(answer: m.Answer) -> None:
        b.claiming = False
        if answer.code == m.OK or answer.data == state.data():
            replica.lead(b, epoch, isr, answer.version, b.contenders)
            b.session.call(m.SetNode(m.LEADER_PATH, {"id": b.me, "epoch": epoch}), lambda told: _named(b, told))
            look(b)
            return
        again = read_state(answer.data)
        if again is None or not b.rules.may_contend(b.me, again.isr, unclean=unclean):
            b.session.call(m.Delete(m.LEADER_PATH), lambda _: look(b))  # elected by a state that is no longer true
            return
        _publish(b, again, answer.version, unclean=unclean)

    op = m.Create(m.STATE_PATH, state.data()) if stored is None else m.SetNode(m.STATE_PATH, state.data(), version)
    b.session.call(op, told)


def _named(b: Broker, answer: m.Answer) -> None:
    if answer.code != m.OK:
        look(b)
