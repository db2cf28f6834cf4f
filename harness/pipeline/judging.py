"""What a worker does with one run: read its events, let the checkers judge, answer in rows. No Spark in here.

The same code judges a single run. Guarantees: a checker that raises makes its own verdict ``unknown`` and no other;
events that cannot be read make all asked verdicts ``unknown``, not settled, so that they are tried again; a history
that is incomplete, or contains trouble, never passes (the row ``history``). Out of scope: which run goes where
(``checking``).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import parquet
from dethrone.harness.core.errors import HarnessError, HistoryError
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import Checker
from dethrone.harness.core.long_history import blocks_of, of_columns
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.engine.run.garbage_collection import no_garbage
from dethrone.harness.engine.run.judge import judge, prepare
from dethrone.harness.pipeline.corpus import as_json

HISTORY = "history"
"""The verdict on the history as such: complete and without trouble, or why not. Not a checker that can be asked for."""

HISTORY_VERSION = "1"
EVENTS_MAX = 40
"""Events of a certificate that a finding carries; its list of numbers is whole."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run to judge, and the checkers that judge it. ``plan``: JSON."""

    run: str
    date: str
    system: str
    path: str
    content: str
    plan: str
    checkers: tuple[str, ...]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the two tables, without the time at which they are written."""

    verdicts: list[dict[str, Any]]
    findings: list[dict[str, Any]]


def judge_job(sources: Callable[[], Sequence[Any]], job: Job, checkers: Mapping[str, Checker]) -> Told:
    """Read and judge one run. ``sources`` opens its events: paths, or files, in their order."""
    with no_garbage():
        try:
            history = _history(sources, job.path)
            plan = msgspec.json.decode(job.plan, type=Plan)
            asked = {name: checkers[name] for name in job.checkers if name != HISTORY}
            verdicts = list(_verdicts(history, plan, asked, with_history=HISTORY in job.checkers))
        except HarnessError as error:
            why = " · ".join(part for part in (error.what, error.where) if part)
            return unsettled(job, f"the events cannot be read: {why}", checkers)
        except MemoryError:
            return unsettled(job, "too little memory to judge it", checkers)
        return _rows(job, history, verdicts)


def _history(sources: Callable[[], Sequence[Any]], where: str) -> History:
    """A long one stays on disk, if that is a disk of this machine."""
    found = sources()

    def slowly() -> History:
        return parquet.history_of(*sources(), where=where)

    if all(isinstance(source, str) for source in found):
        with contextlib.suppress(HistoryError, OSError):  # which reading event by event describes
            long = of_columns(blocks_of([Path(source) for source in found]), slowly)
            if long is not None:
                return long
    return slowly()


def unsettled(job: Job, why: str, checkers: Mapping[str, Checker]) -> Told:
    """``unknown`` for every checker that was asked, to be tried again."""
    rows = []
    for name in job.checkers:
        kind = checkers[name].kind if name in checkers else "metric"
        version = checkers[name].version if name in checkers else HISTORY_VERSION
        verdict = Verdict(checker=name, version=version, kind=kind, outcome="unknown", reason=why)
        rows.append(_verdict_row(job, verdict, 0, settled=False))
    return Told(verdicts=rows, findings=[])


def _verdicts(
    history: History, plan: Plan, checkers: Mapping[str, Checker], *, with_history: bool
) -> Iterator[tuple[Verdict, int]]:
    """Each verdict, and how long it took in ns."""
    prepare(history, plan, checkers)
    if with_history:
        yield _on_history(history, plan), 0
    for name, checker in checkers.items():
        began = time.perf_counter_ns()
        [verdict] = judge(history, plan, {name: checker}).verdicts
        yield verdict, time.perf_counter_ns() - began


def _on_history(history: History, plan: Plan) -> Verdict:
    told = judge(history, plan, {})
    why = ""
    if not history.complete:
        why = f"the history is damaged: {history.damage or 'no end record'}"
    elif told.trouble:
        why = f"harness trouble: {told.trouble[0]}"
    return Verdict(
        checker=HISTORY,
        version=HISTORY_VERSION,
        kind="metric",
        outcome="unknown" if why else "n/a",
        reason=why or "complete",
        metrics={"events": len(history)},
    )


def _rows(job: Job, history: History, verdicts: Sequence[tuple[Verdict, int]]) -> Told:
    findings = []
    for verdict, _ in verdicts:
        for number, finding in enumerate(verdict.findings):
            shown = [seq for seq in finding.certificate if 0 <= seq < len(history)][:EVENTS_MAX]
            findings.append(
                {
                    "run": job.run,
                    "date": job.date,
                    "system": job.system,
                    "checker": verdict.checker,
                    "version": verdict.version,
                    "number": number,
                    "sentence": finding.sentence,
                    "excused": finding.excused,
                    "term": _fitting(finding.term),
                    "nodes": list(finding.nodes),
                    "certificate": list(finding.certificate),
                    "events": "\n".join(as_json(history.at(seq)) for seq in shown),
                    "data": as_json(finding.data),
                    "content": job.content,
                    "signature": finding.signature,
                }
            )
    return Told(verdicts=[_verdict_row(job, one, took, settled=True) for one, took in verdicts], findings=findings)


def _verdict_row(job: Job, verdict: Verdict, took_ns: int, *, settled: bool) -> dict[str, Any]:
    return {
        "run": job.run,
        "date": job.date,
        "system": job.system,
        "checker": verdict.checker,
        "version": verdict.version,
        "kind": verdict.kind,
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "findings": sum(finding.excused is None for finding in verdict.findings),
        "excused": sum(finding.excused is not None for finding in verdict.findings),
        "evidence": as_json(verdict.evidence),
        "metrics": as_json(verdict.metrics),
        "content": job.content,
        "settled": settled,
        "took_ns": took_ns,
    }


def _fitting(number: int | None) -> int | None:
    """A term that fits into 64 bits, or none."""
    return number if number is not None and -(2**63) <= number < 2**63 else None


def fresh(row: Mapping[str, Any], run: Mapping[str, Any], version: str) -> bool:
    """Whether a verdict still stands: settled, of this version, on these bytes."""
    return bool(row["settled"] and row["version"] == version and row["content"] == run["content"])


RUN_COLUMNS = ("run", "date", "system", "path", "content", "plan", "bytes", "events")
"""Of the manifest: what a job is made of."""


def jobs_of(
    runs: Sequence[Mapping[str, Any]],
    verdicts: Sequence[Mapping[str, Any]],
    versions: Mapping[str, str],
    *,
    again: bool = False,
) -> list[Job]:
    """What is stale, largest run first. ``versions``: of the checkers that are asked; ``again``: all of it."""
    known = {(row["run"], row["checker"]): row for row in verdicts}
    jobs = []
    for run in sorted(runs, key=lambda row: (-row["bytes"], row["run"])):
        stale = tuple(
            name
            for name, version in versions.items()
            if again or (run["run"], name) not in known or not fresh(known[run["run"], name], run, version)
        )
        if stale:
            rest = {key: run[key] for key in ("run", "date", "system", "path", "content", "plan")}
            jobs.append(Job(checkers=stale, **rest))
    return jobs


def write_rows(told: Sequence[Told], *, moment_ns: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All rows of both tables, with their moment."""
    stamp = {"written_ns": moment_ns}
    return (
        [{**row, **stamp} for one in told for row in one.verdicts],
        [{**row, **stamp} for one in told for row in one.findings],
    )
