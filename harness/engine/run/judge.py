"""From a history to a judgement: all installed checkers, each crash turned into ``unknown``, verdicts merged.

The same code judges at the end of a run and in ``dethrone check``. Guarantees: an incomplete or damaged history is
never ``pass``; checkers see only history, promise and plan. Drawing reports is out of scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import registry, store
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import Trouble
from dethrone.harness.core.history import History, Told
from dethrone.harness.core.history_files import history_at, read_history, run_of
from dethrone.harness.core.interfaces import Checker, Incremental, Revealing, Searching, Watcher
from dethrone.harness.core.known_findings import Known, why_known
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.signature import signature_of
from dethrone.harness.core.verdict import Finding, Verdict, exempted, merge
from dethrone.harness.core.versions_ran import versions_ran
from dethrone.harness.engine.run.code_names import chosen_checkers, limited
from dethrone.harness.engine.run.headline import headline
from dethrone.harness.engine.run.judgement import JSON_SCHEMA, Judgement


def load_checkers() -> dict[str, Checker]:
    """Name → checker, of all that are installed."""
    return registry.load_all(registry.CHECKERS)


def watchers(checkers: Iterable[Checker], plan: Plan) -> list[Watcher]:
    """What ends a run at its first certain finding, of those checkers that can say so event by event."""
    return [
        checker.watcher(plan.promise, plan)
        for checker in checkers
        if isinstance(checker, Incremental) and plan.promise.owes(checker.name)
    ]


def watching(checkers: Mapping[str, Checker], plan: Plan) -> list[Watcher]:
    """Those that this plan asks for."""
    if not plan.stop_at_first_failure:
        return []
    return watchers((one for name, one in checkers.items() if not plan.stop_at or name in plan.stop_at), plan)


def judge(
    history: History,
    plan: Plan,
    checkers: Mapping[str, Checker] | None = None,
    *,
    told: Told | None = None,
    limited: bool = False,
) -> Judgement:
    """The verdicts of all checkers and what they come to. ``told`` how far it is: ``events``, then ``checkers``.

    ``limited``: the user chose these checkers, so one of any kind that holds is enough to pass.
    """
    checkers = load_checkers() if checkers is None else checkers
    prepare(history, plan, checkers, told)
    found: list[Verdict] = []
    for name in sorted(checkers):
        if told is not None:
            told("checkers", len(found), len(checkers))
        found.append(signed(_judge_one(name, checkers[name], history, plan), history, plan))
    verdicts = tuple(found)
    outcome = merge(verdicts)
    if limited and outcome == "unknown" and {one.outcome for one in verdicts} - {"n/a"} == {"pass"}:
        outcome = "pass"
    damage = history.damage
    if outcome == "pass" and not history.complete:
        outcome = "unknown"
    trouble = tuple(f"{event.kind}: {event.message}" for event in history.of(Trouble))
    if outcome == "pass" and trouble:
        outcome = "unknown"
    return Judgement(
        outcome=outcome,
        reason=headline(outcome, verdicts, damage=damage, trouble=trouble),
        verdicts=verdicts,
        trouble=trouble,
        host_noise=_only_noise(outcome, verdicts),
        damage=damage,
        versions=versions_ran(history) or msgspec.UNSET,
    )


def prepare(history: History, plan: Plan, checkers: Mapping[str, Checker], told: Told | None = None) -> None:
    """Read the history once for all of these checkers; also where they judge one by one afterwards."""
    views = (view for name, one in checkers.items() if plan.promise.owes(name) for view in getattr(one, "views", ()))
    history.prepare(views, told)


def signed(verdict: Verdict, history: History, plan: Plan) -> Verdict:
    """The same with the signature of each finding."""
    if not verdict.findings:
        return verdict
    findings = tuple(
        msgspec.structs.replace(
            finding, signature=signature_of(finding, verdict.checker, _proof(history, finding), plan).key
        )
        for finding in verdict.findings
    )
    return msgspec.structs.replace(verdict, findings=findings)


def _proof(history: History, finding: Finding) -> list[Any]:
    return [history.at(seq) for seq in finding.certificate if 0 <= seq < len(history)]


def acknowledged(judgement: Judgement, known: Sequence[Known], *, system: str, day: str) -> Judgement:
    """The same where findings that the user knows do not fail. A verdict with more findings than it lists stays."""
    if not known or judgement.outcome != "fail":
        return judgement
    verdicts = tuple(_acknowledged(verdict, known, system=system, day=day) for verdict in judgement.verdicts)
    count = sum(bool(finding.known) for verdict in verdicts for finding in verdict.findings)
    if not count:
        return judgement
    outcome = merge(verdicts)
    if outcome == "pass" and (judgement.damage or judgement.trouble):
        outcome = "unknown"
    others = [verdict for verdict in verdicts if not any(finding.known for finding in verdict.findings)]
    told = verdicts if outcome == "fail" else others
    reason = headline(outcome, told, damage=judgement.damage, trouble=judgement.trouble)
    reason = f"{reason.rstrip('.')}; {count} known finding{'s' if count > 1 else ''} (see --known)"
    return msgspec.structs.replace(judgement, outcome=outcome, reason=reason, verdicts=verdicts)


def _acknowledged(verdict: Verdict, known: Sequence[Known], *, system: str, day: str) -> Verdict:
    if verdict.outcome != "fail":
        return verdict
    findings = tuple(
        finding
        if finding.excused is not None
        else msgspec.structs.replace(
            finding,
            known=why_known(known, signature=finding.signature, system=system, checker=verdict.checker, day=day),
        )
        for finding in verdict.findings
    )
    verdict = msgspec.structs.replace(verdict, findings=findings)
    listed = [finding for finding in findings if finding.excused is None]
    all_listed = int(verdict.evidence.get("findings", len(listed))) <= len(listed)
    fresh = next((finding.sentence for finding in listed if not finding.known), "")
    if fresh:
        return msgspec.structs.replace(verdict, reason=fresh)
    if not all_listed:
        return msgspec.structs.replace(verdict, reason=f"{verdict.reason} (known; other findings are not listed)")
    whys = ", ".join(dict.fromkeys(finding.known for finding in listed))
    return msgspec.structs.replace(verdict, outcome="pass", reason=f"{len(listed)} known finding(s): {whys}")


def _judge_one(name: str, checker: Checker, history: History, plan: Plan) -> Verdict:
    exempt = exempted(plan.promise, name=name, version=checker.version, kind=checker.kind)
    try:
        if exempt is not None:
            if isinstance(checker, Revealing) and plan.promise.exempt[name].kind == "not promised":
                return checker.revealed(history, plan.promise, plan) or exempt
            return exempt
        return checker.check(history, plan.promise, plan)
    except Exception as error:  # noqa: BLE001 - a checker that dies is unknown, never pass and never the end of the others
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = f" at {Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}" if at is not None else ""
        crash = f"the checker crashed: {type(error).__name__}: {error}{where}"
        if exempt is not None:
            return msgspec.structs.replace(exempt, reason=f"{exempt.reason}; what happened to it is unknown: {crash}")
        return Verdict(checker=name, version=checker.version, kind=checker.kind, outcome="unknown", reason=crash)


def _only_noise(outcome: str, verdicts: Iterable[Verdict]) -> bool:
    unknown = [verdict for verdict in verdicts if verdict.outcome == "unknown"]
    return (
        outcome == "unknown"
        and bool(unknown)
        and all(verdict.evidence.get("unknown_by") == "noise" for verdict in unknown)
    )


def check_path(
    path: Path, *, checkers: Sequence[str] = (), memory_bytes_max: int | None = None, told: Told | None = None
) -> tuple[Judgement, Plan | None, History | None]:
    """Judge a run directory, or a history file with ``plan.json`` next to it. HistoryError: nothing to judge.

    ``checkers``: see ``code_names``. ``memory_bytes_max``: of checkers that search [default: what each is content
    with]; ``told``: as of ``judge``.
    """
    found = history_at(path)
    directory = run_of(found)
    history = read_history(found)
    plan_file = directory / store.PLAN
    if not plan_file.is_file():
        raise HistoryError(
            "plan.json is missing next to the history, so the promises of the system are unknown",
            where=str(directory),
            next_step="name the run directory that the history came from",
        )
    plan = store.read_json(plan_file, Plan)
    begin = history.begin
    if begin.system != plan.system or begin.nodes != plan.nodes or begin.seed != plan.seed:
        raise HistoryError(
            "plan.json and the history belong to different runs",
            where=str(directory),
            cause=f"the plan says {plan.system} seed {plan.seed}, the history {begin.system} seed {begin.seed}",
        )
    judges = chosen_checkers(checkers)
    if memory_bytes_max is not None:
        judges = {
            name: one.within(memory_bytes_max) if isinstance(one, Searching) else one for name, one in judges.items()
        }
    return judge(history, plan, judges, told=told, limited=limited(checkers)), plan, history


class StoredVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What ``verdict.json`` holds."""

    schema: int
    system: str
    seed: int
    judgement: Judgement


def write_verdict(run_dir: Path, judgement: Judgement, *, system: str, seed: int) -> None:
    """Store the judgement in the run directory, atomically."""
    stored = StoredVerdict(schema=JSON_SCHEMA, system=system, seed=seed, judgement=judgement)
    store.write_json(run_dir / store.VERDICT, stored)
