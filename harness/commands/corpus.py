"""What ``dethrone corpus`` prints: lines for people as it runs, one object for programs at the end.

Guarantees: runs that are already stored are counted, not listed; every run that was not stored is listed with its
reason. The work itself is in ``dethrone.harness.pipeline``, which is imported only here and only when needed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.text import Text

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.verdict import FailOn
from dethrone.harness.engine.run.exit_status import EXIT_PASS, EXIT_TROUBLE, EXIT_UNKNOWN, exit_code
from dethrone.harness.engine.run.judgement import JSON_SCHEMA
from dethrone.harness.report import json_objects
from dethrone.harness.report.meter import Meter
from dethrone.harness.report.terminal import Screen
from dethrone.harness.report.words import STYLES, excused_words, verdict_word

if TYPE_CHECKING:
    from dethrone.harness.pipeline.checking import Checked, RunOutcome
    from dethrone.harness.pipeline.corpus import Corpus
    from dethrone.harness.pipeline.session import SparkOptions

LISTED_MAX = 30
"""Runs of one outcome that are listed for people."""
_STYLES = {"conflict": "bold red", "refused": "bold yellow"}


def told(
    screen: Screen,
    command: str,
    *,
    corpus: str,
    trouble: Sequence[str] = (),
    code: int = EXIT_PASS,
    verdict: str | None = None,
    **rest: Any,
) -> Mapping[str, Any]:
    """The JSON object of one command, printed if asked for. ``command``: of ``corpus``, or ``compare``."""
    value = {
        "schema": JSON_SCHEMA,
        "command": command if command == "compare" else f"corpus {command}",
        "verdict": verdict,
        "trouble": list(trouble),
        "exit_code": code,
        "corpus": corpus,
        **rest,
    }
    screen.result(value)
    return value


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Which corpus, and how Spark is to be started for it: settings are words like ``spark.k=v``."""

    url: str
    master: str = ""
    conf: tuple[str, ...] = ()


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """The shell command that gets new findings (""; none), except those that the file ``known`` covers."""

    command: str = ""
    known: Path | None = None


def add(where: Where, paths: Sequence[Path], screen: Screen) -> int:
    """``corpus add``: the exit code."""
    from dethrone.harness.pipeline import ingest
    from dethrone.harness.pipeline.corpus import open_corpus

    directories, corpus = ingest.find_runs(paths), open_corpus(where.url, make=True)
    meter = Meter(screen, "runs")
    rows, trouble, counts = [], [], Counter[str]()
    for row in ingest.add(corpus, directories, now_ns=time.time_ns()):
        counts[row.answer] += 1
        rows.append({"path": str(row.directory), "answer": row.answer, "run": row.run, "why": row.why})
        if row.answer in _STYLES:
            trouble.append(f"{row.directory}: {row.answer}: {row.why}")
            words = Text.assemble((f"{row.answer:<10}", _STYLES[row.answer]), f"{row.directory}  {row.why}")
            screen.say(words, level=-1)
        else:
            screen.say(f"{row.answer:<10}{row.directory}", level=1)
        meter(len(rows), len(directories))
    total = ", ".join(
        f"{counts[word]} {word}" for word in ("stored", "duplicate", "conflict", "refused") if counts[word]
    )
    screen.say(f"{total}  in {corpus.place.url}", level=-1)
    code = EXIT_TROUBLE if trouble else EXIT_PASS
    told(screen, "add", corpus=corpus.place.url, trouble=trouble, code=code, runs=rows, counts=dict(counts))
    return code


def spark_options(where: Where) -> SparkOptions:
    """How Spark is started there. MissingCapability before the user waits for anything."""
    from dethrone.harness.pipeline import session

    options = session.SparkOptions(master=where.master, conf=session.parse_conf(where.conf))
    session.check_installed()
    return options


def check(
    where: Where,
    screen: Screen,
    *,
    since: str,
    system: str,
    checkers: tuple[str, ...],
    again: bool,
    hook: Hook,
    fail_on: FailOn,
) -> int:
    """``corpus check``: the exit code."""
    from dethrone.harness.pipeline import session
    from dethrone.harness.pipeline.corpus import of_runs, open_corpus

    options, corpus = spark_options(where), open_corpus(where.url)
    if not corpus.runs("run", since=since, system=system, stored=True):
        return _nothing_to_check(corpus.place.url, screen, since=since, system=system, fail_on=fail_on)
    from dethrone.harness.pipeline import checking

    asked = checking.Asked(since=since, system=system, checkers=checkers, again=again)
    screen.say(Text("starting Spark", style="dim"))
    with session.session(options) as spark:
        done = checking.check(corpus, spark, asked, Meter(screen, "runs"))
    judged = any(run.outcome != "n/a" for run in done.runs)
    code = json_objects.worst_code([EXIT_PASS if judged else EXIT_UNKNOWN, *(_code(run, fail_on) for run in done.runs)])
    _show_checked(done, screen)
    trouble = [f"{run.run}: {run.reason}" for run in done.runs if not run.settled]
    unheard = _raise(corpus, hook, screen)
    trouble += unheard
    code = json_objects.worst_code([code, *((EXIT_TROUBLE,) if unheard else ())])
    findings = of_runs(corpus.findings(), (run.run for run in done.runs)).to_pylist()
    told(
        screen,
        "check",
        corpus=corpus.place.url,
        trouble=trouble,
        code=code,
        verdict=json_objects.worst_outcome([run.outcome for run in done.runs]),
        judged={"verdicts": done.judged, "runs": done.judged_runs, "events": done.events, "ns": done.elapsed_ns},
        runs=msgspec.to_builtins(done.runs),
        findings=[
            {key: row[key] for key in ("run", "checker", "sentence", "excused", "term", "nodes", "certificate")}
            for row in findings
            if not checkers or row["checker"] in checkers
        ],
    )
    return code


def _raise(corpus: Corpus, hook: Hook, screen: Screen) -> tuple[str, ...]:
    """Call the command for each new finding; what went wrong."""
    if not hook.command:
        return ()
    from dethrone.harness.pipeline import known_regressions, raising

    entries = known_regressions.read(hook.known) if hook.known else ()
    done = raising.raise_new(corpus, ("/bin/sh", "-c", hook.command), known=entries)
    screen.say(f"{len(done.raised)} new findings handed to --on-finding, {len(done.known)} known", level=-1)
    for line in done.trouble:
        screen.say(Text.assemble(("trouble  ", "bold yellow"), line), level=-1)
    return done.trouble


def _nothing_to_check(url: str, screen: Screen, *, since: str, system: str, fail_on: FailOn) -> int:
    which = f" since {since}" * bool(since) + f" of {system}" * bool(system)
    screen.say(f"nothing to judge: no runs{which} in {url}", level=-1)
    screen.say("next: dethrone corpus add RUN…", level=-1)
    code = exit_code(outcome=None, trouble=False, interrupted=False, fail_on=fail_on)
    told(screen, "check", corpus=url, code=code, runs=[], findings=[])
    return code


def _code(run: RunOutcome, fail_on: FailOn) -> int:
    outcome = "pass" if run.outcome == "n/a" else run.outcome
    return exit_code(outcome=outcome, trouble=not run.settled, interrupted=False, fail_on=fail_on, excused=run.excused)


def _show_checked(done: Checked, screen: Screen) -> None:
    for outcome in ("fail", "unknown"):
        rows = [run for run in done.runs if run.outcome == outcome]
        for run in rows[:LISTED_MAX]:
            words = Text.assemble((f"{verdict_word(outcome):<8}", STYLES[outcome]), f"{run.run}  {run.date}  ")
            words.append(f"{run.checker}: {run.reason}" if run.checker else run.reason)
            screen.say(words, level=-1)
        if len(rows) > LISTED_MAX:
            screen.say(f"        and {len(rows) - LISTED_MAX} more {outcome}; --json lists all", level=-1)
    counts = Counter(run.outcome for run in done.runs)
    total = ", ".join(f"{counts[word]} {word}" for word in ("pass", "fail", "unknown", "n/a") if counts[word])
    excused = sum(run.excused for run in done.runs)
    total += f"; {excused_words(excused)}" if excused else ""
    rate = done.events * SECOND // max(1, done.elapsed_ns)
    screen.say(
        f"{len(done.runs)} runs: {total}; {done.judged} new verdicts on {done.judged_runs} runs"
        + (f", {done.events:,} events, {rate:,} a second" if done.judged else ""),
        level=-1,
    )


def table(where: Where, screen: Screen, *, name: str, since: str, system: str, limit: int, out: str) -> int:
    """``corpus table``: the exit code."""
    from dethrone.harness.pipeline import asking, session
    from dethrone.harness.pipeline.corpus import open_corpus

    asking.check_name(name)
    options, corpus = spark_options(where), open_corpus(where.url)
    screen.say(Text("starting Spark", style="dim"))
    with session.session(options) as spark, session.watched(spark, Meter(screen, "tasks")):
        shown = asking.ask(corpus, spark, name, since=since, system=system, limit=limit, out=out)
    words = [[_cell(row[column]) for column in shown.columns] for row in shown.rows]
    if words:
        screen.table(shown.columns, words)
    more = f"{shown.count - len(words):,} more rows: --limit shows them, " if shown.count > len(words) else ""
    screen.say(f"{shown.count:,} rows; {more}{f'all are in {out}' if out else '--out DIR writes all'}", level=-1)
    told(
        screen,
        "table",
        corpus=corpus.place.url,
        table=name,
        count=shown.count,
        rows=list(shown.rows),
        out=out or None,
    )
    return EXIT_PASS


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(f"{one[0]}={one[1]}" if isinstance(one, tuple) else str(one) for one in value)
    return str(value)


def compact(where: Where, screen: Screen) -> int:
    """``corpus compact``: the exit code."""
    from dethrone.harness.pipeline import upkeep
    from dethrone.harness.pipeline.corpus import open_corpus

    corpus = open_corpus(where.url)
    done = upkeep.compact(corpus, now_ns=time.time_ns())
    for name, before in done.before.items():
        screen.say(f"{name:<10}{before} files, now {done.after[name]}")
    screen.say(f"leftovers {done.leftovers} removed")
    told(
        screen,
        "compact",
        corpus=corpus.place.url,
        before=done.before,
        after=done.after,
        leftovers=done.leftovers,
    )
    return EXIT_PASS


def verify(where: Where, screen: Screen) -> int:
    """``corpus verify``: the exit code."""
    from dethrone.harness.pipeline import upkeep
    from dethrone.harness.pipeline.corpus import open_corpus

    corpus = open_corpus(where.url)
    done = upkeep.verify(corpus, progress=Meter(screen, "runs"))
    for one in done.damage:
        screen.say(Text.assemble((f"{one.kind:<10}", "bold yellow"), f"{one.path}  {one.what}"), level=-1)
    screen.say(f"{done.runs} runs, {done.events:,} events, {len(done.damage)} damaged", level=-1)
    code = EXIT_TROUBLE if done.damage else EXIT_PASS
    told(
        screen,
        "verify",
        corpus=corpus.place.url,
        trouble=[f"{one.path}: {one.kind}: {one.what}" for one in done.damage],
        code=code,
        runs=done.runs,
        events=done.events,
    )
    return code


def prune(where: Where, screen: Screen, *, keep_days: int) -> int:
    """``corpus prune``: the exit code."""
    from dethrone.harness.pipeline import upkeep
    from dethrone.harness.pipeline.corpus import open_corpus

    corpus = open_corpus(where.url)
    done = upkeep.prune(corpus, keep_days=keep_days, now_ns=time.time_ns())
    screen.say(
        f"events of {len(done.runs)} runs before {done.before} removed, {done.bytes:,} bytes; "
        "their verdicts and findings stay",
        level=-1,
    )
    if done.unjudged:
        screen.say(
            f"{len(done.unjudged)} older runs were never judged and stay: dethrone corpus check --corpus {where.url}",
            level=-1,
        )
    told(
        screen,
        "prune",
        corpus=corpus.place.url,
        before=done.before,
        runs=list(done.runs),
        unjudged=list(done.unjudged),
        bytes=done.bytes,
    )
    return EXIT_PASS
