"""Noise: the stretches in which a host made no progress, and how much time a checker of liveness must charge for them.

What noise is: ONE stretch longer than ``Promise.noise_max_ns`` in which a named thread or sync of a host stood still.
Sums of short waits, and totals of a whole host (``load``, ``summary``), excuse nothing. Sources:

* what an agent measured (``MEASURED``); the reports of one hanging sync, same host and ``id``, are one stretch;
* what our own node shell recorded (``Traced``, source ``shell``, where the plan says that the shell is ours, channel
  ``shell``, and time is real): ``fsync_slow``, and of ``stall`` what run delay, throttling and steal explain. Trace
  lines of a tested system never count, under any name;
* stretches for which nothing is known of a host (``MISSING``), at any length.

What lies inside a realised pause, disk, clock or cpu fault of its host, or within one election round after it, is the
fault's. A stretch that overlaps with one of another host on the same machine counts for all hosts of that machine.

Guarantees: a stretch is charged with its length plus one election round, one of the harness itself with its length
only; charges are a union of intervals, so noise that overlaps counts once; more noise never charges less. What takes no
votes is merely late: there, one round is charged in all (``Disturbance.late``), not one after each stretch. A run that
declares its sources, and could read none that watches a host, is *blind* there: no finding about liveness is certain.
Older, golden and imported histories declare nothing and are never blind. Out of scope: any bound, and any verdict.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dethrone.checkers.traces import named
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.events import Converged, Noise
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.hoststate import HostState
from dethrone.harness.core.intervals import Interval, union
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding
from dethrone.harness.core.views import last_ns

SLOW_SYNCS, STALLS = named("fsync_slow"), named("stall")
VIEWS = (SLOW_SYNCS, STALLS, last_ns)
MEASURED = frozenset({"stall", "fsync", "process", "wall", "harness"})
"""Kinds of ``Noise`` that are one stretch of a known length."""
MISSING = frozenset({"news-dropped", "dead-man", "rules-lost", "agent-lost"})
"""Kinds of ``Noise`` whose span says from when to when the host's knowledge is missing."""
OURS = "harness"
"""The kind of ``Noise`` that is a stall of the harness' own loop."""
SOURCES = "sources"
"""The kind of ``Noise`` that declares what a host's agent reads."""
WATCHING = frozenset({"wakeup", "sync", "schedstat", "dstate"})
"""Sources that show a single stretch: the two canaries, and the kernel's word on the node process."""
OWN_SHELL = "shell"
"""The channel of a plan whose nodes run in our own shell."""
EXPLAINED = ("run_delay_ns", "throttled_ns", "steal_ns")


@dataclass(frozen=True, slots=True)
class Stretch:
    """[lo, hi] in which ``host`` ("": every host) made no progress, or nothing is known of it."""

    lo: Ns
    hi: Ns
    host: str
    kind: str


class Disturbance:
    """The noise of one run, and what it charges. ``hosts``: always those that a finding concerns."""

    def __init__(self, stretches: Iterable[Stretch], *, round_ns: Ns, blind: tuple[str, ...] = ()) -> None:
        self.stretches = sorted(stretches, key=lambda one: (one.lo, one.hi, one.host, one.kind))
        self.round_ns = round_ns
        self.blind = blind
        """Voters of whom no source that shows a stretch could be read."""
        self._unions: dict[tuple[tuple[str, ...], Ns], list[Interval]] = {}

    def charges(self, hosts: Sequence[str]) -> list[Interval]:
        """The union of all charges of these hosts, in order: each stretch, and one election round after it.

        A stall of the harness itself is charged without a round: it hides what happens, and deposes no leader.
        """
        return self._union(hosts, self.round_ns)

    def _union(self, hosts: Sequence[str], round_ns: Ns) -> list[Interval]:
        """The union of these hosts' stretches, each with ``round_ns`` after it, but for those of the harness."""
        key = (tuple(sorted(set(hosts))), round_ns)
        if key not in self._unions:
            mine = (
                (one.lo, one.hi + (0 if one.kind == OURS else round_ns))
                for one in self.stretches
                if not one.host or one.host in key[0]
            )
            self._unions[key] = union(mine)
        return self._unions[key]

    def within(self, hosts: Sequence[str], lo: Ns, hi: Ns) -> bool:
        """Whether a charge of these hosts touches [lo, hi]."""
        found = self.charges(hosts)
        at = bisect_right(found, hi, key=lambda one: one[0])
        return at > 0 and found[at - 1][1] >= lo

    def lasted(self, hosts: Sequence[str], lo: Ns, hi: Ns) -> Ns:
        """How much of [lo, hi] these hosts' stretches themselves take, without the rounds after them."""
        return _overlap(self._union(hosts, 0), lo, hi)

    def charged(self, hosts: Sequence[str], lo: Ns, hi: Ns) -> Ns:
        """How much of [lo, hi] is charged to noise."""
        return _overlap(self.charges(hosts), lo, hi)

    def late(self, hosts: Sequence[str], lo: Ns, hi: Ns) -> Ns:
        """How much later, for noise within [lo, hi], a node may do what its own timer alone decides.

        A stretch holds such a timer up for as long as it lasts. What arrived in the meantime is heard after it and may
        restart that timer: that is one round in all, not one after each stretch, since no votes can be lost by it.
        """
        return min(self.charged(hosts, lo, hi), self.lasted(hosts, lo, hi) + self.round_ns)

    def uncharged(self, hosts: Sequence[str], lo: Ns, hi: Ns) -> Ns:
        """How much of [lo, hi] is left to the system."""
        return hi - lo - self.charged(hosts, lo, hi)

    def share_percent(self, hosts: Sequence[str], lo: Ns, hi: Ns) -> float:
        """The part of [lo, hi] that noise of any of these hosts may excuse, in percent."""
        return round(100 * self.charged(hosts, lo, hi) / (hi - lo), 1) if hi > lo else 0.0

    def charge_note(self, hosts: Sequence[str], lo: Ns, hi: Ns) -> str:
        """What a finding's sentence adds where noise was charged and does not explain it."""
        charged = self.charged(hosts, lo, hi)
        return f", and noise of the hosts explains {show_duration(charged)} more" if charged else ""

    def deadline(self, hosts: Sequence[str], lo: Ns, bound: Ns) -> Ns:
        """The first moment at which the system has had ``bound`` since ``lo``."""
        at, left = lo, bound
        for begin, end in self.charges(hosts):
            if end <= at:
                continue
            if begin - at >= left:
                break
            left -= max(0, begin - at)
            at = end
        return at + left


def _overlap(intervals: Iterable[Interval], lo: Ns, hi: Ns) -> Ns:
    return sum(max(0, min(hi, end) - max(lo, begin)) for begin, end in intervals)


def unknown_by_noise(what: str, lo: Ns, hi: Ns, charged: Ns) -> str:
    """A doubt in words: what would have been a finding, and how much of that time is charged."""
    spans = f"{show_duration(charged)} of these {show_duration(hi - lo)}"
    return f"unknown by noise: {what}; {spans} are charged to noise of the hosts"


def certain(noise: Disturbance, findings: Iterable[Finding]) -> tuple[list[Finding], list[str]]:
    """The findings that stand, and doubts in place of those that fail although noise could not have been seen."""
    if not noise.blind:
        return list(findings), []
    stand, doubts = [], []
    for finding in findings:
        if finding.excused is not None:
            stand.append(finding)
            continue
        doubts.append(
            f"{finding.sentence.rstrip('.')}; but no source of noise could be read on {', '.join(noise.blind)}"
        )
    return stand, doubts


# --- from events to stretches -----------------------------------------------------------------------------------


@per_history
def disturbance(history: History, promise: Promise, plan: Plan) -> Disturbance:
    """The noise of this run."""
    round_ns, most = promise.election_timeout_ns, promise.noise_max_ns
    declared = _declared(history)
    virtual, shell = _virtual(plan, declared), _own_shell(plan, declared)
    faults = _fault_spans(history, round_ns)
    alone = [
        part
        for one in _measured(history, most, shell=shell)
        for part in _outside(one, faults.get(one.host, []))
        if part == one or part.hi - part.lo > most
    ]
    missing = [
        Stretch(event.span.lo, known_again(history, event), event.host, event.kind)
        for event in history.of(Noise)
        if event.kind in MISSING
    ]
    machines = {host: str(given["machine"]) for host, given in declared.items() if host and given.get("machine")}
    blind: tuple[str, ...] = ()
    if declared and not virtual and not shell:
        blind = tuple(voter for voter in plan.voters if not _watched(declared.get(voter, {})))
    return Disturbance([*alone, *missing, *_of_machines(alone, machines)], round_ns=round_ns, blind=blind)


@per_history
def measured_anywhere(history: History, promise: Promise, plan: Plan) -> list[Stretch]:
    """Every stretch that was measured, those inside faults too, without jumps of wall clocks."""
    shell = _own_shell(plan, _declared(history))
    return [one for one in _measured(history, promise.noise_max_ns, shell=shell) if one.kind != "wall"]


def _measured(history: History, most: Ns, *, shell: bool) -> Iterator[Stretch]:
    yield from _agents(history, most)
    if shell:
        yield from _shells(history, most)


def _virtual(plan: Plan, declared: Mapping[str, Mapping[str, Any]]) -> bool:
    return plan.backend == "sim" or bool(declared.get("", {}).get("virtual"))


def _own_shell(plan: Plan, declared: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the nodes' own shell may be believed about stalls."""
    return OWN_SHELL in plan.observable and not _virtual(plan, declared)


def end_of_events(history: History) -> Ns:
    """When the last event was written down."""
    return last_ns(history)


def known_again(history: History, event: Noise) -> Ns:
    """Until when knowledge of the host is missing: to the end of its span; of the run, if it never came back."""
    if event.detail.get("back") is False:
        return max(event.span.hi, end_of_events(history))
    return event.span.hi


def _declared(history: History) -> dict[str, dict[str, Any]]:
    """Host → its last declaration of sources; host "" declares virtual time."""
    return {event.host: dict(event.detail) for event in history.of(Noise) if event.kind == SOURCES}


def _watched(given: dict[str, Any]) -> bool:
    sources = given.get("sources")
    return isinstance(sources, dict) and any(sources.get(name) == "read" for name in WATCHING)


def _agents(history: History, most: Ns) -> Iterator[Stretch]:
    """What agents, and the harness, measured: ``value_ns`` is the length (of ``wall``: the size of the jump)."""
    longest: dict[tuple[str, str, int], Noise] = {}
    for event in history.of(Noise):
        if event.kind not in MEASURED or abs(event.value_ns) <= most:
            continue
        number = event.detail.get("id")
        if not isinstance(number, int):
            yield Stretch(event.span.lo, event.span.hi, event.host, event.kind)
            continue
        before = longest.get((event.host, event.kind, number))
        if before is None or event.value_ns > before.value_ns:
            longest[event.host, event.kind, number] = event
    for event in longest.values():
        yield Stretch(event.span.lo, event.span.hi, event.host, event.kind)


def _shells(history: History, most: Ns) -> Iterator[Stretch]:
    """What our own node shell recorded at the end of a slow sync or of a stall."""
    for event in (*SLOW_SYNCS(history), *STALLS(history)):
        if event.source != "shell":
            continue
        took = _ns(event.data["ns"]) if "ns" in event.data else _ns(event.data.get("ms")) * MS
        if event.name == "stall":
            took = min(took, sum(_ns(event.data.get(name)) for name in EXPLAINED))
        if took > most:  # of several syncs in a batch it is the longest, and others may have come after it
            ago = max(took, _ns(event.data.get("ago_ns")))
            yield Stretch(event.span.lo - ago, event.span.hi - ago + took, event.node, f"shell {event.name}")


def _ns(value: Any) -> Ns:
    return value if isinstance(value, int) and value > 0 else 0


def _fault_spans(history: History, round_ns: Ns) -> dict[str, list[Interval]]:
    """Host → when a pause, disk, clock or cpu fault of it was, or may have been, in force, and a round after each."""
    since: dict[str, Ns] = {}
    spans: dict[str, list[Interval]] = defaultdict(list)
    for event in history.of(Converged):
        if _stalls(event.before) or _stalls(event.after):
            since.setdefault(event.host, event.span.lo)
        if event.confirmed and not _stalls(event.after) and event.host in since:
            spans[event.host].append((since.pop(event.host), event.span.hi + round_ns))
    for host, lo in since.items():
        spans[host].append((lo, max(lo, end_of_events(history)) + round_ns))
    return {host: union(found) for host, found in spans.items()}


def _stalls(state: HostState) -> bool:
    """Whether this state itself makes a node, a disk or a clock stand still."""
    if state.unmodelled:
        return True
    state = state.suffered
    return state.frozen or state.disk is not None or state.clock is not None or state.cpu_percent is not None


def _outside(one: Stretch, faults: Sequence[Interval]) -> Iterator[Stretch]:
    """The parts of a stretch that no fault explains."""
    at = one.lo
    for lo, hi in faults:
        if hi < at or lo > one.hi:
            continue
        if lo > at:
            yield replace(one, lo=at, hi=lo)
        at = hi
        if at >= one.hi:
            return
    yield replace(one, lo=at)


def _of_machines(stretches: Sequence[Stretch], machines: dict[str, str]) -> Iterator[Stretch]:
    """Stretches of two hosts of one machine that overlap, once for each host of it."""
    together: dict[str, list[str]] = defaultdict(list)
    for host, machine in machines.items():
        together[machine].append(host)
    for machine, hosts in together.items():
        shared: set[Stretch] = set()
        running: list[Stretch] = []
        for one in sorted((one for one in stretches if machines.get(one.host) == machine), key=lambda one: one.lo):
            running = [other for other in running if other.hi > one.lo]
            others = [other for other in running if other.host != one.host]
            shared.update([*others, one] if others else ())
            running.append(one)
        yield from (replace(one, host=host) for one in shared for host in hosts if host != one.host)
