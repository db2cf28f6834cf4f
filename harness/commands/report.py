"""A report drawn again from the files alone; what was never judged is judged now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import store
from dethrone.harness.engine.run.judgement import JSON_SCHEMA
from dethrone.harness.report import json_objects, report_files
from dethrone.harness.report.rundir import RunFiles, read_run


def redraw(path: Path, out: Path | None = None) -> tuple[RunFiles, Path]:
    """The files and the page's path: in the run directory, next to a history file, or ``out``."""
    files = read_run(path)
    if files.judgement is None:
        from dethrone.harness.engine.run import judge

        files = msgspec.structs.replace(files, judgement=judge.check_path(path)[0])
    if out is not None:
        return files, report_files.write_html(files, out)
    if files.directory is not None:
        return files, report_files.write_run(files)
    return files, report_files.write_html(files, path.with_name(f"{path.stem}.{store.REPORT}"))


def as_object(files: RunFiles, report: Path) -> dict[str, Any]:
    """What ``report --json`` prints."""
    return {
        "schema": JSON_SCHEMA,
        "command": "report",
        **json_objects.judged(files.judgement, files),
        "trouble": list(files.judgement.trouble) if files.judgement else [],
        "run_dir": str(files.directory) if files.directory else None,
        "report": str(report),
        "seed": files.history.begin.seed,
    }
