"""The data items of one node, and how a client's lists and registers lie in them.

A register is one item under its own key. A list is many items, one per appended value, under ``key/<value>``; reading
it gives the values in publish order, that is by (timestamp, key).

Guarantees: new timestamps exceed all that this node has seen since its start, so publish order is timestamp order on
one leader. (The original counts per key from 1; per key both rise by publish, and the protocol compares only within a
key.) Two leaders may give the same timestamp to different values of a key: that is the protocol's doing, not ours.

Out of scope: the meaning of the values.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from dethrone.clusters.targets.nacos.messages import Datum, DatumStamp


def list_item_key(key: str, value: int | str) -> str:
    """The item that holds one appended value."""
    return f"{key}/{quote(str(value), safe='')}"


class Items:
    """Key → datum, with an index from list keys to their items."""

    def __init__(self) -> None:
        self._datums: dict[str, Datum] = {}
        self._lists: dict[str, set[str]] = {}
        self._acked: set[str] = set()
        self.newest = 0
        """The largest timestamp seen since the start, deleted items included."""

    def __len__(self) -> int:
        return len(self._datums)

    def __contains__(self, key: str) -> bool:
        return key in self._datums

    def get(self, key: str) -> Datum | None:
        """The item of that key."""
        return self._datums.get(key)

    def keys(self) -> list[str]:
        """All keys, in the order in which they first came."""
        return list(self._datums)

    def put(self, datum: Datum) -> None:
        """Store or overwrite."""
        self._datums[datum.key] = datum
        self.newest = max(self.newest, datum.timestamp)
        parent, slash, _ = datum.key.rpartition("/")
        if slash:
            self._lists.setdefault(parent, set()).add(datum.key)

    def delete(self, key: str) -> bool:
        """Forget an item; whether there was one."""
        self._acked.discard(key)
        if self._datums.pop(key, None) is None:
            return False
        parent, slash, _ = key.rpartition("/")
        if slash:
            self._lists[parent].discard(key)
        return True

    def clear(self) -> None:
        """Forget everything."""
        self._datums.clear()
        self._lists.clear()
        self._acked.clear()

    def is_older(self, key: str, timestamp: int) -> bool:
        """Whether the local copy of ``key`` is absent or older than ``timestamp``."""
        datum = self._datums.get(key)
        return datum is None or datum.timestamp < timestamp

    def stamps(self) -> tuple[DatumStamp, ...]:
        """The content of a beat: key and timestamp of every item."""
        return tuple(DatumStamp(datum.key, datum.timestamp) for datum in self._datums.values())

    def read(self, key: str) -> Any:
        """The answer to a read: the value of a register, the values of a list, or None."""
        datum = self._datums.get(key)
        if datum is not None:
            return datum.value
        listed = self._lists.get(key)
        if not listed:
            return None
        datums = sorted((self._datums[item] for item in listed), key=lambda item: (item.timestamp, item.key))
        return [item.value for item in datums]

    def mark_acked(self, key: str) -> None:
        """A majority stored this item, as its publisher, this node, learned."""
        if key in self._datums:
            self._acked.add(key)

    @property
    def acked_count(self) -> int:
        """How many present items a majority stored, as far as their publisher, this node, learned."""
        return len(self._acked)
