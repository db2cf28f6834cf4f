"""Compares what a history claims with what the tell-tale's nodes felt: a list of contradictions, empty if they agree.

Judges only strictly inside what was confirmed: a letter contradicts a cut if it was sent after the cut was proven and
received before anything of that host changed again. What the history calls uncertain is not judged. Pure.

Promises: every sentence names who felt what over which channel. Out of scope: running anything.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dethrone.harness.core.events import Converged, Event, NodeProcess, Noise
from dethrone.harness.core.hoststate import HEALTHY, HostState

MS = 1_000_000
SECOND = 1_000_000_000

GRACE_NS = 2500 * MS
"""How long after a confirmed heal a connection may take to come back: TCP's back-off, a neighbour's address."""
QUIET_NS = 700 * MS
"""The least stretch behind that grace in which each channel must be heard."""
CLOCK_NS = 20 * MS
"""How far a clock may be from what the fault says, beside what the reading itself took."""
EARLY_NS = 2 * MS
"""How much a timed wait may be too short."""
TO_ALL_NS = 5 * MS
"""What a process may have begun before it was stopped."""


@dataclass(frozen=True)
class Felt:
    """One line of a node, its times on the history's clock."""

    node: str
    at: int
    what: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class State:
    """A host was certainly in ``state`` from ``lo`` to ``hi``."""

    host: str
    lo: int
    hi: int
    state: HostState


def read_felt(run_dir: Path, *, origin_ns: int) -> list[Felt]:
    """What all nodes of a run logged, in order of time."""
    felt = []
    for log in sorted((run_dir / "nodes").glob("*/node.log")):
        for raw in log.read_bytes().split(b"\n"):
            try:
                line = json.loads(raw)
            except ValueError:
                continue
            if isinstance(line, dict) and "what" in line and "at" in line:
                if "sent" in line:
                    line["sent"] -= origin_ns
                felt.append(Felt(log.parent.name, line["at"] - origin_ns, line["what"], line))
    return sorted(felt, key=lambda one: one.at)


def certain_states(events: Sequence[Event]) -> list[State]:
    """When each host was certainly in which state, by the history; what was lost meanwhile is not certain."""
    lost = defaultdict(list)
    for event in events:
        if isinstance(event, Noise) and event.kind in {"rules-lost", "dead-man", "agent-lost"}:
            lost[event.host].append(event.span)
    end = max((event.t for event in events), default=0)
    by_host: dict[str, list[Converged]] = defaultdict(list)
    for event in events:
        if isinstance(event, Converged):
            by_host[event.host].append(event)
        elif isinstance(event, NodeProcess):
            by_host.setdefault(event.node, [])
    out: list[State] = []
    for host, changes in by_host.items():
        since, state, sure = 0, HEALTHY, True
        for change in sorted(changes, key=lambda one: one.span.lo):
            if sure:
                out += _without(State(host, since, change.span.lo, state), lost[host])
            since, state, sure = change.span.hi, change.after, change.confirmed
        if sure:
            out += _without(State(host, since, end, state), lost[host])
    return out


def _without(state: State, lost: Sequence[Any]) -> Iterator[State]:
    at = state.lo
    for span in sorted(lost, key=lambda one: one.lo):
        if span.hi <= at or span.lo >= state.hi:
            continue
        if span.lo > at:
            yield State(state.host, at, span.lo, state.state)
        at = span.hi
    if at < state.hi:
        yield State(state.host, at, state.hi, state.state)


def contradictions(events: Sequence[Event], felt: Sequence[Felt]) -> list[str]:
    """Everything in which they disagree."""
    states = certain_states(events)
    return [
        *connected_while_cut(states, felt),
        *cut_after_healing(states, events, felt),
        *alive_while_stopped(states, felt),
        *time_not_as_claimed(states, felt),
        *deaths_unasked(events, felt),
    ]


def connected_while_cut(states: Sequence[State], felt: Sequence[Felt]) -> list[str]:
    """Letters that passed a link that was certainly cut."""
    cuts = [state for state in states if state.state.cuts]
    found: dict[tuple[str, str, str, int], int] = defaultdict(int)
    for one in felt:
        if one.what != "heard":
            continue
        for cut in cuts:
            concerned = cut.host == one.node and one.data["from"] in cut.state.cuts
            if concerned and cut.lo <= one.data["sent"] and one.at <= cut.hi:
                found[one.data["from"], one.node, _channel(one), cut.lo] += 1
    return [
        f"{node} heard {src} over {channel} {count} times while the history calls it cut (from {lo / SECOND:.2f} s)"
        for (src, node, channel, lo), count in sorted(found.items())
    ]


def cut_after_healing(states: Sequence[State], events: Sequence[Event], felt: Sequence[Felt]) -> list[str]:
    """Links that carried letters before the first fault, and do not long after they were healed."""
    born = {(event.node, event.span.hi) for event in events if isinstance(event, NodeProcess)}
    first = min((event.span.lo for event in events if isinstance(event, Converged)), default=0)
    heard: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for one in felt:
        if one.what == "heard":
            heard[one.data["from"], one.node, _channel(one)].append(one.at)
    nodes = {src for src, _, _ in heard} | {node for _, node, _ in heard}
    out = []
    for lo, hi in _healthy_everywhere(states, nodes):
        began = max([lo, *(at for _, at in born if at < hi)])
        if lo == 0 or hi - began < GRACE_NS + QUIET_NS:
            continue
        for (src, node, channel), times in sorted(heard.items()):
            known = sum(1 for at in times if at < first) > 1
            if known and not any(began < at <= hi for at in times):
                when = f"by {hi / SECOND:.2f} s, healed at {lo / SECOND:.2f} s"
                out.append(f"{node} did not hear {src} over {channel} again {when}")
    return out


def _healthy_everywhere(states: Sequence[State], nodes: set[str]) -> list[tuple[int, int]]:
    stretches = [(0, max((state.hi for state in states), default=0))]
    for node in sorted(nodes):
        own = [state for state in states if state.host == node and state.state.healthy]
        stretches = [
            (max(lo, state.lo), min(hi, state.hi))
            for lo, hi in stretches
            for state in own
            if max(lo, state.lo) < min(hi, state.hi)
        ]
    return stretches


def alive_while_stopped(states: Sequence[State], felt: Sequence[Felt]) -> list[str]:
    """Nodes that did something while they were certainly down or frozen."""
    out = []
    for state in states:
        if state.state.down is None and not state.state.frozen:
            continue
        word = "paused" if state.state.frozen else "down"
        alive = [one for one in felt if one.node == state.host and state.lo + TO_ALL_NS < one.at < state.hi]
        if alive:
            out.append(f"{state.host} logged {len(alive)} lines ({alive[0].what}) while the history calls it {word}")
    return out


def time_not_as_claimed(states: Sequence[State], felt: Sequence[Felt]) -> list[str]:
    """Clocks that are not what the fault says, and waits that ended too early."""
    readings = [one for one in felt if one.what == "clock"]
    normal: dict[str, int] = {}
    for one in readings:
        normal.setdefault(one.node, one.data["wall"] - one.data["mono"])
    out = []
    for state in states:
        skew = state.state.clock
        here = [one for one in readings if one.node == state.host and state.lo < one.at - 60 * MS and one.at < state.hi]
        if state.state.down is not None or state.state.frozen or not here:
            continue
        seen = [one.data["wall"] - one.data["mono"] - normal[one.node] for one in here]
        if skew is None:
            bad = [error for error in seen if abs(error) > CLOCK_NS]
            if bad:
                out.append(f"{state.host}: its wall clock was {bad[0] / MS:.0f} ms off while no fault was on it")
            continue
        expected = {skew.offset_ns}
        if skew.strobe is not None:
            expected.add(skew.offset_ns + skew.strobe.amplitude_ns)
        drift = abs(skew.rate_ppm) * (state.hi - state.lo) // 1_000_000
        bad = [one for one in seen if min(abs(one - want) for want in expected) > CLOCK_NS + drift]
        if bad:
            out.append(f"{state.host}: its wall clock moved by {bad[0] / MS:.0f} ms, the fault says {sorted(expected)}")
        if (
            skew.strobe is not None
            and len(seen) > 8
            and not all(any(abs(one - want) <= CLOCK_NS + drift for one in seen) for want in expected)
        ):
            out.append(f"{state.host}: its wall clock did not swing between {sorted(expected)}")
    out += [
        f"{one.node}: a wait of 40 ms took {one.data['waited'] / MS:.1f} ms"
        for one in readings
        if one.data["waited"] < 40 * MS - EARLY_NS
    ]
    return out


def deaths_unasked(events: Sequence[Event], felt: Sequence[Felt]) -> list[str]:
    """Nodes that say that they end by themselves, of whose end the history does not know."""
    out = []
    for one in felt:
        if one.what == "ending" and one.data["by"] == "panic":
            known = any(
                isinstance(event, NodeProcess)
                and event.phase == "exited"
                and not event.asked
                and event.node == one.node
                for event in events
            )
            if not known:
                out.append(f"{one.node} panicked, and the history has no end of it that nobody asked for")
    return out


def privileges(felt: Sequence[Felt]) -> dict[str, set[bool]]:
    """Privilege → whether it was granted, on each try."""
    out: dict[str, set[bool]] = defaultdict(set)
    for one in felt:
        if one.what == "tried":
            out[one.data["privilege"]].add(one.data["granted"])
    return dict(out)


def channels(felt: Sequence[Felt]) -> set[str]:
    """Over what nodes heard each other at all."""
    return {one.data["channel"] for one in felt if one.what == "heard"}


def _channel(one: Felt) -> str:
    place = str(one.data.get("to", ""))
    return (
        f"{one.data['channel']} {place}"
        if place not in {"", "answer", "group", one.data["channel"]}
        else one.data["channel"]
    )
