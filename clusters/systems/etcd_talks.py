"""Operations on etcd that take more than one request, or a compare of their own: transactions, locks, guards.

    txn      [["append", k, v], ["r", k, None] …]   one key ``txn/<k>`` a list; read at one revision, written back in a
                                                    transaction that compares every mod revision; again if overtaken
    acquire  [lock, owner, ttl_ms]   a lease, and a transaction that creates ``lock/<lock>`` with it if it is not there
    release  [lock, owner]           a transaction that deletes it if the owner is this one
    use      [lock, token]           a transaction that raises ``guard/<lock>`` unless it is above the token

The fencing token is the revision at which the lock's key was created. Guarantees: pure; a talk yields requests and
receives their answers. Only requests that say so can have a visible effect, and each of them is sent only when all
before it certainly had none. Out of scope: sockets, time, and renewal: 3.4 renews a lease at any member that believes
that it leads, without asking a majority.

Source: etcd 3.4 API reference (transactions, leases); the fencing token after Kleppmann, "How to do distributed
locking", 2016.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

from dethrone.clusters.systems.operations import is_step

TRIES_MAX = 30
"""How often a transaction that was overtaken is tried again before it is given up."""

TOKEN_DIGITS = 20
"""Of a guard's value, so that the order of its bytes is the order of tokens."""

Answer = Mapping[str, Any]


class Ask(NamedTuple):
    """One request. ``changes``: it may have an effect that others see."""

    path: str
    body: Mapping[str, Any]
    changes: bool


class Refused(Exception):  # noqa: N818 - an outcome, not a mistake
    """The operation certainly had no effect."""


Talk = Generator[Ask, Answer, Any]
"""Yields requests, receives their answers, and returns the operation's value."""


def talk_for(f: str, value: Any) -> Talk | None:
    """The talk for an operation; None if it is none of these or its value has the wrong form."""
    match f, value:
        case "txn", [_, *_] if all(map(is_step, value)):
            return _transact([(word, key, item) for word, key, item in value])
        case "acquire", [str(lock), str(owner), int(ttl_ms)]:
            return _acquire(f"lock/{lock}", owner, ttl_ms)
        case "release", [str(lock), str(owner)]:
            return _release(f"lock/{lock}", owner)
        case "use", [str(lock), int(token)] if token >= 0:
            return _use(f"guard/{lock}", token)
        case _:
            return None


# --- transactions -----------------------------------------------------------------------------------------------


def _transact(steps: Sequence[tuple[str, str, Any]]) -> Talk:
    names = list(dict.fromkeys(key for _, key, _ in steps))
    changed = list(dict.fromkeys(key for word, key, _ in steps if word == "append"))
    for _ in range(TRIES_MAX):
        # reads alone: a transaction of etcd's own, at one revision and, as every read of it, confirmed by a majority
        answer = yield _txn([], [_range(_of_list(key)) for key in names], changes=False)
        held, seen = {}, {}
        for key, response in zip(names, answer["responses"], strict=True):
            kvs = response["response_range"].get("kvs", [])
            held[key] = json.loads(text(kvs[0]["value"])) if kvs else []
            seen[key] = str(kvs[0]["mod_revision"]) if kvs else "0"
        told: list[list[Any]] = []
        for word, key, item in steps:
            if word == "append":
                held[key] = [*held[key], item]
            told.append([word, key, item if word == "append" else held[key]])
        if not changed:
            return told
        same = [compare(_of_list(key), "MOD", "EQUAL", mod_revision=seen[key]) for key in names]
        writes = [put(_of_list(key), json.dumps(held[key])) for key in changed]
        if (yield _txn(same, writes, changes=True)).get("succeeded"):
            return told
    raise Refused(f"overtaken {TRIES_MAX} times")


def _of_list(key: str) -> str:
    return f"txn/{key}"


# --- locks ------------------------------------------------------------------------------------------------------


def _acquire(name: str, owner: str, ttl_ms: int) -> Talk:
    """Leases are whole seconds, at least one and a half election timeouts: longer than asked never hurts a holder."""
    lease = yield Ask("/v3/lease/grant", {"TTL": str(max(1, -(-ttl_ms // 1000)))}, changes=False)
    number = str(lease["ID"])
    if int(lease["TTL"]) * 1000 < ttl_ms:
        raise Refused(f"a lease of {lease['TTL']} s only")
    answer = yield _txn([absent(name)], [put(name, owner, lease=number), _range(name)], changes=True)
    if not answer.get("succeeded"):
        yield Ask("/v3/lease/revoke", {"ID": number}, changes=False)
        raise Refused("held")
    return _created(answer["responses"][1])


def _release(name: str, owner: str) -> Talk:
    own = compare(name, "VALUE", "EQUAL", value=b64(owner))
    answer = yield _txn([own], [_range(name), {"request_delete_range": {"key": b64(name)}}], changes=True)
    if not answer.get("succeeded"):
        raise Refused("not held")
    return _created(answer["responses"][0])


def _created(response: Answer) -> int:
    return int(response["response_range"]["kvs"][0]["create_revision"])


def _use(name: str, token: int) -> Talk:
    """A key that is not there compares with no value: whether it is there is asked first, in the same transaction."""
    raise_it = put(name, f"{token:0{TOKEN_DIGITS}}")
    not_above = compare(name, "VALUE", "LESS", value=b64(f"{token + 1:0{TOKEN_DIGITS}}"))
    nested = {"request_txn": {"compare": [not_above], "success": [raise_it], "failure": []}}
    answer = yield _txn([absent(name)], [raise_it], [nested], changes=True)
    if not answer.get("succeeded") and not answer["responses"][0]["response_txn"].get("succeeded"):
        raise Refused(f"token {token} is older than one that was used")
    return token


# --- words of the API -------------------------------------------------------------------------------------------


def b64(words: str) -> str:
    """Keys and values of the gateway are base64."""
    return base64.b64encode(words.encode()).decode()


def text(value: str) -> str:
    """And back."""
    return base64.b64decode(value).decode()


def _txn(conditions: Sequence[Any], success: Sequence[Any], failure: Sequence[Any] = (), *, changes: bool) -> Ask:
    body = {"compare": list(conditions), "success": list(success), "failure": list(failure)}
    return Ask("/v3/kv/txn", body, changes)


def absent(name: str) -> dict[str, Any]:
    """The condition that there is no such key."""
    return compare(name, "CREATE", "EQUAL", create_revision="0")


def compare(name: str, target: str, result: str, **against: str) -> dict[str, Any]:
    """A condition of a transaction."""
    return {"key": b64(name), "target": target, "result": result, **against}


def _range(name: str) -> dict[str, Any]:
    return {"request_range": {"key": b64(name)}}


def put(name: str, value: str, **more: str) -> dict[str, Any]:
    """A write of a transaction."""
    return {"request_put": {"key": b64(name), "value": b64(value), **more}}
