"""Events in readable words: one line per event, the same on every surface (terminal, page, annotations).

Guarantees: pure, deterministic, never raises on an event of an unknown protocol vocabulary; a sentence is one line,
without escapes for any markup. ``marks`` selects the events worth showing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dethrone.harness.core import events as ev
from dethrone.harness.core.clean import one_line
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.deaths import telling_line
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.hoststate import ClockSkew, HostState
from dethrone.harness.core.interfaces import declared
from dethrone.harness.core.shown import in_words
from dethrone.harness.report.trigger_words import trigger_line

if TYPE_CHECKING:
    from dethrone.harness.engine.run.judgement import Judgement

_VALUE_CHARS_MAX = 60
_ENDS = 3
"""Values of a long list that are shown at each of its ends."""
STYLES = {"pass": "bold green", "fail": "bold red", "unknown": "bold yellow", "n/a": "dim"}
"""How verdicts are shown where there are colours."""

_VERDICT_WORDS = {"pass": "PASS", "fail": "FAIL", "unknown": "UNKNOWN", "n/a": "n/a"}
PROCESS_WORDS = {"started": "was started", "ready": "answers", "exited": "exited"}


def at(t: Ns) -> str:
    """A moment of the run: ``+12.345 s``."""
    sign = "-" if t < 0 else "+"
    return f"{sign}{abs(t) // 10**9}.{abs(t) % 10**9 // 10**6:03d} s"


def verdict_word(outcome: str) -> str:
    """How a verdict is written where it stands alone."""
    return _VERDICT_WORDS.get(outcome, outcome)


def verdict_parts(judgement: Judgement | None) -> tuple[tuple[str, str], ...]:
    """The verdict in one line: pieces with their styles."""
    if judgement is None:
        return ("NO VERDICT", "bold yellow"), ("  nothing was judged", "")
    parts = [(verdict_word(judgement.outcome), STYLES[judgement.outcome])]
    if announcement := announced(judgement):
        parts.append((announcement, STYLES["unknown"]))
    return (*parts, (f"  {one_line(judgement.reason)}", "")) if judgement.reason else tuple(parts)


def announced(judgement: Judgement | None) -> str:
    """The text after the verdict if nothing failed but findings were excused: a pass mentions them."""
    if judgement is None or judgement.outcome == "fail" or not judgement.excused:
        return ""
    return f", with {excused_words(judgement.excused)}"


def excused_words(count: int) -> str:
    """How excused findings are announced."""
    return f"{count} finding{'' if count == 1 else 's'} under faults that the system does not promise to tolerate"


def short(value: Any) -> str:
    """A value on one line, cut with an ellipsis; of a long list both ends, for what it lacks is missing there."""
    if isinstance(value, list | tuple) and len(value) > 2 * _ENDS and len(repr(value)) > _VALUE_CHARS_MAX:
        first, last = (", ".join(map(short, some)) for some in (value[:_ENDS], value[-_ENDS:]))
        return f"[{first}, …, {last}] ({len(value)} values)"
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= _VALUE_CHARS_MAX else text[: _VALUE_CHARS_MAX - 1] + "…"


def names(items: Sequence[str]) -> str:
    """``n1``, ``n1 and n2``, ``n1, n2 and n3``; ``nobody`` for none."""
    if not items:
        return "nobody"
    if len(items) == 1:
        return items[0]
    return f"{', '.join(items[:-1])} and {items[-1]}"


def moment(event: Any) -> Ns:
    """The moment at which an event is drawn: the end of its span (the effect is certain), else when it was written."""
    if isinstance(event, (ev.Observed, ev.Silent)):
        return (event.span.lo + event.span.hi) // 2
    span = getattr(event, "span", None)
    return event.t if span is None else int(span.hi)


def node_of(event: Any) -> str | None:
    """The node whose lane an event belongs to; None for events of the whole run."""
    node = getattr(event, "node", None) or getattr(event, "host", None)
    return node or None


_REPORTED = {"sources": "sources of noise", "load": "load", "summary": "figures of noise"}
"""Kind of noise → what it reports; none of these is a disturbance."""


def sentence(
    event: Any, history: History | None = None, *, asked: ev.Invoke | None = None, lacks: Sequence[Any] = ()
) -> str:
    """What happened, in one line. ``history`` or ``asked`` lets a client's return name its invocation.

    ``lacks``: values of its proof that a read does not show (``proof_values``), as its list may be too long for a line.
    """
    if asked is None and history is not None and isinstance(event, ev.Return):
        asked = invokes(history).get(event.op)
    text = _sentence(event, asked)
    return one_line(f"{text}, without {names([short(value) for value in lacks[:_ENDS]])}" if lacks else text)


def _sentence(event: Any, asked: ev.Invoke | None) -> str:
    match event:
        case ev.Begin():
            return f"the run of {event.system} started: {len(event.nodes)} nodes, seed {event.seed}"
        case ev.Mark():
            return _mark(event)
        case ev.Invoke():
            return f"client {event.process} asked {event.target}: {operation(event.f, event.value)}"
        case ev.Return():
            return _returned(event, asked)
        case ev.Observed():
            return _observed(event)
        case ev.Silent():
            return f"{event.node} did not answer a status query ({short(event.error)})"
        case ev.Traced():
            return traced(event)
        case ev.NodeProcess():
            return _process(event)
        case ev.NodeDied():
            return (
                f"the last line of {event.node} (incarnation {event.incarnation}): {telling_line(event.lines) or '-'}"
            )
        case ev.FatalLine():
            return f"{event.node} printed a fatal line ({event.pattern!r}): {event.line}"
        case ev.Sighted():
            return _sighted(event)
        case ev.Converged():
            done = "" if event.confirmed else f", NOT confirmed ({short(event.why)})"
            return f"{event.host} was set to: {state(event.after)}{done}"
        case ev.FaultEvent():
            return _fault(event)
        case ev.Noise(kind=ev.TRACE_MALFORMED):
            why, line = event.detail.get("why", ""), event.detail.get("line", "")
            return f"{event.host} printed a malformed trace line ({short(why)}): {short(line)}"
        case ev.Noise(kind="sources" | "load" | "summary"):
            return f"{event.host or 'the run'} reported its {_REPORTED[event.kind]}"
        case ev.Noise(kind="agent-lost"):
            return f"no contact with {event.host} for {show_duration(event.span.hi - event.span.lo)}: agent lost"
        case ev.Noise(kind="rules-lost" | "dead-man" | "news-dropped"):
            return f"{event.host} reported {event.kind}: its faults or records are not certain"
        case ev.Noise(kind="unsearched"):
            return f"triggers may miss something on {event.host}: {short(event.detail.get('why', ''))}"
        case ev.Noise():
            where = f"on {event.host}" if event.host else "in the harness itself"
            return f"host noise {where}: {event.kind} of {show_duration(event.value_ns)}"
        case ev.Trouble():
            return f"harness trouble ({event.kind}): {event.message}"
        case ev.End():
            return f"the history ends ({event.reason}) after {event.count} events"
        case _:
            return type(event).__name__


def _sighted(event: ev.Sighted) -> str:
    """One line for what an agent saw of what a trigger waits for."""
    if event.by == "wire":
        return f"{event.node} sent {event.data.get('to', '?')} {event.data.get('bytes', '?')} bytes ({event.name})"
    if event.by == "metric":
        before, now = event.data.get("before"), event.data.get("now")
        return f"a figure of {event.node} changed from {before} to {now} ({event.name})"
    return f"{event.node} logged a line of {event.name}: {short(event.data.get('line', ''))}"


def operation(f: str, value: Any) -> str:
    """A client operation: ``append 17``, ``read``."""
    return f if value is None else f"{f} {short(value)}"


def traced(event: ev.Traced) -> str:
    """One line for what a node did about its election."""
    node, term, data = event.node, event.term, event.data
    match event.name:
        case "vote":
            return f"{node} voted for {_text(data, 'candidate')} in term {data.get('term', term)}"
        case "elected":
            voters = data.get("voters")
            by = (
                f" by the votes of {names([str(voter) for voter in voters])}"
                if isinstance(voters, list | tuple)
                else ""
            )
            return f"{node} was elected leader of term {data.get('term', term)}{by}"
        case "acked":
            return (
                f"{node} acknowledged to the leader of term {data.get('term', term)} entries up to {data.get('index')}"
            )
        case "persisted":
            voted = data.get("voted_for")
            vote = f" and its vote for {voted}" if voted else " and no vote" if "voted_for" in data else ""
            return f"{node} has stored term {data.get('term', term)}{vote}"
        case "found":
            return f"{node} found on its disk when it started: {_found(data, term)}"
        case "answered":
            return f"{node} answered in term {term}"
        case "refused":
            return f"{node} refused {_text(data, 'candidate')} its vote in term {term}: it had already voted"
        case "config" if isinstance(data.get("voters"), list | tuple):
            members = names([str(voter) for voter in data["voters"]])
            return f"{node} has the members {members} from entry {data.get('index')} on"
        case "log_append":
            entries = data.get("entries") or []
            return f"{node} appended {_entries(entries)}"
        case "log_kept":
            return f"{node} found the first {data.get('count')} entries of its log as they were"
        case "log_truncate":
            return f"{node} cut its log from index {data.get('from')} on"
        case "commit":
            index = data.get("index", data.get("new"))
            return f"{node} marked all entries up to index {index} as committed (term {term})"
        case "election_started" | "campaign":
            return f"{node} stands for election in term {term}"
        case "prevote_started" | "pre_vote_started":
            return f"{node} asks whether it would be elected in term {data.get('reqTerm', term)} (pre-vote)"
        case "role_change" | "state_change":
            return f"{node} turned {_text(data, 'from')} → {_text(data, 'to')} in term {term}{_why(data)}"
        case "term_change":
            why = data.get("why") or data.get("cause")
            before = data.get("from", data.get("was", "?"))
            return f"{node} went from term {before} to term {data.get('to', term)}{f' ({short(why)})' if why else ''}"
        case "step_down":
            return f"{node} stepped down in term {term}{_why(data)}"
        case "vote_decision":
            who, rest = _text(data, "candidate"), _rest(data, "candidate")
            return f"{node} decided on {who}'s request for a vote (term {term}): {rest}"
        case "always" | "sometimes" | "unreachable" if "assertion" in data:
            holds = (
                "was reached" if event.name == "unreachable" else "holds" if data.get("condition") else "does not hold"
            )
            details = f": {short(data['details'])}" if data.get("details") else ""
            return f"{node} evaluated {data['assertion']} ({event.name}): it {holds}{details}"
        case "start":
            return f"{node} starts with term {term}"
        case _:
            rest = _rest(data)
            return f"{node}: {event.name.replace('_', ' ')} (term {term}{', ' + rest if rest else ''})"


def state(host: HostState) -> str:
    """What is wrong with a host, in words; ``healthy`` for nothing."""
    return ", ".join(text for _, text in troubles(host)) or "healthy"


def troubles(host: HostState) -> list[tuple[str, str]]:
    """What is wrong with a host: what sort of trouble each is, as lanes are coloured, and in words."""
    out = []
    if host.down:
        later = f", to start as version {host.version}" if host.version else ""
        out.append(("down", f"down by {host.down}{later}"))
    if host.frozen:
        out.append(("frozen", "frozen"))
    if host.cuts:
        resets = f", resets connections of {names(host.resets)}" if host.resets else ""
        out.append(("cut", f"hears nothing from {names(host.cuts)}{resets}"))
    if host.refuses:
        out.append(("cut", f"no new connections from {names(host.refuses)}"))
    if host.links:
        out.append(("link", f"bad links from {names([link.src for link in host.links])}"))
    if host.clock:
        out.append(("clock", f"wall clock {skew(host.clock)}"))
    if host.disk:
        model = f" ({host.disk.model})" if host.disk.model else ""
        out.append(("disk", f"disk {host.disk.kind}{model}"))
    if host.cpu_percent is not None:
        out.append(("cpu", f"{host.cpu_percent} % of a CPU"))
    return out + [(trouble.kind, f"{trouble.kind}: {trouble.says}") for trouble in host.troubles or ()]


def skew(clock: ClockSkew) -> str:
    """A clock's skew: ``+5 s``, ``strobing by 1 s``."""
    parts = []
    if clock.offset_ns:
        parts.append(("+" if clock.offset_ns > 0 else "") + show_duration(clock.offset_ns))
    if clock.rate_ppm:
        parts.append(f"{clock.rate_ppm:+d} ppm")
    if clock.mono_rate_ppm:
        parts.append(f"{clock.mono_rate_ppm:+d} ppm (monotonic)")
    if clock.strobe:
        parts.append(
            f"strobing by {show_duration(clock.strobe.amplitude_ns)} every {show_duration(clock.strobe.period_ns)}"
        )
    return ", ".join(parts) or "+0 s"


def fault_line(kind: str, victims: Sequence[str], roles: Mapping[str, str], params: Mapping[str, Any]) -> str:
    """A fault and the nodes that it hit: ``partition of n1 (leader), n2``."""
    who = ", ".join(f"{victim} ({roles[victim]})" if roles.get(victim) else victim for victim in victims)
    detail = parameters(params)
    return f"{kind}{' of ' + who if who else ''}{' · ' + detail if detail else ''}"


def parameters(params: Mapping[str, Any]) -> str:
    """A fault's parameters; lists of directed cuts are counted, durations are read."""
    parts = []
    for key, value in sorted(params.items()):
        if key == "cuts" and isinstance(value, list | tuple):
            parts.append(f"{len(value)} directed links cut")
        elif key.endswith("_ns") and isinstance(value, int):
            parts.append(f"{key.removesuffix('_ns')} {show_duration(value)}")
        elif value is not None:
            parts.append(f"{key} {short(value)}")
    return ", ".join(parts)


def pairs(values: Mapping[str, Any], *, most: int = 1_000) -> str:
    """Counts and figures on one line: ``elections 4, bound 3.22 s``; nothing for what is empty."""
    parts = []
    for key, value in values.items():
        name = key.replace("_", " ")
        if key.endswith("_ns") and isinstance(value, int):
            parts.append(f"{name[:-3]} {show_duration(value)}")
        elif key.endswith("_ns") and isinstance(value, list | tuple):
            parts += [f"{name[:-3]} {' '.join(_time(item) for item in value)}"] if value else []
        elif isinstance(value, Mapping):
            parts += [f"{name}: {pairs(value)}"] if value else []
        elif isinstance(value, list | tuple):
            parts += [f"{name} {' '.join(short(item) for item in value)}"] if value else []
        elif value is not None:
            parts.append(f"{name} {short(value)}")
    return ", ".join(parts[:most])


def _time(value: Any) -> str:
    """A duration, or one with the word whether it was censored: then it was longer."""
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], int):
        return ("> " if value[1] else "") + show_duration(value[0])
    return show_duration(value) if isinstance(value, int) else short(value)


def _mark(event: ev.Mark) -> str:
    if event.name == "step":
        return f"step {event.data.get('step')} of the schedule: {event.data.get('phase')}"
    if event.name == "more":
        return f"the schedule is over; one more step was added for: {', '.join(map(str, event.data.get('unmet', ())))}"
    return f"phase: {event.name}"


def _returned(event: ev.Return, asked: ev.Invoke | None) -> str:
    what = f"operation {event.op}"
    if asked is not None:
        what = f"client {asked.process}'s {operation(asked.f, asked.value)}"
    by = f" by {event.node}" if event.node else ""
    if event.status == "ok":
        value = "" if event.value is None else f": {_shown(event.value)}"
        return f"{what} was acknowledged{by}{value}"
    said = f" ({short(event.error)})" if event.error else ""
    end = "certainly did not happen" if event.status == "fail" else "has an unknown outcome"
    return f"{what} {end}{said}"


def _shown(value: Any) -> str:
    match value:
        case {"shows": "list", "first": int(first), "then": [*rest]} if first:
            return f"{first} known values, then {short(rest)}"
    return short(in_words(value))


@per_history
def invokes(history: History) -> dict[int, ev.Invoke]:
    """Operation → its invocation."""
    return {event.op: event for event in history.of(ev.Invoke)}


def _observed(event: ev.Observed) -> str:
    parts = [f"{event.node} said: {event.role} in term {event.term}"]
    if event.leader:
        parts.append("leader " + ("itself" if event.leader == event.node else event.leader))
    if event.voted_for:
        parts.append(f"voted for {event.voted_for}")
    if event.log_end:
        parts.append(f"log end {event.log_end[1]} (term {event.log_end[0]})")
    if event.commit is not None:
        parts.append(f"commit {event.commit}")
    return ", ".join(parts)


def _process(event: ev.NodeProcess) -> str:
    line = f"the process of {event.node} (incarnation {event.incarnation}) {PROCESS_WORDS[event.phase]}"
    if event.version:
        line += f" as version {event.version}" if event.phase == "started" else f", as version {event.version}"
    if event.phase == "exited":
        if event.code is not None:
            line += f" by signal {-event.code}" if event.code < 0 else f" with code {event.code}"
        line += ", as wanted" if event.asked else ", UNASKED"
    return line


def begun_line(event: ev.FaultEvent) -> str:
    """A fault, and by which means hosts changed their links, if they did."""
    what = fault_line(event.kind, event.victims, event.roles, event.params)
    engines, zones = str(event.evidence.get("engine", "")).split(", "), event.evidence.get("zones", ())
    means = ["the nodes (messages)" if one == "node" else f"{one} (packets)" for one in engines if one]
    where = f" · zone {', '.join(map(str, zones))}" if zones else ""
    where += _followed(event.evidence.get("answer"))
    return f"{what}{where} · by {' and '.join(means)}" if means else f"{what}{where}"


def _followed(answer: Any) -> str:
    """Who led after a fault had asked for it."""
    if not isinstance(answer, Mapping) or "leader" not in answer:
        return ""
    return f" · {answer['leader']} led term {answer.get('term')}"


def _fault(event: ev.FaultEvent) -> str:
    what = begun_line(event)
    trigger = trigger_line(event.evidence)
    what += f" · {trigger}" if trigger else ""
    why = f" ({short(event.why)})" if event.why else ""
    words = {
        "installed": "in force",
        "skipped": "skipped",
        "indeterminate": "unknown whether in force",
        "healed": "healed",
        "heal_failed": "NOT healed",
    }
    if declared(event.kind).asks:
        words |= {"installed": "done", "indeterminate": "unknown whether it was done", "healed": "over"}
    return f"{what}: {words[event.outcome]}{why}"


def _entries(entries: Any) -> str:
    if not isinstance(entries, list | tuple) or not entries:
        return "nothing"
    indexes = [entry[0] for entry in entries if isinstance(entry, list | tuple) and entry]
    if not indexes:
        return f"{len(entries)} entries"
    return f"entry {indexes[0]}" if len(indexes) == 1 else f"entries {indexes[0]}-{indexes[-1]}"


def _found(data: Mapping[str, Any], term: int) -> str:
    file = data.get("file")
    if file != "read":
        return "a file that cannot be read" if file == "unreadable" else "nothing"
    if "voted_for" not in data:
        return f"term {term}"
    return f"term {term} and {'its vote for ' + str(data['voted_for']) if data['voted_for'] else 'no vote'}"


def _text(data: Mapping[str, Any], key: str) -> str:
    return str(data.get(key) or "?")


def _why(data: Mapping[str, Any]) -> str:
    return f" ({short(data['why'])})" if data.get("why") else ""


def _rest(data: Mapping[str, Any], *but: str) -> str:
    return ", ".join(f"{key} {short(value)}" for key, value in data.items() if key not in but and value is not None)
