"""What commands write into documents from what is kept of runs, between two markers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

Key = tuple[str, str]
"""The first two cells of a row, which name it."""


class Block(NamedTuple):
    """Lines between the two markers of this name."""

    name: str

    @property
    def begin(self) -> str:
        """The marker before them."""
        return f"<!-- {self.name}: begin -->"

    @property
    def end(self) -> str:
        """The marker behind them."""
        return f"<!-- {self.name}: end -->"

    def lines(self, page: str) -> list[str]:
        """Those that the page has. ValueError: it has no such markers."""
        _, begun, rest = page.partition(self.begin)
        held, ended, _ = rest.partition(self.end)
        if not begun or not ended:
            raise ValueError(f"no {self.begin} … {self.end} in it")
        return held.strip("\n").splitlines()

    def put(self, page: str, lines: Sequence[str]) -> str:
        """The page with these instead."""
        self.lines(page)
        before, _, rest = page.partition(self.begin)
        return "\n".join([f"{before}{self.begin}", *lines, f"{self.end}{rest.partition(self.end)[2]}"])


class Table(NamedTuple):
    """A table in a block. ``head``: its first two lines; ``order``: of its rows. Unknown ones come last."""

    block: Block
    head: tuple[str, str]
    order: Sequence[Key]

    def merged(self, page: str, lines: Sequence[str]) -> str:
        """The page with these rows; rows that are not among them stay. ValueError: it has no such markers."""
        held = self.block.lines(page)
        rows = {_key(one): one for one in held if one.startswith("| ") and one not in self.head}
        rows |= {_key(one): one for one in lines}
        places = {key: place for place, key in enumerate(self.order)}
        known = sorted(rows, key=lambda key: places.get(key, len(places)))
        return self.block.put(page, [*self.head, *(rows[key] for key in known)])

    def write(self, page: Path, lines: Sequence[str]) -> None:
        """Write these rows into the page, as ``merged`` has them."""
        page.write_text(self.merged(page.read_text(encoding="utf-8"), lines), encoding="utf-8")


def _key(line: str) -> Key:
    one, two = line.split("|")[1:3]
    return one.strip(), two.strip()
