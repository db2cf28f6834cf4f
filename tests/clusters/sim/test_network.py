from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core.hoststate import HEALTHY, LinkQuality
from dethrone.harness.core.machine import Message, Request, Send, SendFailed
from tests.clusters.sim.toy import MS, SECOND, ToyWorld


def relay(core, event, now, out):
    """A request ``to:body`` is sent on to that node."""
    if type(event) is Request:
        to, _, body = event.body.partition(":")
        out.append(Send(to, body))


def bodies(world, name):
    return [event.body for event in world.got(name, Message)]


def cut(*sources):
    return msgspec.structs.replace(HEALTHY, cuts=sources)


def bad(src, **quality):
    return msgspec.structs.replace(HEALTHY, links=(LinkQuality(src=src, **quality),))


def many(world, count, to="n2", by="n1"):
    for number in range(count):
        world.poke(by, f"{to}:{number}").on(2 * MS)
    return world


def test_a_message_takes_a_latency_out_of_its_range():
    world = ToyWorld(relay, latency_us="200..500")
    for number in range(200):
        sent = world.now
        world.poke("n1", f"n2:{number}").on(10 * MS)
        arrived, event = world.target.got["n2"][-1]
        after = arrived.mono - world.node("n2").clock.mono(sent)
        assert event == Message("n1", str(number))
        assert 200_000 <= after <= 500_000


def test_messages_of_one_link_never_overtake_each_other():
    world = ToyWorld(relay, latency_us="10..3000")
    for number in range(200):
        world.poke("n1", f"n2:{number}").on(MS // 10)
    world.on(10 * MS)
    assert bodies(world, "n2") == [str(number) for number in range(200)]


def test_a_cut_stops_one_direction_only():
    world = ToyWorld(relay)
    world.converge(n2=cut("n1"))
    world.poke("n1", "n2:lost").poke("n2", "n1:there").on(5 * MS)
    assert bodies(world, "n2") == []
    assert bodies(world, "n1") == ["there"]


def test_what_was_sent_into_a_short_cut_is_lost_and_the_flow_comes_back_within_an_rpc_timeout():
    world = ToyWorld(relay)
    world.converge(n2=cut("n1"))
    world.poke("n1", "n2:lost").on(5 * MS)
    world.converge(n2=HEALTHY)
    world.poke("n1", "n2:waits").on(60 * MS)
    world.poke("n1", "n2:flows").on(5 * MS)
    assert bodies(world, "n2") == ["waits", "flows"]


def test_what_is_sent_into_a_cut_that_resets_flows_waits_for_the_next_flow():
    world = ToyWorld(relay)
    world.converge(n2=msgspec.structs.replace(cut("n1"), resets=("n1",)))
    world.poke("n1", "n2:waits").on(5 * MS)
    world.converge(n2=HEALTHY)
    world.on(100 * MS)
    assert bodies(world, "n2") == ["waits"]


def test_refused_connections_leave_the_flow_that_exists_alone_and_end_with_their_fault():
    world = ToyWorld(relay)
    refused = msgspec.structs.replace(HEALTHY, refuses=("n1",))
    world.converge(n2=refused)
    world.poke("n1", "n2:flows").on(5 * MS)
    assert bodies(world, "n2") == ["flows"]
    world.converge(n2=msgspec.structs.replace(refused, down="SIGKILL"))
    world.converge(n2=refused)  # it is back, and n1 has no flow to it any more
    world.poke("n2", "n1:other way").poke("n1", "n2:waits").on(300 * MS)
    assert bodies(world, "n2") == ["flows"]
    assert bodies(world, "n1") == ["other way"]
    world.converge(n2=HEALTHY)
    world.on(100 * MS)
    assert bodies(world, "n2") == ["flows", "waits"]


def test_flows_are_made_anew_at_a_heal_unless_they_are_to_be_left_alone():
    delays = {}
    for name, lingers in (("reset", msgspec.UNSET), ("left", ("n1",))):
        delays[name] = []
        for seed in range(8):
            world = ToyWorld(relay, seed=seed).on(200 * MS)
            world.converge(n2=msgspec.structs.replace(cut("n1"), lingers=lingers))
            world.on(20 * MS)
            world.converge(n2=HEALTHY)
            since = world.now
            world.poke("n1", "n2:now").on(100 * MS)
            delays[name].append(world.target.got["n2"][-1][0].mono - world.node("n2").clock.mono(since))
    assert max(delays["left"]) < 2 * MS, "a short cut leaves a flow intact"
    assert max(delays["reset"]) > 5 * MS, "the next flow takes a dial"


def test_after_a_long_cut_only_what_is_not_stale_arrives():
    world = ToyWorld(relay)
    world.converge(n2=cut("n1"))
    world.on(600 * MS).poke("n1", "n2:finds the flow dead").on(10 * MS)
    world.poke("n1", "n2:stale").on(SECOND)
    world.poke("n1", "n2:fresh").on(10 * MS)
    world.converge(n2=HEALTHY)
    world.on(100 * MS)
    assert bodies(world, "n2") == ["fresh"]


def test_a_message_to_a_process_that_is_down_waits_for_its_next_life_but_not_for_ever():
    world = ToyWorld(relay)
    world.converge(n2=msgspec.structs.replace(HEALTHY, down="SIGKILL"))
    world.poke("n1", "n2:old").on(700 * MS)
    world.poke("n1", "n2:new").on(10 * MS)
    world.converge(n2=HEALTHY)
    world.on(200 * MS)
    assert bodies(world, "n2") == ["new"]


def test_loss_loses_about_that_share():
    world = ToyWorld(relay)
    world.converge(n2=bad("n1", loss_percent=30))
    arrived = len(bodies(many(world, 1000), "n2"))
    assert 620 < arrived < 780


def test_what_is_corrupted_does_not_arrive():
    world = ToyWorld(relay)
    world.converge(n2=bad("n1", corrupt_percent=30))
    arrived = len(bodies(many(world, 1000), "n2"))
    assert 620 < arrived < 780


def test_a_rate_lets_messages_arrive_one_after_another():
    world = ToyWorld(relay)
    world.converge(n2=bad("n1", rate_kbit_per_s=400))  # 500 bytes in 10 ms
    for _ in range(10):
        world.poke("n1", "n2:x")
    world.on(200 * MS)
    arrivals = [at.mono for at, *_ in world.target.got["n2"]]
    assert len(arrivals) == 10
    assert 85 * MS <= arrivals[-1] - arrivals[0] <= 95 * MS


def test_delay_and_jitter_come_on_top():
    world = ToyWorld(relay)
    world.converge(n2=bad("n1", delay_ns=40 * MS, jitter_ns=10 * MS))
    for _ in range(50):
        sent = world.now
        world.poke("n1", "n2:x").on(60 * MS)
        after = world.target.got["n2"][-1][0].mono - world.node("n2").clock.mono(sent)
        assert 40 * MS <= after <= 51 * MS


def test_duplicates_arrive_twice():
    world = ToyWorld(relay)
    world.converge(n2=bad("n1", duplicate_percent=100))
    many(world, 5).on(10 * MS)
    assert sorted(bodies(world, "n2")) == sorted([str(number) for number in range(5)] * 2)


def test_reordered_messages_overtake_each_other_and_none_is_lost():
    world = ToyWorld(relay)
    world.converge(n2=bad("n1", reorder_percent=50, reorder_ns=20 * MS))
    many(world, 200).on(50 * MS)
    arrived = [int(body) for body in bodies(world, "n2")]
    assert sorted(arrived) == list(range(200))
    assert arrived != sorted(arrived)


def test_held_messages_arrive_when_the_hold_ends_behind_what_was_not_held():
    world = ToyWorld(relay)
    world.converge(n2=bad("n1", hold=2))
    many(world, 4)
    assert bodies(world, "n2") == ["2", "3"]
    world.converge(n2=HEALTHY)
    world.on(5 * MS)
    assert bodies(world, "n2") == ["2", "3", "0", "1"]


def test_to_nobody_nothing_is_sent():
    world = ToyWorld(relay).poke("n1", "n9:x").on(5 * MS)
    assert ("sent", {"to": "n9", "body": "x"}) not in world.lines("n1")


# --- request and response ---------------------------------------------------------------------------------------


def ask(core, event, now, out):
    """A request ``to:body`` is asked of that node; a question that begins with ``?`` is answered."""
    if type(event) is Request:
        to, _, body = event.body.partition(":")
        out.append(Send(to, body))
    elif type(event) is Message and event.id is not None and event.body.startswith("?"):
        out.append(Send(event.src, f"answer to {event.body}", answers=event.id))


def failures(world, name):
    return [(event.to, event.body, event.error) for event in world.got(name, SendFailed)]


def test_a_call_is_answered():
    world = ToyWorld(ask, transport="http").poke("n1", "n2:?a").on(5 * MS)
    assert world.got("n1", Message) == [Message("n2", "answer to ?a")]
    assert failures(world.on(SECOND), "n1") == []


def test_a_call_that_nobody_answers_times_out_after_one_rpc_timeout():
    world = ToyWorld(ask, transport="http").poke("n1", "n2:a").on(49 * MS)
    assert failures(world, "n1") == []
    assert failures(world.on(2 * MS), "n1") == [("n2", "a", "timeout")]


def test_a_call_over_a_cut_times_out_and_one_to_a_dead_process_is_refused_at_once():
    world = ToyWorld(ask, transport="http")
    world.converge(n2=cut("n1"), n3=msgspec.structs.replace(HEALTHY, down="SIGKILL"))
    world.poke("n1", "n2:?a").poke("n1", "n3:?b").on(3 * MS)
    assert failures(world, "n1") == [("n3", "?b", "connection refused")]
    assert failures(world.on(60 * MS), "n1")[1:] == [("n2", "?a", "timeout")]


def test_whoever_asked_a_process_that_ends_hears_that_the_connection_is_lost():
    world = ToyWorld(ask, transport="http", kill_ms="0").poke("n1", "n2:a").on(MS)
    world.converge(n2=msgspec.structs.replace(HEALTHY, down="SIGKILL"))
    assert failures(world, "n1") == [("n2", "a", "connection lost")]


def test_a_frozen_process_answers_late_and_meets_nobody():
    world = ToyWorld(ask, transport="http")
    world.converge(n2=msgspec.structs.replace(HEALTHY, frozen=True))
    world.poke("n1", "n2:?a").on(100 * MS)
    world.converge(n2=HEALTHY)
    world.on(10 * MS)
    assert failures(world, "n1") == [("n2", "?a", "timeout")]
    assert world.got("n1", Message) == []
    assert [event.body for event in world.got("n2", Message)] == ["?a"]


def test_a_caller_that_was_frozen_reads_the_answer_before_it_looks_at_the_clock():
    world = ToyWorld(ask, transport="http").poke("n1", "n2:?a")
    world.converge(n1=msgspec.structs.replace(HEALTHY, frozen=True))
    world.on(200 * MS)
    world.converge(n1=HEALTHY)
    assert world.got("n1", Message) == [Message("n2", "answer to ?a")]
    assert failures(world.on(SECOND), "n1") == []


def test_a_call_to_nobody_fails():
    world = ToyWorld(ask, transport="http").poke("n1", "n9:?a").on(MS)
    assert failures(world, "n1") == [("n9", "?a", "not a member")]


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_same_arrivals(seed):
    def play():
        world = ToyWorld(relay, seed=seed, latency_us="10..3000")
        world.converge(n2=bad("n1", loss_percent=30, jitter_ns=MS, duplicate_percent=20))
        return [(now, event) for now, event in many(world, 100).target.got["n2"]]

    assert play() == play()
