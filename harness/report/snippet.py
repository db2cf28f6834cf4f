"""A small space-time picture in plain text: a column per node, a row per event, around the events that prove a finding.

Guarantees: pure; at most ``rows_max`` rows, and a note says how many were omitted; the proving events are all shown
unless they alone exceed that limit. Colour is out of scope.
"""

from __future__ import annotations

from collections.abc import Sequence

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.events import FaultEvent, NodeProcess, Traced
from dethrone.harness.core.history import History
from dethrone.harness.report.marks import NodeMark, mark_of, node_marks
from dethrone.harness.report.proof_values import lacking
from dethrone.harness.report.words import at, moment, node_of, sentence

_PAD_NS = 400 * MS
_CELL = {"pre-vote": "p", "campaign": "C", "vote": "v", "elected": "★", "step-down": "↓", "started": "▲", "exited": "✕"}
_LIFE, _GONE = "│", " "
LEGEND = (
    "★ elected  v votes for  C stands for election  p asks for pre-votes  ↓ steps down  "
    "▲ starts  ✕ exits  ● reports its role  ◀ proof"
)


def picture(history: History, nodes: Sequence[str], certificate: Sequence[int], *, rows_max: int = 14) -> list[str]:
    """Lines of text; empty if the certificate names no event of this history."""
    proof = [seq for seq in certificate if 0 <= seq < len(history)]
    if not proof:
        return []
    marks = {mark.seq: mark for mark in node_marks(history)}
    rows = _rows(history, proof, marks, rows_max)
    width = max(7, *(len(node) + 2 for node in nodes))
    lines = [" " * 12 + "".join(f"{node:<{width}}" for node in nodes)]
    alive = _alive_before(history, nodes, rows[0]) if rows else {}
    previous: Ns | None = None
    for seq in rows:
        event = history.at(seq)
        t = moment(event)
        if previous is not None and t - previous > 10**9:
            lines.append(
                f"{'⋮':>11} " + "".join(f"{'⋮' if alive.get(node, True) else _GONE:<{width}}" for node in nodes)
            )
        previous = t
        cells = {node: (_LIFE if alive.get(node, True) else _GONE) for node in nodes}
        mark = marks.get(seq) or (mark_of(event) if isinstance(event, Traced) else None)
        _place(event, mark, cells, alive)
        row = "".join(f"{cells[node]:<{width}}" for node in nodes)
        lines.append(f"{at(t):>11} {row}{sentence(event, history)}{'  ◀' if seq in proof else ''}")
    left_out = len(_candidates(history, proof, marks)) - len(rows)
    if left_out > 0:
        lines.append(f"{'':12}({left_out} other events of this period are in the report)")
    return lines


def _place(event: object, mark: NodeMark | None, cells: dict[str, str], alive: dict[str, bool]) -> None:
    node = node_of(event)
    if isinstance(event, FaultEvent):
        for victim in event.victims:
            if victim in cells:
                cells[victim] = "▒" if event.phase == "begin" else "░"
        return
    if node is None or node not in cells:
        return
    if mark is not None:
        suffix = {"vote": f"→{mark.other}", "elected": f" {mark.term}", "campaign": f" {mark.term}"}.get(mark.kind, "")
        cells[node] = _CELL[mark.kind] + suffix
    else:
        cells[node] = "●"
    if isinstance(event, NodeProcess) and event.phase != "ready":
        alive[node] = event.phase == "started"


def _candidates(history: History, proof: Sequence[int], marks: dict[int, NodeMark]) -> list[int]:
    """Proof plus what happened around it: within a short distance of some proving event."""
    windows = [(moment(history.at(seq)) - _PAD_NS, moment(history.at(seq)) + _PAD_NS) for seq in proof]
    near = {mark.seq for mark in marks.values() if any(lo <= mark.t <= hi for lo, hi in windows)}
    near |= {event.seq for event in history.of(FaultEvent) if any(lo <= moment(event) <= hi for lo, hi in windows)}
    return sorted({*near, *proof}, key=lambda seq: (moment(history.at(seq)), seq))


def _rows(history: History, proof: Sequence[int], marks: dict[int, NodeMark], rows_max: int) -> list[int]:
    chosen = _candidates(history, proof, marks)
    if len(chosen) <= rows_max:
        return chosen
    times = [moment(history.at(seq)) for seq in proof]
    order = sorted(
        (seq for seq in chosen if seq not in proof),
        key=lambda seq: (min(abs(moment(history.at(seq)) - time) for time in times), seq),
    )
    kept = {*proof[:rows_max], *order[: max(0, rows_max - len(proof))]}
    return [seq for seq in chosen if seq in kept]


def _alive_before(history: History, nodes: Sequence[str], first: int) -> dict[str, bool]:
    alive = dict.fromkeys(nodes, True)
    start = moment(history.at(first))
    for event in history.of(NodeProcess):
        if event.phase != "ready" and moment(event) < start:
            alive[event.node] = event.phase == "started"
    return alive


def proving(history: History, certificate: Sequence[int], *, most: int = 8) -> list[tuple[int, str, str]]:
    """(seq, moment, sentence) of at most ``most`` proving events, in order of their moments."""
    known = sorted((seq for seq in certificate if 0 <= seq < len(history)), key=lambda s: (moment(history.at(s)), s))
    lacks = lacking(history, known)
    return [
        (seq, at(moment(history.at(seq))), sentence(history.at(seq), history, lacks=lacks.get(seq, ())))
        for seq in known[:most]
    ]
