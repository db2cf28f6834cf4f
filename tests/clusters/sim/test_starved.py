"""Simulated processes that are starved of CPU: what a share allows in each period, and what comes on top of it."""

from __future__ import annotations

import msgspec

from dethrone.clusters.sim.node import CPU_PERIOD_NS, STEP_NS
from dethrone.harness.core.hoststate import HEALTHY
from dethrone.harness.core.machine import Message, Request, Send
from tests.clusters.sim.toy import MS, SECOND, ToyWorld


def state(**fields):
    return msgspec.structs.replace(HEALTHY, **fields)


STARVED = state(cpu_percent=2)
A_PERIOD = 2 * MS // STEP_NS


def sending(core, event, now, out):
    """Each request is passed to n1."""
    if type(event) is Request:
        out.append(Send("n1", event.body))


def flooded(count):
    """A world in which n1 is starved and gets so many messages at once."""
    world = ToyWorld(sending)
    world.converge(n1=STARVED)
    for number in range(count):
        world.poke("n2", str(number))
    return world


def handled(world):
    return [(now.mono, event.body) for now, event in world.target.got["n1"] if type(event) is Message]


def test_a_starved_process_does_what_its_share_allows_in_each_period_and_all_of_it_in_order():
    world = flooded(3 * A_PERIOD)
    world.on(SECOND)
    found = handled(world)
    assert [body for _, body in found] == [str(number) for number in range(3 * A_PERIOD)]
    turns = [{at // MS for at, _ in found[first : first + A_PERIOD]} for first in range(0, len(found), A_PERIOD)]
    assert [len(turn) for turn in turns] == [1, 1, 1], "each turn is one moment"
    first, second, third = (turn.pop() for turn in turns)
    assert 0 < second - first <= CPU_PERIOD_NS // MS
    assert third - second == CPU_PERIOD_NS // MS


def test_a_share_that_is_enough_makes_no_difference():
    world = ToyWorld(sending)
    world.converge(n1=STARVED)
    for number in range(10):
        world.poke("n2", str(number)).on(CPU_PERIOD_NS)
    assert len(handled(world)) == 10


def test_the_rest_is_done_at_once_when_the_process_is_fed_again():
    world = flooded(4 * A_PERIOD).on(10 * MS)
    assert len(handled(world)) == A_PERIOD
    world.converge(n1=HEALTHY)
    assert len(handled(world)) == 4 * A_PERIOD


def test_a_starved_process_that_is_paused_runs_only_when_neither_stops_it():
    world = flooded(4 * A_PERIOD)
    world.converge(n1=state(cpu_percent=2, frozen=True))
    paused = len(handled(world))
    world.on(SECOND)
    assert len(handled(world)) == paused
    world.converge(n1=STARVED)
    world.on(SECOND)
    assert len(handled(world)) == 4 * A_PERIOD
    world.converge(n1=state(frozen=True))
    world.poke("n2", "late").on(SECOND)
    assert len(handled(world)) == 4 * A_PERIOD, "what is fed is still paused"
    world.converge(n1=HEALTHY)
    assert len(handled(world)) == 4 * A_PERIOD + 1


def test_a_starved_process_can_be_killed_starts_starved_and_obeys_sigterm():
    world = flooded(4 * A_PERIOD).on(10 * MS)
    assert world.node("n1").frozen
    world.converge(n1=state(cpu_percent=2, down="SIGTERM"))
    assert [news.data["code"] for news in world.news("exited")] == [0], (
        "no quota keeps it from ending in an orderly way"
    )
    world.converge(n1=STARVED)
    world.on(SECOND)
    begun = len(handled(world))
    for number in range(2 * A_PERIOD):
        world.poke("n2", str(number))
    world.on(5 * MS)
    assert len(handled(world)) - begun <= A_PERIOD
    world.converge(n1=state(cpu_percent=2, down="SIGKILL"))
    world.converge(n1=HEALTHY)
    world.poke("n2", "well").on(SECOND)
    assert handled(world)[-1][1] == "well"
