"""The failover times as dots on a line: one row a figure, hollow where a time was cut off by the next change."""

from __future__ import annotations

from collections.abc import Sequence

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.report.failover import Failover, figures, summary

_LEFT, _WIDTH, _ROW, _TOP = 90, 780, 30, 14
_DOTS_MAX = 500


def dots(rows: Sequence[Failover]) -> str:
    """An SVG element; at most ``_DOTS_MAX`` dots a row."""
    times, medians = figures(rows), summary(rows)
    seen = [time for row in times.values() for time in row if time is not None]
    most = _round_up(max(seen, default=10**9))
    parts = []
    for index, (name, values) in enumerate(times.items()):
        y = _TOP + index * _ROW
        parts.append(f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{name.replace("_", " ")}</text>')
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y}" y2="{y}"></line>')
        for row, time in list(zip(rows, values, strict=True))[:_DOTS_MAX]:
            ends = min(row.until - row.t0, most) if time is None else time
            css = ' class="open"' if time is None else ""
            words = f"fault {row.fault} ({row.kind}): " + (
                f"open after {show_duration(row.until - row.t0)}" if time is None else show_duration(time)
            )
            parts.append(f'<circle{css} cx="{_x(ends, most)}" cy="{y}" r="5"><title>{words}</title></circle>')
        median = medians[name].median
        if median is not None:
            parts.append(
                f'<rect x="{_x(median, most) - 1}" y="{y - 10}" width="2" height="20"><title>median</title></rect>'
            )
    base = _TOP + len(times) * _ROW
    for part in range(5):
        time = most * part // 4
        parts.append(
            f'<text x="{_x(time, most)}" y="{base}" text-anchor="middle">{show_duration(time) if part else "0"}</text>'
        )
    height = base + 10
    box = f"0 0 {_LEFT + _WIDTH + 40} {height}"
    return f'<svg class="dots" viewBox="{box}" role="img" aria-label="failover times">{"".join(parts)}</svg>'


def _x(time: Ns, most: Ns) -> int:
    return _LEFT + time * _WIDTH // most


def _round_up(time: Ns) -> Ns:
    unit: int = 10 ** (len(str(time)) - 1)
    return next(m * unit // 2 for m in (2, 3, 4, 6, 8, 10, 12, 16, 20) if m * unit // 2 >= time)
