"""Known findings: one file for run, campaign, night, pytest and the corpus, so that red means new. Pure but for one
reader.

    [[known]]
    signature = "raft/one-vote-per-term/1f0a9c33d2"   # as reports and --json print it
    until = "2026-12-31"         # optional: the last day on which this holds
    why = "ours, being mended"

    [[known]]                    # wider: every finding of a checker, and what comparisons of nights raise
    system = "raft"
    metric = "fail/leader-stability"
    fault = "pause"              # optional: any (comparisons and `corpus check` only)
    kind = "standing"            # optional: new, standing, more-often or slower (comparisons only)
    why = "ours, being mended"

Guarantees: a key that does not exist is an error, so that a typing error neither leaves a finding red nor silences one;
an entry that ran out no longer counts. Out of scope: what a signature is (``dethrone.harness.core.signature``).
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import read_text

RETURNS_AFTER = 10
"""The fewest judged runs in a row that could have shown a finding, and did not, after which it is new if it returns."""
RULE_OF_THREE = 3
"""Something that happens at a rate r is absent from 3 / r runs in a row by chance in at most one case of twenty."""


class Known(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry; see the module."""

    why: str
    signature: str = ""
    system: str = ""
    metric: str = ""
    fault: str = ""
    kind: Literal["new", "standing", "more-often", "slower", ""] = ""
    until: str = ""

    def holds_on(self, day: str) -> bool:
        """Whether it has not run out on that day (``2026-12-31``); "" : it cannot have."""
        return not self.until or not day or day <= self.until

    def covers(self, *, signature: str, system: str, checker: str, day: str) -> bool:
        """Whether a finding of one run is known by it."""
        if not self.holds_on(day) or self.fault or self.kind not in {"", "new", "standing"}:
            return False
        if self.signature:
            return self.signature == signature
        return (self.system, self.metric) == (system, f"fail/{checker}")


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    known: tuple[Known, ...] = ()


def read(path: Path) -> tuple[Known, ...]:
    """The entries of a file. ConfigError: it cannot be read, or has an entry with no meaning."""
    try:
        raw = tomllib.loads(read_text(path))
        entries = msgspec.convert(raw, _File).known
        for entry in entries:
            if entry.until:
                dt.date.fromisoformat(entry.until)
            if bool(entry.signature) == bool(entry.system and entry.metric):
                raise ValueError("an entry has either a signature, or a system and a metric")
    except OSError as error:
        raise ConfigError(f"cannot read known findings: {error.strerror}", where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"cannot parse known findings: {error}",
            where=str(path),
            next_step="docs/nightly.md shows what an entry looks like; dates are written like 2026-12-31",
        ) from error
    return entries


def line_of(signature: str) -> str:
    """The line of an entry that names this signature, as the file takes it."""
    # JSON's strings are TOML's.
    return f"signature = {msgspec.json.encode(signature).decode()}"


def mended(*, clean: int, hits: int, of: int) -> bool:
    """Whether a finding was certainly away. ``clean``: judged runs in a row without it, since it was last seen;
    ``hits``: runs that showed it, among the ``of`` that could have until then."""
    return hits > 0 and clean >= max(RETURNS_AFTER, RULE_OF_THREE * of / hits)


def why_known(entries: Sequence[Known], *, signature: str, system: str, checker: str, day: str) -> str:
    """Why a finding is known, by the first entry that covers it; "" if none does."""
    for entry in entries:
        if entry.covers(signature=signature, system=system, checker=checker, day=day):
            return entry.why
    return ""
