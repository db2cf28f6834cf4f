"""GitHub's surfaces: workflow commands that become annotations, and the step summary in Markdown.

Guarantees: a text can neither end its command nor start another (escaped as the runner unescapes); at most ten
annotations per run (GitHub drops the rest), and the last one says how many were omitted. Writing is out of scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dethrone.harness.core.clean import clean, for_output, one_line
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.report import bars
from dethrone.harness.report.rundir import RunFiles
from dethrone.harness.report.screens import cluster_words, why
from dethrone.harness.report.snippet import picture, proving
from dethrone.harness.report.words import announced, verdict_word

ANNOTATIONS_MAX = 10
_ICONS = {"pass": "✅", "fail": "❌", "unknown": "❔", "n/a": "➖"}


def annotation_lines(judgement: Judgement | None, trouble: Sequence[str], *, name: str) -> list[str]:
    """The lines to print on stdout of a step."""
    out = [command("error", f"{name}: harness trouble", line) for line in trouble]
    for verdict in judgement.verdicts if judgement else ():
        if verdict.outcome == "fail":
            found = [finding.sentence for finding in verdict.findings if finding.fails] or [verdict.reason]
            out += [command("error", f"{name}: {verdict.checker}", sentence) for sentence in found]
        elif verdict.outcome == "unknown":
            out.append(command("warning", f"{name}: {verdict.checker} is unknown", verdict.reason))
    if judgement is not None and announced(judgement):
        message = f"{verdict_word(judgement.outcome)}{announced(judgement)}"
        out.append(command("warning", f"{name}: excused findings", message))
    if judgement is not None and judgement.damage:
        out.append(command("warning", f"{name}: damaged history", judgement.damage))
    if len(out) > ANNOTATIONS_MAX:
        hidden = len(out) - ANNOTATIONS_MAX + 1
        out = [*out[: ANNOTATIONS_MAX - 1], command("warning", name, f"{hidden} more are in the report")]
    return out


def command(level: str, title: str, message: str) -> str:
    """One workflow command."""
    return f"::{level} title={_property(for_output(one_line(title)))}::{_data(for_output(message))}"


def summary(
    judgement: Judgement | None,
    files: RunFiles | None,
    trouble: Sequence[str],
    *,
    report: Path | None,
    title: str = "dethrone",
) -> str:
    """Markdown for the step summary: verdict, proof, properties. ``title``: where no plan names what was judged."""
    outcome = judgement.outcome if judgement else None
    plan = files.plan if files else None
    title = cluster_words(plan) if plan else title
    word = f"{_ICONS[outcome]} {verdict_word(outcome)}" if outcome else "❔ no verdict"
    word += announced(judgement)
    lines = [f"### {word} · {cell(title)}", ""]
    if judgement and judgement.reason:
        lines += [cell(judgement.reason), ""]
    lines += [f"- ⚠️ {cell(line)}" for line in trouble]
    if plan:
        lines += ["", f"seed `{plan.seed}`"]
    if report:
        lines.append(f"report `{one_line(str(report)).replace(chr(96), chr(39))}`")
    if judgement:
        lines += _proof(judgement, files)
        lines += ["", "| property | verdict | why |", "| --- | --- | --- |"]
        lines += [
            f"| {cell(v.checker)} | {_ICONS[v.outcome]} {verdict_word(v.outcome)} | {cell(why(v))} |"
            for v in judgement.verdicts
        ]
    return "\n".join(lines) + "\n\n"


def _proof(judgement: Judgement, files: RunFiles | None) -> list[str]:
    out: list[str] = []
    for verdict in judgement.verdicts:
        for finding in verdict.findings[:1] if verdict.outcome == "fail" else ():
            out += ["", f"**{cell(verdict.checker)}**: {cell(finding.sentence)}"]
            shown = bars.lines(finding.data)
            if files is not None:
                events = [f"{at}  {text}" for _, at, text in proving(files.history, finding.certificate)]
                drawing = picture(files.history, files.nodes, finding.certificate)
                shown = [*events, "", *drawing, *([""] if shown else []), *shown]
            if shown:
                out += ["", "~~~~text", *(clean(line).replace("~~~~", "~ ~ ~ ~") for line in shown), "~~~~"]
    return out


def cell(text: str) -> str:
    """``text`` as one cell of a Markdown table: no markup, no HTML, no new column."""
    out = for_output(one_line(text)).replace("\\", "\\\\")
    for character in "|*_`[]#~":
        out = out.replace(character, "\\" + character)
    return out.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
