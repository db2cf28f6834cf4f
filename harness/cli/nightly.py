"""``dethrone campaign NIGHT.toml``: a night of many systems out of one file (docs/nightly.md)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec

from dethrone.harness.cli import flags
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.report.terminal import Screen

_ADD_LIMIT_S = 600


def run_night_file(
    path: Path, *, budget: str | None, jobs: int | None, screen: Screen, junit_xml: Path | None, github: bool
) -> int:
    """Start or resume the night that ``path`` describes; the exit code. ConfigError."""
    from dethrone.harness.commands import campaign
    from dethrone.harness.engine.nightly import night, night_file
    from dethrone.harness.engine.nightly.new_findings import raised
    from dethrone.harness.engine.nightly.night_rows import Drawn, NightRow
    from dethrone.harness.engine.nightly.run_order import cells_of
    from dethrone.harness.engine.nightly.run_process import refuse_impossible
    from dethrone.harness.report import night as told

    wanted = night_file.read_night(path)
    if budget is not None:
        wanted = msgspec.structs.replace(wanted, budget_ns=parse_duration(budget))
    if jobs is not None:
        wanted = msgspec.structs.replace(wanted, jobs=jobs)

    base = path.resolve().parent
    refuse_impossible(cells_of(wanted.entries), base=base)

    def on_row(directory: Path, drawn: Drawn, rows: Sequence[NightRow]) -> list[str]:
        new = [one.key for one in raised(wanted.out) if one.night == drawn.name]
        told.write_page(directory, drawn, rows, new)
        row = rows[-1]
        screen.say(f"[{len(rows)}/{len(drawn.jobs)}] {row.outcome:<7} {row.job.cell} seed {row.job.seed}", level=-1)
        for finding in row.findings[:3]:
            screen.say(f"  {finding.checker}: {finding.sentence}", level=-1)
        if row.outcome == "unknown":
            screen.say(f"  {row.reason}")
        return _fed(wanted.corpus, directory / row.run_dir)

    ended = night.run_night(wanted, version=version("dethrone"), base=base, say=screen.say, on_row=on_row)
    told.write_page(ended.directory, ended.drawn, ended.rows, ended.new)
    code = told.code(ended, wanted.fail_on)
    told.show(ended, screen)
    rows = told.campaign_rows(ended)
    if junit_xml is not None:
        campaign.write_junit(rows, ended.directory, junit_xml)
    if github:
        flags.print_annotations(campaign.github_lines(rows, ended.directory), as_json=screen.json)
    screen.result(told.told(ended, exit_code=code))
    return code


def _fed(corpus: str | None, run: Path) -> list[str]:
    """Add a run to the corpus, in a process of its own; adding it again is harmless. What went wrong, as trouble."""
    if corpus is None or not (run / "run.json").exists():
        return []
    command = [sys.executable, "-P", "-m", "dethrone.harness.cli", "corpus", "add", str(run), "--corpus", corpus]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_ADD_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"{run.name} could not be added to the corpus: {error}"]
    if done.returncode != 0:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()[-300:]
        return [f"{run.name} could not be added to the corpus: {words}"]
    return []
