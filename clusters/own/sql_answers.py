"""What the rows mean that an operation by SQL found (``sql_client``).

Guarantees: pure; rows that are not understood stay rows, which are no value of any operation. Out of scope: errors,
which the client's process classifies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dethrone.clusters.own.commands import single


def value_of(f: str, found: Any, held: Mapping[str, Any]) -> Any:
    """The operation's value. ``held``: its own words.

    A ``get`` finds one row of one column, or none. A ``read`` finds a row for each item, or one row that is a list. A
    ``cas`` found True, or what the register holds after no row was changed.

    >>> value_of("get", [["7"]], {}), value_of("read", [[1], [2]], {}), value_of("read", [["[1, 2]"]], {})
    (7, [1, 2], [1, 2])
    """
    if f == "get":
        return _one(found)
    if f == "read":
        return _items(found)
    if f == "cas" and found is not True:
        return _exchanged(found, held["old"], held["value"])
    return found


def _exchanged(rows: Any, old: Any, new: Any) -> Any:
    """Whether a cas was done that changed no row, where ``rows`` say what the register holds."""
    register = _one(rows)
    if isinstance(register, list):
        return rows
    if register != old:
        return False
    return True if old == new else rows  # some servers count a row only if it gets another value


def _one(rows: Any) -> Any:
    match rows:
        case []:
            return None
        case [[str(value)]]:
            return single(value)
        case [[value]]:
            return value
    return rows


def _items(rows: list[list[Any]]) -> list[Any]:
    match rows:
        case [[None]]:
            return []
        case [[list(items)]]:
            return items
        case [[str(text)]] if text.startswith("["):
            return _listed(text)
    if any(len(row) != 1 for row in rows):
        return rows
    return [single(value) if isinstance(value, str) else value for [value] in rows]


def _listed(text: str) -> list[Any]:
    try:
        items = json.loads(text)
    except ValueError:
        return [text]
    return items if isinstance(items, list) else [text]
