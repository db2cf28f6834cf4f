"""A margin: runs of one dose after another until the search has its answer, a row a run, resumable.

``leader-lost`` is a figure: each fault of a run is one trial. The name of a checker is a property: a run is one trial,
in which the dose is given several times; any finding breaks it, one that is excused, too. A run that is noisy, unknown
or in trouble, and a fault that was not certainly in force, spoil a trial and are repeated. Guarantees: a row is in the
file once its run is over, and one process at a time adds rows; a repeated call continues the search from there, with
the same question only. Doses are in real time: the time scale is 1. Out of scope: which dose comes next
(``dose_search``), and where runs take place.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import registry, store
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.engine.campaign.options_record import differences, told
from dethrone.harness.engine.campaign.resumable_tasks import adding_rows, read_kept
from dethrone.harness.engine.margin.dose_search import Answer, Ask, Search, Trials, next_step
from dethrone.harness.engine.margin.doses import kind_of, schedule_of, time_limit_ns
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.engine.run.judgement import RunResult
from dethrone.harness.engine.run.lifecycle import today
from dethrone.harness.engine.run.listener import Listener
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import run

LEADER_LOST = "leader-lost"
FIGURES = "failover"
"""The checker whose figures say under which faults leaders were lost."""
ASKED, ROWS = "margin.json", "rows.jsonl"
INTERRUPTED = "interrupted"
FAULTS_MIN = 3
"""Faults a run at least: to start a cluster takes longer than some of them."""
IDLE_MAX = 3
"""Runs in a row without a trial that counts: then the search is given up, until it is called again."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked. ``options``: of the runs, as words. ``per_run``: faults a run at most."""

    fault: str
    breaks: str
    victims: str
    hold_ns: Ns
    per_run: int
    search: Search
    options: Mapping[str, str] = {}


class MarginRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run. ``load``: of the machine, the average of a minute as it ended. ``why``: what spoiled how many trials."""

    dose: int
    seed: int
    broke: int
    held: int
    spoiled: int
    why: Mapping[str, int] = {}
    elapsed_ns: Ns = 0
    load: float = 0.0
    day: str = ""

    @property
    def trials(self) -> Trials:
        """What the search makes of it."""
        return Trials(self.dose, self.broke, self.held, self.spoiled)


class Margin(msgspec.Struct, frozen=True, kw_only=True):
    """A question, its rows, and its answer; None: not yet, ``why`` says why the search was stopped."""

    question: Question
    rows: tuple[MarginRow, ...]
    answer: Answer | None
    why: str = ""


OnRow = Callable[[MarginRow], None]


def search(
    options: RunOptions, question: Question, out: Path, listener: Listener, *, version: str, on_row: OnRow
) -> Margin:
    """Ask until there is an answer. Ends early when a run is interrupted, or when runs show nothing."""
    _check(question)
    question = msgspec.structs.replace(question, options=told(options, version=version))
    checkers = {name: one for name, one in load_checkers().items() if name in {FIGURES, question.breaks}}
    first = options.seed or 0
    idle = 0
    with adding_rows(out / ROWS, what="margin") as file:
        rows = _begin(out, question)
        while not isinstance(step := next_step((row.trials for row in rows), question.search), Answer):
            times = faults_a_run(step, rows, question)
            asked = _of_run(options, question, step.dose, times=times, out=out, seed=first + len(rows))
            result = run(asked, listener, checkers=checkers)
            if result.interrupted:
                return Margin(question=question, rows=tuple(rows), answer=None, why=INTERRUPTED)
            row = row_of(result, question.breaks, dose=step.dose, times=times)
            row = msgspec.structs.replace(row, load=round(os.getloadavg()[0], 1), day=today())
            rows.append(row)
            file.write(msgspec.json.encode(row) + b"\n")
            file.flush()
            on_row(row)
            idle = 0 if row.broke + row.held else idle + 1
            if idle >= IDLE_MAX:
                why = f"the last {IDLE_MAX} runs showed nothing: {', '.join(row.why) or 'no fault was in force'}"
                return Margin(question=question, rows=tuple(rows), answer=None, why=why)
    return Margin(question=question, rows=tuple(rows), answer=step)


def faults_a_run(step: Ask, rows: Sequence[MarginRow], question: Question) -> int:
    """How often the next run gives the dose: for each trial that is wanted, and for those that will be spoiled."""
    if question.breaks != LEADER_LOST:
        return question.per_run
    counted = sum(row.broke + row.held for row in rows if row.dose == step.dose)
    spoiled = sum(row.spoiled for row in rows if row.dose == step.dose)
    expected = math.ceil(step.trials * (counted + spoiled + 1) / (counted + 1))
    return min(question.per_run, max(FAULTS_MIN, expected))


def read_margin(out: Path) -> Margin:
    """A stored search, as far as it came. Raises HistoryError or ConfigError for a directory that holds none."""
    question = store.read_json(out / ASKED, Question)
    rows = read_kept(out / ROWS, MarginRow, what="the margin's")
    step = next_step((row.trials for row in rows), question.search)
    return Margin(question=question, rows=tuple(rows), answer=step if isinstance(step, Answer) else None)


def row_of(result: RunResult, breaks: str, *, dose: int, times: int) -> MarginRow:
    """What a run that gave the dose ``times`` times showed."""
    verdicts = result.judgement.verdicts if result.judgement is not None else ()
    found = list(_fates(verdicts, breaks))
    if result.trouble:
        found = [("spoiled", f"trouble: {result.trouble[0].splitlines()[0][:200]}")]
    missing = (times if breaks == LEADER_LOST else 1) - len(found)
    found += [("spoiled", "the fault was not certainly in force")] * max(0, missing)
    counts = Counter(fate for fate, _ in found)
    return MarginRow(
        dose=dose,
        seed=result.seed,
        broke=counts["broke"],
        held=counts["held"],
        spoiled=counts["spoiled"],
        why=dict(Counter(why for fate, why in found if fate == "spoiled")),
        elapsed_ns=int(result.figures.get("elapsed_s", 0) * SECOND),
    )


def _fates(verdicts: Sequence[Verdict], breaks: str) -> Iterator[tuple[str, str]]:
    by_name = {verdict.checker: verdict for verdict in verdicts}
    if breaks == LEADER_LOST:
        figures: Mapping[str, Any] = by_name[FIGURES].metrics if FIGURES in by_name else {}
        for row in figures.get("leader_under", ()):
            fate = {"lost": "broke", "kept": "held"}.get(row["fate"], "spoiled")
            yield fate, "noise" if row["fate"] == "noise" else _shape(row["why"])
        return
    verdict = by_name.get(breaks)
    if verdict is None:
        return
    if verdict.findings:
        yield "broke", ""
    elif verdict.outcome == "pass":
        yield "held", ""
    else:
        yield "spoiled", f"{verdict.outcome}: {verdict.reason[:200]}"


def _shape(why: str) -> str:
    """The part of a reason that is the same in all runs."""
    return why.rpartition(", and ")[2] or why


def _of_run(options: RunOptions, question: Question, dose: int, *, times: int, out: Path, seed: int) -> RunOptions:
    kind = kind_of(question.fault)
    schedule = schedule_of(kind, dose, times=times, victims=question.victims, hold_ns=question.hold_ns)
    path = out / "schedules" / f"{dose}-{times}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    store.write_json(path, schedule)
    directory = out / f"run-{seed}"
    store.set_aside(directory)  # a run without a row was cut short
    return msgspec.structs.replace(
        options,
        seed=seed,
        out=directory,
        schedule=path,
        faults=(),
        time_limit_ns=time_limit_ns(kind, dose, times=times, hold_ns=question.hold_ns),
        time_scale=1.0,
        stop_at_first_failure=False,
    )


def _begin(out: Path, question: Question) -> list[MarginRow]:
    rows = read_kept(out / ROWS, MarginRow, what="the margin's")
    if rows:
        begun = store.read_json(out / ASKED, Question)
        differing = differences(_words(begun), _words(question))
        if differing:
            raise ConfigError(
                "this directory holds a margin of another question: " + "; ".join(differing[:8]),
                where=str(out),
                next_step="repeat the original options to resume it, or choose another --out",
            )
        return rows
    store.write_json(out / ASKED, question)
    return []


def _words(question: Question) -> dict[str, str]:
    plain = msgspec.to_builtins(question)
    options, search_words = plain.pop("options"), plain.pop("search")
    return {name: str(value) for name, value in {**plain, **search_words, **options}.items()}


def _check(question: Question) -> None:
    kind_of(question.fault)
    known = (LEADER_LOST, *registry.names(registry.CHECKERS))
    if question.breaks not in known:
        raise registry.unknown_name("property", question.breaks, known)
