"""Leadership transfer (knob ``transfer``): role TRANSFERRING, ``TimeoutNow``.

Guarantees: during a transfer the store is offline, so the log does not grow, and heartbeats continue; the target is
asked to campaign once it has the whole log, and campaigns without a pre-vote; after ``transfer_leader_timeout_ms`` the
node resumes leading. Out of scope: rebalancing, which starts transfers by itself in the original.

Source: docs/sources.md, joyqueue: ``transferLeadership``, ``stopTransferLeadership`` and ``handleTimeoutNowRequest``
for the steps.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dethrone.clusters.targets.client_api import Failed, NotLeader, Refused
from dethrone.clusters.targets.joyqueue.group import FOLLOWER, LEADER, TRANSFERRING, Group, Replica
from dethrone.clusters.targets.joyqueue.messages import (
    JoyQueueAnswer,
    NullAnswer,
    TimeoutNowRequest,
    TimeoutNowResponse,
)
from dethrone.harness.core.machine import SetTimer


class Handover(msgspec.Struct):
    """A transfer under way. ``asked``: the target was asked to campaign."""

    request: int
    target: str
    term: int
    asked: bool = False


def on_transfer(g: Group, request: int, target: str) -> None:
    """``transferLeadership``, at a client's request."""
    if not g.knobs.transfer:
        g.reply(request, Refused("transfer=false"))
    elif g.role == TRANSFERRING:
        g.reply(request, Refused("another transfer is still in process"))
    elif g.role != LEADER:
        g.reply(request, NotLeader(g.leader))
    elif target == g.me or target not in g.voters:
        g.reply(request, Refused(f"{target} cannot take over"))
    else:
        g.handover = Handover(request, target, g.term)
        g.go_offline(g.term)
        g.become(TRANSFERRING, "transfer")
        g.note("transfer", {"phase": "begun", "target": target})
        g.node.out.append(SetTimer(g.transfer_timer, g.node.mono + g.knobs.ns(g.knobs.transfer_leader_timeout_ms)))
        on_replicated(g, target, g.replicas[target])


def on_replicated(g: Group, peer: str, replica: Replica) -> None:
    """The target has the whole log: ask it to campaign."""
    handover: Handover = g.handover
    if peer != handover.target or handover.asked or replica.match < g.log.end:
        return
    handover.asked = True
    number = g.node.call(g, "timeout_now", peer)
    g.note("transfer", {"phase": "asked", "target": peer})
    g.send(peer, TimeoutNowRequest(g.name, g.term, number))


def on_transfer_timer(g: Group) -> None:
    """``stopTransferLeadership``: it took too long; resume leading."""
    handover: Handover | None = g.handover
    if handover is None or handover.term != g.term or g.role != TRANSFERRING:
        return
    g.handover = None
    g.become(LEADER, "transfer_timeout")
    g.go_online(g.term)
    g.note("transfer", {"phase": "aborted", "target": handover.target})
    g.reply(handover.request, Failed("the transfer timed out"))


def handle_timeout_now(g: Group, src: str, m: TimeoutNowRequest, elect_self: Callable[..., None]) -> None:
    """``handleTimeoutNowRequest``: campaign at once, in the leader's very term and as a follower only."""
    if not g.started:
        g.send(src, NullAnswer(g.name, m.id))
        return
    if m.term != g.term or g.role != FOLLOWER or g.me not in g.voters:
        if m.term > g.term:
            g.step_down(m.term, "timeout_now")
        g.send(src, TimeoutNowResponse(g.name, g.term, success=False, id=m.id))
        return
    answer = TimeoutNowResponse(g.name, g.term + 1, success=True, id=m.id)
    g.reset_election_timer()
    elect_self(g, why="timeout_now")
    g.send(src, answer)


def handle_timeout_now_response(g: Group, answer: JoyQueueAnswer) -> None:
    """A higher term deposes; a refusal is waited out by the timer."""
    if isinstance(answer, TimeoutNowResponse) and answer.term > g.term:
        g.step_down(answer.term, "timeout_now_answer")
