"""The short way of a steady Raft cluster does what the long way does, in whole runs under faults and operations."""

from __future__ import annotations

import copy
from collections import deque
from itertools import count

import pytest

from dethrone.clusters.targets.raft.steady import SteadyCore
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.machine import NOTHING, Send, SetTimer
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.rehearsal import rehearse

NOT_COMPARED = {"expected", "out", "rng", "rules", "knobs"}
"""What only one of the ways uses, and what no event changes."""


def held(value):
    """What an object of the core holds, as plain values."""
    if isinstance(value, list | tuple | deque):
        return [held(one) for one in value]
    if isinstance(value, dict):
        return {key: held(one) for key, one in value.items()}
    names = {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())}
    names |= set(getattr(value, "__dict__", {}))
    if not names or type(value).__module__.endswith("messages"):
        return value
    return {name: held(getattr(value, name)) for name in sorted(names - NOT_COMPARED)}


@pytest.fixture
def both_ways(monkeypatch):
    """A copy of the node does every fifth step that is asked for the short way the long way, too; counts of both.

    What differs is collected, for a core that raises is a node that crashes, and no failure of a test.
    """
    answer, renew, steps = SteadyCore.answer, SteadyCore.renew, count()
    short = {"answered": 0, "silent": 0, "renewed": 0, "not": 0, "differs": []}

    def compared(core, twin, given, expected, out):
        was, now = held(twin.node), held(core.node)
        if given is None:
            was["mono"] = now["mono"]  # which the long way sets first
            short["not"] += 1
        short["differs"] += [(out, expected)] if out != expected else []
        short["differs"] += [(name, was[name], now[name]) for name in was if was[name] != now[name]]

    def both_answers(core, src, body, mono, wall):
        if next(steps) % 5:
            return answer(core, src, body, mono, wall)
        twin, out = copy.deepcopy(core), []
        given = answer(core, src, body, mono, wall)
        if given is not None:
            twin.hear(src, body, mono, wall, out)
            short["silent" if given is NOTHING else "answered"] += 1
        compared(core, twin, given, [] if given in (None, NOTHING) else [Send(src, given)], out)
        return given

    def both_renewals(core, timer, mono, wall):
        if next(steps) % 5:
            return renew(core, timer, mono, wall)
        twin, out = copy.deepcopy(core), []
        given = renew(core, timer, mono, wall)
        expected = []
        if given is not None:
            twin.ring(timer, mono, wall, out)
            expected = [SetTimer(timer, given[0]), *(Send(peer, body) for peer, body in given[1])]
            short["renewed"] += 1
        compared(core, twin, given, expected, out)
        return given

    monkeypatch.setattr(SteadyCore, "answer", both_answers)
    monkeypatch.setattr(SteadyCore, "renew", both_renewals)
    return short


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"workload": "log", "rate_per_s": 5},
        {"workload": "register", "rate_per_s": 5, "settings": {"reads": "lease"}},
        {"variant": "52-election-on-wall-clock"},
    ],
    ids=lambda fields: ",".join(f"{name}={value}" for name, value in fields.items()) or "plain",
)
def test_the_short_way_does_what_the_long_way_does(fields, both_ways):
    faults = ("partition", "kill", "pause", "link", "clock", "disk")
    more = {"workload": "election", "nemesis_interval_ns": 2 * SECOND, "conclusive": False, **fields}
    rehearse(RunOptions(system="raft", backend="sim", faults=faults, time_limit_ns=12 * SECOND, **more), {}, seed=3)
    assert not both_ways["differs"]
    assert both_ways["not"] > 20
    assert both_ways["silent"] + both_ways["renewed"] > 100
