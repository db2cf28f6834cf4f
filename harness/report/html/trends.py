"""A comparison of nights as ONE offline HTML page: tables and Kaplan–Meier curves, and no script.

Guarantees: deterministic from the answer; no network address in it, and a policy that forbids all; every text escaped;
next to every row of numbers the command that lists the runs behind them. Writing the file is out of scope.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dethrone.harness.core.clean import in_html as escape
from dethrone.harness.core.clock import MS
from dethrone.harness.report.html.pages import code, document, table

if TYPE_CHECKING:
    from dethrone.harness.pipeline.survival import Curve, Interval

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 420, 150, 36, 18, 10, 22
CURVES_MAX = 60
"""Most cells drawn: those with the smallest p first. The page says how many were omitted."""
_CSS = """
body { max-width: 1500px; margin: auto; padding: 1em; }
table { border-collapse: collapse; margin: .5em 0 1.5em; } td, th { padding: .2em .7em; text-align: left; }
td:nth-child(-n+2) { white-space: nowrap; }
tr.red td:first-child { color: var(--proof); font-weight: bold; } code { font-size: 85%; user-select: all; }
figure { display: inline-block; margin: .5em; max-width: 440px; vertical-align: top; }
svg text { font-size: 10px; fill: currentColor; }
.now { stroke: var(--proof); } .before { stroke: var(--clock); stroke-dasharray: 5 3; }
path { fill: none; stroke-width: 1.6; } .band { stroke: none; fill: var(--muted); opacity: .15; }
"""


def render(answer: Any) -> str:
    """The whole page. ``answer``: dethrone.harness.commands.trends.Answer."""
    compared = answer.compared
    title = f"{compared.asked} against {compared.other or 'nothing'}"
    verdict = (
        "red"
        if answer.sorted.red
        else "unknown"
        if answer.why_unknown
        else f"nothing is worse in {compared.tested} cells"
    )
    head = (
        f"<h1>{escape(title)}</h1><p><b>{escape(verdict)}</b>: {len(answer.sorted.red)} red, "
        f"{len(answer.sorted.known)} known; {compared.tested} cells compared. "
        f"A row's command lists the runs behind its numbers. All of it: <code>{escape(answer.command)}</code></p>"
    )
    parts = [
        head,
        "".join(f"<p>unknown: {escape(why)}</p>" for why in answer.why_unknown),
        _regressions(answer),
        _times(answer),
        _curves(answer),
        _rates(answer),
        _versions(answer),
        _flakes(answer),
        _found(answer),
        _coverage(answer),
    ]
    return document(title, "".join(parts), style=_CSS)


def _regressions(answer: Any) -> str:
    rows = [
        (
            one.kind,
            one.cell,
            one.night,
            one.size,
            "; ".join(one.changed) or "nothing known",
            _proof(one),
            answer.trace(one.cell),
        )
        for one in answer.sorted.red
    ]
    rows += [
        (f"known: {one.kind}", one.cell, one.night, one.size, why, _proof(one), answer.trace(one.cell))
        for one, why in answer.sorted.known
    ]
    heads = ("what", "cell", "night", "size", "what changed, or why it is known", "p", "runs")
    empty = f"Nothing is worse in the {answer.compared.tested} cells that could be compared."
    return _table("Worse", heads, rows, empty=empty, red=len(answer.sorted.red))


def _times(answer: Any) -> str:
    rows = [
        (
            one.cell,
            _interval(one.before),
            _interval(one.now),
            f"× {one.ratio:.2f}" if one.ratio else "",
            f"{one.runs} / {one.runs_before}",
            f"{one.times} / {one.times_before}",
            _p(one.p_slower) or one.why,
            answer.trace(one.cell),
        )
        for one in answer.compared.times
    ]
    heads = ("cell", "median before", "median now", "ratio", "runs now / before", "times", "p (slower)", "rows")
    return _table("Recovery times", heads, rows, empty=f"No fault hit a leader in {len(answer.side)} runs.")


def _rates(answer: Any) -> str:
    from dethrone.harness.pipeline.survival import rate_interval

    rows = []
    for one in answer.compared.rates:
        cells = []
        for hits, of in ((one.hits_before, one.of_before), (one.hits, one.of)):
            low, high = rate_interval(hits, of)
            cells.append(f"{hits} of {of} ({100 * low:.1f}–{100 * high:.1f} %)" if of else "no runs")
        rows.append((one.cell, *cells, _p(one.p), answer.trace(one.cell)))
    heads = ("cell", "before", "now", "p (more often)", "rows")
    return _table("Violations and unknowns", heads, rows, empty=_none_failed(answer))


def _versions(answer: Any) -> str:
    from dethrone.harness.pipeline.distributions import by_version

    rows = [
        (one.cell, one.version, _interval(one.median), one.runs, one.times, one.censored, answer.trace(one.cell))
        for one in by_version(answer.gathered.facts, answer.side, answer.policy)
    ]
    heads = ("cell", "version", "median", "runs", "times", "cut off", "rows (column version)")
    return _table("By version, all setups", heads, rows, empty=f"No fault hit a leader in {len(answer.side)} runs.")


def _flakes(answer: Any) -> str:
    from dethrone.harness.pipeline.nights import flakes

    rows = [
        (system, checker, " ".join(runs), answer.trace(f"{system}/any/fail/{checker}"))
        for system, checker, runs in flakes(_of_both(answer))
    ]
    heads = ("system", "checker", "runs of one plan, seed and version, of which some pass and some fail", "rows")
    return _table(
        "Flakes",
        heads,
        rows,
        empty=f"Of {_judged(answer)} judged runs no two of one plan, seed and version were judged differently.",
    )


def _found(answer: Any) -> str:
    from dethrone.harness.pipeline.nights import time_to_find

    rows = [
        (
            one.system,
            one.checker,
            one.night,
            f"run {one.runs} of {one.of}",
            f"{one.at_ns / 1e9:.1f} s" if one.at_ns is not None else "",
            one.first,
            answer.trace(f"{one.system}/any/fail/{one.checker}"),
        )
        for one in time_to_find(_of_both(answer))
    ]
    heads = ("system", "checker", "night", "first found in", "after", "run", "rows")
    return _table("Time to find", heads, rows, empty=f"Nothing was found in {_judged(answer)} judged runs.")


def _judged(answer: Any) -> int:
    """How many runs of both sides some checker judged."""
    return len({one.run for one in _of_both(answer).judged})


def _none_failed(answer: Any) -> str:
    judged, runs = _judged(answer), len(answer.side)
    if not judged:
        return f"None of {runs} runs was judged: what they would have shown is not known."
    return f"No run failed, and none was unknown, of {judged} that were judged; {runs - judged} were not."


def _of_both(answer: Any) -> Any:
    """What was said of the runs of both sides, which are all that a command lists."""
    facts = answer.gathered.facts
    return replace(facts, judged=[one for one in facts.judged if one.run in answer.side])


def _coverage(answer: Any) -> str:
    facts, side = answer.gathered.facts, answer.side
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for one in answer.gathered.covered:
        if one.run in side:
            counts[facts.runs[one.run].system, one.kind, one.phase, one.role] += 1
    rows = [(*key, count, answer.trace("/".join(("coverage", *key)))) for key, count in sorted(counts.items())]
    never = []
    for system in sorted({key[0] for key in counts}):
        kinds, phases, roles = (sorted({key[i] for key in counts if key[0] == system}) for i in (1, 2, 3))
        missing = [
            f"{kind} × {phase} × {role}"
            for kind in kinds
            for phase in phases
            for role in roles
            if (system, kind, phase, role) not in counts
        ]
        if missing:
            never.append(f"<p>{escape(system)} never met: {escape(', '.join(missing))}</p>")
    heads = ("system", "fault", "when the election was at", "victim's role", "times", "rows")
    return _table(
        "Coverage: fault × phase × role", heads, rows, empty=f"No fault was in force in {len(answer.side)} runs."
    ) + "".join(never)


def _curves(answer: Any) -> str:
    from dethrone.harness.pipeline.distributions import curves

    every = sorted(answer.compared.times, key=lambda one: (one.p_slower is None, one.p_slower or 0, one.cell))
    shown = every[:CURVES_MAX]
    figures = [
        f"<figure><figcaption>{escape(str(one.cell))}: share not there yet, ms; line: now, dashed: before<br>"
        f"<code>{escape(answer.trace(one.cell))}</code></figcaption>"
        f"{_drawn(curves(answer.gathered.facts, answer.side, one.cell))}</figure>"
        for one in shown
    ]
    left = f"<p>{len(every) - len(shown)} more cells are not drawn.</p>" if len(every) > len(shown) else ""
    return f"<h2>Curves</h2>{''.join(figures)}{left}" if figures else ""


def _drawn(both: dict[str, Curve]) -> str:
    most = max((ns for curve in both.values() for ns in curve.ns), default=0)
    if not most:
        return ""

    def x(ns: float) -> str:
        return f"{LEFT + ns / most * (WIDTH - LEFT - RIGHT):.1f}"

    def y(share: float) -> str:
        return f"{TOP + (1 - share) * (HEIGHT - BOTTOM - TOP):.1f}"

    parts = []
    for name, curve in both.items():
        if not curve.ns:
            continue
        band = [
            (ns, low, high)
            for ns, low, high in zip(curve.ns, curve.low, curve.high, strict=True)
            if _drawable(low, high)
        ]
        if name == "now" and band:
            upper = _steps([(ns, high) for ns, _, high in band], x, y)
            lower = _steps([(ns, low) for ns, low, _ in band], x, y)
            parts.append(f'<polygon class="band" points="{" ".join([*upper, *reversed(lower)])}"></polygon>')
        points = _steps([(0, 1.0), *zip(curve.ns, curve.share, strict=True)], x, y)
        parts.append(f'<path class="{name}" d="M{" L".join(points)}"></path>')
    base = HEIGHT - BOTTOM
    parts += [
        f'<text x="{x(most * part / 4)}" y="{base + 14}" text-anchor="middle">{most * part / 4 / MS:,.0f}</text>'
        for part in range(5)
    ]
    parts += [f'<text x="{LEFT - 5}" y="{y(s)}" text-anchor="end">{s:g}</text>' for s in (0, 0.5, 1)]
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">{"".join(parts)}</svg>'


def _steps(points: Sequence[tuple[int, float]], x: Any, y: Any) -> list[str]:
    """A step function's corners: it keeps its value until the next moment."""
    found: list[str] = []
    for place, (ns, share) in enumerate(points):
        if place:
            found.append(f"{x(ns)},{y(points[place - 1][1])}")
        found.append(f"{x(ns)},{y(share)}")
    return found


def _drawable(low: float, high: float) -> bool:
    return not (math.isnan(low) or math.isnan(high))


def _table(name: str, heads: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str, red: int = 0) -> str:
    """The last cell of a row is its command."""
    cells = ([*(escape(str(cell)) for cell in row[:-1]), code(str(row[-1]))] for row in rows)
    return table(name, heads, cells, empty=empty, red=red)


def _interval(one: Interval) -> str:
    if one.at is None:
        return "not reached"
    if one.low is None:
        return f"{one.at / MS:,.1f} ms" + (" (…)" if one.high is None else "")
    high = "…" if one.high is None else f"{one.high / MS:,.1f}"
    return f"{one.at / MS:,.1f} ms ({one.low / MS:,.1f}–{high})"


def _proof(one: Any) -> str:
    """What makes it certain: a violation is proved in its run, regardless of the odds."""
    return "proved" if one.kind in {"new", "standing"} else _p(one.p)


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"
