"""A margin in words: the answer in a sentence, a plot of its doses in plain text, and a row of a table in Markdown.

Guarantees: pure; every figure comes from the rows; a search that is not over never shows an answer. Out of scope: HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.margin.dose_search import Trials, certain_ends, decided, summed
from dethrone.harness.engine.margin.doses import kind_of
from dethrone.harness.engine.margin.margin import Margin

BEGIN, END = "<!-- margins: begin -->", "<!-- margins: end -->"
BAR = 20
HEADERS = ("system", "on", "dose", "breaks", "holds at", "breaks at", "trials (spoiled)", "load", "measured")


def answer_words(margin: Margin) -> str:
    """The answer in a sentence."""
    question, kind = margin.question, kind_of(margin.question.fault)
    if margin.answer is None:
        return f"no answer yet: {margin.why or 'the search was not finished'}"
    answer, sure = margin.answer, f"confidence {question.search.confidence_percent} %"
    if answer.why:
        ends = [f"{kind.show(dose)} ({word})" for dose, word in ((answer.lo, "holds"), (answer.hi, "breaks")) if dose]
        said = f"stopped; certain is {', '.join(ends) or 'no dose'}"
    elif answer.lo is not None and answer.hi is not None:
        said = f"between {kind.show(answer.lo)} (holds) and {kind.show(answer.hi)} (breaks), {sure}"
    elif answer.lo is not None:
        said = f"not up to {kind.show(answer.lo)}, {sure}"
    elif answer.hi is not None:
        said = f"at {kind.show(answer.hi)} already, {sure}"
    else:
        said = "no dose is certain"
    doubt = f"; undecided at {', '.join(map(kind.show, answer.undecided))}" if answer.undecided else ""
    why = f" ({answer.why})" if answer.why else ""
    return f"{question.breaks} by {question.fault} of {question.victims}: {said}{doubt}{why}"


def plot(margin: Margin) -> list[str]:
    """A line a dose: how often it broke the property, as a bar, and what that shows."""
    kind, tried = kind_of(margin.question.fault), summed(row.trials for row in margin.rows)
    names = {dose: kind.show(dose) for dose in tried}
    wide = max(map(len, names.values()), default=0)
    return [f"{names[dose]:>{wide}}  {_bar(one)}  {_counts(one, margin)}" for dose, one in tried.items()]


def table_row(margin: Margin) -> tuple[str, ...]:
    """The row of this margin."""
    question, rows = margin.question, margin.rows
    kind, options = kind_of(question.fault), question.options
    lo, hi = certain_ends((row.trials for row in rows), question.search)
    counted, spoiled = sum(row.broke + row.held for row in rows), sum(row.spoiled for row in rows)
    loads, days = [row.load for row in rows], sorted({row.day for row in rows if row.day})
    simulated = options.get("on") == "sim"
    return (
        options.get("system", "?"),
        options.get("on", "?"),
        f"{question.fault} of {question.victims}",
        question.breaks,
        _end(lo, f"nowhere from {kind.show(question.search.least)} on", margin),
        _end(hi, f"not up to {kind.show(question.search.most)}", margin),
        f"{counted} ({spoiled})",
        "virtual time" if simulated or not loads else f"{min(loads):.3g} to {max(loads):.3g}",
        days[-1] if days else "",
    )


def markdown(margins: Iterable[Margin]) -> str:
    """The table of these margins, in order of system, backend and dose."""
    rows = sorted(table_row(margin) for margin in margins)
    lines = [HEADERS, tuple("---" for _ in HEADERS), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def put_into(page: str, table: str, *, where: str) -> str:
    """The page with the table between its marks. Raises ConfigError for a page without them."""
    before, found, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ConfigError("the page has no place for the table", where=where, next_step=f"add {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def margin_object(margin: Margin) -> dict[str, Any]:
    """The same as a value of JSON."""
    tried: Mapping[int, Trials] = summed(row.trials for row in margin.rows)
    return {
        "question": msgspec.to_builtins(margin.question),
        "answer": None if margin.answer is None else msgspec.to_builtins(margin.answer),
        "why": margin.why,
        "says": answer_words(margin),
        "doses": [
            {**msgspec.structs.asdict(one), "decided": decided(one, margin.question.search)} for one in tried.values()
        ],
        "spoiled_by": _spoiled(margin),
    }


def spoiled_words(margin: Margin) -> Sequence[str]:
    """What spoiled trials, most often first."""
    return [f"{count} × {why}" for why, count in sorted(_spoiled(margin).items(), key=lambda one: (-one[1], one[0]))]


def _spoiled(margin: Margin) -> dict[str, int]:
    out: dict[str, int] = {}
    for row in margin.rows:
        for why, count in row.why.items():
            out[why] = out.get(why, 0) + count
    return out


def _end(dose: int | None, none: str, margin: Margin) -> str:
    """One end of the answer; of a search that has none, or was stopped, what is certain so far."""
    shown = None if dose is None else kind_of(margin.question.fault).show(dose)
    if margin.answer is None:
        state = "not finished"
    elif not margin.answer.why:
        return shown or none
    elif margin.answer.undecided:
        state = "undecided in between"
    else:
        state = "stopped: spoiled" if _spoiled(margin) else "stopped"
    return f"{shown} ({state})" if shown else state


def _bar(one: Trials) -> str:
    counted = one.broke + one.held
    full = round(BAR * one.broke / counted) if counted else 0
    return "█" * full + ("░" if counted else " ") * (BAR - full)


def _counts(one: Trials, margin: Margin) -> str:
    spoiled = f", {one.spoiled} spoiled" if one.spoiled else ""
    return f"broke {one.broke} of {one.broke + one.held}{spoiled}: {decided(one, margin.question.search)}"
