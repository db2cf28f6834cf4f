"""Client operations as SQL statements over any DB-API 2 module (PEP 249), in a process of their own.

    put = "REPLACE INTO registers VALUES ({key}, {value})"

Guarantees: only the standard library and the driver; a word becomes a parameter in the driver's own style, never text
of a statement; all statements of an operation are one transaction of one kept connection, and it counts as done only
once its commit was answered. ``NotDoneError`` is raised only where nothing has happened and nothing will: no connection
was made, the server refused with a listed error before the commit was sent, or no row was changed and all was rolled
back; then the connection is kept if its rollback succeeds. Every other error is a ``DoubtError``, also each one at the
commit, and its connection is closed. Out of scope: what rows mean (``sql_answers``), and time beyond connecting: who
asks ends this process if an answer is late.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

MARKERS: Mapping[str, str] = {
    "qmark": "?",
    "numeric": ":{number}",
    "named": ":{word}",
    "format": "%s",
    "pyformat": "%({word})s",
}
"""Style of a driver → how a parameter stands in its statements."""
BY_NAME = ("named", "pyformat")
PERCENT = ("format", "pyformat")
"""Styles in which a plain % is written twice."""
CODE_NAMES = ("sqlstate", "pgcode", "errno", "sqlite_errorcode", "sqlite_errorname", "number", "code", "full_code")
"""Where drivers keep the number or the SQLSTATE of an error, besides its first argument."""
MESSAGE_MAX = 4096
"""Characters of an error's message that a pattern is searched in."""
T = TypeVar("T")
_WORD = re.compile(r"\{(key|value|old)\}")
_CODE = re.compile(r"[A-Za-z0-9_-]{1,40}")


class NotDoneError(Exception):
    """Nothing has happened, now or later."""


class DoubtError(Exception):
    """It may have happened."""


class SqlClient:
    """Kept connections to the nodes.

    ``given``: ``driver``: a module; ``connect``: node → what its ``connect`` is called with; ``connect_limit_s``;
    ``hidden``: texts that no error may show; ``operations``: name → ``sql``, ``create``, ``check``, ``guard``,
    ``fail_codes`` and ``fail_pattern``, as in the description.
    """

    not_done = (NotDoneError,)

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._driver = importlib.import_module(given["driver"])
        self._style = str(getattr(self._driver, "paramstyle", "none"))
        if self._style not in MARKERS:
            raise TypeError(f"{given['driver']} is no DB-API 2 module: its paramstyle is {self._style!r}")
        self._given = given
        self._open: dict[str, Any] = {}

    def put(self, node: str, key: str, value: Any) -> None:
        """Carry out the statements of ``put``."""
        self._change(node, "put", key, value)

    def append(self, node: str, key: str, value: Any) -> None:
        """Carry out the statements of ``append``."""
        self._change(node, "append", key, value)

    def add(self, node: str, key: str, value: Any) -> None:
        """Carry out the statements of ``add``."""
        self._change(node, "add", key, value)

    def get(self, node: str, key: str) -> list[list[Any]]:
        """The rows of the last statement of ``get``."""
        return self._read(node, "get", key)

    def read(self, node: str, key: str) -> list[list[Any]]:
        """The rows of the last statement of ``read``."""
        return self._read(node, "read", key)

    def cas(self, node: str, key: str, old: Any, value: Any) -> bool | list[list[Any]]:
        """True: one row was changed. Rows: none was, and ``check`` read these in the same transaction."""
        op = self._given["operations"]["cas"]
        statements = op["create"] if old is None else op["sql"]
        if not statements:
            raise NotDoneError("the register is to hold nothing, and cas has no statement `create` for that")

        def work(asking: Asking) -> bool | list[list[Any]]:
            count = asking.count(statements)
            if count == 0 and op["check"]:
                return asking.rows([op["check"]])
            _check_changed(count, most=1)
            return True

        found = self._transaction(node, "cas", {"key": key, "old": old, "value": value}, work)
        self._check_warnings(node)
        return found

    def _change(self, node: str, f: str, key: str, value: Any) -> None:
        def work(asking: Asking) -> None:
            _check_changed(asking.count(self._given["operations"][f]["sql"]))

        self._transaction(node, f, {"key": key, "value": value}, work)
        self._check_warnings(node)

    def _read(self, node: str, f: str, key: str) -> list[list[Any]]:
        statements = self._given["operations"][f]["sql"]
        return self._transaction(node, f, {"key": key}, lambda asking: asking.rows(statements))

    def _transaction(self, node: str, f: str, words: Mapping[str, Any], work: Callable[[Asking], T]) -> T:
        """What ``work`` returned, once it is committed."""
        op = self._given["operations"][f]
        connection = self._connection(node)
        try:
            with contextlib.closing(connection.cursor()) as cursor:
                asking = Asking(cursor, self._style, words)
                found = work(asking)
                if op["guard"] and not _true(asking.rows([op["guard"]])):
                    raise NotDoneError("the guard does not hold")
        except NotDoneError:
            self._roll_back(node)
            raise
        except Exception as error:
            if self._refused(error, op):
                self._roll_back(node)
                raise NotDoneError(self._said(error)) from error
            self._drop(node)
            if isinstance(error, DoubtError):
                raise
            raise DoubtError(self._said(error)) from error
        try:
            connection.commit()
        except Exception as error:
            self._drop(node)
            raise DoubtError(f"at the commit: {self._said(error)}") from error
        return found

    def _connection(self, node: str) -> Any:
        if node not in self._open:
            try:
                with _limited(self._given["connect_limit_s"]):
                    self._open[node] = self._driver.connect(**self._given["connect"][node])
            except Exception as error:
                raise NotDoneError(f"no connection: {self._said(error)}") from error
        connection = self._open[node]
        if getattr(connection, "autocommit", None) is True:
            self._drop(node)
            raise NotDoneError("the driver's connections commit each statement by themselves")
        with contextlib.suppress(AttributeError):
            connection.notices.clear()
        return connection

    def _check_warnings(self, node: str) -> None:
        """PostgreSQL warns of a commit that no standby has confirmed, and drivers keep what it says in ``notices``."""
        notices = [str(notice) for notice in getattr(self._open[node], "notices", ())]
        warnings = [notice for notice in notices if "WARNING" in notice]
        if warnings:
            raise DoubtError(f"the server warned: {warnings[0]}")

    def _refused(self, error: Exception, op: Mapping[str, Any]) -> bool:
        """Whether the description says that nothing has happened after this error."""
        if not isinstance(error, self._driver.Error):
            return False
        pattern = op["fail_pattern"]
        found = pattern is not None and re.search(pattern, str(error)[:MESSAGE_MAX]) is not None
        return found or not codes(error).isdisjoint(map(str, op["fail_codes"]))

    def _said(self, error: Exception) -> str:
        """Its name, the codes that a description may list, and its message, without a password."""
        text = f"{' '.join([type(error).__name__, *sorted(codes(error))])}: {error}"
        for one in self._given["hidden"]:
            text = text.replace(one, "***")
        return text

    def _roll_back(self, node: str) -> None:
        try:
            self._open[node].rollback()
        except Exception:  # noqa: BLE001 - drivers raise anything; without a connection there is no transaction either
            self._drop(node)

    def _drop(self, node: str) -> None:
        connection = self._open.pop(node)
        with contextlib.suppress(Exception):
            connection.close()


class Asking:
    """Statements of one transaction."""

    def __init__(self, cursor: Any, style: str, words: Mapping[str, Any]) -> None:
        self._cursor = cursor
        self._style = style
        self._words = {word: _parameter(value) for word, value in words.items()}

    def count(self, statements: Sequence[str]) -> int:
        """How many rows the last one changed; negative: the driver does not know."""
        for statement in statements:
            self._execute(statement)
        count = self._cursor.rowcount
        return count if isinstance(count, int) else -1

    def rows(self, statements: Sequence[str]) -> list[list[Any]]:
        """The rows of the last one."""
        for statement in statements:
            self._execute(statement)
        if self._cursor.description is None:
            raise DoubtError("the last statement gives no rows")
        return [[_plain(value) for value in row] for row in self._cursor.fetchall()]

    def _execute(self, statement: str) -> None:
        text, parameters = bound(statement, self._style, self._words)
        if parameters:
            self._cursor.execute(text, parameters)
        else:
            self._cursor.execute(text)


def bound(statement: str, style: str, words: Mapping[str, Any]) -> tuple[str, tuple[Any, ...] | dict[str, Any]]:
    """The statement as a driver of this style takes it, and its parameters.

    >>> bound("UPDATE r SET v = {value} WHERE k = {key}", "qmark", {"key": "a", "value": 7})
    ('UPDATE r SET v = ? WHERE k = ?', (7, 'a'))
    >>> bound("SELECT v FROM r WHERE k = {key} AND v LIKE '5%'", "pyformat", {"key": "a"})
    ("SELECT v FROM r WHERE k = %(key)s AND v LIKE '5%%'", {'key': 'a'})
    """
    parts = _WORD.split(statement)
    named = parts[1::2]
    if named and style in PERCENT:
        parts[::2] = [text.replace("%", "%%") for text in parts[::2]]
    parts[1::2] = [MARKERS[style].format(word=word, number=at) for at, word in enumerate(named, 1)]
    if style in BY_NAME:
        return "".join(parts), {word: words[word] for word in named}
    return "".join(parts), tuple(words[word] for word in named)


def codes(error: Exception) -> set[str]:
    """The numbers and names of an error: SQLSTATE, or the server's or the driver's own."""
    first = error.args[0] if error.args else None
    found = [getattr(one, name, None) for one in (error, first) for name in CODE_NAMES]
    found.append(first.get("C") if isinstance(first, dict) else first)
    return {str(one) for one in found if isinstance(one, int | str) and _CODE.fullmatch(str(one))}


def _check_changed(count: int, *, most: int | None = None) -> None:
    """Raise unless a change of this number of rows is to be committed."""
    if count == 0:
        raise NotDoneError("it changed no row")
    if count < 0:
        raise DoubtError("the driver does not say how many rows the last statement changed")
    if most is not None and count > most:
        raise DoubtError(f"it changed {count} rows")


def _true(rows: Sequence[Sequence[Any]]) -> bool:
    """Whether the first column of the first row is true, in any of the ways in which drivers say so."""
    value = rows[0][0] if rows and rows[0] else None
    return value not in (None, "", "0", "f", "false", "\0") and bool(value)


def _parameter(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _plain(value: Any) -> Any:
    """A column as JSON has it: decimals, dates and the like are texts."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    return value if value is None or isinstance(value, int | float | str | list | dict) else str(value)


@contextlib.contextmanager
def _limited(limit_s: float) -> Iterator[None]:
    """Raise a TimeoutError in what takes longer, if it is Python."""

    def ring(*_: object) -> None:
        raise TimeoutError("no answer in time")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
