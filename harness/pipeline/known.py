"""Known findings: a file that says which regressions somebody knows of, so that red means new. Pure but for one reader.

    [[known]]
    system = "raft"
    metric = "fail/leader-stability"
    fault = "pause"              # optional: any
    kind = "standing"            # optional: new, standing, more-often or slower; without it, all of them
    until = "2026-12-31"         # optional: the last night that this holds for
    why = "ours, being mended"

Promises: a key that does not exist is an error and never a finding that stays red, or one that turns silent, by a
typing error; entries that ran out no longer count. Leaves out what is a regression (``trends``).
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from harness.core.errors import ConfigError
from harness.pipeline.trends import Regression


class Known(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry; see the module."""

    system: str
    metric: str
    why: str
    fault: str = ""
    kind: Literal["new", "standing", "more-often", "slower", ""] = ""
    until: str = ""

    def covers(self, one: Regression) -> bool:
        """Whether this regression is known by it. A comparison without a night never runs out."""
        return (
            (self.system, self.metric) == (one.cell.system, one.cell.metric)
            and self.fault in {"", one.cell.fault}
            and self.kind in {"", one.kind}
            and (not self.until or one.night <= self.until)
        )


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    known: tuple[Known, ...] = ()


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    """Regressions by whether they are known, with why; ``unused``: entries that covered nothing."""

    red: tuple[Regression, ...]
    known: tuple[tuple[Regression, str], ...]
    unused: tuple[Known, ...]


def read(path: Path) -> tuple[Known, ...]:
    """The entries of a file. ConfigError: it cannot be read, or says what nobody understands."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        entries = msgspec.convert(raw, _File).known
        for entry in entries:
            if entry.until:
                dt.date.fromisoformat(entry.until)
    except OSError as error:
        raise ConfigError(f"cannot read known findings: {error.strerror}", where=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError, ValueError) as error:
        raise ConfigError(
            f"known findings are not understood: {error}",
            where=str(path),
            next_step="docs/corpus.md shows what an entry looks like; dates are written like 2026-12-31",
        ) from error
    return entries


def sort(regressions: Sequence[Regression], entries: Sequence[Known]) -> Sorted:
    """What is red, and what is known."""
    red, known, used = [], [], set()
    for one in regressions:
        covering = [place for place, entry in enumerate(entries) if entry.covers(one)]
        used.update(covering)
        if covering:
            known.append((one, entries[covering[0]].why))
        else:
            red.append(one)
    unused = tuple(entry for place, entry in enumerate(entries) if place not in used)
    return Sorted(red=tuple(red), known=tuple(known), unused=unused)
