"""The ``--json`` objects: one schema for run, check and campaign, meant for programs.

Guarantees: ``verdict`` and ``trouble`` are separate and always present; within one schema version keys are only added;
every value is plain JSON. Printing is out of scope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.harness.core.clean import in_json
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.verdict import Finding, Outcome, Verdict
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.run.judgement import JSON_SCHEMA, Judgement, RunResult
from dethrone.harness.report.proof_values import lacking
from dethrone.harness.report.words import at, moment, sentence

if TYPE_CHECKING:
    from dethrone.harness.report.rundir import RunFiles

_RANK = {3: 4, 1: 3, 130: 2, 2: 1, 0: 0}


def encode(value: Any) -> str:
    """One line of JSON."""
    return in_json(msgspec.json.encode(value, enc_hook=str).decode())


def judged(judgement: Judgement | None, files: RunFiles | None) -> dict[str, Any]:
    """``verdict``, ``reason``, ``excused`` (a number), ``host_noise``, ``damage`` and ``checkers``; and
    ``versions`` (which ran where since when) of a system with several."""
    if judgement is None:
        empty = {"verdict": None, "reason": "nothing was judged", "excused": 0}
        return {**empty, "host_noise": False, "damage": None, "checkers": {}}
    return {
        "verdict": judgement.outcome,
        "reason": judgement.reason,
        "excused": judgement.excused,
        "host_noise": judgement.host_noise,
        "damage": judgement.damage,
        "checkers": {verdict.checker: checker(verdict, files) for verdict in judgement.verdicts},
        **({"versions": msgspec.to_builtins(judgement.versions)} if judgement.versions else {}),
    }


def checker(verdict: Verdict, files: RunFiles | None) -> dict[str, Any]:
    """One checker's answer."""
    return {
        "verdict": verdict.outcome,
        "kind": verdict.kind,
        "reason": verdict.reason,
        "findings": [finding(one, files) for one in verdict.findings],
        "evidence": dict(verdict.evidence),
        "metrics": dict(verdict.metrics),
    }


def finding(one: Finding, files: RunFiles | None) -> dict[str, Any]:
    """One finding with its certificate spelled out."""
    events = []
    if files is not None:
        known = [seq for seq in one.certificate if 0 <= seq < len(files.history)]
        lacks = lacking(files.history, known)
        events = [
            {
                "seq": seq,
                "t_ns": moment(event),
                "at": at(moment(event)),
                "text": sentence(event, files.history, lacks=lacks.get(seq, ())),
            }
            for seq in known
            for event in [files.history.at(seq)]
        ]
    return {
        "sentence": one.sentence,
        "term": one.term,
        "nodes": list(one.nodes),
        "excused": one.excused,
        "signature": one.signature,
        "known": one.known,
        "certificate": list(one.certificate),
        "events": events,
    }


def run_object(result: RunResult, files: RunFiles | None, *, report: Path | None) -> dict[str, Any]:
    """What ``run --json`` prints."""
    return {
        "schema": JSON_SCHEMA,
        "command": "run",
        **judged(result.judgement, files),
        "trouble": list(result.trouble),
        "interrupted": result.interrupted,
        "exit_code": result.exit_code,
        "run_dir": str(result.run_dir) if result.run_dir else None,
        "report": str(report) if report else None,
        "seed": result.seed,
        **planned(result.plan),
        "figures": dict(result.figures),
    }


def planned(plan: Plan | None) -> dict[str, Any]:
    """What was run: ``system``, its ``version``, ``tags``, ``profile``, ``variant``, ``nodes``, ``backend``."""
    if plan is None:
        return {}
    return {
        "system": plan.system,
        "version": plan.system_version,
        "tags": dict(plan.tags),
        "profile": plan.profile,
        "variant": plan.variant,
        "nodes": len(plan.nodes),
        "backend": plan.backend,
    }


def check_object(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What ``check --json`` prints: the worst of all at the top, one entry a path in ``runs``."""
    first = dict(rows[0]) if len(rows) == 1 else {}
    return {
        **first,
        "schema": JSON_SCHEMA,
        "command": "check",
        "verdict": worst_outcome([row["verdict"] for row in rows]),
        "trouble": [line for row in rows for line in row["trouble"]],
        "checkers": first.get("checkers", {}),
        "excused": sum(row.get("excused", 0) for row in rows),
        "exit_code": worst_code([row["exit_code"] for row in rows]),
        "runs": [dict(row) for row in rows],
    }


def campaign_object(
    rows: Sequence[CampaignRow],
    *,
    out: Path,
    exit_code: int,
    counts: Mapping[Outcome, int] | None = None,
    corpus: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What ``campaign --json`` prints. ``counts``: of all runs, where ``rows`` are only the first that did not pass.

    ``corpus``: what was stored where, if requested.
    """
    of_all: Mapping[Outcome, int] = Counter(row.outcome for row in rows) if counts is None else counts
    return {
        "schema": JSON_SCHEMA,
        "command": "campaign",
        "verdict": worst_outcome([outcome for outcome, count in of_all.items() if count]),
        "counts": dict(of_all),
        "noise": {"unknown": sum(row.by_noise for row in rows), "repeated": sum(row.repeats for row in rows)},
        "at_once": max((row.at_once for row in rows), default=1),
        "listed": len(rows),
        "excused": sum(row.excused for row in rows),
        "corpus": corpus,
        "trouble": [
            *(f"seed {row.seed}: {row.reason}" for row in rows if row.exit_code == 3),
            *(corpus["trouble"] if corpus else ()),
        ],
        "checkers": {},
        "exit_code": exit_code,
        "run_dir": str(out),
        "seed": [row.seed for row in rows],
        "runs": msgspec.to_builtins(list(rows), enc_hook=str),
    }


def error_object(error: HarnessError | None, *, message: str, exit_code: int) -> dict[str, Any]:
    """What ``--json`` prints when no run began."""
    parts = {"what": message, "where": "", "cause": "", "next": ""}
    if error is not None:
        parts = {"what": error.what, "where": error.where, "cause": error.cause, "next": error.next_step}
    return {
        "schema": JSON_SCHEMA,
        "verdict": None,
        "trouble": [message],
        "checkers": {},
        "run_dir": None,
        "seed": None,
        "exit_code": exit_code,
        "error": parts,
    }


def worst_outcome(outcomes: Sequence[Outcome | None]) -> Outcome | None:
    """The worst: fail > unknown > pass; None (nothing judged) counts as unknown next to others, stays None alone."""
    known = [outcome for outcome in outcomes if outcome is not None and outcome != "n/a"]
    if not known:
        return None
    if "fail" in known:
        return "fail"
    return "unknown" if "unknown" in known or len(known) < len(outcomes) else "pass"


def worst_code(codes: Sequence[int]) -> int:
    """The exit code of several things at once: 3 > 1 > 130 > 2 > 0; any other code counts as trouble."""
    worst = max(codes, key=lambda code: _RANK.get(code, 4), default=0)
    return worst if worst in _RANK else 3
