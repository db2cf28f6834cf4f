"""The verdict on a history of another tool as one offline page: sentences, drawings, the operations of each proof.

Guarantees: as for the page of a run: no script, no network address, texts escaped. Writing the file is out of scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dethrone.harness.core.clean import in_html as escape
from dethrone.harness.report.html.drawings import drawing
from dethrone.harness.report.html.pages import document
from dethrone.harness.report.words import pairs, verdict_word


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page over the objects of ``dethrone check --format … --json``, one a file."""
    body = "".join(_row(row) for row in rows)
    return document(_title(rows), f"{body}\n<footer><p>dethrone check</p></footer>")


def _title(rows: Sequence[Mapping[str, Any]]) -> str:
    words = [verdict_word(row["verdict"] or "unknown") for row in rows]
    return f"{', '.join(dict.fromkeys(words))} · {len(rows)} histor{'y' if len(rows) == 1 else 'ies'} · dethrone"


def _row(row: Mapping[str, Any]) -> str:
    outcome = row["verdict"] or "unknown"
    trouble = "".join(f'<p class="banner">{escape(line)}</p>' for line in row["trouble"])
    checkers = row["checkers"].items()
    findings = "".join(_finding(name, one) for name, told in checkers for one in told["findings"])
    counts = "".join(
        f"<p>{escape(pairs(told[part]))}</p>" for _, told in checkers for part in ("evidence", "metrics") if told[part]
    )
    return (
        f'<header><div class="top"><span class="badge {escape(outcome)}">{escape(verdict_word(outcome))}</span>'
        f"<div><h1>{escape(row['reason'] or 'every operation could be explained')}</h1>"
        f'<p class="meta"><b>{escape(row["path"])}</b> · {escape(row["format"])} · model {escape(row["model"])} ·'
        f" {row['operations']} operations</p></div></div>{trouble}</header>\n"
        f"<main><section><h2>Findings</h2>{findings or '<p>None.</p>'}</section>"
        f"<section><h2>What it rests on</h2>{counts}</section></main>\n"
    )


def _finding(name: str, one: Mapping[str, Any]) -> str:
    data = one["data"]
    events = "".join(
        f'<li><span class="text">line {event["line"]}, process {event["process"]}: {escape(event["text"])}</span></li>'
        for event in one["events"]
    )
    return (
        f'<div class="finding"><h3>{escape(name)} · {escape(str(data.get("anomaly", "")))}</h3>'
        f"<p>{escape(one['sentence'])}</p>{drawing(data)}"
        f'<ul class="events">{events}</ul></div>'
    )
