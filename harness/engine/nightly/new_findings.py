"""Which findings of a night are new, and reporting them to a hook: each kind once for all nights.

Findings with the same signature (``dethrone.harness.core.signature``) are one; rows of older versions, which have no
signature, go by system, profile, version, workload and checker. A finding that the judged runs of its cells in earlier
nights no longer showed was mended (``dethrone.harness.core.known_findings.mended``): when it returns it is new.

Guarantees: a finding is passed to the hook, and recorded as reported only when the hook accepted it (exit code 0): a
``kill -9`` in between reports it twice, and none is ever lost. Whether it is known upstream is out of scope.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core.known_findings import mended
from dethrone.harness.engine.campaign.resumable_tasks import read_kept
from dethrone.harness.engine.nightly.night_rows import Drawn, NightFinding, NightRow, Raised, append
from dethrone.harness.engine.nightly.run_order import Cell, cells_of

RAISED = "raised.jsonl"
_HOOK_S = 60


def finding_key(cell: Cell, finding: NightFinding) -> str:
    """What makes two findings the same in all nights."""
    if finding.signature:
        return finding.signature
    entry = cell.entry
    system = entry.system + (f":{entry.variant}" if entry.variant else "")
    return "/".join(part for part in (system, cell.profile, cell.version, entry.workload, finding.checker) if part)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What one judged run of an earlier night showed."""

    cell: str
    keys: frozenset[str]


def absent(shown: Sequence[Shown]) -> frozenset[str]:
    """Findings that were certainly away, and are new when they return. ``shown``: runs, in their order."""
    cells: dict[str, set[str]] = {}
    for run in shown:
        for key in run.keys:
            cells.setdefault(key, set()).add(run.cell)
    return frozenset(
        key for key, where in cells.items() if _mended([key in run.keys for run in shown if run.cell in where])
    )


def _mended(hits: Sequence[bool]) -> bool:
    """Of the runs that could show a finding, in order: whether the last ones say that it is gone."""
    last = len(hits) - 1 - hits[::-1].index(True)
    return mended(clean=len(hits) - 1 - last, hits=sum(hits), of=last + 1)


def tell(
    hook: Sequence[str],
    *,
    out: Path,
    directory: Path,
    drawn: Drawn,
    rows: Sequence[NightRow],
    base: Path,
    gone: frozenset[str] = frozenset(),
) -> list[str]:
    """Report each finding whose key was never reported. Its row in ``raised`` is written when the hook accepted it: a
    ``kill -9`` in between reports it twice, and none is lost. ``gone``: see ``absent``."""
    known = {one.key for one in raised(out) if one.key not in gone or one.night == drawn.name}
    cells = cells_of(drawn.entries)
    trouble = []
    for row in rows:
        for finding in row.findings:
            key = finding_key(cells[row.job.cell], finding)
            if key in known:
                continue
            content = {
                "key": key,
                "night": drawn.name,
                "cell": row.job.cell,
                "seed": row.job.seed,
                "checker": finding.checker,
                "signature": finding.signature,
                "sentence": finding.sentence,
                "run_dir": str(directory / row.run_dir),
                "report": str(directory / row.report) if row.report else None,
                "check": f"dethrone check {directory / row.run_dir}",
                "replay": f"dethrone replay {directory / row.run_dir}",
            }
            wrong = call_hook(hook, content, base)
            if wrong:
                trouble.append(wrong)
                continue
            known.add(key)
            append(out / RAISED, Raised(key=key, night=drawn.name, run_dir=str(directory / row.run_dir)))
    return trouble


def call_hook(command: Sequence[str], content: Mapping[str, Any], base: Path) -> str | None:
    """Hand a finding to the command as JSON on its standard input; why that failed, or None."""
    if not command:
        return None
    try:
        done = subprocess.run(
            command, input=msgspec.json.encode(content), cwd=base, capture_output=True, timeout=_HOOK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"on-finding could not be run for {content['key']}: {error}"
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip()[-200:]
        return f"on-finding ended with {done.returncode} for {content['key']}: {words}"
    return None


def raised(out: Path) -> list[Raised]:
    """What was reported in all nights of ``out``."""
    return read_kept(out / RAISED, Raised, what="the nights' raised")
