"""What a person reads in a terminal, as rich renderables: first lines, live view, verdicts, failure screen.

Guarantees: pure; text from outside (node logs, values) is never read as markup. ``terminal`` prints.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dethrone.harness.core import registry, secrets
from dethrone.harness.core.calibration import words
from dethrone.harness.core.clean import one_line
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.known_findings import line_of as known_line
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.schedule import PlannedFault
from dethrone.harness.core.store import PLANNED
from dethrone.harness.core.timescale import show_scale
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.core.zones import members
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.engine.run.listener import Drawn, LiveView
from dethrone.harness.report import bars
from dethrone.harness.report.failover import failovers, noisy_faults, summary
from dethrone.harness.report.next_command import resolving
from dethrone.harness.report.rundir import RunFiles
from dethrone.harness.report.snippet import LEGEND, picture, proving
from dethrone.harness.report.trigger_words import hold_words, when_words
from dethrone.harness.report.words import STYLES, excused_words, pairs, parameters, verdict_parts, verdict_word

_ORDER = {"fail": 0, "unknown": 1, "pass": 2, "n/a": 3}
_KINDS = ("safety", "liveness", "process", "coverage", "metric")
_FINDINGS_MAX = 3
_NARROW = frozenset({"verdict", "kind", "time", "usable", "from", "variant", "role", "term", "commit"})


def first_lines(drawn: Drawn) -> list[Text]:
    """Seed, cluster, versions, drawn parameters, run directory."""
    plan = drawn.plan
    out = [
        _row("seed", str(plan.seed)),
        _row("cluster", cluster_words(plan)),
        _row(
            "versions", ", ".join(f"{name} {version}" for name, version in sorted(drawn.versions.items())) or "unknown"
        ),
        _row("workload", workload_words(plan)),
        _row("schedule", schedule_words(plan)),
    ]
    if plan.time_scale != 1:
        out.append(_row("time scale", scale_words(plan)))
    if plan.data_in != "disk":
        out.append(_row("nodes' data", data_words(plan)))
    if plan.knobs:
        knobs = secrets.hidden(plan.knobs, plan.secrets)
        out.append(_row("knobs", ", ".join(f"{name}={value}" for name, value in sorted(knobs.items()))))
    out.append(_row("run dir", str(drawn.run_dir)))
    return out


def cluster_words(plan: Plan) -> str:
    """System and its build, profile, variant, nodes, backend, tags."""
    variant = f", variant {plan.variant}" if plan.variant else ""
    zones = "; ".join(f"{zone}: {' '.join(nodes)}" for zone, nodes in members(plan.zones or {}).items())
    where = f" in zones ({zones})" if zones else ""
    version = f" {plan.system_version}" if plan.system_version else ""
    tags = "".join(f", {name} {value}" for name, value in sorted(plan.tags.items()))
    where = f"{len(plan.nodes)} nodes{where} on {plan.backend}"
    return f"{plan.system}{version} (profile {plan.profile}{variant}), {where}{tags}"


def workload_words(plan: Plan) -> str:
    """Workload, clients, rate."""
    work = plan.workload
    if not work.processes:
        return work.name
    rate = f"{work.rate_per_s} ops/s" if work.rate_per_s else "each after the answer to the last"
    return f"{work.name}, {work.processes} clients, {rate}"


def schedule_words(plan: Plan) -> str:
    """How many steps of which faults within which time."""
    schedule = plan.schedule
    kinds = ", ".join(schedule.kinds) or "no faults"
    return f"{len(schedule.steps)} steps of {kinds} within {show_duration(plan.time_limit_ns)} ({schedule.strategy})"


def scale_words(plan: Plan) -> str:
    """The time scale, and what it rests on."""
    measured = plan.calibration
    why = str(measured.get("why", "")) or (words(measured) if measured else "not measured")
    return f"{show_scale(plan.time_scale)} ({why})"


def data_words(plan: Plan) -> str:
    """Where the nodes' data is, and how slow the disk was."""
    on_disk = plan.calibration.get("on_disk")
    why = f" (on disk {words(on_disk)})" if isinstance(on_disk, Mapping) else ""
    return f"in {'memory' if plan.data_in == 'memory' else 'files on disk'}{why}"


def plan_table(plan: Plan) -> RenderableType:
    """The planned schedule, a row a fault."""
    table = _table("step", "fault", "victims", "starts", "held for", "parameters")
    for number, step in enumerate(plan.schedule.steps):
        for index, fault in enumerate(step.faults):
            table.add_row(str(number) if index == 0 else "", *_planned(fault))
    return table


def live(view: LiveView) -> RenderableType:
    """Nodes × role × term × fault, ops a second, elections."""
    head = Text.assemble(
        (f"{show_duration(view.elapsed_ns)} of {show_duration(view.limit_ns)}", "bold"),
        f"  {view.phase}  step {view.step}/{view.steps}  ",
        (f"{view.ops_per_s:.0f} ops/s", "bold"),
        f"  ok {view.ops_ok}  fail {view.ops_fail}  unknown {view.ops_info}  ",
        (f"elections {view.elections}", "bold"),
    )
    table = _table("node", "role", "term", "commit", "faults")
    for node in view.nodes:
        style = "bold cyan" if node.leads else ("dim" if not node.answers else "")
        role = node.role if node.answers else f"silent (was {node.role})" if node.role else "silent"
        table.add_row(
            Text(node.name, style=style),
            Text(("★ " if node.leads and node.answers else "  ") + one_line(role), style=style),
            Text(str(node.term or "–"), style=style),
            Text("–" if node.commit is None else str(node.commit), style=style),
            Text(", ".join(node.faults), style="magenta"),
        )
    return Group(head, table)


def live_line(view: LiveView) -> str:
    """The same in one line, for logs."""
    leaders = [f"{node.name}@{node.term}" for node in view.nodes if node.leads and node.answers]
    faults = ", ".join(view.active_faults)
    return one_line(
        f"{view.elapsed_ns // 10**9:>4} s  {view.phase:<7} ops/s {view.ops_per_s:>5.0f} "
        f"(ok {view.ops_ok}, fail {view.ops_fail}, unknown {view.ops_info})  "
        f"leader {', '.join(leaders) or 'none'}  elections {view.elections}  faults {faults or 'none'}"
    )


def headline(judgement: Judgement | None) -> Text:
    """The verdict in one line."""
    return Text.assemble(*verdict_parts(judgement))


def verdict_table(verdicts: Sequence[Verdict]) -> RenderableType:
    """Every property: verdict and reason, n/a included, worst first within safety, liveness, coverage."""
    table = _table("property", "kind", "verdict", "why")
    for verdict in sorted(verdicts, key=lambda v: (_KINDS.index(v.kind), _ORDER[v.outcome], v.checker)):
        table.add_row(
            verdict.checker,
            verdict.kind,
            Text(verdict_word(verdict.outcome), style=STYLES[verdict.outcome]),
            Text(why(verdict)),
        )
    return table


def why(verdict: Verdict) -> str:
    """The reason of a verdict; of a failure its first sentence; of a pass what it rests on. One line."""
    return one_line(_why(verdict))


def _why(verdict: Verdict) -> str:
    excused = [finding for finding in verdict.findings if finding.excused]
    if verdict.outcome == "fail":
        real = [finding for finding in verdict.findings if finding.fails]
        more = f" (and {len(real) - 1} more)" if len(real) > 1 else ""
        return (real[0].sentence + more) if real else verdict.reason
    if verdict.reason:
        return verdict.reason
    text = pairs(verdict.evidence, most=5)
    return text + (f"; {len(excused)} excused" if excused else "")


def findings(files: RunFiles, judgement: Judgement) -> list[RenderableType]:
    """The failure screen's proof: sentence, events, picture, for the first findings that count."""
    out: list[RenderableType] = []
    found = [(v, finding) for v in judgement.verdicts if v.outcome == "fail" for finding in v.findings if finding.fails]
    firsts: dict[str, Finding] = {}
    for verdict, finding in found:
        firsts.setdefault(verdict.checker, finding)
    for checker, finding in list(firsts.items())[:_FINDINGS_MAX]:
        out.append(Text.assemble((f"\n{checker}: ", "bold red"), one_line(finding.sentence)))
        events = proving(files.history, finding.certificate)
        out += [Text(f"  {seq:>8}  {moment:>11}  {line}") for seq, moment, line in events]
        hidden = len(finding.certificate) - len(events)
        if hidden > 0:
            out.append(Text(f"  ({hidden} more proving events are in the report)", style="dim"))
        if finding.signature:
            out.append(Text(f"  known.toml  {known_line(finding.signature)}", style="dim"))
        drawn = bars.lines(finding.data)
        out += [Text(""), *(Text("  " + line) for line in drawn)] if drawn else []
    if found:
        drawing = picture(files.history, files.nodes, found[0][1].certificate)
        out += [Text(""), *(Text("  " + line) for line in drawing), Text("  " + LEGEND, style="dim")] if drawing else []
    hidden = len(found) - min(len(firsts), _FINDINGS_MAX)
    if hidden:
        out.append(Text(f"\n({hidden} more findings are in the report)", style="dim"))
    return out


def failover_lines(files: RunFiles) -> list[Text]:
    """Failover figures as distributions; nothing if no fault hit a leader."""
    rows = failovers(files.history)
    if not rows:
        return []
    noisy = noisy_faults(files.judgement)
    quiet = [row for row in rows if row.fault not in noisy]
    apart = f", {len(rows) - len(quiet)} of them excluded because of noise" if len(quiet) < len(rows) else ""
    said = f"failover, after {len(rows)} faults that hit a leader{apart} (median · 90 % · longest):"
    out = [Text(said, style="bold")]
    rows = quiet
    for name, figure in summary(rows).items():
        shown = " · ".join(
            "open" if value is None else show_duration(value) for value in (figure.median, figure.p90, figure.longest)
        )
        censored = f", {figure.censored} not before the next change" if figure.censored else ""
        out.append(Text(f"  {name.replace('_', ' '):<12} {shown}{censored}"))
    rounds = [row.rounds for row in rows if row.elected is not None]
    if rounds:
        out.append(Text(f"  {'rounds':<12} {sorted(rounds)[len(rounds) // 2]} · most {max(rounds)}"))
    return out


TABLE_ROWS_MAX = 100


def campaign_table(rows: Sequence[CampaignRow]) -> RenderableType:
    """A row per seed; of very many only some of those that did not pass."""
    if len(rows) > TABLE_ROWS_MAX:
        rows = [row for row in rows if row.outcome != "pass" or row.excused][:TABLE_ROWS_MAX]
    table = _table("seed", "verdict", "time", "elections", "faults", "ops ok", "why")
    for row in rows:
        text = "; ".join(row.findings[:2]) or row.reason
        again = f" (repeated {max(1, row.repeats)} ×: noisy host)" if row.repeated else ""
        again += f" (with {excused_words(row.excused)})" if row.excused else ""
        table.add_row(
            str(row.seed),
            Text(verdict_word(row.outcome), style=STYLES.get(row.outcome, "")),
            show_duration(row.elapsed_ns),
            str(row.elections),
            str(row.faults),
            str(row.ops_ok),
            Text(one_line(text) + again),
        )
    return table


def rows_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    """Any table of words."""
    table = _table(*headers)
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table


def commands(files: RunFiles, judgement: Judgement | None = None) -> list[Text]:
    """How to judge this again, and how to run it again."""
    out = [_row("check again", f"dethrone check {files.directory}")]
    if files.plan is not None:
        out.append(_row("run again", run_command(files.plan, files, directory=str(files.directory))))
        if judgement is not None and judgement.outcome == "unknown":
            out.append(_row("to resolve", resolving(judgement, files.plan, _drawn_again(files.plan, files))))
    return out


def run_command(plan: Plan, files: RunFiles, *, directory: str) -> str:
    """The command that runs the same system with the same knobs under the same planned schedule.

    Quoted for a shell: users copy this line, and a run directory may contain untrusted text.
    """
    parts = _same_system(plan, files)
    if plan.time_scale != 1 or plan.calibration:
        parts += ["--time-scale", show_scale(plan.time_scale)]
    parts += ["--time-limit", f"{plan.usual_limit_ns // 10**9}s", "--workload", plan.workload.name]
    parts += ["--schedule", f"{directory}/{PLANNED}"]
    return shlex.join(parts)


def _drawn_again(plan: Plan, files: RunFiles) -> str:
    """The same command without schedule, time limit and scale: the seed draws again. Quoted for a shell."""
    asked = files.run.get("options")
    options = asked if isinstance(asked, Mapping) else {}
    parts = [*_same_system(plan, files), "--workload", plan.workload.name]
    if options.get("scenario"):
        parts += ["--scenario", str(options["scenario"])]
    elif options.get("schedule"):
        parts += ["--schedule", str(options["schedule"])]
    elif options.get("faults") is not None:
        parts += ["--faults", ",".join(options["faults"]) or "none"]
    if options.get("strategy") not in (None, "random"):
        parts += ["--strategy", str(options["strategy"])]
    return shlex.join(parts)


def _same_system(plan: Plan, files: RunFiles) -> list[str]:
    asked = files.run.get("options")
    named = str(asked.get("system", "")) if isinstance(asked, Mapping) else ""
    system = named if registry.is_file(named) else plan.system  # of a described one only its file says what it is
    parts = ["dethrone", "run", system, "--seed", str(plan.seed), "--nodes", str(len(plan.nodes)), "--on", plan.backend]
    if plan.zones and set(plan.zones) == set(plan.nodes):
        parts += ["--zones", ",".join(plan.zones[node] for node in plan.nodes)]
    parts += ["--profile", plan.profile]
    if plan.variant:
        parts += ["--variant", plan.variant]
    if plan.data_in != "disk":
        parts += ["--data-in", plan.data_in]
    options = files.run.get("options")
    settings = options.get("settings") if isinstance(options, Mapping) else None
    for name, value in settings.items() if isinstance(settings, Mapping) else ():
        parts += ["--set", f"{name}={secrets.shown(str(name), str(value), plan.secrets)}"]
    if isinstance(options, Mapping) and options.get("hosts"):
        parts += ["--hosts", str(options["hosts"])]
    for word in (options.get("host") or ()) if isinstance(options, Mapping) else ():
        parts += ["--host", str(word)]
    if plan.stop_at_first_failure:
        parts.append("--first-failure")
    return parts


def _planned(fault: PlannedFault) -> tuple[str, ...]:
    return (
        f"{fault.name}: {fault.kind}" if fault.name else fault.kind,
        fault.victims,
        when_words(fault),
        hold_words(fault),
        parameters(fault.params),
    )


def _row(name: str, value: str) -> Text:
    return Text.assemble((f"{name:<11} ", "bold"), one_line(value))


def _table(*headers: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, header in enumerate(headers):
        table.add_column(header, overflow="fold", no_wrap=index == 0 or header in _NARROW)
    return table
