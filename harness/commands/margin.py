"""One margin with what it shows: runs until there is an answer; or the table of stored ones.

Guarantees: nothing is measured for a table; a page is replaced as a whole. Out of scope: the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from dethrone.harness.core import store
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import read_text
from dethrone.harness.engine.margin import margin as engine
from dethrone.harness.engine.margin.doses import kind_of
from dethrone.harness.engine.margin.margin import Margin, MarginRow, Question
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED, EXIT_PASS, EXIT_UNKNOWN
from dethrone.harness.engine.run.judgement import JSON_SCHEMA
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.report import margin as report
from dethrone.harness.report.terminal import Screen, Watcher


def measure(options: RunOptions, question: Question, out: Path, screen: Screen) -> int:
    """Search, show each run and the answer; the exit code: 0 with an answer that is certain, 2 without."""
    kind = kind_of(question.fault)

    def on_row(row: MarginRow) -> None:
        spoiled = f", {row.spoiled} spoiled" if row.spoiled else ""
        screen.say(f"{kind.show(row.dose)}: broke {row.broke}, held {row.held}{spoiled} (load {row.load:.3g})")

    wide = f"{kind.show(question.search.least)} to {kind.show(question.search.most)}"
    screen.say(f"dose        {question.fault} of {question.victims}, {wide}: {kind.says}")
    screen.say(f"breaks      {question.breaks}")
    with Watcher(screen) as watcher:
        found = engine.search(options, question, out, watcher, version=version("dethrone"), on_row=on_row)
    show(found, screen)
    if found.why == engine.INTERRUPTED:
        return EXIT_INTERRUPTED
    certain = found.answer is not None and (found.answer.lo is not None or found.answer.hi is not None)
    return EXIT_PASS if certain else EXIT_UNKNOWN


def show(found: Margin, screen: Screen) -> None:
    """The plot, what spoiled trials, and the answer."""
    screen.say("")
    for line in report.plot(found):
        screen.say(line, level=-1)
    for line in report.spoiled_words(found):
        screen.say(f"spoiled: {line}")
    screen.say(report.answer_words(found), level=-1)
    screen.result({"schema": JSON_SCHEMA, "command": "margin", **report.margin_object(found)})


def table(directories: Sequence[Path], into: Path | None, screen: Screen) -> int:
    """The table of the margins stored in and below these directories, on the screen or between the marks of a page."""
    places = sorted({path.parent for one in directories for path in one.rglob(engine.ASKED)})
    if not places:
        raise ConfigError(
            "no margin is stored there",
            where=", ".join(map(str, directories)),
            next_step="dethrone margin SYSTEM --fault pause --breaks leader-lost --out DIR",
        )
    margins = [engine.read_margin(place) for place in places]
    text = report.markdown(margins)
    if into is None:
        screen.say(text, level=-1)
    else:
        page = report.put_into(read_text(into), text, where=str(into))
        store.write_atomic(into, page.encode())
    objects = [report.margin_object(one) for one in margins]
    screen.result({"schema": JSON_SCHEMA, "command": "margin", "margins": objects})
    return EXIT_PASS
