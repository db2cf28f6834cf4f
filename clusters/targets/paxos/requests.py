"""Client requests: which part of the node serves them, and what it answers when nothing is decided in time.

Guarantees: every request is answered within ``patience``, with ``Failed`` only if its value was certainly never
proposed; waiting requests are bounded, and requests above the bound are refused without effect. Out of scope:
redirection: there is no leader, any node serves.

Source: ours.
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.client_api import Append, Cas, Failed, Get, Learn, Ok, Propose, Put, Refused, Unknown
from dethrone.clusters.targets.paxos import learner, log, proposer
from dethrone.clusters.targets.paxos.messages import Given
from dethrone.clusters.targets.paxos.node import PATIENCE, Node

PENDING_MAX = 10_000


def on_request(n: Node, request: int, body: Any) -> None:
    """Serve or refuse one request."""
    n.open.add(request)
    if len(n.open) > PENDING_MAX:
        n.reply(request, Refused(f"{PENDING_MAX} requests wait already"))
    elif isinstance(body, Propose):
        if body.instance < 1 or body.value is None:
            n.reply(request, Refused("a proposal takes an instance from 1 on and a value that is not null"))
            return
        proposer.want(n, body.instance, Given(body.value), request)
        _wait(n, request, body.instance)
    elif isinstance(body, Learn):
        if body.instance < 1:
            n.reply(request, Refused("instances begin with 1"))
            return
        learner.learn(n, body.instance, request)
        _wait(n, request, body.instance)
    elif isinstance(body, Append | Put | Cas | Get):
        log.submit(n, request, body)
        _wait(n, request, 0)
    else:
        n.reply(request, Refused("not served by paxos"))


def _wait(n: Node, request: int, instance: int) -> None:
    if request not in n.open:
        return
    if not n.deadlines:
        n.arm(PATIENCE, n.knobs.patience)
    n.deadlines.append((n.clock() + n.knobs.patience, request, instance))


def on_patience_timer(n: Node) -> None:
    """Some clients waited long enough."""
    while n.deadlines:
        due, request, instance = n.deadlines[0]
        if request in n.open:
            if due > n.clock():
                n.arm(PATIENCE, due - n.clock())
                return
            _give_up(n, request, instance)
        n.deadlines.popleft()


def _give_up(n: Node, request: int, number: int) -> None:
    if number == 0:
        log.drop(n, request)
        return
    inst = n.instance(number)
    attempt = inst.attempt
    if attempt is None or attempt.waiting.get(request) is None:  # it only wanted to know
        proposer.drop(n, inst, request)
        n.reply(request, Ok(None))
    elif proposer.drop(n, inst, request):
        n.reply(request, Failed("not proposed in time"))
    else:
        n.reply(request, Unknown("not decided in time"))
