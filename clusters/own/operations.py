"""``[ops]`` and ``[membership]`` of a description: each operation as requests, one command, one Redis command, SQL
statements, or a method of a client.

Guarantees: pure; a key that is unknown, or that does not fit what carries the operation, is a ConfigError that names
it. Out of scope: carrying operations out (``client``), and whether a client's file is there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dethrone.clusters.own import sql_table
from dethrone.clusters.own.headers import check_carried
from dethrone.clusters.own.requests import HEADER, TOKEN, check_requests
from dethrone.clusters.own.spec import NodeTable, OpTable
from dethrone.clusters.own.table import check_regex, placed, read_table, split
from dethrone.clusters.own.tls import check_tls
from dethrone.clusters.own.words import PLACES, check_words, fill
from dethrone.clusters.systems.membership import CHANGES
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name

PATTERNS = ("ok_pattern", "fail_pattern", "absent_pattern", "refused_pattern")
SHARED = (
    *(
        "port",
        "protocol",
        "ok",
        "fail",
        "absent",
        "refused",
        "served_by",
        "headers",
        "auth",
        "tls",
        "at",
        "wait",
        *PATTERNS,
    ),
    *sql_table.SHARED,
)
"""Keys of ``[ops]`` that hold for all operations which do not say otherwise."""
CLIENT = ("client", "serves")
"""Keys of ``[ops]`` of a client of the user's own; nothing else stands there then."""
PROTOCOLS = ("http", "redis", "sql")
"""The last one is for clients only."""
ERRAND_PORT = 7998
"""Where hosts are asked to run commands (``errands``)."""
READS = ("get", "read")
_RESULTS = "name the result (?P<value>…); of an append (?P<index>…) and (?P<term>…)"
_SERVES = 'write client = "client.py:Client" and serves = ["put", "get"] in [ops]'
_FAILS = 'write what it prints if the change certainly did not happen; "(?!)" matches nothing'
OP_WORDS: Mapping[str, tuple[str, ...]] = {
    "put": ("key", "value"),
    "get": ("key",),
    "cas": ("key", "old", "value"),
    "append": ("key", "value"),
    "read": ("key",),
    "add": ("key", "value"),
}
"""Name → its words."""
TARGET = ("target", "target_address", "target_number")
"""The node that is to lead, or that is removed and added again."""
MEMBERSHIP: Mapping[str, tuple[str, ...]] = {
    "transfer": TARGET,
    **dict.fromkeys(CHANGES, TARGET),
    "remove": (*TARGET, "id"),
}
"""The same of what only faults ask for."""
_CLIENT = re.compile(r"[^:\0]+\.py:[A-Za-z_][A-Za-z0-9_]*")


def port_of(name: str | None, node: NodeTable, *, where: str) -> str:
    """The port that is meant: the one of that name, or the only one. ConfigError."""
    if name is None:
        if len(node.ports) == 1:
            return next(iter(node.ports))
        if "http" in node.ports:
            return "http"
        raise ConfigError(
            "it is not said which port", where=where, next_step='write port = "…": a name of [node] ports'
        )
    if name not in node.ports:
        raise placed(unknown_name("port", name, node.ports), where)
    return name


def operations(
    raw: Mapping[str, Any],
    node: NodeTable,
    knobs: Mapping[str, str],
    *,
    where: str,
    names: Mapping[str, tuple[str, ...]] = OP_WORDS,
) -> tuple[dict[str, OpTable], str]:
    """Each operation of the table ``raw``, and the port's name, "" where none is needed. ConfigError.

    ``names``: those that the table may have, with their words.
    """
    known = (*names, *SHARED, *CLIENT)
    for key in raw:
        if key not in known:
            raise placed(unknown_name("key", key, known), where)
    if "client" in raw or "serves" in raw:
        return _of_client(raw, tuple(names), where=where), ""
    asked = {name: raw[name] for name in names if name in raw}
    if not asked:
        return {}, ""
    shared = {name: raw[name] for name in SHARED if name in raw and name not in {"port", "protocol"}}
    protocol = raw.get("protocol", "http")
    known_protocols = PROTOCOLS if names is OP_WORDS else PROTOCOLS[:2]
    if protocol not in known_protocols:
        raise placed(unknown_name("protocol", str(protocol), known_protocols), where)
    sql_table.check_shared(raw, protocol, where=where)
    out = {}
    for name, given in asked.items():
        listed = "redis" if protocol == "redis" and isinstance(given, list) else "request"
        table = {listed: given} if isinstance(given, str | list) else given
        table = sql_table.written(given) if protocol == "sql" else table
        if not isinstance(table, dict):
            raise ConfigError(f"{name} is no request", where=where, next_step='write it like "PUT /kv/{key} {value}"')
        if "client" in table:
            raise ConfigError("one client serves all operations", where=f"{where} {name}", next_step=_SERVES)
        op = read_table(OpTable, {**shared, **table}, where=f"{where} {name}")
        check_carried(op, ports=node.ports, knobs=knobs, secrets=node.secrets, where=f"{where} {name}")
        check_tls(op.tls, ports=node.ports, knobs=knobs, where=f"{where} {name}")
        _check_served_by(op, protocol, where=f"{where} {name}")
        if protocol != "sql" or op.command is not None:
            sql_table.check_other(table, where=f"{where} {name}")
        if op.command is not None:
            if {"headers", "auth", "tls"} & table.keys():
                raise ConfigError("a command has no headers, and no auth or tls", where=f"{where} {name}")
            silent = name in READS or (names is MEMBERSHIP and name in CHANGES)
            if names is MEMBERSHIP and name in CHANGES and "at" in table:
                cause = "it runs on the host of the node that is removed in any case"
                raise ConfigError("a change of members has no `at`", where=f"{where} {name}", cause=cause)
            _command_op(op, names[name], node, silent=silent, where=f"{where} {name}")
        elif "at" in table:
            raise ConfigError("`at` belongs to commands", where=f"{where} {name}", next_step="remove it")
        elif protocol == "sql":
            sql_table.check_sql(op, name, names[name], table, node=node, knobs=knobs, where=f"{where} {name}")
        elif protocol == "redis" or op.redis:
            if "auth" in table:
                step = "write auth next to the operations"
                raise ConfigError("one connection has one user", where=f"{where} {name}", next_step=step)
            _redis_op(op, name, names[name], protocol, where=f"{where} {name}")
            replicas(op, knobs, where=f"{where} {name}")
        else:
            check_requests(op, name, names[name], where=f"{where} {name}")
        if op.wait and not op.redis:
            raise ConfigError("`wait` belongs to Redis commands", where=f"{where} {name}", next_step="remove it")
        out[name] = op
    if all(op.command is not None or op.sql for op in out.values()):
        return out, ""
    return out, port_of(raw.get("port"), node, where=where)


def _check_served_by(op: OpTable, protocol: object, *, where: str) -> None:
    """ConfigError where no answer can name its node."""
    if op.served_by is None:
        return
    if op.command is not None or op.redis or protocol != "http":
        raise ConfigError("`served_by` belongs to operations over HTTP", where=where)
    header = op.served_by.removeprefix(HEADER)
    if header != op.served_by and not TOKEN.fullmatch(header):
        raise ConfigError(
            f"{header!r} is no name of a header", where=where, next_step='write it like "header:X-Served-By"'
        )


def _of_client(raw: Mapping[str, Any], names: tuple[str, ...], *, where: str) -> dict[str, OpTable]:
    """Each operation that a class of the user's own serves. ConfigError."""
    client, serves = raw.get("client"), raw.get("serves")
    if set(raw) != set(CLIENT):
        raise ConfigError(
            "a client of your own and other keys",
            where=where,
            cause=f"given: {', '.join(raw)}",
            next_step='write client = "client.py:Client" and serves = ["append", "read"], and nothing else',
        )
    if not isinstance(client, str) or not _CLIENT.fullmatch(client):
        raise ConfigError(f"{client!r} is no class in a Python file", where=where, next_step='write "client.py:Client"')
    if not isinstance(serves, list) or not serves:
        raise ConfigError("serves must list operations", where=where, next_step=f"known: {', '.join(names)}")
    for name in serves:
        if name not in names:
            raise placed(unknown_name("operation", str(name), names), f"{where} serves")
    return {name: OpTable(client=client) for name in serves}


def replicas(op: OpTable, knobs: Mapping[str, str], *, where: str) -> int:
    """How many replicas must confirm a change; 0: none. ConfigError: that is no number."""
    check_words([str(op.wait)], tuple(knobs), where=f"{where} wait")
    text = fill(str(op.wait), knobs)
    if not text.isascii() or not text.isdecimal() or len(text) > 2:
        step = 'write how many replicas must confirm a change, 0 to 99, or a knob: "{wait}"'
        raise ConfigError(f"wait = {text!r} is no number of replicas", where=where, next_step=step)
    return int(text)


def _redis_op(op: OpTable, name: str, words: tuple[str, ...], protocol: object, *, where: str) -> None:
    """ConfigError for an operation that is no Redis command."""
    if op.tls is not False:
        step = "remove it: Redis is asked without TLS"
        raise ConfigError("tls belongs to requests over HTTP", where=where, next_step=step)
    if protocol != "redis" or op.request or op.headers or not op.redis or not op.redis[0]:
        cause = "" if protocol == "redis" else 'Redis commands need protocol = "redis" in [ops]'
        step = 'write the words of one command, without headers: ["SET", "{key}", "{value}"]'
        raise ConfigError(f"{name} is no Redis command", where=where, cause=cause, next_step=step)
    check_words(op.redis, words, where=where)
    check_regex(op.fail_pattern or "", "fail_pattern", where=where)


def _command_op(op: OpTable, known: tuple[str, ...], node: NodeTable, *, silent: bool, where: str) -> None:
    """ConfigError for an operation by a command that cannot be carried out, or not be understood. ``silent``: its
    output need not say that nothing happened."""
    if op.request or op.redis:
        raise ConfigError("both a request and a command", where=where, next_step="keep one of them")
    there = (*PLACES, "python") if op.at == "host" else ()
    if there and ERRAND_PORT in node.ports.values():
        step = "give that port of [node] ports another number"
        raise ConfigError(f"commands on hosts are asked for at port {ERRAND_PORT}", where=where, next_step=step)
    words = (*known, "name", "number", "address", *node.ports, *there)
    check_words(split(op.command or "", where=where), words, where=where)
    for key in PATTERNS:
        try:
            pattern = re.compile(getattr(op, key) or "", re.MULTILINE)
        except re.error as error:
            raise ConfigError(f"{key} is no regular expression: {error}", where=where) from error
        if key == "ok_pattern" and not {*pattern.groupindex} <= {"value", "index", "term"}:
            raise ConfigError(f"{key} has the groups {sorted(pattern.groupindex)}", where=where, next_step=_RESULTS)
    if op.fail_pattern is None and not silent:
        raise ConfigError("a command that changes something needs a fail_pattern", where=where, next_step=_FAILS)
