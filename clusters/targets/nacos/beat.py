"""The beat task, the beat, and how a node handles a received beat.

Guarantees: the original's steps in their order. Sending alone keeps a leader from electing, regardless of the answers;
an accepted beat does not raise the term; equal terms are accepted. The knobs ``leader_needs_majority_acks`` and
``beat_raises_term`` change exactly the first two.

Out of scope: compression and addresses (``wire``); the data half of a beat (``data``).

Source: docs/sources.md, nacos: ``sendBeat``, ``receivedBeat``.
"""

from __future__ import annotations

from dethrone.clusters.targets.nacos import messages as m
from dethrone.clusters.targets.nacos.data import sync_from_beat
from dethrone.clusters.targets.nacos.knobs import TICK_PERIOD_MS
from dethrone.clusters.targets.nacos.state import STOPPED, NodeState


def on_beat_tick(node: NodeState) -> None:
    """One run of the beat task."""
    if not node.rules.works(stop_work=node.stop_work, ready=node.peers.ready):
        return
    local = node.local
    local.heartbeat_due_ms -= TICK_PERIOD_MS
    if local.heartbeat_due_ms > 0:
        return
    node.reset_heartbeat_due()
    send_beat(node)


def send_beat(node: NodeState) -> None:
    """A leader's beat to all others."""
    if not node.rules.beats(state=node.local.state, standalone=node.knobs.standalone):
        return
    if node.knobs.leader_needs_majority_acks:
        node.beat_acks = {node.me}
    if node.rules.sending_is_contact():
        node.reset_leader_due()
    stamps = node.rules.stamps(node.items.stamps())
    node.counters["beats_sent"] += 1
    node.trace("beat_sent", items=len(stamps), to=len(node.peers.peers) - 1)
    node.send_others(m.BeatRequest(node.record(), stamps))


def received_beat_answer(node: NodeState, answer: m.RaftPeer) -> None:
    """A follower accepted a beat: only its record is renewed, unless the knob counts majorities."""
    if node.stop_work:
        return
    node.peers.update(answer)
    node.trace("peer_refreshed", peer=answer.ip, peer_term=answer.term, peer_state=answer.state, cause="beat")
    if node.knobs.leader_needs_majority_acks and node.local.state == "LEADER":
        node.beat_acks.add(answer.ip)
        if len(node.beat_acks) >= node.peers.majority_count():
            node.reset_leader_due()


def received_beat(node: NodeState, src: str, sender: m.RaftPeer, stamps: tuple[m.DatumStamp, ...]) -> None:
    """Accept or refuse a beat."""
    local = node.local
    refusal: tuple[str, m.ErrorKind, str] | None = None
    if node.stop_work:
        refusal = ("stop_work", "illegal state", STOPPED)
    elif not node.rules.accepts_sender(sender.state):
        refusal = ("not_leader", "illegal argument", f"invalid state from master, state: {sender.state}")
    elif not node.rules.accepts_term(own_term=local.term, sender_term=sender.term):
        text = f"out of date beat, beat-from-term: {sender.term}, beat-to-term: {local.term}"
        refusal = ("out_of_date", "illegal argument", text)
    if refusal is not None:
        code, error, text = refusal
        node.trace("beat_decision", sender=sender.ip, sender_term=sender.term, code=code)
        node.answer_peer(src, m.CallError("beat", error, text))
        return
    if node.rules.beat_makes_follower(local.state):
        node.set_state("FOLLOWER", "beat")
        node.relabel(sender.ip, "beat")
    term = node.rules.term_after_beat(local.term, sender.term)
    if term != local.term:
        # A vote of an older term must not pass for one of the new term, hence the relabel.
        node.set_term(term, "beat")
        node.relabel(sender.ip, "beat")
    node.persist_vote()
    node.trace("beat_decision", sender=sender.ip, sender_term=sender.term, code="ok")
    if node.rules.beat_resets_dues:
        node.reset_leader_due()
        node.reset_heartbeat_due()
    make_leader(node, sender)
    if node.knobs.beat_data and not node.knobs.send_beat_only:
        sync_from_beat(node, sender, stamps)
    node.answer_peer(src, m.BeatAnswer(node.record()))


def make_leader(node: NodeState, sender: m.RaftPeer) -> None:
    """Follow the sender; ask every other record that still says LEADER for its present state."""
    changed, stale = node.peers.make_leader(sender)
    if changed:
        node.trace("leader_set", leader=sender.ip, cause="beat", own_term=node.local.term)
        node.trace("leader_seen", leader=sender.ip, leader_term=sender.term)
    for ip in stale if node.rules.refreshes_former else ():
        node.send(ip, m.PeerRequest())


def received_peer_request(node: NodeState, src: str) -> None:
    """Answer with the own record, in any state."""
    node.answer_peer(src, m.PeerAnswer(node.record()))


def received_peer_answer(node: NodeState, answer: m.RaftPeer) -> None:
    """Renew that peer's record."""
    if node.stop_work:
        return
    node.peers.update(answer)
    node.trace("peer_refreshed", peer=answer.ip, peer_term=answer.term, peer_state=answer.state, cause="peer")


def peer_call_refused(node: NodeState, peer: str) -> None:
    """Not OK: the peer does not lead. A transport error, in contrast, changes nothing."""
    known = node.peers.peers.get(peer)
    if known is not None:
        known.state = "FOLLOWER"
        node.trace("peer_refreshed", peer=peer, peer_term=known.term, peer_state="FOLLOWER", cause="refused")
