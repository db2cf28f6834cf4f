"""Client requests: which node serves them, and when.

Guarantees: a node that does not lead redirects to the leader it knows; a write lingers, is appended with others, and is
answered when the high watermark passes it; a read is served from the applied records once the leader's own epoch has a
committed record (``reads=local``: a leader that was cut off serves old values), or through the log (``reads=log``).
Waiting requests are bounded. ``transfer`` asks the leader to resign. Out of scope: time-outs, locks and membership.

Source: Apache Kafka 3.3.1, KafkaRaftClient (scheduleAppend, resign, maybeFireLeaderChange).
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import (
    Append,
    Cas,
    ClientRequest,
    Get,
    NotLeader,
    Ok,
    Put,
    Refused,
    Transfer,
)
from dethrone.clusters.targets.kraft.leader import on_linger_timer
from dethrone.clusters.targets.kraft.node import LINGER, Node
from dethrone.clusters.targets.kraft.transitions import become_resigned

PENDING_MAX = 10_000
READ_MODES = ("", "local", "log")


def on_request(n: Node, request: int, body: ClientRequest) -> None:
    """Serve, redirect or refuse one request."""
    lead = n.leading
    if lead is None:
        n.reply(request, NotLeader(n.who(n.leader) if n.leader != n.me else None))
    elif len(lead.waiting) + len(lead.unappended) + len(lead.reads) >= PENDING_MAX:
        n.reply(request, Refused(f"{PENDING_MAX} requests wait already"))
    elif isinstance(body, Get) and body.mode not in READ_MODES:
        n.reply(request, Refused(f"no read mode {body.mode!r}: local or log"))
    elif isinstance(body, Get) and (body.mode or n.knobs.reads) == "local":
        if lead.announced:
            n.reply(request, Ok(n.machine.read(body.key)))
        else:
            lead.reads.append((request, body.key))
    elif isinstance(body, Append | Put | Cas | Get):
        lead.unappended.append((request, body))
        linger = n.rules.linger_ms()
        if linger:
            n.arm(LINGER, n.mono + n.knobs.ns(linger))
        else:
            on_linger_timer(n)
    elif isinstance(body, Transfer):
        _resign(n, request, body)
    else:
        n.reply(request, Refused("not served by this target"))


def _resign(n: Node, request: int, body: Transfer) -> None:
    """The application asks the leader to resign, which is done at once; the most advanced voter is the first to stand
    for its place."""
    if body.target and n.ids.get(body.target) not in n.others:
        n.reply(request, Refused(f"{body.target} is not another voter"))
        return
    if len(n.voters) == 1:
        n.reply(request, Refused("there is no other voter"))
        return
    become_resigned(n, "resign_requested")
    n.reply(request, Ok())
