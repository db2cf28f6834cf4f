"""A finding's operations as bars in plain text, and the edges of a cycle: what the page draws, for terminals and CI.

    0: write 1        ├───┤
    1: read → 2           ├─╳─┤
    2: write 2            ├┄┄┄┄┄┄▷
                            ▲ no valid order extends past this point

Guarantees: pure; only the order of calls and returns is drawn, not how far they are apart, so that every bar has its
end; data of a plug-in that only looks like ours draws nothing. Out of scope: colour, and layout of graphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LABEL_MAX = 44
ROWS_MAX = 16
STEP = 4
"""Columns between two moments; fewer where there are many."""
WIDTH_MAX = 72


def lines(data: Mapping[str, Any]) -> list[str]:
    """Lines of text; none if the data holds nothing to draw."""
    try:
        return [*_edges(data.get("edges") or ()), *_bars(data.get("bars") or (), data.get("stuck_at"))]
    except (KeyError, TypeError, ValueError, AttributeError):
        return []


def _edges(edges: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{edge['from']} ─{edge['kind']}→ {edge['to']}  {edge['why']}" for edge in edges[:ROWS_MAX]]


def _bars(bars: Sequence[Mapping[str, Any]], stuck_at: Any) -> list[str]:
    shown = bars[-ROWS_MAX:]
    moments = {int(bar["call"]) for bar in shown} | {int(bar["ret"]) for bar in shown if bar["ret"] is not None}
    if isinstance(stuck_at, int):
        moments.add(stuck_at)
    step = max(1, min(STEP, WIDTH_MAX // max(1, len(moments))))
    column = {moment: step * at for at, moment in enumerate(sorted(moments))}
    end = step * len(moments)
    names = [_name(bar) for bar in shown]
    wide = max(map(len, names), default=0)
    out = [f"{name:<{wide}}  {_bar(bar, column, end)}" for name, bar in zip(names, shown, strict=True)]
    if isinstance(stuck_at, int):
        out.append(" " * (wide + 2 + column[stuck_at]) + "▲ no valid order extends past this point")
    if len(bars) > len(shown):
        out.append(f"({len(bars) - len(shown)} earlier operations are in the report)")
    return out


def _name(bar: Mapping[str, Any]) -> str:
    name = f"{bar['process']}: {bar['label']}" if "process" in bar else str(bar["label"])
    name = " ".join(name.split())
    return name if len(name) <= LABEL_MAX else name[: LABEL_MAX - 1] + "…"


def _bar(bar: Mapping[str, Any], column: Mapping[int, int], end: int) -> str:
    begin = column[int(bar["call"])]
    stop = end if bar["ret"] is None else column[int(bar["ret"])]
    fill = "─" if bar["status"] == "ok" else "┄"
    body = list(fill * max(0, stop - begin - 1))
    if bar["role"] == "stuck" and body:
        body[len(body) // 2] = "╳"
    return " " * begin + "├" + "".join(body) + ("▷" if bar["ret"] is None else "┤")
