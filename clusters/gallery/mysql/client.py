"""Lists and registers in two tables of MySQL, at the server that is asked.

Guarantees: a statement is sent once, and is a transaction of its own; what is read counts only if the server is in its
group and reaches a majority of it. (MySQL Router sends clients to such servers only.) Out of scope: passwords and TLS,
and finding the primary.
"""

from __future__ import annotations

import json
from typing import Any

import pymysql
from pymysql.constants import CLIENT

APPEND = """INSERT INTO lists VALUES (%s, JSON_ARRAY(CAST(%s AS JSON)))
ON DUPLICATE KEY UPDATE value = JSON_ARRAY_APPEND(value, '$', CAST(%s AS JSON))"""
SERVES = """SELECT MAX(MEMBER_ID = @@server_uuid AND MEMBER_STATE = 'ONLINE')
AND 2 * SUM(MEMBER_STATE = 'UNREACHABLE') < COUNT(*) FROM performance_schema.replication_group_members"""
READ = f"SELECT ({SERVES}), (SELECT value FROM lists WHERE name = %s)"  # noqa: S608 - of two constants
PUT = "INSERT INTO registers VALUES (%s, CAST(%s AS JSON)) ON DUPLICATE KEY UPDATE value = CAST(%s AS JSON)"
GET = f"SELECT ({SERVES}), (SELECT value FROM registers WHERE name = %s)"  # noqa: S608 - likewise
CREATE = "INSERT INTO registers VALUES (%s, CAST(%s AS JSON))"
REPLACE = "UPDATE registers SET value = CAST(%s AS JSON) WHERE name = %s AND value = CAST(%s AS JSON)"
LIMIT_S = 5
REFUSED = frozenset({1062, 1290, 3101})
"""Errors after which nothing has happened: the register is there already; a secondary is read-only; another transaction
went first, so that this one was rolled back everywhere."""


class NotDoneError(Exception):
    """Nothing has happened."""


class Client:
    """Kept connections to the servers."""

    not_done = (NotDoneError,)

    def __init__(self, nodes: dict[str, dict[str, Any]]) -> None:
        self._nodes = nodes
        self._open: dict[str, Any] = {}

    def append(self, node: str, key: str, value: Any) -> None:
        """Add to the row of this list, which the statement locks: the next append sees it."""
        said = json.dumps(value)
        self._ask(node, APPEND, key, said, said)

    def read(self, node: str, key: str) -> list[Any]:
        """The row of this list, as the server that is asked has it."""
        found = self._value(node, READ, key)
        return [] if found is None else list(found)

    def put(self, node: str, key: str, value: Any) -> None:
        """Replace the row of this register."""
        said = json.dumps(value)
        self._ask(node, PUT, key, said, said)

    def get(self, node: str, key: str) -> Any:
        """The row of this register, likewise."""
        return self._value(node, GET, key)

    def cas(self, node: str, key: str, old: Any, value: Any) -> bool:
        """Replace the row only if it holds ``old``.

        That it does not, the server says by its own copy, which is old if another one was made primary: that is no
        claim about the register.
        """
        said = json.dumps(value)
        statement = (CREATE, key, said) if old is None else (REPLACE, said, key, json.dumps(old))
        changed, _ = self._ask(node, *statement)
        if not changed:
            raise NotDoneError("this server's copy holds something else")
        return True

    def _value(self, node: str, statement: str, key: str) -> Any:
        _, row = self._ask(node, statement, key)
        serves, value = row or (0, None)
        if not serves:
            raise NotDoneError("this server is out of its group")
        return None if value is None else json.loads(value)

    def _ask(self, node: str, statement: str, *values: str) -> tuple[int, tuple[Any, ...] | None]:
        """How many rows it changed or found, and the first one that it found."""
        if node not in self._open:
            try:
                self._open[node] = self._connected(node)
            except (OSError, pymysql.MySQLError) as error:
                raise NotDoneError(str(error)) from error
        try:
            with self._open[node].cursor() as cursor:
                count = cursor.execute(statement, values)
                return count, cursor.fetchone()
        except BaseException as error:
            self._open.pop(node)
            if isinstance(error, pymysql.MySQLError) and error.args[:1] and error.args[0] in REFUSED:
                raise NotDoneError(str(error)) from error
            raise

    def _connected(self, node: str) -> Any:
        place = self._nodes[node]
        limits = {"connect_timeout": LIMIT_S, "read_timeout": LIMIT_S, "write_timeout": LIMIT_S}
        return pymysql.connect(
            host=place["address"],
            port=place["sql"],
            user="root",
            database="keep",
            autocommit=True,
            client_flag=CLIENT.FOUND_ROWS,
            **limits,
        )
