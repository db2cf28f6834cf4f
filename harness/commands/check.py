"""Judges stored histories again and shows the result.

Guarantees: a path without a readable history is reported and hides no other path; writes nothing unless asked to.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import store
from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.history import Told
from dethrone.harness.core.history_files import named
from dethrone.harness.core.known_findings import Known
from dethrone.harness.core.verdict import FailOn
from dethrone.harness.engine.run.exit_status import EXIT_TROUBLE, exit_code
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.report import json_objects, report_files
from dethrone.harness.report.junit import Suite
from dethrone.harness.report.plain import complain
from dethrone.harness.report.rundir import RunFiles
from dethrone.harness.report.terminal import Screen


class Rechecked(msgspec.Struct, frozen=True, kw_only=True):
    """One path's answer. ``error``: why there is none."""

    path: Path
    judgement: Judgement | None
    files: RunFiles | None
    code: int
    error: HarnessError | None = None
    report: Path | None = None

    @property
    def trouble(self) -> tuple[str, ...]:
        """What kept this path from a plain answer."""
        if self.error is not None:
            return (self.error.what + (f" ({self.error.where})" if self.error.where else ""),)
        return self.judgement.trouble if self.judgement else ()

    def as_object(self) -> dict[str, Any]:
        """This path's part of the JSON object."""
        begin = self.files.history.begin if self.files else None
        return {
            **json_objects.judged(self.judgement, self.files),
            "trouble": list(self.trouble),
            "exit_code": self.code,
            "path": str(self.path),
            "run_dir": str(self.path) if self.path.is_dir() else None,
            "report": str(self.report) if self.report else None,
            "seed": begin.seed if begin else None,
            **json_objects.planned(self.files.plan if self.files else None),
        }

    def suite(self) -> Suite:
        """This path as a JUnit suite."""
        name = report_files.name_of(self.files, self.path.name)
        return Suite(name=name, judgement=self.judgement, files=self.files, trouble=self.trouble)

    def github(self) -> Sequence[str]:
        """Annotation lines; the step summary is written."""
        return report_files.github_lines(self.files, self.trouble, report=self.report, fallback=self.path.name)


def check(
    path: Path,
    *,
    fail_on: FailOn = "unknown",
    update: bool = False,
    checkers: Sequence[str] = (),
    known: Sequence[Known] = (),
    memory_bytes_max: int | None = None,
    told: Told | None = None,
) -> Rechecked:
    """Judge one path again; ``update`` stores the verdict and redraws the report of a directory. ``known``: findings
    that do not fail it. ``checkers``, ``memory_bytes_max``, ``told``: as of
    ``judge.check_path``."""
    from dethrone.harness.engine.run import judge, lifecycle

    path = named(path)
    try:
        judgement, plan, history = judge.check_path(
            path, checkers=checkers, memory_bytes_max=memory_bytes_max, told=told
        )
        if plan is not None:
            judgement = judge.acknowledged(judgement, known, system=plan.system, day=lifecycle.today())
        files = None
        if history is not None:
            directory = path if path.is_dir() else None
            files = RunFiles(directory=directory, history=history, plan=plan, judgement=judgement)
        report = path / store.REPORT if path.is_dir() and (path / store.REPORT).exists() else None
        if update and files is not None and path.is_dir():
            begin = files.history.begin
            judge.write_verdict(path, judgement, system=begin.system, seed=begin.seed)
            report = report_files.write_run(files)
    except ConfigError:
        raise
    except HarnessError as error:
        return Rechecked(path=path, judgement=None, files=None, code=EXIT_TROUBLE, error=error)
    code = exit_code(
        outcome=judgement.outcome,
        trouble=bool(judgement.trouble),
        interrupted=False,
        fail_on=fail_on,
        excused=judgement.excused,
    )
    return Rechecked(path=path, judgement=judgement, files=files, code=code, report=report)


def show(row: Rechecked, screen: Screen) -> None:
    """The answer for people."""
    if row.error is not None:
        complain(row.error)
        return
    screen.outcome(None, row.judgement, row.files, row.report)
