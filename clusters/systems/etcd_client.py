"""A client of etcd over its JSON gateway: one kept HTTP connection per member.

    append [key, v]   a transaction that creates ``list/<key>/<v>`` if it is not there
    add               the same
    read   key        all keys below ``list/<key>/`` in the order of their creation revisions (linearizable)
    put, get, cas     one key ``register/<key>``
    transfer node     the member that is asked hands leadership over
    txn, acquire, release, use   see ``dethrone.clusters.systems.etcd_talks``

Guarantees: one request is sent once; an error is ``fail`` only if its code says that it was refused before it was
proposed (``DEFINITE_CODES``) or nothing was sent; any other unanswered write is ``info``. There is no redirection to
the leader: members forward by themselves.

Source: etcd 3.4 API reference (gRPC gateway); gRPC status codes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from dethrone.clusters.systems.etcd_talks import Ask, Refused, Talk, absent, b64, compare, put, talk_for, text
from dethrone.clusters.systems.kept_http import KeptHttp
from dethrone.clusters.systems.operations import unanswered, unsent
from dethrone.harness.core import http_answer
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces import NodeSpec, OpOutcome

DEFINITE_CODES = frozenset({3, 5, 7, 8, 9, 12, 16})
"""Invalid argument, not found, permission, exhausted (too many requests, no space), precondition (it does not lead),
unimplemented, unauthenticated."""

Answer = Mapping[str, Any]


class Call(NamedTuple):
    """One request to the gateway and how its answer is understood."""

    path: str
    body: Mapping[str, Any]
    value: Callable[[Answer], Any]


class EtcdClient:
    """See ``dethrone.harness.core.interfaces.Client``."""

    def __init__(self, nodes: Mapping[str, NodeSpec], *, port: int, ids: Mapping[str, int] | None = None) -> None:
        """``ids``: of the members, as etcd computes them."""
        self._ids = ids
        self._addresses = {name: spec.address for name, spec in nodes.items()}
        self._kept = KeptHttp(self._addresses, port)

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: Ns) -> OpOutcome:
        """Carry out one operation at the member ``target``."""
        deadline = time.monotonic_ns() + timeout_ns
        call, talk = call_for(f, value, self._ids), talk_for(f, value)
        if target not in self._addresses:
            return unsent(f"no node {target!r}")
        if talk is not None:
            return self._converse(f, talk, target, deadline)
        if call is None:
            return unsent(f"no operation {f!r} with the value {value!r:.80}")
        answered = self._send(f, call.path, call.body, target, deadline)
        if isinstance(answered, OpOutcome):
            return answered
        return understand(f, call, answered.status, answered.body, node=target)

    def _converse(self, f: str, talk: Talk, target: str, deadline: Ns) -> OpOutcome:
        """One request after another. What ends it before a request that changes something had no effect."""
        ask: Ask | None = None
        try:
            ask = next(talk)
            while True:
                # as a read it is ``fail`` if it stays unanswered
                named = f if ask.changes else "read"
                answered = self._send(named, ask.path, ask.body, target, deadline)
                if isinstance(answered, OpOutcome):
                    return answered
                plain = Call(ask.path, ask.body, lambda answer: answer)
                outcome = understand(named, plain, answered.status, answered.body, node=target)
                if outcome.status != "ok":
                    return outcome
                ask = talk.send(outcome.value)
        except StopIteration as end:
            return OpOutcome(status="ok", value=end.value, node=target)
        except Refused as why:
            return OpOutcome(status="fail", error=str(why), node=target)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            named = f if ask is None or ask.changes else "read"
            return unanswered(named, f"an answer that is not understood: {error}", node=target)

    def _send(
        self, f: str, path: str, body: Mapping[str, Any], target: str, deadline: Ns
    ) -> http_answer.Answer | OpOutcome:
        """The answer; or how the operation ended without one."""
        usual = {"Content-Type": "application/json"}
        return self._kept.ask(f, target, deadline, method="POST", path=path, body=json.dumps(body), headers=usual)

    def close(self) -> None:
        """Drop all connections."""
        self._kept.close()


def call_for(f: str, value: Any, ids: Mapping[str, int] | None = None) -> Call | None:
    """The request for an operation; None if there is no such operation or its value has the wrong form."""
    match f, value:
        case "append" | "add", [str(key), int() | str() as item]:
            name = f"list/{key}/{json.dumps(item)}"
            return Call("/v3/kv/txn", _create(name, item), lambda answer: _must(answer, "the value is there already"))
        case "read", str(key):
            return Call("/v3/kv/range", _below(f"list/{key}/"), _listed)
        case "put", [str(key), item]:
            return Call("/v3/kv/put", {"key": b64(f"register/{key}"), "value": b64(json.dumps(item))}, lambda _: None)
        case "get", str(key):
            return Call("/v3/kv/range", {"key": b64(f"register/{key}")}, _first)
        case "cas", [str(key), old, new]:
            return Call("/v3/kv/txn", _swap(f"register/{key}", old, new), lambda answer: bool(answer.get("succeeded")))
        case "transfer", str(node) if ids and node in ids:
            return Call("/v3/maintenance/transfer-leadership", {"targetID": str(ids[node])}, lambda _: None)
        case _:
            return None


def understand(f: str, call: Call, status: int, body: bytes, *, node: str) -> OpOutcome:
    """How the operation ended, by the member's answer; ``info`` in doubt."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        return unanswered(f, f"HTTP {status} without a JSON object", node=node)
    if status != HTTPStatus.OK:
        error = f"HTTP {status}: {answer.get('error', 'no reason given')}"
        if answer.get("code") in DEFINITE_CODES:
            return OpOutcome(status="fail", error=error, node=node)
        return unanswered(f, error, node=node)
    try:
        return OpOutcome(status="ok", value=call.value(answer), node=node)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return unanswered(f, f"an answer that is not understood: {error}", node=node)


# --- requests ---------------------------------------------------------------------------------------------------


def _create(name: str, item: Any) -> dict[str, Any]:
    return {"compare": [absent(name)], "success": [put(name, json.dumps(item))]}


def _swap(name: str, old: Any, new: Any) -> dict[str, Any]:
    holds = absent(name) if old is None else compare(name, "VALUE", "EQUAL", value=b64(json.dumps(old)))
    return {"compare": [holds], "success": [put(name, json.dumps(new))]}


def _below(prefix: str) -> dict[str, Any]:
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    return {"key": b64(prefix), "range_end": b64(end), "sort_order": "ASCEND", "sort_target": "CREATE"}


# --- answers ----------------------------------------------------------------------------------------------------


def _must(answer: Answer, otherwise: str) -> None:
    if not answer.get("succeeded"):
        raise ValueError(otherwise)


def _listed(answer: Answer) -> list[Any]:
    return [json.loads(text(kv["value"])) for kv in answer.get("kvs", [])]


def _first(answer: Answer) -> Any:
    values = _listed(answer)
    return values[0] if values else None
