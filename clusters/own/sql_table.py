"""``[ops]`` with ``protocol = "sql"``: what stands there, and what the client's process is made with.

Guarantees: pure; a statement whose words could not become parameters, a key that belongs to another protocol, and a
password that stands in the file are ConfigErrors that name the place. Out of scope: carrying operations out
(``sql_client``), and what their rows mean (``sql_answers``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping
from typing import Any

from dethrone.clusters.own.headers import NODE, check_hidden
from dethrone.clusters.own.spec import NodeTable, OpTable
from dethrone.clusters.own.table import check_regex
from dethrone.clusters.own.words import check_words, fill, words_in
from dethrone.clusters.systems.kept_http import CONNECT_LIMIT_NS
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.secrets import is_secret

ONE_CONNECTION = ("driver", "connect")
"""Keys that stand next to the operations only."""
OF_CAS = ("create", "check")
SHARED = (*ONE_CONNECTION, "guard", "fail_codes")
"""Keys next to the operations that only SQL has."""
KEYS = ("sql", *OF_CAS, *SHARED)
"""Those, and in the table of one operation."""
FOREIGN = ("port", "ok", "fail", "absent", "refused", "value", "served_by", "headers", "auth", "request", "redis")
"""Keys of other protocols."""
UNSEARCHED = ("ok_pattern", "absent_pattern", "refused_pattern")
"""Patterns that may stand next to the operations, for those by a command."""
_STATEMENT = 'write a statement, or a list of statements: "SELECT value FROM registers WHERE name = {key}"'
_DRIVER = 'write driver = "pymysql", and its package in python of [system]'
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_CODE = re.compile(r"[A-Za-z0-9_-]{1,40}")
_PASSWORD_INSIDE = re.compile(r"://[^/@\s]*:[^/@\s]+@|\b(?:password|passwd|pwd)\s*=", re.IGNORECASE)
"""In the text of a connection."""


def written(given: Any) -> Any:
    """The table of one operation, whose statements may stand alone, or one by itself."""
    table = given if isinstance(given, dict) else {"sql": given}
    lists = {key: [table[key]] for key in ("sql", "create") if isinstance(table.get(key), str)}
    return {**table, **lists}


def check_shared(raw: Mapping[str, Any], protocol: object, *, where: str) -> None:
    """Raise ConfigError for keys next to the operations that do not go with this protocol."""
    wrong = [key for key in (FOREIGN if protocol == "sql" else SHARED) if key in raw]
    if wrong:
        _refuse(wrong[0], sql=protocol == "sql", where=where)
    if protocol == "sql" and "driver" not in raw:
        raise ConfigError("it is not said which driver speaks SQL", where=where, next_step=_DRIVER)


def check_other(table: Mapping[str, Any], *, where: str) -> None:
    """Raise ConfigError for a key of SQL in the table of an operation that is by something else."""
    wrong = [key for key in KEYS if key in table]
    if wrong:
        _refuse(wrong[0], sql=False, where=where)


def check_sql(
    op: OpTable,
    name: str,
    words: tuple[str, ...],
    table: Mapping[str, Any],
    *,
    node: NodeTable,
    knobs: Collection[str],
    where: str,
) -> None:
    """Raise ConfigError for an operation that cannot be carried out by SQL. ``table``: as it is written."""
    wrong = [
        key for key in (*FOREIGN, *UNSEARCHED, *ONE_CONNECTION, *(() if name == "cas" else OF_CAS)) if key in table
    ]
    if wrong and wrong[0] in OF_CAS:
        raise ConfigError(f"{wrong[0]} belongs to cas", where=where)
    if wrong and wrong[0] in ONE_CONNECTION:
        step = "write it next to the operations"
        raise ConfigError(f"one connection serves all operations, so {wrong[0]} is theirs", where=where, next_step=step)
    if wrong:
        _refuse(wrong[0], sql=True, where=where)
    if not _MODULE.fullmatch(op.driver):
        raise ConfigError(f"{op.driver!r} is no Python module", where=f"{where} driver", next_step=_DRIVER)
    if not op.sql:
        raise ConfigError(f"{name} has no statement", where=where, next_step=_STATEMENT)
    for statement in (*op.sql, *op.create, *filter(None, (op.check, op.guard))):
        check_words([statement], words, where=where)
        _check_statement(statement, where=where)
    if any(word == "old" for statement in op.create for word in words_in(statement)):
        raise ConfigError("create is for a register that holds nothing, so that {old} is none", where=where)
    for code in op.fail_codes:
        if not _CODE.fullmatch(str(code)):
            step = 'write SQLSTATEs or numbers: fail_codes = [1290, "25006"]'
            raise ConfigError(f"{code!r} is no code of an error", where=f"{where} fail_codes", next_step=step)
    check_regex(op.fail_pattern or "", "fail_pattern", where=where)
    _check_connect(op.connect, node, knobs, where=f"{where} connect")


def check_driver(ops: Mapping[str, OpTable], packages: Collection[str], *, where: str) -> None:
    """Raise ConfigError for a driver that no package can bring."""
    for driver in {op.driver for op in ops.values() if op.sql}:
        if not packages and driver.partition(".")[0] not in sys.stdlib_module_names:
            step = 'write python = ["pymysql==1.1.2"] in [system]: a package without compiled code'
            raise ConfigError(f"no package brings the driver {driver!r}", where=where, next_step=step)


def given_to_client(
    ops: Mapping[str, OpTable],
    words: Mapping[str, Mapping[str, str]],
    *,
    ports: Mapping[str, int],
    knobs: Collection[str],
    secrets: Collection[str],
) -> dict[str, Any]:
    """What ``sql_client.SqlClient`` is made with. ``words``: of each node, its knobs among them."""
    by_sql = {name: op for name, op in ops.items() if op.sql}
    first = next(iter(by_sql.values()))
    hidden = {its.get(knob, "") for its in words.values() for knob in knobs if knob in secrets or is_secret(knob)}
    return {
        "driver": first.driver,
        "connect": {
            node: {key: _filled(value, its, ports) for key, value in first.connect.items()}
            for node, its in words.items()
        },
        "connect_limit_s": CONNECT_LIMIT_NS / SECOND,
        "hidden": sorted(hidden - {""}),
        "operations": {
            name: {
                "sql": op.sql,
                "create": op.create,
                "check": op.check,
                "guard": op.guard,
                "fail_codes": op.fail_codes,
                "fail_pattern": op.fail_pattern,
            }
            for name, op in by_sql.items()
        },
    }


def _filled(value: str | float, words: Mapping[str, str], ports: Mapping[str, int]) -> str | float:
    """A port that stands alone is a number."""
    if not isinstance(value, str):
        return value
    alone = next((port for name, port in ports.items() if value == f"{{{name}}}"), None)
    return fill(value, words) if alone is None else alone


def _check_statement(statement: str, *, where: str) -> None:
    """Raise ConfigError for a statement that is none, or has a word within quotes: a driver would not replace it."""
    if not statement.strip():
        raise ConfigError("a statement is empty", where=where, next_step=_STATEMENT)
    quoted = [part for quote in "'\"`" for part in statement.split(quote)[1::2]]
    for part in quoted:
        if words_in(part):
            raise ConfigError(
                f"a word stands within quotes: {part!r:.80}",
                where=where,
                cause="words become parameters of the statement, and what is quoted is text",
                next_step="remove the quotes: drivers send a text as a text, and a number as a number",
            )


def _check_connect(
    connect: Mapping[str, str | float | bool], node: NodeTable, knobs: Collection[str], *, where: str
) -> None:
    if not connect:
        step = 'write connect = { host = "{address}", port = "{sql}", user = "root" }: what the driver\'s connect takes'
        raise ConfigError("it is not said how to connect", where=where, next_step=step)
    for name, value in connect.items():
        if name == "autocommit" and value is not False:
            raise ConfigError("an operation is a transaction that is committed at its end", where=f"{where} {name}")
        if not isinstance(value, str):
            continue
        check_words([value], (*NODE, *node.ports, *knobs), where=f"{where} {name}")
        if is_secret(name) or _PASSWORD_INSIDE.search(value):
            check_hidden(value, name, node.secrets, where=where)


def _refuse(key: str, *, sql: bool, where: str) -> None:
    if sql:
        raise ConfigError(
            f"{key} says nothing of an operation by SQL", where=where, next_step=f"known: {', '.join(KEYS)}"
        )
    raise ConfigError(f'{key} needs protocol = "sql" in [ops]', where=where)
