"""One run with everything that it shows to people and programs: the engine's run, its reports, the last screen.

Guarantees: reports are written even if the run failed, was interrupted, or ended in trouble after its first line; a
report that cannot be written becomes trouble (exit 3) and hides nothing. ``cli`` handles options and flags.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dethrone.harness.core.errors import HarnessError, Interrupted
from dethrone.harness.engine.run.exit_status import EXIT_TROUBLE
from dethrone.harness.engine.run.judgement import RunResult
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.report import report_files
from dethrone.harness.report.junit import Suite
from dethrone.harness.report.plain import complain
from dethrone.harness.report.rundir import RunFiles, files_of, read_run
from dethrone.harness.report.terminal import Screen, Watcher


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A run and its reports. ``files`` None: it never got as far as a history."""

    result: RunResult
    files: RunFiles | None
    report: Path | None
    annotations: Sequence[str] = ()


def run_and_report(options: RunOptions, screen: Screen, *, junit_xml: Path | None = None, github: bool = False) -> Done:
    """Run, write every report, show the end. Raises HarnessError only for trouble before the run's first line."""
    result = _run(options, screen)
    done = write_reports(result, junit_xml=junit_xml, github=github)
    screen.outcome(done.result, done.result.judgement, done.files, done.report)
    return done


def write_reports(result: RunResult, *, junit_xml: Path | None = None, github: bool = False) -> Done:
    """The reports of a run that ended, however it ended."""
    files = files_of(result)
    report: Path | None = None
    lines: Sequence[str] = ()
    trouble: list[str] = []
    name = report_files.name_of(files, f"seed-{result.seed}")
    try:
        if files is not None:
            report = report_files.write_run(files, trouble=result.trouble)
        if junit_xml is not None:
            suite = Suite(name=name, judgement=result.judgement, files=files, trouble=result.trouble)
            report_files.write_junit([suite], junit_xml)
        if github:
            lines = report_files.github_lines(files, result.trouble, report=report, fallback=name)
    except HarnessError as error:
        trouble.append(error.what + (f" ({error.where})" if error.where else ""))
    if trouble:
        result = msgspec.structs.replace(result, trouble=(*result.trouble, *trouble), exit_code=EXIT_TROUBLE)
    return Done(result=result, files=files, report=report, annotations=lines)


def _run(options: RunOptions, screen: Screen) -> RunResult:
    from dethrone.harness.engine.run import runner

    with Watcher(screen) as watcher:
        try:
            return runner.run(options, watcher)
        except HarnessError as error:
            seen = watcher.seen
            if seen is None:
                raise
            watcher.stop()
            complain(error)
            interrupted = isinstance(error, Interrupted)
            return RunResult(
                run_dir=seen.run_dir,
                seed=seen.plan.seed,
                plan=seen.plan,
                judgement=None,
                trouble=() if interrupted else (error.what,),
                interrupted=interrupted,
                exit_code=error.exit_code,
            )
        except Exception:
            # a bug of ours: what the run left behind is still worth a page; the caller reports the bug
            if watcher.seen is not None:
                _draw_what_is_there(watcher.seen.run_dir)
            raise


def _draw_what_is_there(run_dir: Path) -> None:
    with contextlib.suppress(Exception):
        report_files.write_run(read_run(run_dir), trouble=("the run ended in an unexpected error",))
