from __future__ import annotations

from itertools import pairwise

import msgspec

from dethrone.clusters.targets.client_api import NotLeader, Ok, Put
from dethrone.harness.core.hoststate import HEALTHY
from dethrone.harness.core.machine import Reply, Request
from dethrone.harness.core.world import OpDone
from tests.clusters.sim.toy import MS, SECOND, ToyWorld

DOWN = msgspec.structs.replace(HEALTHY, down="SIGKILL")
FROZEN = msgspec.structs.replace(HEALTHY, frozen=True)
CUT = msgspec.structs.replace(HEALTHY, cuts=("client",))


def obliging(core, event, now, out):
    """Every node but n2 names n2; n2 carries out."""
    if type(event) is Request:
        out.append(Reply(event.id, Ok() if core.node == "n2" else NotLeader("n2")))


def mute(core, event, now, out):
    """Nobody answers."""


def lost(core, event, now, out):
    """Everybody names the next one."""
    if type(event) is Request:
        out.append(Reply(event.id, NotLeader({"n1": "n2", "n2": "n3", "n3": "n1"}[core.node])))


def put(world, target, *, op=1, f="put", value=("k", 1), **more):
    return world.invoke(op, f, list(value) if isinstance(value, tuple) else value, target, **more)


def test_an_operation_is_carried_out_and_its_node_named():
    world = put(ToyWorld(obliging), "n2").on(10 * MS)
    done = world.outcome(1)
    assert (done.outcome.status, done.outcome.node) == ("ok", "n2")
    assert world.got("n2", Request) == [Request(1, Put("k", 1))]


def test_a_redirection_is_followed():
    world = put(ToyWorld(obliging), "n1").on(10 * MS)
    assert world.outcome(1).outcome.node == "n2"
    assert len(world.got("n1", Request)) == len(world.got("n2", Request)) == 1


def test_redirections_end_after_three():
    world = put(ToyWorld(lost), "n1").on(50 * MS)
    assert world.outcome(1).outcome.status == "fail"
    assert sum(len(world.got(name, Request)) for name in world.names) == 4


def test_a_write_that_nobody_answers_is_info_and_a_read_is_fail():
    world = ToyWorld(mute)
    put(world, "n1", timeout=300 * MS)
    put(world, "n1", op=2, f="get", value="k", timeout=300 * MS)
    world.on(299 * MS)
    assert world.outcome(1) is None
    world.on(2 * MS)
    assert (world.outcome(1).outcome.status, world.outcome(1).outcome.error) == ("info", "n1: timeout")
    assert world.outcome(2).outcome.status == "fail"


def test_time_outs_come_at_their_moments_whatever_their_order_and_whoever_is_done():
    world = ToyWorld(obliging)
    put(world, "n2", op=1, timeout=400 * MS).on(10 * MS)
    world.converge(n2=FROZEN)
    began = world.now
    for op, timeout in ((2, 300 * MS), (3, 500 * MS), (4, 100 * MS), (5, 500 * MS), (6, 600 * MS)):
        put(world, "n2", op=op, timeout=timeout)
    world.on(700 * MS)
    assert world.outcome(1).outcome.status == "ok"
    ended = {op: world.outcome(op).at - began for op in range(2, 7)}
    assert ended == {2: 300 * MS, 3: 500 * MS, 4: 100 * MS, 5: 500 * MS, 6: 600 * MS}
    assert [one.op for one in world.told if isinstance(one, OpDone)] == [1, 4, 2, 3, 5, 6]


def test_an_operation_at_a_node_that_is_down_certainly_did_not_happen():
    world = ToyWorld(obliging)
    world.converge(n2=DOWN)
    put(world, "n2").on(10 * MS)
    assert (world.outcome(1).outcome.status, world.outcome(1).outcome.error) == ("fail", "n2: Connection refused")


def test_a_connect_over_a_cut_is_given_up_after_a_second():
    world = ToyWorld(obliging)
    world.converge(n2=CUT)
    put(world, "n2", timeout=5 * SECOND).on(990 * MS)
    assert world.outcome(1) is None
    world.on(20 * MS)
    assert (world.outcome(1).outcome.status, world.outcome(1).outcome.error) == ("fail", "n2: timeout")


def test_a_write_whose_answer_met_a_cut_is_info():
    world = ToyWorld(obliging)
    put(world, "n2").on(10 * MS)
    world.converge(n2=CUT)
    put(world, "n2", op=2, timeout=200 * MS).on(SECOND)
    assert world.outcome(2).outcome.status == "info"


def test_the_end_of_a_process_closes_its_connections_at_once():
    world = ToyWorld(mute, kill_ms="0")
    put(world, "n1").on(10 * MS)
    world.converge(n1=DOWN)
    done = world.on(MS).outcome(1)
    assert (done.outcome.status, done.outcome.error) == ("info", "n1: the connection was closed")


def test_a_frozen_node_is_connected_to_and_carries_out_when_it_wakes():
    world = ToyWorld(obliging)
    world.converge(n2=FROZEN)
    put(world, "n2").on(100 * MS)
    assert world.outcome(1) is None
    world.converge(n2=HEALTHY)
    assert world.on(5 * MS).outcome(1).outcome.status == "ok"


def test_what_a_client_gave_up_may_still_happen():
    world = ToyWorld(obliging)
    world.converge(n2=FROZEN)
    put(world, "n2", timeout=50 * MS).on(100 * MS)
    assert world.outcome(1).outcome.status == "info"
    world.converge(n2=HEALTHY)
    assert len(world.got("n2", Request)) == 1
    assert sum(getattr(one, "op", None) == 1 for one in world.told) == 1


def test_an_operation_that_does_not_exist_is_refused():
    world = put(ToyWorld(obliging), "n2", f="fly").on(MS)
    assert world.outcome(1).outcome.status == "fail"


def test_every_node_is_asked_at_its_pace_and_answers_within_the_span():
    world = ToyWorld(mute).at(2 * SECOND)
    for name in world.names:
        answers = [poll for poll in world.polls(name) if poll.reading is not None]
        assert 18 <= len(answers) <= 20
        gaps = {after.span.lo - before.span.lo for before, after in pairwise(answers)}
        assert gaps == {100 * MS}
        assert all(poll.span.hi - poll.span.lo == 600_000 for poll in answers)


def test_a_node_that_is_down_is_silent_and_found_again():
    world = ToyWorld(mute)
    world.converge(n1=DOWN)
    world.on(SECOND)
    assert {poll.error for poll in world.polls("n1")[-8:]} == {"ECONNREFUSED"}
    world.converge(n1=HEALTHY)
    assert world.on(300 * MS).polls("n1")[-1].reading.incarnation == 1


def test_a_node_cut_from_the_observer_is_silent():
    world = ToyWorld(mute)
    world.converge(n1=CUT)
    world.on(2 * SECOND)
    assert {poll.error for poll in world.polls("n1")[-3:]} == {"no answer in time"}
