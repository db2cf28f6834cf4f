"""Client requests: which node may serve them, and with which code.

Guarantees: a node that does not lead redirects to the leader it knows (404). A key is read from what this leader knows
to be committed. Until it knows all that its predecessors committed, it answers 505, because "not there" would be a
guess. ``Get`` with mode ``index`` reads one index, as DLedger does. Out of scope: locks and membership, which DLedger
0.2.7 does not have, and transfer.

Source: DLedger 0.2.7, ``DLedgerServer.handleAppend`` and ``handleGet``.
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append, Cas, ClientRequest, Failed, Get, NotLeader, Ok, Put, Refused
from dethrone.clusters.targets.dledger import append
from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.leading import Leading
from dethrone.clusters.targets.dledger.messages import Noop
from dethrone.clusters.targets.dledger.node import Node


def on_request(n: Node, request: int, body: ClientRequest) -> None:
    """Serve, redirect or refuse one request."""
    kind = type(body)
    if kind is Append or kind is Put or kind is Cas:
        append.on_append(n, request, body)  # type: ignore[arg-type]
    elif isinstance(body, Get):
        lead = append.leads(n)
        if lead is None:
            n.reply(request, NotLeader(n.leader))
        elif body.mode == "index":
            _get_index(n, request, body.key)
        else:
            _get_key(n, lead, request, body.key)
    else:
        n.reply(request, Refused(f"dledger has no {kind.__name__.lower()}"))


def _get_index(n: Node, request: int, key: str) -> None:
    """``key`` is the index as observers count it (the first is 1)."""
    try:
        index = int(key) - 1
    except ValueError:
        n.reply(request, Refused("mode index needs a number"))
        return
    code = n.rules.may_get(index, begin=n.log.begin, end=n.log.last, committed=n.committed)
    n.note("get", {"index": index + 1, "committed": index <= n.committed, "code": code})
    if code != m.SUCCESS:
        n.reply(request, Failed(m.words(code)))
        return
    entry = n.log.entries[index]
    command = entry.command
    value = command.to if isinstance(command, Cas) else None if isinstance(command, Noop) else command.value
    n.reply(request, Ok(value, index + 1, entry.term + 1))


def _get_key(n: Node, lead: Leading, request: int, key: str) -> None:
    if not n.knobs.get_committed_only:
        n.note("get", {"key": key, "committed": n.committed == n.log.last})
        n.reply(request, Ok(n.machine.read_after(key, (entry.command for entry in n.log.entries[n.applied + 1 :]))))
    elif n.committed < lead.inherited:
        n.note("get", {"key": key, "committed": False, "code": m.LEADER_NOT_READY})
        n.reply(request, Failed(m.words(m.LEADER_NOT_READY)))
    else:
        n.note("get", {"key": key, "committed": True})
        n.reply(request, Ok(n.machine.read(key)))
