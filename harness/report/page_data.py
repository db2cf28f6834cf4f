"""History, plan and judgement as the compact data that the page draws: plain JSON values, times in µs.

Guarantees: pure and deterministic; every list is capped, and ``caps`` says how much was omitted; what proves a finding
is always kept. ``html`` draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dethrone.harness.core.clock import US, Ns
from dethrone.harness.core.events import NOISE_FIGURES, FaultEvent, Invoke, Mark, Noise, Return
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import FaultTraits, declared
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.verdict import Finding
from dethrone.harness.report.lanes import role_spans, trouble_spans
from dethrone.harness.report.marks import NodeMark, node_marks
from dethrone.harness.report.rundir import RunFiles
from dethrone.harness.report.trigger_words import trigger_line
from dethrone.harness.report.words import at, fault_line, moment, node_of, sentence

MARKS_MAX = 20_000
OPS_MAX = 20_000
NOISE_MAX = 500
PROOF_MAX = 400
ROLES = ("follower", "candidate", "leader", "other")
MARK_KINDS = ("pre-vote", "campaign", "vote", "elected", "step-down", "started", "exited", "proof")
STATUSES = ("ok", "fail", "info", "open")


def page(files: RunFiles) -> dict[str, Any]:
    """Everything that the page's script needs."""
    history, plan = files.history, files.plan
    nodes = list(files.nodes)
    caps: list[dict[str, Any]] = []
    proofs = proof_events(files)
    return {
        "v": 1,
        "end": us(history.events[-1].t),
        "nodes": nodes,
        "roles": ROLES,
        "kinds": MARK_KINDS,
        "statuses": STATUSES,
        "lanes": lanes(history, nodes, plan),
        "marks": marks(history, nodes, proofs, caps),
        "faults": faults(history),
        "phases": phases(history),
        "ops": operations(history, caps),
        "rate": rate(history),
        "noise": noise(history, nodes, caps),
        "proofs": proofs,
        "first": next((key for key, finding in findings(files) if finding.fails), None),
        "caps": caps,
    }


def us(t: Ns) -> int:
    """Whole µs."""
    return t // US


def role_class(role: str, *, leads: bool) -> int:
    """Index into ``ROLES``."""
    word = role.lower()
    if leads:
        return 2
    if "candid" in word or word in ("prospective", "contending", "voted", "pre_candidate"):
        return 1
    return 0 if "follow" in word or word in ("slave", "learner", "observer", "unattached") else 3


def lanes(history: History, nodes: Sequence[str], plan: Plan | None) -> list[dict[str, Any]]:
    """A lane a node. Roles: ``[lo, hi, role class, term, incarnation, role word]``; troubles: ``[lo, hi, kind, text,
    sure]``."""
    poll = plan.observe_interval_ns if plan else 100_000_000
    roles = role_spans(history, nodes, poll_ns=poll)
    troubles = trouble_spans(history, nodes)
    return [
        {
            "node": node,
            "roles": [
                [us(s.lo), us(s.hi), role_class(s.role, leads=s.leads), s.term, s.incarnation, s.role]
                for s in roles[node]
            ],
            "troubles": [[us(s.lo), us(s.hi), s.kind, s.text, s.confirmed] for s in troubles.get(node, [])],
        }
        for node in nodes
    ]


def marks(
    history: History, nodes: Sequence[str], proofs: Sequence[dict[str, Any]], caps: list[dict[str, Any]]
) -> list[Any]:
    """``[t, lane, kind, term, seq, text, lane of the other or -1]`` by moment."""
    lane = {node: index for index, node in enumerate(nodes)}
    found = [mark for mark in node_marks(history) if mark.node in lane]
    proving = {proof["seq"] for proof in proofs}
    kept = _capped(found, proving, caps)
    out = [
        [
            us(m.t),
            lane[m.node],
            MARK_KINDS.index(m.kind),
            m.term,
            m.seq,
            sentence(history.at(m.seq), history),
            lane.get(m.other or "", -1),
        ]
        for m in kept
    ]
    known = {mark.seq for mark in kept}
    out += [
        [proof["t"], proof["lane"], MARK_KINDS.index("proof"), 0, proof["seq"], proof["text"], -1]
        for proof in proofs
        if proof["seq"] not in known and proof["lane"] >= 0
    ]
    return sorted(out, key=lambda mark: (mark[0], mark[4]))


def _capped(found: list[NodeMark], proving: set[int], caps: list[dict[str, Any]]) -> list[NodeMark]:
    if len(found) <= MARKS_MAX:
        return found
    # elections and processes explain the run; in a storm, votes and campaigns are what there is too much of
    rank = {"elected": 0, "exited": 1, "started": 1, "step-down": 2, "campaign": 3, "vote": 4, "pre-vote": 5}
    order = sorted(found, key=lambda mark: (mark.seq not in proving, rank[mark.kind], mark.t, mark.seq))
    caps.append({"what": "votes, elections and process events", "shown": MARKS_MAX, "total": len(found)})
    return sorted(order[:MARKS_MAX], key=lambda mark: (mark.t, mark.seq))


def faults(history: History) -> list[dict[str, Any]]:
    """The realised faults: ``[begin asked, in force, end asked, healed]`` in µs, None where it did not come to that."""
    out: dict[int, dict[str, Any]] = {}
    for event in history.of(FaultEvent):
        if event.phase == "begin":
            out[event.fault] = {
                "fault": event.fault,
                "step": event.step,
                "kind": event.kind,
                "color": _color(declared(event.kind)),
                "victims": list(event.victims),
                "name": event.evidence.get("name", ""),
                "text": fault_line(event.kind, event.victims, event.roles, event.params),
                "trigger": trigger_line(event.evidence),
                "outcome": event.outcome,
                "why": event.why,
                "span": [us(event.span.lo), us(event.span.hi), None, None],
            }
        elif event.fault in out:
            row = out[event.fault]
            row["span"][2:] = [us(event.span.lo), us(event.span.hi)]
            row["healed"] = event.outcome
            row["why"] = row["why"] or event.why
    return list(out.values())


def _color(kind: FaultTraits) -> str:
    """The name of a kind's colour: as its victims' lanes are coloured."""
    if kind.cuts:
        return "cut"
    if kind.takes_out:
        return "down" if kind.ends_process else "frozen"
    return "clock" if kind.harms == "clock" else "other"


def phases(history: History) -> list[list[Any]]:
    """``[t, name]`` of the run's phases, without steps of the schedule."""
    return [[us(event.t), event.name] for event in history.of(Mark) if event.name not in {"step", "more"}]


def operations(history: History, caps: list[dict[str, Any]]) -> list[list[Any]]:
    """``[asked, answered, status, client, f]`` by asking; ok ones are thinned out first where there are too many."""
    ends = {event.op: event for event in history.of(Return)}
    last = us(history.events[-1].t)
    out = []
    for invoke in history.of(Invoke):
        end = ends.get(invoke.op)
        status = STATUSES.index(end.status) if end else 3
        out.append([us(invoke.t), us(end.t) if end else last, status, invoke.process, invoke.f])
    if len(out) <= OPS_MAX:
        return out
    odd = [op for op in out if op[2]]
    fine = [op for op in out if not op[2]]
    shown = _thin(odd, OPS_MAX // 2)
    shown += _thin(fine, OPS_MAX - len(shown))
    caps.append({"what": "client operations (rates and figures count all)", "shown": len(shown), "total": len(out)})
    return sorted(shown)


def _thin(items: list[Any], most: int) -> list[Any]:
    if len(items) <= most:
        return items
    return [items[index * len(items) // most] for index in range(most)]


def rate(history: History) -> list[list[int]]:
    """Per second of the run: how many operations ended ok, fail, info."""
    bins = [[0, 0, 0] for _ in range(history.events[-1].t // 10**9 + 1)]
    for event in history.of(Return):
        second = event.t // 10**9
        if 0 <= second < len(bins):
            bins[second][STATUSES.index(event.status)] += 1
    return bins


def noise(history: History, nodes: Sequence[str], caps: list[dict[str, Any]]) -> list[list[Any]]:
    """``[lo, hi, lane or -1, text]`` of the machine's disturbances, the longest where there are too many."""
    lane = {node: index for index, node in enumerate(nodes)}
    found = [event for event in history.of(Noise) if event.kind not in NOISE_FIGURES]
    if len(found) > NOISE_MAX:
        caps.append({"what": "disturbances by the machine", "shown": NOISE_MAX, "total": len(found)})
        found = sorted(found, key=lambda event: (-abs(event.value_ns), event.seq))[:NOISE_MAX]
    return sorted([us(e.span.lo), us(e.span.hi), lane.get(e.host, -1), sentence(e, history)] for e in found)


def proof_events(files: RunFiles) -> list[dict[str, Any]]:
    """The events that prove findings, by moment, each with the findings (card ids) that it proves."""
    lane = {node: index for index, node in enumerate(files.nodes)}
    by_seq: dict[int, dict[str, Any]] = {}
    for key, finding in findings(files):
        for seq in finding.certificate[:PROOF_MAX]:
            if not 0 <= seq < len(files.history):
                continue
            event = files.history.at(seq)
            row = by_seq.setdefault(
                seq,
                {
                    "seq": seq,
                    "t": us(moment(event)),
                    "at": at(moment(event)),
                    "lane": lane.get(node_of(event) or "", -1),
                    "text": sentence(event, files.history),
                    "of": [],
                    "excused": True,
                },
            )
            row["of"].append(key)
            row["excused"] = row["excused"] and finding.excused is not None
    return sorted(by_seq.values(), key=lambda row: (row["t"], row["seq"]))


def findings(files: RunFiles) -> list[tuple[str, Finding]]:
    """All findings with the id of each on the page, those that count before those that are excused."""
    verdicts = files.judgement.verdicts if files.judgement else ()
    out = [(f"{v.checker}-{index}", finding) for v in verdicts for index, finding in enumerate(v.findings)]
    return sorted(out, key=lambda item: item[1].excused is not None)
