"""Which findings of a night are new, and telling somebody: each kind once for all nights.

Promises: a finding is told to the hook, and only when the hook took it (exit code 0) written down as told: a
``kill -9`` between the two tells it once more, and none is ever lost. Leaves out judging whether it is known upstream.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.engine.kept import read_kept
from harness.engine.night_order import Cell, cells_of
from harness.engine.night_rows import Drawn, NightFinding, NightRow, Raised, append

RAISED = "raised.jsonl"
_HOOK_S = 60


def finding_key(cell: Cell, finding: NightFinding) -> str:
    """What makes two findings the same in all nights: system, profile, version, workload and checker."""
    entry = cell.entry
    system = entry.system + (f":{entry.variant}" if entry.variant else "")
    return "/".join(part for part in (system, cell.profile, cell.version, entry.workload, finding.checker) if part)


def tell(
    hook: Sequence[str], *, out: Path, directory: Path, drawn: Drawn, rows: Sequence[NightRow], base: Path
) -> list[str]:
    """Tell of each finding whose key was never told of. Its row in ``raised`` is written when the hook took it: a
    ``kill -9`` between the two tells it again, and none is lost."""
    known = {one.key for one in raised(out)}
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
                "sentence": finding.sentence,
                "run_dir": str(directory / row.run_dir),
                "report": str(directory / row.report) if row.report else None,
                "check": f"dethrone check {directory / row.run_dir}",
                "replay": f"dethrone replay {directory / row.run_dir}",
            }
            wrong = _hook(hook, content, base)
            if wrong:
                trouble.append(wrong)
                continue
            known.add(key)
            append(out / RAISED, Raised(key=key, night=drawn.name, run_dir=str(directory / row.run_dir)))
    return trouble


def _hook(command: Sequence[str], content: Mapping[str, Any], base: Path) -> str | None:
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
    """What was told in all nights of ``out``."""
    return read_kept(out / RAISED, Raised, what="the nights' raised")
