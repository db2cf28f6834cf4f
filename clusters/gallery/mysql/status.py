"""What a server of a group is: one line of JSON for each line of input.

    python3 status.py ADDRESS PORT FILE

The term is the counter in the id of the view (``17957851827385585:4``). Every change of the members is a view with the
next number, agreed on by a majority, and in each the members elect one primary, by a rule and without more messages: a
primary that stays is primary in all of them. There is no other number that rises with a change of primary. (One that is
chosen by ``group_replication_set_as_primary`` would be a second one in its view, so that is not used here.)

The number and the members stand in two tables and do not change at one moment: a server that is expelled may call
itself primary in the view that expelled it. So an answer counts only if the number is the same before and after, and
if it changed whenever the members did, or has been like that for ``SETTLED_S``. A server outside of a group, such as
one that starts, has the number that it had last, which is kept in the file. Out of scope: whether it is in reach of a
majority; if not, a primary remains one, and waits.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pymysql

LIMIT_S = 0.3
SETTLED_S = 2.0
VIEW = "SELECT VIEW_ID FROM performance_schema.replication_group_member_stats WHERE MEMBER_ID = @@server_uuid"
MEMBERS = """SELECT MEMBER_HOST, MEMBER_STATE, MEMBER_ROLE, MEMBER_ID = @@server_uuid
FROM performance_schema.replication_group_members ORDER BY MEMBER_ID"""


class Seen(NamedTuple):
    """The number of a view (0: none), and of each member name, state, role, and whether it is the server itself."""

    view: int
    members: tuple[tuple[str, str, str, int], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Who is in it."""
        return tuple(name for name, *_ in self.members)


class UnsettledError(Exception):
    """The view is changing."""


class Teller:
    """Makes answers out of what was seen, one after the other. ``last``: the number of the view before; 0: unknown."""

    def __init__(self, last: int = 0) -> None:
        self.last = last
        self._told: Seen | None = None
        self._odd: Seen | None = None
        self._since_s = 0.0

    def answer(self, seen: Seen, now_s: float) -> dict[str, Any]:
        """What the server is. Raises UnsettledError where that is not sure, and LookupError where there is no view."""
        state, role = next((state, role) for _, state, role, own in seen.members if own)
        if not seen.view or not role:
            if not self.last:
                raise LookupError(f"{state}, and no view yet")
            return {"role": state.lower(), "view": self.last, "primary": None}
        self._settle(seen, now_s)
        primaries = [name for name, _, role, _ in seen.members if role == "PRIMARY"]
        return {"role": role.lower(), "view": seen.view, "primary": primaries[0] if len(primaries) == 1 else None}

    def _settle(self, seen: Seen, now_s: float) -> None:
        told, odd = self._told, self._odd
        if told is not None and (told.view == seen.view) != (told.names == seen.names):
            if odd is None or (odd.view, odd.names) != (seen.view, seen.names):
                self._odd, self._since_s = seen, now_s
            if now_s - self._since_s < SETTLED_S:
                raise UnsettledError("the view is changing")
        self.last, self._told, self._odd = seen.view, seen, None


class Server:
    """One server, over a kept connection. Raises OSError or pymysql's errors."""

    def __init__(self, address: str, port: int) -> None:
        self._place = (address, port)
        self._open: Any = None

    def seen(self) -> Seen:
        """The view and its members. Raises UnsettledError if another view came in between."""
        try:
            if self._open is None:
                address, port = self._place
                limits = {"connect_timeout": LIMIT_S, "read_timeout": LIMIT_S, "write_timeout": LIMIT_S}
                self._open = pymysql.connect(host=address, port=port, user="root", autocommit=True, **limits)
            (before,), members, (after,) = self._rows(VIEW), self._rows(MEMBERS), self._rows(VIEW)
        except BaseException:
            self._open = None
            raise
        if before != after:
            raise UnsettledError("another view came")
        return Seen(int(before[0].rpartition(":")[2] or 0), tuple(members))

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self._open.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


def main(address: str, port: str, file: str) -> None:
    """Answer until the input ends."""
    kept = Path(file)
    server, teller = Server(address, int(port)), Teller(int(kept.read_text()) if kept.is_file() else 0)
    for _ in sys.stdin:
        before = teller.last
        try:
            found = teller.answer(server.seen(), time.monotonic())
            if teller.last != before:
                kept.with_suffix(".new").write_text(str(teller.last))
                kept.with_suffix(".new").replace(kept)
        except (OSError, pymysql.MySQLError, UnsettledError, LookupError, ValueError) as error:
            found = {"error": str(error)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
