"""Small drawings of findings as SVG: a cycle of transactions, or operations as bars.

A finding says in its data what there is to draw: ``drawing`` of kind ``cycle`` (nodes with places, edges with words),
or ``bars`` (operations by the places of their invocations and returns) with ``zones`` and ``stuck_at``. Promises: no
script, no address, every text escaped; what does not look like a drawing draws nothing. Leaves out layout: that came
with the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

NODE_W, NODE_H = 44, 26
BEND = 26
"""How far an edge swings out to its left, so that two that run against each other stay apart."""

WIDTH, LEFT, ROW, TOP = 760, 190, 22, 14
"""Of bars: the picture, where time begins, the height of a row, what is above the first one."""

BARS_MAX = 60
LABEL_MAX, TEXT_MAX = 26, 44
"""Characters of a bar's name and of a transaction."""

LABEL_OFF = 20
"""How far the word of an edge stands from it."""

_KIND = {"ww": "--ok", "wr": "--clock", "rw": "--proof", "process": "--muted", "realtime": "--muted"}
_ROLE = {"stuck": "--proof", "first": "--ok", "second": "--candidate", "between": "--other"}


def drawing(data: Mapping[str, Any]) -> str:
    """The SVG of a finding's data; nothing if there is nothing to draw."""
    try:
        shape = data.get("drawing")
        if isinstance(shape, Mapping) and shape.get("kind") == "cycle":
            return _cycle(shape)
        bars = data.get("bars")
        if isinstance(bars, list | tuple) and bars:
            return _bars(bars[:BARS_MAX], data.get("zones") or (), data.get("stuck_at"))
    except (KeyError, TypeError, ValueError):  # data of a plug-in that only looks like ours
        return ""
    return ""


# --- cycles -----------------------------------------------------------------------------------------------------


def _cycle(shape: Mapping[str, Any]) -> str:
    width, height = int(shape["width"]), int(shape["height"])
    places = {str(node["id"]): (float(node["x"]), float(node["y"])) for node in shape["nodes"]}
    edges = "".join(_edge(edge, places) for edge in shape["edges"])
    nodes = "".join(
        f"<g><title>{escape(str(node['text']))}</title>"
        f'<rect x="{node["x"] - NODE_W / 2:.0f}" y="{node["y"] - NODE_H / 2:.0f}" width="{NODE_W}" height="{NODE_H}"'
        ' rx="6" style="fill:var(--panel);stroke:var(--text)"/>'
        f'<text x="{node["x"]:.0f}" y="{node["y"] + 5:.0f}" text-anchor="middle">{escape(str(node["id"]))}</text>'
        f'<text x="{node["x"]:.0f}" y="{node["y"] + (-20 if node["y"] < height / 2 else 28):.0f}"'
        f' text-anchor="middle" style="fill:var(--muted)">{escape(_cut(str(node["text"]), TEXT_MAX))}</text></g>'
        for node in shape["nodes"]
    )
    return _svg(width, height, "a cycle of transactions", edges + nodes)


def _edge(edge: Mapping[str, Any], places: Mapping[str, tuple[float, float]]) -> str:
    (ax, ay), (bx, by) = places[str(edge["from"])], places[str(edge["to"])]
    length = math.hypot(bx - ax, by - ay) or 1.0
    nx, ny = (by - ay) / length, -(bx - ax) / length
    mx, my = (ax + bx) / 2 + BEND * nx, (ay + by) / 2 + BEND * ny
    ax, ay = _border(ax, ay, mx, my)
    bx, by = _border(bx, by, mx, my)
    color = f"var({_KIND.get(str(edge['text']), '--text')})"
    dash = ' stroke-dasharray="5 4"' if edge["text"] in ("process", "realtime") else ""
    return (
        f'<path d="M{ax:.1f} {ay:.1f} Q{mx:.1f} {my:.1f} {bx:.1f} {by:.1f}" fill="none"{dash}'
        f' style="stroke:{color};stroke-width:2"/>{_head(mx, my, bx, by, color)}'
        f'<text x="{(ax + bx) / 4 + mx / 2 + LABEL_OFF * nx:.1f}" y="{(ay + by) / 4 + my / 2 + 14 * ny + 4:.1f}"'
        f' text-anchor="middle" style="fill:{color}">{escape(str(edge["text"]))}</text>'
    )


def _border(x: float, y: float, towards_x: float, towards_y: float) -> tuple[float, float]:
    """Where the line from the middle of a node leaves it."""
    dx, dy = towards_x - x, towards_y - y
    scale = min(
        (NODE_W / 2 + 3) / abs(dx) if dx else math.inf,
        (NODE_H / 2 + 3) / abs(dy) if dy else math.inf,
    )
    return (x, y) if math.isinf(scale) else (x + dx * scale, y + dy * scale)


def _head(from_x: float, from_y: float, x: float, y: float, color: str) -> str:
    angle = math.atan2(y - from_y, x - from_x)
    corners = " ".join(
        f"{x - 9 * math.cos(angle + turn):.1f},{y - 9 * math.sin(angle + turn):.1f}" for turn in (-0.4, 0.4)
    )
    return f'<polygon points="{x:.1f},{y:.1f} {corners}" style="fill:{color}"/>'


# --- bars -------------------------------------------------------------------------------------------------------


def _bars(bars: Sequence[Mapping[str, Any]], zones: Sequence[Mapping[str, Any]], stuck_at: Any) -> str:
    calls = [int(bar["call"]) for bar in bars]
    ends = [int(bar["ret"]) for bar in bars if bar["ret"] is not None]
    low, high = min(calls), max([*calls, *ends]) + 1
    scale = (WIDTH - LEFT - 20) / max(1, high - low)

    def across(place: int) -> float:
        return LEFT + (min(max(place, low), high) - low) * scale

    height = TOP + ROW * len(bars) + 12
    parts = [_zone(zone, across, height) for zone in zones]
    for row, bar in enumerate(bars):
        top = TOP + ROW * row
        begin = across(int(bar["call"]))
        end = across(high if bar["ret"] is None else int(bar["ret"]))
        color = f"var({_ROLE.get(str(bar['role']), '--follower')})"
        dash = ' stroke-dasharray="4 3"' if bar["status"] != "ok" else ""
        label = str(bar["label"])
        short = _cut(label, LABEL_MAX)
        parts.append(
            f"<g><title>{escape(label)} · {escape(str(bar['status']))}</title>"
            f'<text x="{LEFT - 10}" y="{top + 14}" text-anchor="end">{escape(short)}</text>'
            f'<rect x="{begin:.1f}" y="{top + 3}" width="{max(3.0, end - begin):.1f}" height="{ROW - 8}" rx="3"{dash}'
            f' style="fill:{color};fill-opacity:.55;stroke:{color}"/></g>'
        )
    if isinstance(stuck_at, int):
        at = across(stuck_at)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="4" y2="{height - 4}" stroke-dasharray="6 3"'
            ' style="stroke:var(--proof);stroke-width:2"><title>no order gets past this point</title></line>'
        )
    return _svg(WIDTH, height, "operations in time", "".join(parts))


def _zone(zone: Mapping[str, Any], across: Any, height: int) -> str:
    begin, end = across(int(zone["lo"])), across(int(zone["hi"]))
    what = "holds all of this time" if zone["forward"] else "holds at some moment of this"
    return (
        f'<rect x="{min(begin, end):.1f}" y="2" width="{max(2.0, abs(end - begin)):.1f}" height="{height - 4}"'
        f' style="fill:var(--link);fill-opacity:.12"><title>{escape(str(zone["label"]))} {what}</title></rect>'
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _svg(width: int, height: int, what: str, body: str) -> str:
    return (
        f'<svg class="drawing" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        f' aria-label="{what}" style="max-width:100%;font-size:12px;fill:currentColor">{body}</svg>'
    )
