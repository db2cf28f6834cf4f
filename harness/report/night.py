"""A night for people and machines: a table, one offline page that links every run, the JSON object, the exit code.

Guarantees: the page is rewritten after every run, so a night can be watched; it loads nothing from a network; a red
night says which findings are new. ``report_files`` writes the pages of the runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import store
from dethrone.harness.core.clean import in_html as escape
from dethrone.harness.core.duration import show_duration
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.nightly.new_findings import finding_key
from dethrone.harness.engine.nightly.night_file import FailOn
from dethrone.harness.engine.nightly.night_rows import Drawn, Ended, NightRow
from dethrone.harness.engine.nightly.run_order import cells_of
from dethrone.harness.engine.run.exit_status import (
    EXIT_INTERRUPTED,
    EXIT_PASS,
    EXIT_TROUBLE,
    EXIT_UNKNOWN,
    EXIT_VIOLATION,
)
from dethrone.harness.engine.run.judgement import JSON_SCHEMA
from dethrone.harness.report import json_objects
from dethrone.harness.report.html import pages
from dethrone.harness.report.terminal import Screen, side_by_side
from dethrone.harness.report.words import excused_words, verdict_word

PAGE = "index.html"
UNKNOWN = ("unknown by noise", "unknown by evidence", "unknown")
"""As which a night counts what did not come to a verdict; the last one: for trouble of the harness."""

_ORDER = {"fail": 0, "unknown": 1, "pass": 2}


def code(ended: Ended, fail_on: FailOn) -> int:
    """3 trouble > 1 violations (``new``: only new ones) > 130 > 2 > 0. A night without one run that passed is 2."""
    codes = [EXIT_TROUBLE if ended.trouble else EXIT_PASS]
    codes += [EXIT_TROUBLE for row in ended.rows if row.exit_code == EXIT_TROUBLE]
    failed = bool(ended.new) if fail_on == "new" else any(row.outcome == "fail" for row in ended.rows)
    excused = fail_on == "excused" and any(row.excused for row in ended.rows)
    codes += [EXIT_VIOLATION] if failed or excused else []
    codes += [EXIT_INTERRUPTED] if ended.interrupted else []
    unknown = any(row.outcome == "unknown" for row in ended.rows)
    evidence = any(row.outcome == "pass" for row in ended.rows) or any(row.outcome == "fail" for row in ended.rows)
    codes += [EXIT_UNKNOWN] if (unknown and fail_on in ("unknown", "excused")) or not evidence else []
    return json_objects.worst_code(codes)


def told(ended: Ended, *, exit_code: int) -> dict[str, Any]:
    """What ``campaign NIGHT --json`` prints."""
    return {
        "schema": JSON_SCHEMA,
        "command": "campaign",
        "verdict": json_objects.worst_outcome([row.outcome for row in ended.rows]),
        "trouble": [
            *ended.trouble,
            *(f"run {row.job.number}: {row.reason}" for row in ended.rows if row.exit_code == EXIT_TROUBLE),
        ],
        "checkers": {},
        "exit_code": exit_code,
        "run_dir": str(ended.directory),
        "seed": [row.job.seed for row in ended.rows],
        "night": ended.drawn.name,
        "new": list(ended.new),
        "left": ended.left,
        "interrupted": ended.interrupted,
        "page": str(ended.directory / PAGE),
        "runs": msgspec.to_builtins(list(ended.rows), enc_hook=str),
    }


def show(ended: Ended, screen: Screen) -> None:
    """The table and the sums."""
    rows = [
        (
            str(row.job.number),
            verdict_word(row.outcome),
            row.job.cell,
            str(row.job.seed),
            show_duration(row.elapsed_ns),
            row.job.why,
            _what(row),
        )
        for row in sorted(ended.rows, key=lambda row: (_ORDER.get(row.outcome, 3), row.job.number))
    ]
    screen.table(("run", "verdict", "cell", "seed", "took", "reason to run", "what"), rows)
    for key in ended.new:
        screen.say(f"new finding: {key}", level=-1)
    for line in ended.trouble:
        screen.say(f"trouble: {line}", level=-1)
    screen.say(sums(ended.rows, len(ended.rows) + ended.left), level=-1)
    screen.say(f"page        {ended.directory / PAGE}", level=-1)


def sums(rows: Sequence[NightRow], total: int) -> str:
    """The number of runs per outcome, and of those that had no turn."""
    counts = Counter(_counted(row) for row in rows)
    words = [f"{counts[word]} {word}" for word in ("pass", "fail", *UNKNOWN) if counts[word]]
    trouble = sum(row.exit_code == EXIT_TROUBLE for row in rows)
    words += [f"{trouble} with harness trouble"] if trouble else []
    excused = sum(row.excused for row in rows)
    words += [excused_words(excused)] if excused else []
    words += [f"{total - len(rows)} not started"] if total > len(rows) else []
    words += side_by_side(rows)
    return f"{len(rows)} of {total} runs: {', '.join(words) or 'none'}"


def _counted(row: NightRow) -> str:
    """The outcome; of two kinds of ``unknown``, which: noise asks for a calmer machine, evidence for another run."""
    if row.outcome != "unknown" or row.exit_code == EXIT_TROUBLE:
        return row.outcome
    return UNKNOWN[0] if row.by_noise else UNKNOWN[1]


def campaign_rows(ended: Ended) -> list[CampaignRow]:
    """The rows as those of a campaign, for JUnit and annotations."""
    return [
        CampaignRow(
            seed=row.job.seed,
            outcome=row.outcome,
            exit_code=row.exit_code,
            run_dir=row.run_dir,
            elapsed_ns=row.elapsed_ns,
            elections=int(row.figures.get("elections", 0)),
            faults=int(row.figures.get("faults", 0)),
            ops_ok=int(row.figures.get("ok", 0)),
            findings=[f"{one.checker}: {one.sentence}" for one in row.findings],
            reason=row.reason,
            excused=row.excused,
            by_noise=row.by_noise,
        )
        for row in ended.rows
    ]


def write_page(directory: Path, drawn: Drawn, rows: Sequence[NightRow], new: Sequence[str]) -> None:
    """The page of the night, replaced atomically."""
    store.write_atomic(directory / PAGE, page(drawn, rows, new).encode())


def page(drawn: Drawn, rows: Sequence[NightRow], new: Sequence[str]) -> str:
    """One HTML document: sums, findings (new ones marked), the cells with their counts, every run with its link."""
    cells = cells_of(drawn.entries)
    fresh = frozenset(new)
    title = f"Night {drawn.name}"
    first: dict[str, tuple[NightRow, str]] = {}
    for row in rows:
        for finding in row.findings:
            first.setdefault(finding_key(cells[row.job.cell], finding), (row, finding.sentence))
    found = [
        (
            f"<b>{'new' if key in fresh else 'known'}</b>",
            escape(key),
            escape(sentence),
            _link(row, f"run {row.job.number}"),
            pages.code(f"dethrone replay {row.run_dir}"),
        )
        for key, (row, sentence) in first.items()
    ]
    by_cell: dict[str, Counter[str]] = {key: Counter() for key in cells}
    for row in rows:
        by_cell[row.job.cell][_counted(row)] += 1
    table = [
        (escape(key), *(str(counts[word] or "") for word in ("pass", "fail", *UNKNOWN)))
        for key, counts in by_cell.items()
    ]
    runs = [
        (
            _link(row, str(row.job.number)),
            f'<span class="{row.outcome}">{verdict_word(row.outcome)}</span>',
            escape(row.job.cell),
            str(row.job.seed),
            escape(show_duration(row.elapsed_ns)),
            escape(row.job.why),
            escape(_what(row)),
        )
        for row in rows
    ]
    parts = [
        f"<h1>{escape(title)}</h1><p>{escape(sums(rows, len(drawn.jobs)))}. Dethrone {escape(drawn.version)}.</p>",
        pages.table(
            "Findings", ("", "what", "proof in a sentence", "first run", "again"), found, empty=_none_found(rows)
        ),
        pages.table("Cells", ("cell", "pass", "fail", *UNKNOWN), table, empty="0 cells."),
        pages.table(
            "Runs",
            ("run", "verdict", "cell", "seed", "took", "reason to run", "what"),
            runs,
            empty=f"None of {len(drawn.jobs)} runs has ended.",
        ),
    ]
    return pages.document(title, f"<main>{''.join(parts)}</main>", style=_STYLE)


_STYLE = (
    "main{max-width:1200px;margin:1rem auto;padding:0 1rem}table{border-collapse:collapse}"
    "td,th{padding:.25rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid #8884}"
)


def _none_found(rows: Sequence[NightRow]) -> str:
    judged = sum(row.outcome in ("pass", "fail") for row in rows)
    return f"None in {judged} judged runs; {len(rows) - judged} runs were not judged."


def _link(row: NightRow, words: str) -> str:
    target = row.report or row.run_dir
    return f'<a href="{escape(target)}">{escape(words)}</a>'


def _what(row: NightRow) -> str:
    return f"{row.findings[0].checker}: {row.findings[0].sentence}" if row.findings else row.reason
