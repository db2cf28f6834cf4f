"""Writes every file of a run's report from the run directory's files, also and above all when a run failed.

Guarantees: runs after the engine returned, for every outcome; a report that cannot be drawn is reported and never hides
a verdict. Printing is out of scope.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dethrone.harness.core import store
from dethrone.harness.report import github, html, junit
from dethrone.harness.report.junit import Suite
from dethrone.harness.report.rundir import RunFiles
from dethrone.harness.report.side_files import Folder, ReportError


def write_html(files: RunFiles, path: Path, *, trouble: Sequence[str] = ()) -> Path:
    """The page, atomically, after the folder of its side files; a short run has none, and an older one is removed."""
    folder = Folder(path)
    page = html.render(files, trouble=trouble, folder=folder)
    folder.replace()
    return _write(path, page)


def write_junit(suites: Sequence[Suite], path: Path) -> Path:
    """The JUnit file, atomically."""
    return _write(path, junit.render(suites))


def write_run(files: RunFiles, *, trouble: Sequence[str] = ()) -> Path:
    """``report.html`` and ``junit.xml`` in the run directory; the page's path."""
    assert files.directory is not None  # noqa: S101 - callers hold a run directory
    suite = Suite(name=name_of(files), judgement=files.judgement, files=files, trouble=trouble)
    write_junit([suite], files.directory / store.JUNIT)
    return write_html(files, files.directory / store.REPORT, trouble=trouble)


def write_summary(text: str, env: Mapping[str, str] | None = None) -> None:
    """Append to GitHub's step summary, where there is one."""
    target = (os.environ if env is None else env).get("GITHUB_STEP_SUMMARY")
    if not target:
        return
    try:
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ReportError(f"cannot write the step summary: {error.strerror}", where=target) from error


def name_of(files: RunFiles | None, fallback: str = "dethrone") -> str:
    """What a run is called in CI: ``raft-seed-7``."""
    if files is None:
        return fallback
    begin = files.history.begin
    variant = f"-{files.plan.variant}" if files.plan and files.plan.variant else ""
    return f"{begin.system}{variant}-seed-{begin.seed}"


def github_lines(files: RunFiles | None, trouble: Sequence[str], *, report: Path | None, fallback: str) -> list[str]:
    """Append the step summary and give the annotation lines."""
    judgement = files.judgement if files else None
    write_summary(github.summary(judgement, files, trouble, report=report))
    return github.annotation_lines(judgement, trouble, name=name_of(files, fallback))


def _write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        store.write_atomic(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise ReportError(
            f"cannot write {path.name}: {error.strerror}", where=str(path.parent), cause="the disk is full or read-only"
        ) from error
    return path
