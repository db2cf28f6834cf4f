"""Small drawings of findings as SVG: a cycle of transactions, or operations as bars.

A finding holds its drawing as data: ``drawing`` of kind ``cycle`` (nodes with places, edges with words), its ``edges``
with a sentence each, and ``bars`` (operations by the places of their invocations and returns) with ``zones`` and
``stuck_at``. Bars are drawn by the order of their ends, without scale. Guarantees: no script, no address, every text
escaped; malformed data draws nothing. The data already contains the layout.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from dethrone.harness.core.clean import in_html as escape

NODE_W, NODE_H = 44, 26
BEND = 26
"""How far an edge swings out to its left, so that two that run against each other stay apart."""

WIDTH, LEFT, ROW, TOP = 860, 290, 22, 14
"""Of bars: the picture, where time begins, the height of a row, what is above the first one."""

BARS_MAX = 60
LABEL_MAX, TEXT_MAX = 42, 44
"""Characters of a bar's name and of a transaction."""

LABEL_OFF = 8
"""How far the word of an edge stands from it."""

SIDEWAYS = 0.3
"""From this slope on, the label is placed next to the edge instead of above or below it."""

_KIND = {"ww": "--ok", "wr": "--clock", "rw": "--proof", "process": "--muted", "realtime": "--muted"}
_ROLE = {"stuck": "--proof", "first": "--ok", "second": "--candidate", "between": "--other"}


def drawing(data: Mapping[str, Any]) -> str:
    """All that a finding's data has to draw, as HTML; nothing if there is nothing."""
    return "".join(part(data) for part in (_cycle_of, _edges_of, _bars_of))


def _quiet(draw: Callable[[Mapping[str, Any]], str]) -> Callable[[Mapping[str, Any]], str]:
    """Data of a plug-in that only looks like ours draws nothing."""

    @wraps(draw)
    def tried(data: Mapping[str, Any]) -> str:
        try:
            return draw(data)
        except (KeyError, TypeError, ValueError, AttributeError):
            return ""

    return tried


@_quiet
def _cycle_of(data: Mapping[str, Any]) -> str:
    shape = data.get("drawing")
    return _cycle(shape) if isinstance(shape, Mapping) and shape.get("kind") == "cycle" else ""


@_quiet
def _edges_of(data: Mapping[str, Any]) -> str:
    edges = "".join(f"<li>{escape(str(edge['why']))}</li>" for edge in data.get("edges") or ())
    return f"<ol>{edges}</ol>" if edges else ""


@_quiet
def _bars_of(data: Mapping[str, Any]) -> str:
    bars = data.get("bars")
    if not isinstance(bars, list | tuple) or not bars:
        return ""
    shown, zones, stuck_at = bars[:BARS_MAX], data.get("zones") or (), data.get("stuck_at")
    svg = _bars(shown, zones, stuck_at)
    return f'<figure>{svg}<figcaption class="hint">{escape(_legend(shown, zones, stuck_at))}</figcaption></figure>'


def _legend(bars: Sequence[Mapping[str, Any]], zones: Sequence[Any], stuck_at: Any) -> str:
    """What the signs of this picture mean."""
    roles = {bar["role"] for bar in bars}
    words = ["each bar an operation from its call to its return; to the right later, without scale"]
    if any(bar["status"] != "ok" for bar in bars):
        words.append("dashed: failed, or of unknown outcome")
    if "stuck" in roles:
        words.append("in the colour of findings: what has no place in any order")
    if {"first", "second"} <= roles:
        words.append("two colours: the operations of the one value and of the other")
    if zones:
        words.append("shaded: where each value must have been held")
    if isinstance(stuck_at, int):
        words.append("the dashed line: no order gets past it")
    return "; ".join(words) + "."


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
    anchor = "start" if nx > SIDEWAYS else "end" if nx < -SIDEWAYS else "middle"
    dash = ' stroke-dasharray="5 4"' if edge["text"] in ("process", "realtime") else ""
    return (
        f'<path d="M{ax:.1f} {ay:.1f} Q{mx:.1f} {my:.1f} {bx:.1f} {by:.1f}" fill="none"{dash}'
        f' style="stroke:{color};stroke-width:2"/>{_head(mx, my, bx, by, color)}'
        f'<text x="{(ax + bx) / 4 + mx / 2 + LABEL_OFF * nx:.1f}" y="{(ay + by) / 4 + my / 2 + 14 * ny + 4:.1f}"'
        f' text-anchor="{anchor}" style="fill:{color}">{escape(str(edge["text"]))}</text>'
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
    calls = {int(bar["call"]) for bar in bars}
    ends = {int(bar["ret"]) for bar in bars if bar["ret"] is not None}
    low, high = min(calls), max([*calls, *ends]) + 1
    # only the order counts: what lies between two of these moments is about other operations
    moments = sorted({*calls, *ends, high})
    step = (WIDTH - LEFT - 20) / max(1, len(moments) - 1)

    def across(place: int) -> float:
        place = min(max(place, low), high)
        at = bisect_left(moments, place)
        return LEFT + (at if moments[at] == place else at - 0.5) * step

    height = TOP + ROW * len(bars) + 12
    parts = [_zone(zone, across, height) for zone in zones]
    for row, bar in enumerate(bars):
        top = TOP + ROW * row
        begin = across(int(bar["call"]))
        end = across(high if bar["ret"] is None else int(bar["ret"]))
        color = f"var({_ROLE.get(str(bar['role']), '--link')})"
        dash = ' stroke-dasharray="4 3"' if bar["status"] != "ok" else ""
        label = f"{bar['process']}: {bar['label']}" if "process" in bar else str(bar["label"])
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
