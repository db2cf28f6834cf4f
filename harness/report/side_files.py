"""The details of a run for its page: held while they are few, else written to side files as they come.

    report.html               the page: with all details of a short run; of a long one the overview, and what lies where
    report-details/0000.js    the details of one stretch of a long run: one call of a function of the page

A page that is opened from disk may load scripts from the same disk, and nothing else. Guarantees: each detail is in
exactly one file; a file is not larger than about ``FILE_BYTES``; a folder is replaced as a whole, and one that holds
files that are not ours is never touched. Out of scope: what the details are (``page_fold``).
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core.clean import in_json
from dethrone.harness.core.clock import US, Ns
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.files import why_unwritten

EMBEDDED_MAX = 2_500_000
"""Bytes of details up to which all of them are in the page."""

FILE_BYTES = 200_000
"""Size at which a side file is full."""

_NAME = re.compile(r"\d{4,}\.js")
_CALL = "dethroneDetails("


class ReportError(HarnessError):
    """A report could not be written; the run's own files are not concerned."""


def embed(value: Any) -> str:
    """JSON that is safe inside a script element and as a script, regardless of its strings."""
    text = in_json(msgspec.json.encode(value, enc_hook=str).decode())
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


class Stretch(msgspec.Struct, kw_only=True):
    """Details that came one after another. ``lo`` and ``hi``: the time that they cover; 0 and 0 for none."""

    rows: dict[str, list[tuple[Any, Any]]] = msgspec.field(default_factory=dict)
    """Kind → rows, each with what it is sorted by."""
    lo: Ns = 0
    hi: Ns = 0
    size: int = 0

    def add(self, kind: str, key: Any, row: Any, lo: Ns, hi: Ns) -> None:
        """One row more."""
        self.lo, self.hi = (min(self.lo, lo), max(self.hi, hi)) if self.size else (lo, hi)
        self.rows.setdefault(kind, []).append((key, row))
        self.size += len(embed(row)) + 1

    def sorted(self, kind: str) -> list[Any]:
        """The rows of one kind in their order."""
        return [row for _, row in sorted(self.rows.get(kind, ()), key=lambda item: item[0])]


class Folder:
    """The side files of one page: made next to the ones that are there, which they replace."""

    def __init__(self, page: Path) -> None:
        self.path = page.with_name(f"{page.stem}-details")
        self._new = self.path.with_name(f".{self.path.name}.new")
        self._old = self.path.with_name(f".{self.path.name}.old")
        self.listed: list[list[Any]] = []
        """Of each file by number: the µs that it covers, from and to, and its digest."""

    def write(self, stretch: Stretch) -> None:
        """One side file. ReportError: it cannot be written."""
        body = embed({kind: stretch.sorted(kind) for kind in stretch.rows})
        digest = hashlib.blake2b(body.encode(), digest_size=8).hexdigest()
        number = len(self.listed)
        try:
            if not number:
                self._clear(self._new)
                self._new.mkdir(parents=True)
            (self._new / f"{number:04}.js").write_text(f'{_CALL}{number},"{digest}",{body});\n', encoding="utf-8")
        except OSError as error:
            raise self._refused(error) from error
        self.listed.append([stretch.lo // US, stretch.hi // US, digest])

    def replace(self) -> None:
        """What was written takes the place of what was there. ReportError: that is not ours, or cannot be replaced.

        A page without side files needs no folder: an older one of ours is removed.
        """
        try:
            if not self.listed:
                for path in (self._new, self._old, self.path):
                    if path.exists() and _foreign(path) is None:
                        shutil.rmtree(path)
                return
            self._clear(self._old)
            if self.path.exists():
                self._own(self.path)
                self.path.rename(self._old)
            self._new.rename(self.path)
            self._clear(self._old)
        except OSError as error:
            raise self._refused(error) from error

    def _clear(self, path: Path) -> None:
        if path.exists():
            self._own(path)
            shutil.rmtree(path)

    def _own(self, path: Path) -> None:
        if (file := _foreign(path)) is not None:
            raise ReportError(
                f"{path.name} holds files that are not a report's",
                where=str(file),
                next_step=f"move them elsewhere, or remove {path} yourself",
            )

    def _refused(self, error: OSError) -> ReportError:
        return ReportError(
            f"cannot write {self.path.name}: {error.strerror}", where=str(self.path.parent), cause=why_unwritten(error)
        )


def _foreign(path: Path) -> Path | None:
    """A file in a folder that no report wrote, or what is there instead of a folder."""
    if path.is_symlink() or not path.is_dir():
        return path
    return next((file for file in sorted(path.iterdir()) if not _ours(file)), None)


def _ours(file: Path) -> bool:
    if _NAME.fullmatch(file.name) is None or file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as opened:
        start = opened.read(len(_CALL))
    return start in (_CALL.encode(), b"")  # empty: the disk was full


class Details:
    """All details of a run. ``folder``: where side files go if they are many; None: all are held."""

    def __init__(self, folder: Folder | None) -> None:
        self._folder = folder
        self._held: list[Stretch] = []
        self._now = Stretch()
        self._size = 0
        self.long = False
        """Whether they are in side files."""

    def add(self, kind: str, key: Any, row: Any, lo: Ns, hi: Ns) -> None:
        """One row more, which covers this time. ReportError: a side file cannot be written."""
        self._now.add(kind, key, row, lo, hi)
        if self._now.size >= FILE_BYTES:
            self._size += self._now.size
            self._held.append(self._now)
            self._now = Stretch()
            self.long = self._folder is not None and self._size > EMBEDDED_MAX
            if self.long:
                self._spill()

    def finish(self) -> None:
        """There is no more."""
        self._held.append(self._now)
        if self.long and self._now.size:
            self._spill()

    def items(self, kind: str) -> list[tuple[Any, Any]]:
        """All rows of one kind that are held, in their order, each with its key."""
        found = [item for stretch in self._held for item in stretch.rows.get(kind, ())]
        return sorted(found, key=lambda item: item[0])

    def _spill(self) -> None:
        assert self._folder is not None  # noqa: S101 - long only with a folder
        for stretch in self._held:
            self._folder.write(stretch)
        self._held.clear()
