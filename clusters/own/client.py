"""A client of a described system: one kept connection per node; one command, call, transaction, request or more per
operation.

What a request says and how an answer is understood stands in ``[ops]``. Guarantees: a request is sent once; where
requests only read before the last one, an operation that ends at one of them is ``fail``; an answer that the
description does not name leaves a changing operation ``info`` (unknown), as silence does; what reads and is not
understood is ``fail``, for it changed nothing. An outcome is of the node that was asked, or of the one behind it that
the answer names.
Out of scope: looking for the leader: the workload learns it from the probe and from who answered.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dethrone.clusters.own.answers import member
from dethrone.clusters.own.client_process import ClientProcess
from dethrone.clusters.own.commands import carry_out
from dethrone.clusters.own.errands import carried_out
from dethrone.clusters.own.redis_client import RedisClient
from dethrone.clusters.own.requests import FIRST, HEADER, Earlier, Request, plain, requests_of, whole
from dethrone.clusters.own.spec import OpTable
from dethrone.clusters.own.sql_answers import value_of
from dethrone.clusters.own.tls import Encrypted, tls_of
from dethrone.clusters.own.values import at, decoded
from dethrone.clusters.systems.kept_http import KeptHttp
from dethrone.clusters.systems.operations import unanswered, unsent
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.http_answer import Answer
from dethrone.harness.core.interfaces import Client, NodeSpec, OpOutcome
from dethrone.harness.core.tls import Tls


class OwnClient:
    """See ``dethrone.harness.core.interfaces.Client``."""

    def __init__(
        self,
        nodes: Mapping[str, NodeSpec],
        ops: Mapping[str, OpTable],
        *,
        port: int,
        words: Mapping[str, Mapping[str, str]] | None = None,
        process: ClientProcess | None = None,
        ids: Mapping[str, str] | None = None,
        fresh_reads: bool = False,
        folder: Path = Path(),
    ) -> None:
        """``words``: of each node, for commands and headers. ``process``: of the user's own client, or of the one that
        speaks SQL. ``ids``: what answers call a node → the node. ``fresh_reads``: reads are promised to be
        linearizable, so that what a cas has read may refuse it. ``folder``: of the description, for files of TLS."""
        self._fresh_reads = fresh_reads
        self._ids = ids or {}
        self._addresses = {name: spec.address for name, spec in nodes.items()}
        self._words = words or {}
        self._ops = ops
        self._kept = KeptHttp(self._addresses, port)
        encrypted = {op.tls for op in ops.values() if op.tls is not False}
        self._encrypted = {tls: KeptHttp(self._addresses, port, tls=self._each(tls, folder)) for tls in encrypted}
        self._redis = RedisClient(self._addresses, port)
        self._process = process

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: Ns) -> OpOutcome:
        """Carry out one operation at the node ``target``."""
        deadline = time.monotonic_ns() + timeout_ns
        op, held = self._ops.get(f), words_for(f, value)
        if target not in self._addresses:
            return unsent(f"no node {target!r}")
        if op is None or held is None:
            return unsent(f"no operation {f!r} with the value {value!r:.80}")
        if self._process is not None and (op.client or op.sql):
            given = self._process.ask(f, target, list(held.values()), deadline)
            if isinstance(given, OpOutcome):
                return given
            return returned(f, value_of(f, *given, held) if op.sql else given[0], node=target)
        held = {**held, **self._of_target(f, value)}
        if op.command is not None and op.at == "host":
            texts = {name: plain(one) for name, one in held.items()}
            return carried_out(f, op, texts, node=target, address=self._addresses[target], deadline=deadline)
        if op.command is not None:
            words = {**self._words.get(target, {}), **{name: plain(one) for name, one in held.items()}}
            left_ns = max(1, deadline - time.monotonic_ns())
            return carry_out(f, op, words, node=target, timeout_ns=left_ns)
        if op.redis:
            texts = {name: plain(one) for name, one in held.items()}
            return self._redis.carry_out(f, op, texts, self._words.get(target, {}), node=target, deadline=deadline)
        return self._over_http(f, op, held, target, deadline)

    def _over_http(self, f: str, op: OpTable, held: Mapping[str, Any], target: str, deadline: Ns) -> OpOutcome:
        """One request after another. What ends before the last one has changed nothing."""
        *reading, last = requests_of(op)
        words = self._words.get(target, {})

        def sent(of: str, request: Request, earlier: Earlier) -> Answer | OpOutcome:
            try:
                full = whole(request, op, held, words, earlier)
            except ValueError as error:
                return OpOutcome(status="fail", error=str(error), node=target)
            method, path, body = full.request.method, full.request.path, full.request.body.encode() or None
            kept = self._kept if op.tls is False else self._encrypted[op.tls]
            return kept.ask(of, target, deadline, method=method, path=path, body=body, headers=full.headers)

        earlier, node = Earlier(), target
        for request in reading:
            answered = sent("get", request, earlier)
            if isinstance(answered, OpOutcome):
                return answered
            node = served_by(op, answered, self._ids) or target
            if answered.status not in (*op.ok, *op.absent):
                return OpOutcome(status="fail", error=f"HTTP {answered.status}: {_shown(answered.body)}", node=node)
            earlier = earlier.and_then(answered, absent=answered.status in op.absent)
        if reading and f == "cas":
            refused = self._refused(earlier.held(op.held or FIRST), held["old"], node)
            if refused is not None:
                return refused
        answered = sent(f, last, earlier)
        if isinstance(answered, OpOutcome):
            return answered
        node = served_by(op, answered, self._ids) or target
        outcome = understand(f, op, answered.status, answered.body, node=node)
        return overtaken(outcome) if reading and f == "cas" else outcome

    def _refused(self, found: Any, old: Any, node: str) -> OpOutcome | None:
        """How a cas ended by what the register held; None: it held ``old``."""
        if found is not None and (isinstance(found, bool) or not isinstance(found, int | str)):
            return OpOutcome(status="fail", error=f"no value of a register: {found!r:.120}", node=node)
        if found == old:
            return None
        if self._fresh_reads:
            return OpOutcome(status="ok", value=False, node=node)
        return OpOutcome(status="fail", error=f"the register held {found!r:.120}, as far as was read", node=node)

    def _each(self, tls: Encrypted, folder: Path) -> dict[str, Tls]:
        """TLS of the connections to each node."""
        each = {name: tls_of(tls, folder, self._words.get(name, {})) for name in self._addresses}
        return {name: one for name, one in each.items() if one is not None}

    def _of_target(self, f: str, value: Any) -> dict[str, str]:
        """What else is known of the node that is to lead."""
        known = self._words.get(value, {}) if f == "transfer" else {}
        return {f"target_{word}": known[word] for word in ("address", "number") if word in known}

    def close(self) -> None:
        """Drop all connections."""
        for kept in (self._kept, *self._encrypted.values()):
            kept.close()
        self._redis.close()
        if self._process is not None:
            self._process.close()


class Divided:
    """Two clients as one: ``second`` carries out the operations ``names``. See ``Client``."""

    def __init__(self, first: Client, second: Client, names: Collection[str]) -> None:
        self._first = first
        self._second = second
        self._names = names

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: Ns) -> OpOutcome:
        """Carry out one operation."""
        client = self._second if f in self._names else self._first
        return client.invoke(f, value, target=target, timeout_ns=timeout_ns)

    def close(self) -> None:
        """Drop the connections of both."""
        self._first.close()
        self._second.close()


def words_for(f: str, value: Any) -> Mapping[str, Any] | None:
    """The words of an operation's request; None: its value has the wrong form."""
    match f, value:
        case (("put" | "append" | "add"), [str(key), item]):
            return {"key": key, "value": item}
        case "cas", [str(key), old, new]:
            return {"key": key, "old": old, "value": new}
        case (("get" | "read"), str(key)):
            return {"key": key}
        case "transfer", str(node):
            return {"target": node}
        case _:
            return None


def served_by(op: OpTable, answer: Answer, ids: Mapping[str, str]) -> str | None:
    """The node that the answer names as the one that served it; None: it names no member."""
    if op.served_by is None:
        return None
    if op.served_by.startswith(HEADER):
        name = op.served_by.removeprefix(HEADER).lower().encode()
        return ids.get(answer.headers.get(name, b"").decode("latin-1"))
    return member(at(decoded(answer.body), op.served_by), ids)


def understand(f: str, op: OpTable, status: int, body: bytes, *, node: str) -> OpOutcome:
    """How the operation ended, by the node's answer. Doubt is ``info``."""
    if status in op.fail:
        return OpOutcome(status="fail", error=f"HTTP {status}: {_shown(body)}", node=node)
    if status in op.refused and f == "cas":
        return OpOutcome(status="ok", value=False, node=node)
    if status in op.absent:
        if f in {"get", "read"}:
            return OpOutcome(status="ok", value=[] if f == "read" else None, node=node)
        if f == "cas":
            return OpOutcome(status="ok", value=False, node=node)
    if status not in op.ok:
        return unanswered(f, f"HTTP {status}: {_shown(body)}", node=node)
    if f == "cas" and op.value is None and op.refused:
        return OpOutcome(status="ok", value=True, node=node)
    shown = f"an answer that is not understood: {_shown(body)}"
    return returned(f, at(decoded(body), op.value or ""), node=node, shown=shown)


def overtaken(outcome: OpOutcome) -> OpOutcome:
    """How a cas ended that had read its register before: a refusal says that it was written since, perhaps with the
    same value, and so nothing of what it held."""
    if outcome.status != "ok" or outcome.value is not False:
        return outcome
    return msgspec.structs.replace(outcome, status="fail", value=None, error="the register was written after the read")


def returned(f: str, value: Any, *, node: str, shown: str = "") -> OpOutcome:
    """How an operation ended that was done and gave ``value``; doubt if that is no value of such an operation."""
    if f in {"put", "add", "transfer"}:
        return OpOutcome(status="ok", node=node)
    if f == "append":
        return OpOutcome(status="ok", value=_place(value), node=node)
    if f == "cas":
        if isinstance(value, bool):
            return OpOutcome(status="ok", value=value, node=node)
    elif f == "read":
        if value is None or (isinstance(value, list) and all(isinstance(item, int | str) for item in value)):
            return OpOutcome(status="ok", value=value or [], node=node)
    elif value is None or isinstance(value, int | str):
        return OpOutcome(status="ok", value=value, node=node)
    return unanswered(f, shown or f"no value of {f}: {value!r:.120}", node=node)


def _place(value: Any) -> Mapping[str, int] | None:
    """The place of an appended entry, if the answer has all of it."""
    if isinstance(value, dict) and all(type(value.get(name)) is int for name in ("index", "term")):
        return {"index": value["index"], "term": value["term"]}
    return None


def _shown(body: bytes) -> str:
    return " ".join(body[:120].decode("utf-8", "replace").split())
