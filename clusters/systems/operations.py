"""The operations of workloads, and how they are sent to our protocol targets and their answers understood.

    append  [key, v] → {"index", "term"} of the entry, None where it is not known    read  key → list of v
    propose [instance, v] → what was decided there     learn  instance → what was decided there, None: not known
    put     [key, v] → None      get  key → v      cas  [key, old, new] → whether it was set
    acquire, renew  [lock, owner, ttl_ms] → the fencing token      release  [lock, owner] → the token given back
    add     [set, v] → None      txn  [["append", k, v], ["r", k, None] …] → the same with what was read for None
    use     [lock, token] → the token
    holder  lock → [owner, token], None: no owner      reconfigure  ["add" or "remove", node] → None
    transfer  node → None: leadership was handed over, to it or another node

Guarantees: an unanswered operation that only reads is ``fail``, as it changed nothing; an unanswered one that writes is
``info`` unless it was certainly never sent. Sockets are out of scope.
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.client_api import (
    Acquire,
    Append,
    Cas,
    ChangeConfig,
    ClientReply,
    ClientRequest,
    Failed,
    Get,
    Holder,
    InstanceRequest,
    Learn,
    NotLeader,
    Ok,
    Propose,
    Put,
    Refused,
    Release,
    Renew,
    StateRequest,
    Transfer,
    Txn,
    Use,
)
from dethrone.harness.core.interfaces import OpOutcome

READING = frozenset({"read", "get", "learn", "holder"})
"""Operations without any effect."""

OPERATIONS = frozenset({"append", "add", "read", "put", "get", "cas"})

LOCK_OPERATIONS = frozenset({"acquire", "renew", "release", "holder"})
"""Of systems that keep locks which run out."""

TRANSACTIONS = frozenset({"txn"})
"""Of systems that change several lists at one moment."""

GUARD_OPERATIONS = frozenset({"use"})
"""Of systems that guard something with the tokens of their locks."""

MEMBER_OPERATIONS = frozenset({"reconfigure"})
"""Of systems whose members change while they run."""


TRANSFERS = frozenset({"transfer"})
"""Of systems whose leader hands leadership over when it is asked to."""


def request_for(f: str, value: Any) -> ClientRequest | InstanceRequest | StateRequest | None:
    """The request for an operation; None if there is no such operation or its value has the wrong form."""
    match f, value:
        case "append" | "add", [str(key), int() | str() as item]:
            return Append(key, item)
        case "put", [str(key), item]:
            return Put(key, item)
        case "cas", [str(key), old, new]:
            return Cas(key, old, new)
        case "read" | "get", str(key):
            return Get(key)
        case "txn", [_, *_] if all(map(is_step, value)):
            return Txn(tuple((word, key, item) for word, key, item in value))
        case "propose", [int(instance), item] if item is not None:
            return Propose(instance, item)
        case "learn", int(instance):
            return Learn(instance)
        case "acquire", [str(lock), str(owner), int(ttl_ms)]:
            return Acquire(lock, owner, ttl_ms)
        case "renew", [str(lock), str(owner), int(ttl_ms)]:
            return Renew(lock, owner, ttl_ms)
        case "release", [str(lock), str(owner)]:
            return Release(lock, owner)
        case "use", [str(lock), int(token)]:
            return Use(lock, token)
        case "holder", str(lock):
            return Holder(lock)
        case "reconfigure", ["add", str(node)]:
            return ChangeConfig(add=node)
        case "reconfigure", ["remove", str(node)]:
            return ChangeConfig(remove=node)
        case "transfer", str(node):
            return Transfer(node)
        case _:
            return None


def outcome_of(f: str, reply: ClientReply, *, node: str) -> OpOutcome:
    """How the operation ended, by the answer of ``node``. A redirection is a failure here."""
    match reply:
        case Ok():
            return _done(f, reply, node)
        case NotLeader(leader=leader):
            known = "knows no leader" if leader is None else f"names {leader}"
            return OpOutcome(status="fail", error=f"not the leader, {known}", node=node)
        case Failed(why=why):
            return OpOutcome(status="fail", error=why or "failed", node=node)
        case Refused(why=why):
            return OpOutcome(status="fail", error=why or "refused", node=node)
        case _:
            return unanswered(f, reply.why or "unknown", node=node)


def unanswered(f: str, error: str, *, node: str | None = None) -> OpOutcome:
    """An operation that was sent, or may have been, and whose outcome is unknown."""
    return OpOutcome(status="fail" if f in READING else "info", error=error, node=node)


def unsent(error: str) -> OpOutcome:
    """An operation that certainly never left."""
    return OpOutcome(status="fail", error=error)


def _done(f: str, reply: Ok, node: str) -> OpOutcome:
    value: Any = None
    if f == "append" and reply.index is not None:
        value = {"index": reply.index, "term": reply.term}
    elif f == "read":
        value = [] if reply.value is None else reply.value
        if not isinstance(value, list):
            return OpOutcome(status="fail", error=f"not a list: {value!r:.80}", node=node)
    elif f in {"get", "cas", "propose", "learn", "txn", "use", *LOCK_OPERATIONS}:
        value = reply.value
    return OpOutcome(status="ok", value=value, node=node)


def is_step(step: Any) -> bool:
    """Whether it is a step of a transaction."""
    match step:
        case ["append", str(), int() | str()] | ["r", str(), None]:
            return True
        case _:
            return False
