"""Client requests: which node may serve them, and how each one is served.

Guarantees: a node that does not lead redirects to the leader it knows; waiting requests are bounded, and requests above
the bound are refused without effect. Out of scope: time-outs, which belong to the client.

Source: Raft paper, 8; thesis 6.
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.client_api import (
    Acquire,
    Append,
    ChangeConfig,
    ClientRequest,
    Get,
    Holder,
    NotLeader,
    Ok,
    Put,
    Refused,
    StateRequest,
    Transfer,
    Txn,
)
from dethrone.clusters.targets.raft import membership, reads, transfer
from dethrone.clusters.targets.raft.commit import submit
from dethrone.clusters.targets.raft.node import Node

PENDING_MAX = 10_000


def _only_writes(body: ClientRequest | StateRequest) -> bool:
    """Whether its answer is known before it is applied."""
    if isinstance(body, Txn):
        return all(f == "append" for f, _, _ in body.steps)
    return isinstance(body, Append | Put)


def on_request(n: Node, request: int, body: ClientRequest | StateRequest) -> None:
    """Serve, redirect or refuse one request."""
    lead = n.leading
    if lead is None:
        if isinstance(body, Get | Holder) and n.rules.follower_serves():
            n.reply(request, Ok(n.machine.answer(body)))
        else:
            n.reply(request, NotLeader(n.leader))
    elif len(lead.writes) + len(lead.reads) >= PENDING_MAX:
        n.reply(request, Refused(f"{PENDING_MAX} requests wait already"))
    elif isinstance(body, Get | Holder) and (body.mode or n.knobs.reads) != "log":
        reads.on_get(n, lead, request, body)
    elif isinstance(body, ChangeConfig):
        membership.on_change(n, lead, request, body)
    elif isinstance(body, Transfer):
        transfer.on_transfer(n, lead, request, body)
    elif lead.handover is not None:
        n.reply(request, Refused("leadership is being transferred"))
    else:
        if isinstance(body, Acquire) and not n.rules.clock_decides():
            expired = n.machine.expired(body.key, n.mono)
            if expired is not None:
                submit(n, lead, expired)
        if _only_writes(body) and n.rules.acks_client("appended"):
            index = submit(n, lead, body)
            n.note("write_acked", {"index": index, "term": n.term})
            told: Any = index if isinstance(body, Append) else None
            if isinstance(body, Txn):
                told = [list(step) for step in body.steps]
            n.reply(request, Ok(told, index, n.term))
            return
        submit(n, lead, body, request)
