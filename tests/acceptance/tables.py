"""Tables of documents that a command writes from what is kept of runs, between two markers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Key = tuple[str, str]
"""The first two cells of a row, which name it."""


class Table(NamedTuple):
    """``name``: of its markers; ``head``: its first two lines; ``order``: of its rows. Unknown ones come last."""

    name: str
    head: tuple[str, str]
    order: Sequence[Key]

    @property
    def begin(self) -> str:
        """The marker before it."""
        return f"<!-- {self.name}: begin -->"

    @property
    def end(self) -> str:
        """The marker behind it."""
        return f"<!-- {self.name}: end -->"

    def merged(self, page: str, lines: Sequence[str]) -> str:
        """The page with these rows; rows that are not among them stay. ValueError: it has no such markers."""
        before, _, rest = page.partition(self.begin)
        table, marked, after = rest.partition(self.end)
        if not marked:
            raise ValueError(f"no {self.begin} … {self.end} in it")
        rows = {_key(one): one for one in table.splitlines() if one.startswith("| ") and one not in self.head}
        rows |= {_key(one): one for one in lines}
        places = {key: place for place, key in enumerate(self.order)}
        known = sorted(rows, key=lambda key: places.get(key, len(places)))
        return "\n".join([f"{before}{self.begin}", *self.head, *(rows[key] for key in known), f"{self.end}{after}"])


def _key(line: str) -> Key:
    one, two = line.split("|")[1:3]
    return one.strip(), two.strip()
