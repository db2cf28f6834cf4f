"""What a night stores, as data: what was decided, a row per run, what was reported, and the result of a call.

``night`` knows the paths.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.verdict import Outcome
from dethrone.harness.engine.nightly.night_file import Entry
from dethrone.harness.engine.nightly.run_order import Job


class NightFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One violation: who proved it, and the sentence."""

    checker: str
    sentence: str
    signature: str = ""
    """What makes findings of different runs one; "": of an older version."""


class NightRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run that ended. ``run_dir`` is relative to the night's directory; ``began_ns``: wall clock; ``excused``: how
    many findings the faults took out of the promise."""

    job: Job
    outcome: Outcome
    exit_code: int
    run_dir: str
    report: str
    began_ns: Ns
    elapsed_ns: Ns
    reason: str
    findings: tuple[NightFinding, ...] = ()
    known: tuple[NightFinding, ...] = ()
    """Findings that the file of known findings covers."""
    figures: Mapping[str, Any] = {}
    excused: int = 0
    by_noise: bool = False
    """``unknown`` because of noise of the hosts alone: not for want of evidence."""
    noise_percent: float = 0.0
    """The share of the run that was charged to noise of the hosts."""
    at_once: int = 1
    """The most runs that were under way at any moment of it, itself included."""


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided as the night began. ``version``: of Dethrone."""

    name: str
    began_ns: Ns
    version: str
    entries: tuple[Entry, ...]
    jobs: tuple[Job, ...]


class Raised(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that was reported, once until it returns after an absence. ``key``: see ``night_found.finding_key``."""

    key: str
    night: str
    run_dir: str


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call. ``left``: jobs without a run; ``new``: keys of findings that no earlier night had."""

    directory: Path
    drawn: Drawn
    rows: tuple[NightRow, ...]
    left: int
    interrupted: bool
    new: tuple[str, ...]
    trouble: tuple[str, ...] = ()


def append(path: Path, row: msgspec.Struct) -> None:
    """One row more, on disk when this returns."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(row) + b"\n")
        file.flush()
        os.fsync(file.fileno())
