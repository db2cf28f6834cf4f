"""The page's texts and tables, complete without any script.

Guarantees: every text goes through ``escape``; every property is listed, including n/a and never exercised ones. The
drawings are out of scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dethrone.harness.core.clean import in_html as escape
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.events import TRACE_MALFORMED
from dethrone.harness.core.known_findings import line_of as known_line
from dethrone.harness.core.schedule import PlannedFault
from dethrone.harness.core.secrets import shown
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.report import page_data, screens
from dethrone.harness.report.failover import noisy_faults, summary
from dethrone.harness.report.html import cut_sections
from dethrone.harness.report.html.dots import dots
from dethrone.harness.report.html.drawings import drawing
from dethrone.harness.report.html.tables import table_of, time_cell
from dethrone.harness.report.noise_figures import NoiseFold
from dethrone.harness.report.page_fold import Drawn
from dethrone.harness.report.rundir import RunFiles, shared_users
from dethrone.harness.report.trigger_words import hold_words, when_words
from dethrone.harness.report.version_words import version_rows
from dethrone.harness.report.words import announced, at, pairs, parameters, verdict_word

_FINDINGS_MAX = 200
_SHOWN_MAX = 3
"""Findings that stand open: the first of each property; the others are one click away."""
_EVENTS_MAX = 40
_ROWS_MAX = 500
"""Rows of a table of faults in the page of a long run."""
_MINUTE_US = 60_000_000
_ORDER = {"fail": 0, "unknown": 1, "pass": 2, "n/a": 3}


def title(files: RunFiles, drawn: Drawn) -> str:
    """Of the browser's tab."""
    outcome = files.judgement.outcome if files.judgement else "no verdict"
    more = f", {files.judgement.excused} excused" if files.judgement and announced(files.judgement) else ""
    return f"{verdict_word(outcome)}{more} · {drawn.begin.system} seed {drawn.begin.seed} · dethrone"


def header(files: RunFiles, drawn: Drawn, trouble: Sequence[str]) -> str:
    """Verdict, one sentence, what was run."""
    judgement, plan, begin = files.judgement, files.plan, drawn.begin
    outcome = judgement.outcome if judgement else "unknown"
    word = verdict_word(outcome) if judgement else "NO VERDICT"
    sentence = judgement.reason if judgement else "nothing was judged"
    announcement = _banner(word + announced(judgement)) if announced(judgement) else ""
    facts = [("seed", str(begin.seed)), ("nodes", str(len(begin.nodes)))]
    facts.append(("length", show_duration(drawn.end)))
    versions = files.run.get("versions")
    if isinstance(versions, Mapping):
        facts += [(str(name), str(value)) for name, value in sorted(versions.items())]
    system = screens.cluster_words(plan) if plan else begin.system
    meta = f"<b>{escape(system)}</b> · " + " · ".join(f"{escape(name)} <b>{escape(value)}</b>" for name, value in facts)
    banners = [
        f"trouble of the harness: {line}"
        for line in dict.fromkeys([*trouble, *(judgement.trouble if judgement else ())])
    ]
    if files.history.damage:
        banners.append(f"the history is damaged: {files.history.damage}; only what stands before that is shown")
    banners += [f"{line}; this page does without it" for line in files.missing]
    return (
        f'<header><div class="top"><div class="badge {_css(outcome)}">{escape(word)}</div>'
        f'<div><h1>{escape(sentence)}</h1>{announcement}<p class="meta">{meta}</p></div></div>'
        + "".join(map(_banner, banners))
        + "</header>"
    )


def _banner(line: str) -> str:
    return f'<p class="banner">{escape(line)}</p>'


def nav(files: RunFiles) -> str:
    """Links to the sections that are there."""
    links = [
        ("properties", "Properties"),
        ("space-time", "Space and time"),
        ("failover", "Failover"),
        ("faults", "Faults"),
    ]
    if cut_sections.cuts(files):
        links.append(("cuts", "Cuts"))
    links += [("table", "All properties"), ("noise", "Noise"), ("run", "The run")]
    if page_data.findings(files):
        links.insert(0, ("findings", "Findings"))
    return "".join(f'<a href="#{name}">{text}</a>' for name, text in links)


def findings(files: RunFiles, proofs: Sequence[Mapping[str, Any]]) -> str:
    """Each finding: property, sentence, the events that prove it (a click jumps there)."""
    found = page_data.findings(files)
    if not found:
        return ""
    first: dict[str, str] = {}
    for key, finding in found:
        if finding.fails:
            first.setdefault(key.rsplit("-", 1)[0], key)
    shown = list(first.values())[:_SHOWN_MAX] or [key for key, _ in found[:1]]
    blocks = {key: _finding(key, finding, proofs) for key, finding in found[:_FINDINGS_MAX]}
    rest = [block for key, block in blocks.items() if key not in shown]
    if len(found) > _FINDINGS_MAX:
        rest.append(f'<p class="hint">… and {len(found) - _FINDINGS_MAX} more findings in verdict.json</p>')
    more = (
        f"<details><summary>{len(found) - len(shown)} more findings</summary>{''.join(rest)}</details>" if rest else ""
    )
    top = "".join(blocks[key] for key in shown if key in blocks)
    return f'<section id="findings"><h2>Findings</h2>{top}{more}</section>'


def _finding(key: str, finding: Finding, proofs: Sequence[Mapping[str, Any]]) -> str:
    rows = [proof for proof in proofs if key in proof["of"]]
    events = "".join(
        f'<li><button type="button" data-seq="{row["seq"]}" data-t="{row["t"]}" title="event {row["seq"]}">'
        f'{escape(row["at"])}</button><span class="text">{escape(row["text"])}</span></li>'
        for row in rows[:_EVENTS_MAX]
    )
    more = f"<li>… and {len(rows) - _EVENTS_MAX} more proving events</li>" if len(rows) > _EVENTS_MAX else ""
    excused = f" · excused: {escape(finding.excused)}" if finding.excused else ""
    excused += f" · known: {escape(finding.known)}" if finding.known else ""
    signature = _signature(finding)
    return (
        f'<div class="finding{"" if finding.fails else " excused"}" id="{escape(key)}">'
        f"<h3>{escape(key.rsplit('-', 1)[0])}{_class(finding)}{excused}</h3><p>{escape(finding.sentence)}</p>"
        f'{drawing(finding.data)}<ul class="events">{events}{more}</ul>{signature}</div>'
    )


def _signature(finding: Finding) -> str:
    """The line of a file of known findings that names this one; "" : excused anyway, or of an older version."""
    if not finding.signature or finding.excused is not None:
        return ""
    return f'<div class="hint signature">known.toml: <code>{escape(known_line(finding.signature))}</code></div>'


def _class(finding: Finding) -> str:
    """The anomaly's name in the literature, where it has one."""
    kind = finding.data.get("anomaly")
    return f" · {escape(kind)}" if isinstance(kind, str) else ""


def cards(files: RunFiles) -> str:
    """A card a property, the worst first."""
    verdicts = files.judgement.verdicts if files.judgement else ()
    ordered = sorted(verdicts, key=lambda v: (_ORDER[v.outcome], v.kind != "safety", v.checker))
    body = "".join(_card(verdict, escape(screens.why(verdict))) for verdict in ordered) or "<p>Nothing was judged.</p>"
    return f'<section id="properties"><h2>Properties</h2><div class="cards">{body}</div></section>'


def _card(verdict: Verdict, why: str) -> str:
    return (
        f'<div class="card {_css(verdict.outcome)}" title="{why}"><div class="row">'
        f'<span class="name">{escape(verdict.checker)}</span>{_pill(verdict)}</div><p>{why}</p></div>'
    )


def caps(found: Sequence[Mapping[str, Any]]) -> str:
    """What the drawings omit."""
    return escape("; ".join(f"drawn: {cap['shown']:,} of {cap['total']:,} {cap['what']}" for cap in found))


def where_details_are(drawn: Drawn) -> str:
    """What a page without its side files is, and what is missing where they are not found; nothing for a short run."""
    if not drawn.long:
        return ""
    folder = escape(drawn.data["details"]["folder"])
    return (
        '  <p class="hint" id="details">This run is long: the whole of it is drawn as an overview. Its details are in '
        f"the folder <code>{folder}</code> next to this page, and are drawn where you zoom in: copy the folder with "
        "the page.</p>\n"
        f'  <p class="banner" id="missing" hidden>The folder <code>{folder}</code> next to this page is missing, or '
        "belongs to another page: this is only the overview. Copy the folder next to the page, or draw the report "
        "again: <code>dethrone report RUN_DIR</code></p>\n"
    )


def elections(drawn: Drawn) -> str:
    """The places of the drawings that only a long run has."""
    if not drawn.long:
        return ""
    return (
        f"  <h3>Elections {'a minute' if drawn.data['overview']['minute'] == _MINUTE_US else 'by stretch'}</h3>\n"
        '  <canvas id="elections" class="plot" style="height: 90px" role="img" '
        'aria-label="elections a minute"></canvas>\n'
        '  <h3 class="clients">Availability: share of client operations that ended ok</h3>\n'
        '  <canvas id="availability" class="plot clients" style="height: 90px" role="img" '
        'aria-label="share of operations that ended ok over time"></canvas>\n'
    )


def tail(files: RunFiles, drawn: Drawn) -> str:
    """Everything under the drawings."""
    figures = (failover(files, drawn), cut_sections.cuts(files), faults(files, drawn))
    return "".join((*figures, table(files), noise(files, drawn), run(files)))


def failover(files: RunFiles, drawn: Drawn) -> str:
    """Each fault that hit a leader, and the distributions."""
    rows = drawn.failovers
    if not rows:
        none = '<section id="failover"><h2>Failover</h2><p class="hint">No fault in force hit a leader.</p>'
        return f"{none}{cut_sections.recoveries(files)}</section>"
    noisy = noisy_faults(files.judgement)
    quiet = [row for row in rows if row.fault not in noisy]
    figures = summary(quiet)
    slowest = sorted(rows, key=lambda row: -(row.until - row.t0 if row.elected is None else row.elected))
    listed = {row.fault for row in slowest[:_ROWS_MAX]} if drawn.long else {row.fault for row in rows}
    body = [
        [
            str(row.fault),
            row.kind,
            row.leader,
            at(row.t0),
            *(time_cell(t) for t in (row.detect, row.elected)),
            time_cell(row.first_write) if row.writes else "no writes",
            str(row.rounds),
            "noise" if row.fault in noisy else "",
        ]
        for row in rows
        if row.fault in listed
    ]
    dist = [
        [name.replace("_", " "), str(q.count), str(q.censored), *(time_cell(t) for t in (q.median, q.p90, q.longest))]
        for name, q in figures.items()
    ]
    return (
        f'<section id="failover"{_deferred(drawn)}><h2>Failover</h2>'
        '<p class="hint">From a fault in force on the leader to the first candidate, the next election and the first '
        "write acknowledged after it. “open”: the next fault or heal came first; such times are censored, not dropped "
        "(Kaplan–Meier quantiles).</p>"
        + (f"<p>{len(rows) - len(quiet)} of {len(rows)} omitted: host noise affected them.</p>" if noisy else "")
        + dots(quiet)
        + table_of(["figure", "faults", "open", "median", "90 %", "longest seen"], dist, numbers=(1, 2, 3, 4, 5))
        + cut_sections.recoveries(files)
        + "<h3>One by one</h3>"
        + _omitted(len(rows) - len(body), "the quickest")
        + table_of(
            ["fault", "kind", "leader", "in force", "detect", "elected", "first write", "rounds", ""],
            body,
            numbers=(3, 4, 5, 6, 7),
        )
        + "</section>"
    )


def _deferred(drawn: Drawn) -> str:
    """Tables of hundreds of rows are laid out once they come into view: a page of a long run opens at once."""
    return ' style="content-visibility: auto; contain-intrinsic-size: auto 8000px"' if drawn.long else ""


def _omitted(count: int, which: str) -> str:
    return f'<p class="hint">{count:,} more are omitted here: {which}.</p>' if count else ""


def faults(files: RunFiles, drawn: Drawn) -> str:
    """Planned against realised."""
    rows = []
    found = _pairs(files, drawn.faults)
    kept = sorted(range(len(found)), key=lambda index: _as_planned(found[index][2]))[
        : _ROWS_MAX if drawn.long else None
    ]
    for step, planned, real in (found[index] for index in sorted(kept)):
        plan_text = f"{planned.kind} of {planned.victims}" if planned else "not in the plan"
        begins = when_words(planned) if planned else "–"
        detail = parameters(planned.params) if planned else ""
        held = hold_words(planned) if planned else "–"
        if real is None:
            rows.append([str(step), plan_text, detail, begins, held, "not reached", "–", "–", "–", ""])
            continue
        _, force, _, healed = real["span"]
        outcome = real["outcome"] + (f", {real['healed']}" if real.get("healed") else "")
        span = f"{at(force * 1000)} … {at(healed * 1000) if healed is not None else 'the end'}"
        trigger = real["trigger"] or "–"
        rows.append([str(step), plan_text, detail, begins, held, real["text"], trigger, outcome, span, real["why"]])
    headers = [
        "step",
        "planned",
        "parameters",
        "to begin",
        "to hold",
        "realised",
        "trigger",
        "outcome",
        "in force",
        "why",
    ]
    body = table_of(headers, rows, numbers=()) if rows else '<p class="hint">0 faults were planned.</p>'
    omitted = _omitted(len(found) - len(kept), "those that were installed and healed, the last ones first")
    head = f'<section id="faults"{_deferred(drawn)}><h2>Faults, planned and realised</h2>'
    return f"{head}{omitted}{body}</section>"


def _as_planned(row: Mapping[str, Any] | None) -> bool:
    return row is not None and row["outcome"] == "installed" and row.get("healed") == "healed"


def _pairs(
    files: RunFiles, realised: Sequence[dict[str, Any]]
) -> list[tuple[int, PlannedFault | None, dict[str, Any] | None]]:
    """Planned and realised faults of one step, kind and name belong together, in their order."""
    left = list(realised)
    out: list[tuple[int, PlannedFault | None, dict[str, Any] | None]] = []
    for number, step in enumerate(files.plan.schedule.steps if files.plan else ()):
        for planned in step.faults:
            match = next(
                (
                    row
                    for row in left
                    if row["step"] == number and row["kind"] == planned.kind and row["name"] == planned.name
                ),
                None,
            )
            if match is not None:
                left.remove(match)
            out.append((number, planned, match))
    out += [(row["step"], None, row) for row in left]
    return sorted(out, key=lambda pair: pair[0])


def table(files: RunFiles) -> str:
    """Every property with what its verdict rests on."""
    verdicts = files.judgement.verdicts if files.judgement else ()
    rows = [
        f'<tr><td class="k">{escape(v.checker)}</td><td class="nw">{escape(v.kind)}</td><td>{_pill(v)}</td>'
        f"<td>{escape(screens.why(v) if v.outcome == 'fail' else v.reason)}</td>"
        f'<td class="small">{escape(pairs(v.evidence))}</td>'
        f'<td class="small">{escape(pairs(v.metrics))}</td></tr>'
        for v in verdicts
    ]
    head = "".join(
        f"<th>{name}</th>" for name in ("property", "kind", "verdict", "why", "evidence", "figures, not judged")
    )
    return (
        '<section id="table"><h2>All properties</h2><div class="scroll"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def noise(files: RunFiles, drawn: Drawn) -> str:
    """What the machine itself did to the hosts."""
    rows = []
    for (host, kind), figure in sorted(drawn.noise.figures.items()):
        event, count = figure.event, str(figure.count)
        if kind == "summary":
            rows.append([host or "the harness", kind, count, "–", pairs(event.detail)])
        elif kind == TRACE_MALFORMED:
            rows.append([host, "malformed trace lines", count, "–", pairs(event.detail)])
        else:
            when = f"the worst at {at(event.span.hi)}"
            rows.append([host or "the harness", kind, count, show_duration(event.value_ns), when])
    body = (
        table_of(["host", "kind", "times", "worst", ""], rows, numbers=(2, 3))
        if rows
        else f'<p class="hint">None was reported by {len(files.nodes)} hosts in {drawn.count} events.</p>'
    )
    return f'<section id="noise"><h2>Noise of the machine</h2>{excused(files)}{body}{watched(drawn.noise)}</section>'


def excused(files: RunFiles) -> str:
    """What share of the run noise may excuse, and what could not be watched, as ``coverage`` found it."""
    verdicts = files.judgement.verdicts if files.judgement else ()
    figures = next((v.evidence["noise"] for v in verdicts if v.checker == "coverage" and "noise" in v.evidence), None)
    if not isinstance(figures, Mapping) or not {"excused_percent", "stretches", "longest_ns"} <= set(figures):
        return ""
    if not isinstance(figures["longest_ns"], int):
        return ""
    text = (
        f"Noise may excuse {figures['excused_percent']} % of the run's time: {figures['stretches']} stretches above the"
        f" limit, the longest of {show_duration(figures['longest_ns'])}, each with one election round after it."
    )
    unwatched = figures.get("unwatched")
    if isinstance(unwatched, list | tuple) and unwatched:
        text += f" No source of noise could be read on {', '.join(map(str, unwatched))}."
    return f"<p>{escape(text)}</p>"


def watched(noise: NoiseFold) -> str:
    """What was read to notice noise, what could not be read, and how busy each host's machine was in total."""
    if not noise.sources:
        return '<p class="hint">Which sources of noise were read is not recorded in this history.</p>'
    if any(detail.get("virtual") for detail in noise.sources.values()):
        return '<p class="hint">Virtual time: no machine disturbs the hosts.</p>'
    rows = []
    for host, detail in sorted(noise.sources.items()):
        states: Mapping[str, str] = detail.get("sources", {})
        read = ", ".join(name for name, state in states.items() if state == "read")
        refused = "; ".join(f"{name}: {state}" for name, state in states.items() if state != "read")
        totals = pairs(noise.totals.get(host, {}))
        rows.append([host, str(detail.get("machine", "")), read or "nothing", refused or "–", totals or "–"])
    head = ["host", "machine", "sources read", "not read", "totals of the machine, which excuse nothing"]
    return table_of(head, rows, numbers=())


def run(files: RunFiles) -> str:
    """How to run it again; knobs and promise."""
    out = ['<section id="run"><h2>The run</h2>']
    if files.plan is not None:
        plan = files.plan
        command = screens.run_command(plan, files, directory="RUN_DIR")
        out.append(f"<p>Run the same schedule again: <code>{escape(command)}</code></p>")
        out.append("<p>Judge it again without a cluster: <code>dethrone check RUN_DIR</code></p>")
        promise = plan.promise
        rows = [
            ["source", promise.source],
            ["a leader is owed in tiers", ", ".join(promise.tiers) or "none"],
            ["within", f"{show_duration(promise.leader_bound_ns)}, later gaps {show_duration(promise.later_gap_ns)}"],
            ["steps down within", time_cell(promise.step_down_ns)],
            ["converges within", time_cell(promise.converge_ns)],
            ["election timeout", show_duration(promise.election_timeout_ns)],
            ["tolerates", _borne(promise.tolerates)],
            ["is safe under", _borne(promise.tolerated_for_safety)],
            *(["not owed: " + name, f"{why.kind}: {why.reason}"] for name, why in promise.exempt.items()),
        ]
        if plan.time_scale != 1 or plan.calibration or plan.data_in != "disk":
            rows[1:1] = [["time scale", screens.scale_words(plan)], ["nodes' data", screens.data_words(plan)]]
        out.append("<h3>What was promised</h3>" + table_of(["", ""], rows, numbers=()))
        work = [["workload", screens.workload_words(plan)], ["schedule", screens.schedule_words(plan)]]
        knobs = [[name, shown(name, value, plan.secrets)] for name, value in sorted(plan.knobs.items())]
        shared = [["not apart", line] for line in shared_users(files)]
        if versions := [list(row) for row in version_rows(files.judgement)]:
            out.append("<h3>Versions</h3>" + table_of(["", ""], versions, numbers=()))
        if shared:
            out.append("<h3>Users</h3>" + table_of(["", ""], shared, numbers=()))
        out.append("<h3>Workload and knobs</h3>" + table_of(["", ""], work + knobs, numbers=()))
    out.append("</section>")
    return "".join(out)


def _borne(tolerated: Mapping[str, int | None]) -> str:
    return ", ".join(f"{k} ({'any number' if n is None else n})" for k, n in tolerated.items()) or "no fault"


def footer(drawn: Drawn) -> str:
    """Where the files are."""
    end = drawn.closing
    reason = f"ended: {end.reason}, digest {end.digest}" if end else "has no end record"
    return escape(f"Drawn from the history ({drawn.count} events; {reason}).")


def _pill(verdict: Verdict) -> str:
    never = verdict.outcome == "unknown" and ("exercised" in verdict.reason or "never" in verdict.reason)
    word = "never exercised" if never else verdict_word(verdict.outcome)
    return f'<span class="pill {_css(verdict.outcome)}">{escape(word)}</span>'


def _css(outcome: str) -> str:
    return outcome.replace("/", "")
