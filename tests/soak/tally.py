"""What trials came to, and what a soak came to. Pure, but for its file of rows.

Promises: every trial is counted under exactly one result; a trial that was killed on purpose is not called trouble of
the harness; whatever a soak must not see (a FAIL, something left behind, a history that cannot be read, a pass over
trouble, a run that hangs) makes it red. Rows survive ``kill -9``: a torn last one is dropped, and its trial done anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

Result = Literal["PASS", "UNKNOWN by noise", "UNKNOWN by evidence", "FAIL", "trouble", "killed", "refused", "hung"]
RESULTS: tuple[Result, ...] = (
    "PASS", "UNKNOWN by noise", "UNKNOWN by evidence", "FAIL", "trouble", "killed", "refused", "hung",
)  # fmt: skip


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one trial once it was over and healed twice."""

    code: int
    said: Mapping[str, Any] = {}
    """The JSON object on stdout; empty: there was none."""
    struck: bool = False
    """The harm was really done."""
    hung: bool = False
    leftovers: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    """What is not ours, and not as it was."""
    unreadable: str = ""
    heals: tuple[int, ...] = ()
    """Exit codes of ``dethrone heal``."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the soak's file."""

    number: int
    result: Result
    what: str
    code: int
    struck: bool
    took_s: float
    reason: str = ""
    red: tuple[str, ...] = ()
    """What must never be."""
    kept: str = ""


def result_of(seen: Seen, *, chaos: str) -> Result:
    """Under which word a trial is counted."""
    if seen.hung:
        return "hung"
    verdict = seen.said.get("verdict")
    if verdict == "fail" or seen.code == 1:
        return "FAIL"
    if seen.code < 0 or (not seen.said and seen.struck and chaos):
        return "killed"
    if seen.code == 64:
        return "refused"
    if seen.code == 3 or _trouble(seen):
        return "trouble"
    if verdict == "pass" or (verdict is None and seen.code == 0):
        return "PASS"
    return "UNKNOWN by noise" if seen.said.get("host_noise") else "UNKNOWN by evidence"


def red(seen: Seen, *, chaos: str) -> tuple[str, ...]:
    """What of this trial must never be."""
    out = []
    result = result_of(seen, chaos=chaos)
    if result == "FAIL":
        out.append("FAIL")
    if result == "hung":
        out.append("hung")
    if seen.code == 0 and _trouble(seen):
        out.append("green over trouble")
    if seen.leftovers:
        out.append("leftovers")
    if seen.touched:
        out.append("touched what is not ours")
    if seen.unreadable:
        out.append("unreadable history")
    if any(seen.heals):
        out.append("heal failed")
    if result in {"trouble", "killed"} and not seen.struck:
        out.append("trouble without harm")
    return tuple(out)


def read_rows(path: Path) -> list[Row]:
    """The rows of an earlier slice; a torn last line is dropped from the file as well."""
    if not path.is_file():
        return []
    rows, whole = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            rows.append(msgspec.json.decode(line, type=Row))
        except msgspec.DecodeError:
            break
        if not line.endswith(b"\n"):
            rows.pop()
            break
        whole += len(line)
    with path.open("r+b") as file:
        file.truncate(whole)
    return rows


def told(rows: Sequence[Row]) -> str:
    """The soak in a few lines, each with its count."""
    counts = Counter(row.result for row in rows)
    reds = Counter(word for row in rows for word in row.red)
    lines = [f"{len(rows)} trials: " + ", ".join(f"{counts[name]} {name}" for name in RESULTS)]
    lines.append(
        "red: " + (", ".join(f"{count} {word}" for word, count in sorted(reds.items())) or f"0 of {len(rows)}")
    )
    lines += [f"  {row.number}: {', '.join(row.red)}: {row.what}: {row.reason} {row.kept}" for row in rows if row.red]
    return "\n".join(lines)


def _trouble(seen: Seen) -> bool:
    return bool(seen.said.get("trouble"))
