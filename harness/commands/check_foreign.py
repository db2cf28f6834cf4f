"""The verdict on a history of another tool, for people and for programs.

Guarantees: certificates are spelled out as operations with their lines. Judging is out of scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.operations import ModelOptions, Operation, Operations
from dethrone.harness.core.verdict import FailOn, Finding
from dethrone.harness.engine.replay.foreign_history import ForeignCheck, check_file
from dethrone.harness.engine.run.exit_status import EXIT_TROUBLE, exit_code
from dethrone.harness.report import bars, json_objects
from dethrone.harness.report.plain import Lines, complain
from dethrone.harness.report.words import pairs, verdict_parts

if TYPE_CHECKING:
    from dethrone.harness.report.junit import Suite

FINDINGS_MAX = 3
"""Findings that a terminal shows in full."""

VALUE_MAX = 100


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One file's answer. ``error``: why there is none."""

    path: Path
    form: str
    model: str
    code: int
    found: ForeignCheck | None = None
    error: HarnessError | None = None

    @property
    def trouble(self) -> tuple[str, ...]:
        """What kept this file from an answer."""
        return () if self.error is None else (str(self.error),)

    def suite(self) -> Suite:
        """This file as a JUnit suite."""
        known = _by_place(self.found) if self.found else {}
        words = {place: _proving(op) for place, op in known.items() if place == op.invoked}
        judgement = self.found.judgement if self.found else None
        from dethrone.harness.report.junit import Suite

        return Suite(name=f"{self.path.name}.{self.model}", judgement=judgement, trouble=self.trouble, proving=words)

    def github(self, *, report: Path | None) -> Sequence[str]:
        """Annotation lines; the step summary is written."""
        judgement = self.found.judgement if self.found else None
        title = f"{self.path.name} ({self.form}, {self.model})"
        from dethrone.harness.report import github, report_files

        report_files.write_summary(github.summary(judgement, None, self.trouble, report=report, title=title))
        return github.annotation_lines(judgement, self.trouble, name=self.path.name)

    def as_object(self) -> dict[str, Any]:
        """This file's part of the JSON object."""
        out = json_objects.judged(self.found.judgement if self.found else None, None)
        if self.found is not None:
            lines = _by_place(self.found)
            for verdict in self.found.judgement.verdicts:
                told = out["checkers"][verdict.checker]["findings"]
                for one, row in zip(verdict.findings, told, strict=True):
                    row["events"] = [operation(lines[place]) for place in _firsts(one, lines)]
                    row["data"] = dict(one.data)
        return {
            **out,
            "trouble": list(self.trouble),
            "exit_code": self.code,
            "path": str(self.path),
            "format": self.form,
            "model": self.model,
            "operations": len(self.found.operations) if self.found else 0,
        }


def check(
    path: Path,
    *,
    form: str,
    model: str,
    options: ModelOptions,
    most: int | None,
    fail_on: FailOn,
) -> Checked:
    """Judge one file; its trouble hides no other file."""
    try:
        found = check_file(path, form=form, model=model, options=options, most=most)
    except ConfigError:
        raise
    except HarnessError as error:
        return Checked(path=path, form=form, model=model, code=EXIT_TROUBLE, error=error)
    code = exit_code(outcome=found.judgement.outcome, trouble=False, interrupted=False, fail_on=fail_on)
    return Checked(path=path, form=form, model=model, code=code, found=found)


def show(row: Checked, screen: Lines) -> None:
    """The answer for people: verdict first, then the proof, operation by operation."""
    if row.error is not None:
        complain(row.error)
        return
    if row.found is None:
        return
    screen.parts(*verdict_parts(row.found.judgement), level=-1)
    if backwards := row.found.operations.notes.get("times_backwards"):
        screen.say(f"times run backwards {backwards} times; they are not the order (docs/histories.md)", level=-1)
    lines = _by_place(row.found)
    for verdict in row.found.judgement.verdicts:
        for one in verdict.findings[:FINDINGS_MAX]:
            screen.parts((f"\n{row.model}: ", "bold red"), one.sentence, level=-1)
            for place in _firsts(one, lines):
                op = lines[place]
                screen.say(f"  {_proving(op)}", level=-1)
            for line in bars.lines(one.data):
                screen.say(f"    {line}", level=-1)
        hidden = len(verdict.findings) - FINDINGS_MAX
        if hidden > 0:
            screen.say(f"\n({hidden} more findings with --json)", level=-1)
        if verdict.outcome == "pass":
            screen.say(f"{verdict.checker}: {pairs(verdict.evidence, most=5)}")


def write_page(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The answers as one page that opens from disk."""
    from dethrone.harness.report.html import foreign

    try:
        path.write_text(foreign.page(rows), encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"cannot write the report: {error.strerror}", where=str(path)) from error


def _firsts(one: Finding, lines: Mapping[int, Operation]) -> Sequence[int]:
    """Of each operation of a certificate one place: that of its invocation, if it is there."""
    known: dict[int, int] = {}
    for place in one.certificate:
        if place in lines:
            known.setdefault(lines[place].invoked, place)
    return sorted(known.values())


def _by_place(found: ForeignCheck) -> dict[int, Operation]:
    """The operations that certificates name, by the places of their invocations and returns."""
    wanted = {place for verdict in found.judgement.verdicts for one in verdict.findings for place in one.certificate}
    return named(found.operations, wanted)


def named(operations: Operations, wanted: set[int]) -> dict[int, Operation]:
    """The operations at these places."""
    out: dict[int, Operation] = {}
    if not wanted:
        return out
    for op in operations.rows:
        for place in op.places:
            if place in wanted:
                out[place] = op
    return out


def operation(op: Operation) -> dict[str, Any]:
    """One operation for programs."""
    return {
        "line": op.line,
        "return_line": op.return_line or None,
        "process": op.process,
        "f": op.f,
        "key": op.key if isinstance(op.key, str | int | float | None) else _short(op.key),
        "status": op.status,
        "text": words(op),
    }


def _proving(op: Operation) -> str:
    return f"line {op.line:>6}  process {op.process:<4} {words(op)}"


def words(op: Operation) -> str:
    """One operation in a line."""
    key = "" if op.key is None else f" {_short(op.key)}:"
    asked = "" if op.value is None else f" {_short(op.value)}"
    if op.status == "info":
        return f"{op.f}{key}{asked} → unknown"
    told = "" if op.result in (None, op.value) and op.f not in ("read", "get", "dequeue") else f" {_short(op.result)}"
    back = f" (line {op.return_line})" if op.return_line else ""
    return f"{op.f}{key}{asked} → {op.status}{told}{back}"


def _short(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= VALUE_MAX else text[:VALUE_MAX] + "…"


def _text(value: Any) -> str:
    """A value without the marks of any programming language; of a long list its beginning."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(_text, value[:VALUE_MAX]))}]"
    return str(value)
