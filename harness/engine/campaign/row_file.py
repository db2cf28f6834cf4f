"""The rows of a campaign in a file, and their sum, in memory that does not grow with their number.

Guarantees: one writer at a time; a row is in the file once, whole, as soon as it is written; a last line that was cut
short is dropped before the next is written. Memory holds only the first rows and the first that did not pass
(``LISTED_MAX``), and the result says which. ``campaign`` runs.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import open_regular
from dethrone.harness.core.verdict import Outcome
from dethrone.harness.engine.campaign.resumable_tasks import adding_rows
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.run.exit_status import EXIT_TROUBLE

ROWS = "rows.jsonl"
LISTED_MAX = 10_000
"""Rows that are held and listed; of more than these only those that did not pass, and not more of them."""

_BLOCK = 4096
_CHUNK = 1 << 16


class SeedSet:
    """A set of seeds as bits: a million neighbours take about 150 kB."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}
        self._count = 0

    def add(self, seed: int) -> bool:
        """False: it was already in the set."""
        block, bit = seed // _BLOCK, 1 << seed % _BLOCK
        there = self._blocks.get(block, 0)
        if there & bit:
            return False
        self._blocks[block] = there | bit
        self._count += 1
        return True

    def __contains__(self, seed: int) -> bool:
        return bool(self._blocks.get(seed // _BLOCK, 0) >> seed % _BLOCK & 1)

    def __len__(self) -> int:
        return self._count


class Tally:
    """The sum of rows: how many of each outcome, which exit codes, and the rows worth listing."""

    def __init__(self, *, listed_max: int = LISTED_MAX) -> None:
        self.counts: Counter[Outcome] = Counter()
        self.codes: set[int] = set()
        self.kept = 0
        """Failing runs whose files are all kept."""
        self._max = listed_max
        self._first: list[CampaignRow] = []
        self._telling: list[CampaignRow] = []

    def count(self, row: CampaignRow) -> None:
        """One more."""
        self.counts[row.outcome] += 1
        self.codes.add(row.exit_code)
        self.kept += row.outcome == "fail" and bool(row.run_dir)
        if len(self._first) < self._max:
            self._first.append(row)
        if (row.outcome != "pass" or row.exit_code == EXIT_TROUBLE) and len(self._telling) < self._max:
            self._telling.append(row)

    @property
    def total(self) -> int:
        """How many rows."""
        return self.counts.total()

    @property
    def whole(self) -> bool:
        """Whether ``rows`` are all of them."""
        return self.total <= self._max

    @property
    def rows(self) -> list[CampaignRow]:
        """All rows; of very many the first of those that did not pass."""
        return self._first if self.whole else self._telling


class RowWriter:
    """The open file. Made by ``writing``."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file

    def rows(self) -> Iterator[CampaignRow]:
        """The rows of the file, one after another. ConfigError if they are not ours."""
        yield from stream_rows(self._path)

    def write(self, row: CampaignRow) -> None:
        """One more, at once."""
        self._file.write(msgspec.json.encode(row) + b"\n")
        self._file.flush()


@contextlib.contextmanager
def writing(out: Path) -> Iterator[RowWriter]:
    """The campaign rows of this directory, open for more. ConfigError: another process writes them."""
    path = out / ROWS
    with adding_rows(path, what="campaign") as file:
        _drop_torn_line(path)
        yield RowWriter(path, file)


def stream_rows(path: Path) -> Iterator[CampaignRow]:
    """The rows of a file, one after another; a torn last line is none. ConfigError if they are not ours."""
    if not path.exists():
        return
    decoder = msgspec.json.Decoder(CampaignRow)
    with open_regular(path) as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                raise ConfigError(
                    f"the campaign's rows are damaged: {error}", where=str(path), next_step="choose another --out"
                ) from error


def _drop_torn_line(path: Path) -> None:
    """Cut the file behind its last whole line: what a killed writer left would spoil the next row."""
    with path.open("r+b") as file:
        end = file.seek(0, 2)
        while end > 0:
            start = max(0, end - _CHUNK)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                end = start + at + 1
                break
            end = start
        file.truncate(end)
