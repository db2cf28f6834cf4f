"""What ``dethrone corpus trends`` and ``dethrone compare`` show: terminal, JSON, one page, JUnit, and the exit code.

Guarantees: exit code 1 if anything is red (worse and not known); 2 if nothing is red, but runs were not judged or
nothing could be compared, so that green would claim too much; 0 otherwise. Every number comes with a command that lists
its runs. ``dethrone.harness.pipeline.trends`` compares; it is imported only when needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.text import Text

from dethrone.harness.commands import corpus as told
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.verdict import FailOn, Outcome
from dethrone.harness.engine.run.exit_status import EXIT_PASS, exit_code
from dethrone.harness.report.meter import Meter
from dethrone.harness.report.terminal import Screen
from dethrone.harness.report.words import excused_words

if TYPE_CHECKING:
    from dethrone.harness.pipeline.corpus import Corpus
    from dethrone.harness.pipeline.gathering import Gathered
    from dethrone.harness.pipeline.known_regressions import Known, Sorted
    from dethrone.harness.pipeline.nights import Run
    from dethrone.harness.pipeline.trends import Compared, Policy, Side

    Both = tuple[Callable[[Run], bool], Callable[[Run], bool], tuple[str, str]]
    """Which runs are asked about, which they are compared with, and what both are called."""

RUNS_SHOWN = 5


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asks. ``sides``: two selections (``compare``), or None: a night against those before it.

    ``night``: "" for the last one. ``trace``: a cell whose rows are wanted instead of a comparison.
    """

    sides: tuple[str, str] | None = None
    night: str = ""
    nights: int = 7
    system: str = ""
    variants: bool = False
    known: Path | None = None
    html: Path | None = None
    junit_xml: Path | None = None
    trace: str = ""
    fail_on: FailOn = "unknown"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. ``command``: words that ask the same again, to which ``--trace CELL`` is added."""

    corpus: str
    command: str
    gathered: Any
    side: Any
    compared: Any
    sorted: Any
    policy: Any
    why_unknown: tuple[str, ...]
    outcome: Outcome
    code: int
    excused: int = 0

    def trace(self, cell: object) -> str:
        """The command that lists what a number is made of."""
        return f"{self.command} --trace {shlex.quote(str(cell))}"


def trends(where: told.Where, screen: Screen, asked: Asked) -> int:
    """``corpus trends`` and ``compare``: the exit code."""
    from dethrone.harness.pipeline import gathering, known_regressions, session
    from dethrone.harness.pipeline import trends as deciding
    from dethrone.harness.pipeline.corpus import open_corpus

    options = told.spark_options(where)
    entries = known_regressions.read(asked.known) if asked.known else ()
    policy = deciding.Policy(nights=asked.nights)
    corpus = open_corpus(where.url)
    rows = gathering.select(corpus, system=asked.system, variants=asked.variants)
    mine, theirs, names = _sides(asked, rows, policy, corpus)
    plain = {row["run"]: gathering.run_of(row, frozenset()) for row in rows}
    nights = frozenset(run.night for run in plain.values() if mine(run) or theirs(run))
    screen.say(Text("starting Spark", style="dim"))
    with session.session(options) as spark, session.watched(spark, Meter(screen, "tasks")):
        gathered = gathering.gather(corpus, spark, rows, times_of=nights)
    said = corpus.verdicts("run", "excused").to_pylist()
    excused = sum(row["excused"] or 0 for row in said if row["run"] in plain and mine(plain[row["run"]]))
    if asked.trace:
        side = deciding.sides(gathered.facts, mine, theirs)
        return _trace(screen, asked, gathered, side, corpus=where.url)
    both = (mine, theirs, names)
    answer = answered(asked, gathered, both, corpus=where.url, policy=policy, entries=entries, excused=excused)
    return _tell(screen, asked, answer)


def answered(
    asked: Asked,
    gathered: Gathered,
    both: Both,
    *,
    corpus: str,
    policy: Policy,
    entries: Sequence[Known] = (),
    excused: int = 0,
) -> Answer:
    """The comparison of both sides, sorted into red and known."""
    from dethrone.harness.pipeline import known_regressions, trends

    mine, theirs, (name, other) = both
    compared = trends.compare(gathered.facts, mine, theirs, policy, asked=name, other=other)
    found = known_regressions.sort(compared.regressions, entries)
    unknown = _unknown(compared)
    outcome: Outcome = "fail" if found.red else "unknown" if unknown else "pass"
    return Answer(
        corpus=corpus,
        command=command_of(corpus, asked, name),
        gathered=gathered,
        side=trends.sides(gathered.facts, mine, theirs),
        compared=compared,
        sorted=found,
        policy=policy,
        why_unknown=unknown,
        outcome=outcome,
        code=exit_code(outcome=outcome, trouble=False, interrupted=False, fail_on=asked.fail_on, excused=excused),
        excused=excused,
    )


def _tell(screen: Screen, asked: Asked, answer: Answer) -> int:
    _show(screen, answer)
    _write(screen, asked, answer)
    told.told(
        screen,
        _verb(asked),
        corpus=answer.corpus,
        code=answer.code,
        verdict=answer.outcome,
        **object_of(answer),
    )
    return answer.code


def object_of(answer: Answer) -> dict[str, Any]:
    """The JSON values of an answer."""
    compared: Compared = answer.compared
    found: Sorted = answer.sorted

    def row(one: Any) -> dict[str, Any]:
        return {**msgspec.to_builtins(one), "cell": str(one.cell), "trace": answer.trace(one.cell)}

    return {
        "asked": compared.asked,
        "against": compared.other,
        "red": [row(one) for one in found.red],
        "known": [{**row(one), "why": why} for one, why in found.known],
        "unused": msgspec.to_builtins(found.unused),
        "times": [{**row(one), "ratio": one.ratio} for one in compared.times],
        "rates": [row(one) for one in compared.rates],
        "faster": [str(one.cell) for one in compared.faster],
        "unknown": list(answer.why_unknown),
        "excused": answer.excused,
        "cells_compared": compared.tested,
    }


def command_of(corpus: str, asked: Asked, name: str) -> str:
    """The words that ask the same again, with every default that moves (which night is the last) said."""
    words = ["dethrone", "compare", *asked.sides] if asked.sides else ["dethrone", "corpus", "trends", "--night", name]
    words += ["--corpus", corpus]
    if asked.sides is None and asked.nights != Asked().nights:
        words += ["--nights", str(asked.nights)]
    words += ["--system", asked.system] * bool(asked.system) + ["--variants"] * asked.variants
    return shlex.join(words)


def _sides(asked: Asked, rows: Sequence[Mapping[str, Any]], policy: Policy, corpus: Corpus) -> Both:
    from dethrone.harness.pipeline import gathering, trends
    from dethrone.harness.pipeline.nights import Facts

    facts = Facts({row["run"]: gathering.run_of(row, frozenset()) for row in rows}, (), ())
    if asked.sides is not None:
        picked = [picks(words) for words in asked.sides]
        for words, pick in zip(asked.sides, picked, strict=True):
            if not any(map(pick, facts.runs.values())):
                raise ConfigError(
                    f"no run matches {words!r}",
                    where=corpus.place.url,
                    next_step="2026-11-20, 2026-11-01..2026-11-07, or KEY=VALUE like versions.dethrone=0.1.0",
                )
        return picked[1], picked[0], (asked.sides[1], asked.sides[0])
    nights = facts.nights()
    name = asked.night or (nights[-1] if nights else "")
    if name not in nights:
        raise ConfigError(
            f"no run of the night {name}" if name else "no runs found",
            where=corpus.place.url,
            cause="" if asked.variants else "runs of planted variants count only with --variants",
            next_step="nights here: " + ", ".join(nights[-5:]) if nights else "dethrone corpus add RUN…",
        )
    mine, theirs, other = trends.nights_before(facts, name, policy)
    return mine, theirs, (name, other)


def picks(words: str) -> Callable[[Run], bool]:
    """A selection: a night, ``FIRST..LAST``, or ``KEY=VALUE`` of what may change; several with commas, all of them."""
    tests: list[Callable[[Run], bool]] = []
    for word in words.split(","):
        key, equals, value = word.partition("=")
        first, dots, last = word.partition("..")
        if equals:
            tests.append(lambda run, key=key, value=value: run.attributes.get(key) == value)  # type: ignore[misc]
        elif dots:
            tests.append(lambda run, first=first, last=last: first <= run.night <= last)  # type: ignore[misc]
        else:
            tests.append(lambda run, word=word: run.night == word)  # type: ignore[misc]
    return lambda run: all(test(run) for test in tests)


def _unknown(compared: Compared) -> tuple[str, ...]:
    found = []
    if compared.unjudged:
        some = ", ".join(compared.unjudged[:RUNS_SHOWN])
        found.append(f"{len(compared.unjudged)} runs were not judged ({some}): dethrone corpus check")
    if compared.thin:
        where = compared.other or "no earlier nights"
        found.append(f"too few runs of one setup to compare {', '.join(compared.thin)} with {where}")
    return tuple(found)


def _show(screen: Screen, answer: Answer) -> None:
    found: Sorted = answer.sorted
    compared: Compared = answer.compared
    for one in found.red:
        line = Text.assemble((f"{one.kind:<11}", "bold red"), f"{one.cell}  {one.night}  {one.size}")
        screen.say(line, level=-1)
        for word in one.changed:
            screen.say(f"           changed: {word}", level=-1)
        more = f" and {len(one.runs) - RUNS_SHOWN} more" if len(one.runs) > RUNS_SHOWN else ""
        screen.say(f"           runs: {', '.join(one.runs[:RUNS_SHOWN])}{more}: {answer.trace(one.cell)}")
    for one, why in found.known:
        screen.say(f"known      {one.kind}: {one.cell}  {one.size}  ({why})")
    for entry in found.unused:
        screen.say(f"unused     known {entry.system} {entry.metric}: not seen, or expired", level=-1)
    for slow in compared.faster:
        screen.say(f"faster     {slow.cell}" + (f"  × {slow.ratio:.2f}" if slow.ratio else ""))
    for why in answer.why_unknown:
        screen.say(Text.assemble(("unknown    ", "bold yellow"), why), level=-1)
    if answer.excused:
        screen.say(Text.assemble(("excused    ", "bold yellow"), excused_words(answer.excused)), level=-1)
    skipped = sum(bool(one.why) for one in compared.times)
    screen.say(
        f"{compared.asked} against {compared.other or 'nothing'}: {len(found.red)} red, {len(found.known)} known; "
        f"{compared.tested} cells compared, {skipped} with too few runs",
        level=-1,
    )


def _write(screen: Screen, asked: Asked, answer: Answer) -> None:
    from dethrone.harness.report import trends_xml
    from dethrone.harness.report.html import trends as page

    for path, render in ((asked.html, page.render), (asked.junit_xml, trends_xml.render)):
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(render(answer), encoding="utf-8")
            except OSError as error:
                raise ConfigError(f"cannot write: {error.strerror}", where=str(path)) from error
            screen.say(f"written: {path}")


def _verb(asked: Asked) -> str:
    return "trends" if asked.sides is None else "compare"


def _trace(screen: Screen, asked: Asked, gathered: Gathered, side: Side, *, corpus: str) -> int:
    wanted = asked.trace
    rows = traced(wanted, gathered, side)
    if not rows:
        raise ConfigError(f"no run belongs to {wanted!r}", next_step="run without --trace to list what there is")
    screen.table(tuple(rows[0]), [[_word(value) for value in row.values()] for row in rows])
    screen.say(f"{len(rows)} rows of {wanted}", level=-1)
    told.told(screen, _verb(asked), corpus=corpus, cell=wanted, rows=rows)
    return EXIT_PASS


def traced(wanted: str, gathered: Gathered, side: Side) -> list[dict[str, Any]]:
    """The rows behind ``SYSTEM/FAULT/METRIC`` or ``coverage/SYSTEM/FAULT/PHASE/ROLE``."""
    from dethrone.harness.pipeline.nights import Cell
    from dethrone.harness.pipeline.trends import rows_behind

    facts = gathered.facts
    parts = wanted.split("/")
    if parts[0] == "coverage" and len(parts) == 5:
        return [
            {"night": facts.runs[one.run].night, "run": one.run, "fault": one.fault}
            for one in gathered.covered
            if one.run in side and [facts.runs[one.run].system, one.kind, one.phase, one.role] == parts[1:]
        ]
    if len(parts) < 3:
        raise ConfigError(
            f"{wanted!r} is not a cell", next_step="write it like raft/kill/elect or raft/kill/fail/one-leader-per-term"
        )
    return rows_behind(facts, side, Cell(parts[0], parts[1], "/".join(parts[2:])))


def _word(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
