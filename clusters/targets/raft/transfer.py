"""Leadership transfer: bring the target up to date, then ask it to campaign at once.

Guarantees: no writes are accepted meanwhile; the lease is void from the moment TimeoutNow leaves and stays off for the
rest of the term, even after an abort, because the message may still arrive; a transfer ends within electionTimeoutMax.
Out of scope: choosing a target.

Source: thesis 3.10; 6.4.1 (a transfer breaks the lease).
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Failed, Refused, Transfer, Unknown
from dethrone.clusters.targets.raft.election import start_election
from dethrone.clusters.targets.raft.leading import Handover, Leading
from dethrone.clusters.targets.raft.messages import TimeoutNow
from dethrone.clusters.targets.raft.node import FOLLOWER, TRANSFER, Node
from dethrone.harness.core.machine import SetTimer


def on_transfer(n: Node, lead: Leading, request: int, body: Transfer) -> None:
    """A client asks to hand leadership over."""
    why = ""
    if not n.knobs.transfer:
        why = "transfer is off"
    elif lead.handover is not None or lead.change is not None:
        why = "another transfer or a membership change is under way"
    elif body.target == n.me or body.target not in n.voters:
        why = f"{body.target} is no other voter"
    if why:
        n.reply(request, Refused(why))
        return
    deadline = n.mono + n.knobs.election_timeout_max
    lead.handover = Handover(request, body.target, deadline)
    n.out.append(SetTimer(TRANSFER, deadline))
    n.note("transfer", {"phase": "started", "target": body.target})
    on_match(n, lead)


def on_match(n: Node, lead: Leading) -> None:
    """Send TimeoutNow once the target stores everything."""
    handover = lead.handover
    if handover is None or handover.sent:
        return
    p = lead.progress.get(handover.target)
    if p is None or p.match < n.log.end:
        return
    handover.sent = True
    lead.lease_disabled = True
    if lead.lease_shown:
        lead.lease_shown = False
        n.note("lease", {"void": "transfer"})
    n.note("transfer", {"phase": "sent", "target": handover.target})
    n.send(handover.target, TimeoutNow(n.term, n.me))


def on_deadline(n: Node) -> None:
    """The transfer took too long: writes resume, the lease does not if TimeoutNow was sent."""
    lead = n.leading
    if lead is None or lead.handover is None or n.mono < lead.handover.deadline:
        return
    handover, lead.handover = lead.handover, None
    n.note("transfer", {"phase": "aborted", "target": handover.target, "why": "timeout"})
    n.reply(handover.id, Unknown("the target may still campaign") if handover.sent else Failed("target behind"))


def on_timeout_now(n: Node, src: str, m: TimeoutNow) -> None:
    """The leader asks this node to campaign at once."""
    if m.term > n.term and n.rules.adopts_term(n.term, m.term):
        n.adopt(m.term, "timeout_now")
    ok = n.rules.timeout_now_ok(
        follower=n.role == FOLLOWER, term=m.term, own_term=n.term, from_leader=n.leader is not None and n.leader == src
    )
    ok = ok and n.may_campaign() and not n.holds_off()
    n.note("transfer", {"phase": "received", "from": src, "accepted": ok})
    if ok:
        n.close_round("closed")
        start_election(n, why="timeout_now", force=True)
