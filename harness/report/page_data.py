"""History, plan and judgement as the compact data that the page draws: plain JSON values, times in µs.

Guarantees: deterministic; every list is capped, and ``caps`` says how much was omitted; what proves a finding is always
kept. Details of a long run go to side files, and the page's data is its overview. ``page_fold`` makes the rows out of
events, ``html`` draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dethrone.harness.core.verdict import Finding
from dethrone.harness.report.overview import fitting, length_s, thinned
from dethrone.harness.report.page_fold import LEADS, MARK_KINDS, ROLES, STATUSES, Drawn, PageFold, us
from dethrone.harness.report.rundir import RunFiles
from dethrone.harness.report.side_files import Details, Folder
from dethrone.harness.report.words import sentence

MARKS_MAX = 20_000
OPS_MAX = 20_000
PROOF_MAX = 400
PROOFS_MAX = 2_000
"""Proving events in the page of a long run."""

_RANK = {"elected": 0, "exited": 1, "started": 1, "step-down": 2, "campaign": 3, "vote": 4, "pre-vote": 5}
"""Elections and processes explain the run; in a storm, votes and campaigns are what there is too much of."""


def page(files: RunFiles) -> dict[str, Any]:
    """Everything that the page's script needs, in one page."""
    return drawn(files).data


def drawn(files: RunFiles, folder: Folder | None = None) -> Drawn:
    """What a page is drawn from, in one pass over the history; ``folder`` takes the details of a long run."""
    found = findings(files)
    proving: dict[int, list[tuple[str, Finding]]] = {}
    for key, finding in found:
        for seq in finding.certificate[:PROOF_MAX]:
            proving.setdefault(seq, []).append((key, finding))
    fold = PageFold(files.nodes, files.plan, Details(folder), proving)
    for event in files.history:
        fold.add(event)
    fold.finish()
    first = next((key for key, finding in found if finding.fails), None)
    data = _overview(fold, folder, first) if folder is not None and fold.details.long else _whole(fold, first)
    return Drawn(
        data=data,
        begin=fold.begin,
        end=fold.now,
        closing=fold.closing,
        count=fold.count,
        faults=list(fold.faults.values()),
        failovers=fold.failovers.rows(fold.marks, end=fold.now),
        noise=fold.noise,
        long=fold.details.long,
    )


def findings(files: RunFiles) -> list[tuple[str, Finding]]:
    """All findings with the id of each on the page, those that count before those that are excused."""
    verdicts = files.judgement.verdicts if files.judgement else ()
    out = [(f"{v.checker}-{index}", finding) for v in verdicts for index, finding in enumerate(v.findings)]
    return sorted(out, key=lambda item: item[1].excused is not None)


def _whole(fold: PageFold, first: str | None) -> dict[str, Any]:
    """A short run: a lane has roles (``[lo, hi, role class, term, incarnation, role word]``) and troubles (``[lo, hi,
    kind, text, sure]``)."""
    caps: list[dict[str, Any]] = []
    proofs = fold.proofs()
    lanes: list[dict[str, Any]] = [{"node": node, "roles": [], "troubles": []} for node in fold.nodes]
    for (*_, lasted), (lane, lo, hi, role, *rest) in fold.details.items("roles"):
        known = fold.decided(role, rest[-1])
        if lasted or known == LEADS:
            lanes[lane]["roles"].append([lo, hi, known, *rest])
    for _, (lane, *trouble) in fold.details.items("troubles"):
        lanes[lane]["troubles"].append(trouble)
    _late(fold, caps)
    return {
        **_named(fold),
        "lanes": lanes,
        "marks": _marks(fold, proofs, caps),
        "faults": list(fold.faults.values()),
        "phases": fold.phases,
        "ops": _operations([row for _, row in fold.details.items("ops")], caps),
        "rate": _per_second(fold.overview.rate, length_s(fold.now)),
        "noise": _noise(fold, caps),
        "proofs": proofs,
        "first": first,
        "caps": caps,
    }


def _overview(fold: PageFold, folder: Folder, first: str | None) -> dict[str, Any]:
    """A long run. What a lane's roles are made of is in ``overview``; faults are merged; of the marks, there are
    elections and proofs; ``details`` says which side file covers what, and what the end of the run decided."""
    caps: list[dict[str, Any]] = []
    view, end = fold.overview, fold.now
    proofs = _bounded(fold.proofs(), caps)
    troubles = view.troubles(len(fold.nodes), end)
    minute, elections, marks, total = view.elections(end, fold.marks.counts)
    if len(marks) < total:
        caps.append({"what": "elections of the whole run (all in its details)", "shown": len(marks), "total": total})
    _late(fold, caps)
    return {
        **_named(fold),
        "lanes": [{"node": node, "roles": [], "troubles": troubles[lane]} for lane, node in enumerate(fold.nodes)],
        "marks": _with_proofs([mark[:-1] for mark in marks], proofs),
        "faults": [],
        "phases": fold.phases,
        "ops": [],
        "rate": view.rates(end),
        "noise": _noise(fold, caps),
        "proofs": proofs,
        "first": first,
        "caps": caps,
        "overview": {
            "width": view.width(end) * 1_000_000,
            "roles": [view.roles(lane, end, LEADS, fold.decided) for lane in range(len(fold.nodes))],
            "faults": _merged_faults(fold),
            "minute": minute * 1_000_000,
            "elections": elections,
        },
        "details": {
            "folder": folder.path.name,
            "files": folder.listed,
            "leading": sorted(fold.leading()),
            "dropped": sorted(source for source in fold.sources if not fold.marks.counts(source)),
        },
    }


def _named(fold: PageFold) -> dict[str, Any]:
    return {
        "v": 1,
        "end": us(fold.now),
        "nodes": list(fold.nodes),
        "roles": ROLES,
        "kinds": MARK_KINDS,
        "statuses": STATUSES,
    }


def _marks(fold: PageFold, proofs: Sequence[dict[str, Any]], caps: list[dict[str, Any]]) -> list[Any]:
    """``[t, lane, kind, term, seq, text, lane of the other or -1]`` by moment."""
    found = [(key, mark) for key, (*mark, source) in fold.details.items("marks") if fold.marks.counts(source)]
    if len(found) > MARKS_MAX:
        caps.append({"what": "votes, elections and process events", "shown": MARKS_MAX, "total": len(found)})
        proving = {proof["seq"] for proof in proofs}
        found.sort(key=lambda item: (item[0][1] not in proving, _RANK[MARK_KINDS[item[1][2]]], item[0]))
    return _with_proofs([mark for _, mark in found[:MARKS_MAX]], proofs)


def _with_proofs(marks: list[Any], proofs: Sequence[dict[str, Any]]) -> list[Any]:
    known = {mark[4] for mark in marks}
    marks = marks + [
        [proof["t"], proof["lane"], MARK_KINDS.index("proof"), 0, proof["seq"], proof["text"], -1]
        for proof in proofs
        if proof["seq"] not in known and proof["lane"] >= 0
    ]
    return sorted(marks, key=lambda mark: (mark[0], mark[4]))


def _operations(out: list[Any], caps: list[dict[str, Any]]) -> list[Any]:
    """``[asked, answered, status, client, f]`` by asking; ok ones are thinned out first where there are too many."""
    if len(out) <= OPS_MAX:
        return out
    shown = thinned([op for op in out if op[2]], OPS_MAX // 2)
    shown = shown + thinned([op for op in out if not op[2]], OPS_MAX - len(shown))
    caps.append({"what": "client operations (rates and figures count all)", "shown": len(shown), "total": len(out)})
    return sorted(shown)


def _per_second(rate: Sequence[list[int]], seconds: int) -> list[list[int]]:
    """Per second of the run: how many operations ended ok, fail, info."""
    return [row[:3] for row in rate[:seconds]] + [[0, 0, 0] for _ in range(seconds - len(rate))]


def _noise(fold: PageFold, caps: list[dict[str, Any]]) -> list[list[Any]]:
    """``[lo, hi, lane or -1, text]`` of the machine's disturbances, the longest where there are too many."""
    found, total = fold.noise.longest(), fold.noise.disturbances
    if len(found) < total:
        caps.append({"what": "disturbances by the machine", "shown": len(found), "total": total})
    return sorted([us(e.span.lo), us(e.span.hi), fold.lane.get(e.host, -1), sentence(e)] for e in found)


def _bounded(proofs: list[dict[str, Any]], caps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that count, before those that are excused."""
    if len(proofs) <= PROOFS_MAX:
        return proofs
    caps.append({"what": "events that prove findings", "shown": PROOFS_MAX, "total": len(proofs)})
    kept = sorted(proofs, key=lambda row: row["excused"])[:PROOFS_MAX]
    return sorted(kept, key=lambda row: (row["t"], row["seq"]))


def _late(fold: PageFold, caps: list[dict[str, Any]]) -> None:
    if fold.roles.late:
        caps.append({"what": "reports of roles that came too late", "shown": 0, "total": fold.roles.late})


def _merged_faults(fold: PageFold) -> list[list[Any]]:
    """``[kind, colour, lo, hi, how many]``: faults of one kind that are near each other are one."""
    spans: dict[tuple[str, str], list[list[Any]]] = {}
    for row in fold.faults.values():
        lo, force, _, healed = row["span"]
        hi = force if row["outcome"] == "skipped" else us(fold.now) if healed is None else healed
        spans.setdefault((row["kind"], row["color"]), []).append([lo, hi, 1, True])
    merged = fitting(spans, fold.overview.width(fold.now) * 1_000_000)
    return [[*key, lo, hi, count] for key, some in merged.items() for lo, hi, count, _ in some]
