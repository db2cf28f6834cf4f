"""``[membership]`` of a description: what faults ask for, how a node is removed and added again, and who votes.

Guarantees: pure; what cannot be meant is a ConfigError that names it. Out of scope: carrying it out
(``dethrone.clusters.systems.membership_host``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dethrone.clusters.own.headers import carried, over
from dethrone.clusters.own.operations import MEMBERSHIP, TARGET, operations
from dethrone.clusters.own.requests import requests_of, said
from dethrone.clusters.own.spec import Description, Membership, NodeTable
from dethrone.clusters.own.table import check_regex, split
from dethrone.clusters.own.tls import host_files, on_host
from dethrone.clusters.own.voting import KEYS, voting
from dethrone.clusters.own.words import check_words, fill, fill_with
from dethrone.clusters.systems.membership import CHANGES, CONFIG, MEMBER_ID, Changes, Request, Words, membership_files
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import NodeSpec

_WHOLE = 'write members = "GET /members", member = \'"{target}"\', remove = "…" and add = "…"'


def membership(raw: Mapping[str, Any], node: NodeTable, knobs: Mapping[str, str], *, where: str) -> Membership:
    """The table. ConfigError."""
    rest = {key: value for key, value in raw.items() if key not in {"member", "fresh", *KEYS}}
    asked, port = operations(rest, node, knobs, where=where, names=MEMBERSHIP)
    changes = {name: op for name, op in asked.items() if name in CHANGES}
    member, fresh = raw.get("member", ""), raw.get("fresh", False)
    if not isinstance(member, str) or not isinstance(fresh, bool):
        raise ConfigError("member is a pattern, and fresh true or false", where=where, next_step=_WHOLE)
    if len(changes) != (len(CHANGES) if member else 0) or (fresh and not member):
        raise ConfigError("members, member, remove and add belong together", where=where, next_step=_WHOLE)
    for name, op in changes.items():
        if op.redis or op.client or isinstance(op.request, tuple):
            step = "write METHOD /path, or a command"
            raise ConfigError(f"{name} is by one request or a command", where=f"{where} {name}", next_step=step)
    check_words([member], TARGET, where=f"{where} member")
    check_regex(fill_with(member, dict.fromkeys(TARGET, ""), str), "member", where=where)
    transfers = {name: op for name, op in asked.items() if name not in CHANGES}
    votes = voting(raw, knobs, where=where)
    return Membership(asked=transfers, port=port, changes=changes, member=member, fresh=fresh, voting=votes)


def files_for_changes(
    description: Description, node: NodeSpec, words: Callable[[str], Mapping[str, str]]
) -> dict[str, bytes]:
    """What the node's host gets for them, by absolute path. ``words``: those that speak of a member."""
    told, ports = description.membership, description.node.ports
    if not told.changes:
        return {}
    known = words(node.name)
    target = {"target": node.name, "target_address": known["address"], "target_number": known["number"]}
    held = {**target, "id": MEMBER_ID}

    folder = Path(description.path).parent
    certified = {what: (op.tls, f"{node.run_dir}/membership-{what}-") for what, op in told.changes.items()}

    def ask(what: str, of: str) -> Request | Words:
        op, its = told.changes[what], words(of)
        if op.command is not None:
            return Words(tuple(fill(word, {**its, **held}) for word in split(op.command, where=description.path)))
        (request,) = (said(one, held) for one in requests_of(op))
        usual = {"Content-Type": "application/json"} if request.body else {}
        headers = over(usual, carried(op, {**node.knobs, **its}))
        asked = msgspec.structs.asdict(request)
        tls = on_host(*certified[what], {**node.knobs, **its})
        return Request(address=its["address"], port=ports[told.port], headers=headers, ok=op.ok, tls=tls, **asked)

    member = fill_with(told.member, target, lambda value: re.escape(str(value)))
    out = membership_files(node, Changes(ask=ask, member=member, fresh=told.fresh))
    for tls, place in certified.values():
        out |= host_files(tls, folder, place)
    return out


def private_files(description: Description, node: NodeSpec) -> frozenset[str]:
    """Those of them that hold passwords and keys."""
    changes = description.membership.changes
    keys = {f"{node.run_dir}/membership-{what}-key.pem" for what, op in changes.items() if not isinstance(op.tls, bool)}
    return frozenset((f"{node.run_dir}/{CONFIG}", *keys)) if changes else frozenset()
