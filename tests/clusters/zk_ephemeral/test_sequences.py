"""The known weaknesses of the specification, each by its own sequence of faults (ZK-B1 … ZK-B10), and what mends it."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Ok, Unknown
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.harness.core.machine import SHUTDOWN, Fired
from tests.clusters.zk_ephemeral.spec import NAMES, TIMES, World, brokers, cluster, leader, others, settled, values

TIMEOUT_MS, LAG_MS = TIMES["zookeeper_session_timeout_ms"], TIMES["replica_lag_time_max_ms"]


def test_a_dead_leader_is_replaced_within_the_timeout_a_third_of_it_and_some_round_trips():
    for seed in range(20):
        world = cluster(seed=seed)
        old = leader(world)
        world.run(seed * 37)
        begin = world.now
        world.kill(old)
        assert world.run(10_000, until=lambda w=world, o=old: [n for n in w.with_role() if n != o])
        assert (world.now - begin) / 1e6 <= TIMEOUT_MS * 4 / 3 + 60
        assert not world.problems


def test_a_clean_stop_hands_over_within_a_few_round_trips():
    world = cluster()
    old = leader(world)
    box = world.boxes[old]
    out = []
    box.core.handle(Fired(SHUTDOWN), box.clocks(), box.rng, out)
    world.carry_out(box, out)
    world.kill(old)
    assert world.run(100, until=world.with_role)


def test_zk_b1_a_stopped_leader_believes_that_it_leads_until_it_hears_of_its_end_and_loses_what_it_took():
    world = cluster()
    old = leader(world)
    world.pause(old)
    assert world.run(8000, until=lambda: len(world.with_role()) == 2)
    world.run(1000)
    request = world.request(old, Append("k", "lost"))
    world.resume(old)
    assert world.run(200, until=lambda: request in world.replies)
    assert isinstance(world.replies[request], Ok)
    assert world.run(8000, until=lambda: settled(world))
    assert "lost" not in values(world, leader(world)) + values(world, old)
    assert world.boxes[old].said("session_expired")


def test_zk_b1_with_fencing_the_new_leaders_word_reaches_the_old_one_and_its_requests_are_refused():
    world = cluster(fencing="epochs")
    old = leader(world)
    world.pause(old)
    assert world.run(8000, until=lambda: len(world.with_role()) == 2)
    world.run(1000)
    world.resume(old)
    answer = world.ask(old, Append("k", "lost"))
    assert not isinstance(answer, Ok)
    assert world.boxes[old].said("fenced")


def cut_from_service(**settings):
    """The leader is cut from the service only, for longer than the timeout."""
    world = cluster(**settings)
    old = leader(world)
    world.sever(old, "zk")
    assert world.run(8000, until=lambda: [name for name in world.with_role() if name != old])
    world.run(500)
    return world, old


def test_zk_b2_a_leader_cut_from_the_service_serves_on_for_the_whole_cut_and_what_it_took_is_lost():
    world, old = cut_from_service()
    assert len(world.with_role()) == 2
    assert world.write(old, "old side")
    new = next(name for name in world.with_role() if name != old)
    assert world.write(new, "new side")
    world.run(60_000)
    assert old in world.with_role()
    world.heal()
    assert world.run(8000, until=lambda: settled(world))
    assert values(world, old) == ["new side"]


def test_zk_b2_with_acks_all_the_cut_leader_cannot_shrink_its_isr_so_its_writes_are_never_confirmed():
    world, old = cut_from_service(acks="all")
    request = world.request(old, Append("k", "old side"))
    world.run(3 * LAG_MS)
    assert request not in world.replies
    world.heal()
    assert world.run(8000, until=lambda: request in world.replies)
    assert isinstance(world.replies[request], Unknown)


def test_zk_b2_a_leader_that_steps_down_on_disconnect_leaves_no_overlap():
    world = cluster(step_down_on_disconnect="true")
    old = leader(world)
    world.sever(old, "zk")
    most = 0

    def watch():
        nonlocal most
        most = max(most, len(world.with_role()))
        return old not in world.with_role() and bool(world.with_role())

    assert world.run(8000, until=watch)
    assert most == 1
    assert world.boxes[old].status().role in ("DISCONNECTED", "FOLLOWER")


def last_in_sync_dies(**settings):
    world = cluster(acks="all", **settings)
    old = leader(world)
    for name in others(world, old):
        world.pause(name)
    lag = LAG_MS + 2 * TIMEOUT_MS
    assert world.run(4 * lag, until=lambda: world.boxes[old].status().extra["isr"] == [old])
    assert world.write(old, "only here")
    world.kill(old)
    for name in others(world, old):
        world.resume(name)
    return world, old


@pytest.mark.parametrize("profile", ["race", "controller"])
def test_zk_b3_nobody_leads_when_the_last_in_sync_replica_is_dead_until_it_returns(profile):
    world, old = last_in_sync_dies(profile=profile)
    world.run(30_000)
    assert not world.with_role()
    if profile == "controller":
        assert world.notes("partition_offline")
    world.start(old)
    assert world.run(10_000, until=lambda: settled(world))
    assert leader(world) == old
    assert values(world, old) == ["only here"]


@pytest.mark.parametrize("profile", ["race", "controller"])
def test_zk_b3_an_unclean_election_ends_the_outage_and_loses_confirmed_records(profile):
    world, old = last_in_sync_dies(profile=profile, unclean_leader_election_enable="true")
    assert world.run(30_000, until=lambda: bool(world.with_role()))
    assert world.notes("unclean_election")
    world.start(old)
    assert world.run(20_000, until=lambda: settled(world))
    assert "only here" not in values(world, leader(world))


@pytest.mark.parametrize("profile", ["race", "controller"])
def test_zk_b4_without_the_service_a_dead_leader_is_never_replaced(profile):
    world = cluster(profile=profile)
    old = leader(world)
    world.kill("zk")
    world.run(1000)
    world.kill(old)
    world.run(120_000)
    assert not world.with_role()
    world.start("zk")
    assert world.run(10_000, until=lambda: bool(world.with_role()))
    assert not world.problems


def test_zk_b5_a_stopped_service_may_expire_all_sessions_at_once():
    world = cluster()
    epoch = world.boxes["a"].status().term
    world.pause("zk")
    world.run(TIMEOUT_MS + 500)
    world.resume("zk")
    world.run(20)
    expired = world.boxes["zk"].said("session_expired")
    assert {one["client"] for one in expired} == {"a", "b", "c"}
    assert world.run(8000, until=lambda: settled(world))
    assert world.boxes["a"].status().term > epoch


def test_zk_b5_so_does_a_step_of_its_clock_if_it_counts_by_the_wall():
    world = cluster(service_clock="wall")
    world.step_wall(60_000, "zk")
    world.run(100)
    assert len(world.boxes["zk"].said("session_expired")) == 3
    honest = cluster()
    honest.step_wall(60_000, "zk")
    honest.run(100)
    assert not honest.boxes["zk"].said("session_expired")


def test_zk_b6_every_in_sync_follower_tries_and_all_but_one_are_refused():
    names = (*(f"n{i}" for i in range(9)), "zk")
    world = cluster(names)
    old = leader(world)
    before = world.boxes["zk"].status().counters
    world.kill(old)
    assert world.run(8000, until=lambda: bool(world.with_role()))
    world.run(100)
    after = world.boxes["zk"].status().counters
    refused = list(world.boxes["zk"].said("create_refused", path=m.LEADER_PATH))
    assert len(refused) >= 7
    assert after["watches_fired"] - before.get("watches_fired", 0) >= 8
    assert not world.problems


def test_zk_b7_a_link_that_flaps_just_above_the_timeout_moves_the_lead_though_all_processes_are_healthy():
    world = cluster()
    epochs = {world.boxes["a"].status().term}
    for _ in range(5):
        name = leader(world)
        world.sever(name, "zk")
        world.run(TIMEOUT_MS + TIMEOUT_MS // 3 + 300)
        world.heal()
        assert world.run(8000, until=lambda: settled(world))
        epochs.add(world.boxes["a"].status().term)
    assert len(epochs) == 6


def test_zk_b7_below_the_timeout_it_does_not():
    world = cluster()
    name, epoch = leader(world), world.boxes["a"].status().term
    for _ in range(5):
        world.sever(name, "zk")
        world.run(TIMEOUT_MS // 2)
        world.heal()
        world.run(TIMEOUT_MS)
    assert (leader(world), world.boxes["a"].status().term) == (name, epoch)


def two_controllers(**settings):
    """A controller whose command nobody hears is stopped; another is elected and names another leader."""
    world = cluster(profile="controller", **settings)
    first = next(b.name for b in brokers(world) if b.status().extra["controller"]["is"])
    follower = next(name for name in others(world, first) if name not in world.with_role())
    stale = m.LeaderAndIsr(
        1,
        first,
        world.boxes[first].core.term,
        ("a", "b", "c"),
        0,
        world.boxes[follower].core.session.id,
    )
    world.pause(first)
    assert world.run(
        10_000,
        until=lambda: (
            any(b.status().extra["controller"]["is"] for b in brokers(world) if b.name != first)
            and any(name != first for name in world.with_role())
        ),
    )
    world.run(1000)
    return world, first, follower, stale


def test_zk_b8_brokers_refuse_a_stale_controller():
    world, first, follower, stale = two_controllers()
    assert stale.leader_epoch < world.boxes[follower].core.term or stale.controller_epoch < 2
    world.deliver(first, follower, stale)
    assert world.boxes[follower].said("leader_and_isr", code=m.STALE_CONTROLLER, answer="refused")
    assert world.boxes[follower].core.controller_epoch == 2
    world.resume(first)
    assert world.run(10_000, until=lambda: settled(world))
    assert not world.problems


def test_zk_b8_without_fencing_they_obey_both():
    world, first, follower, stale = two_controllers(fencing="off")
    before = world.boxes[follower].core.term
    world.deliver(first, follower, stale)
    assert world.boxes[follower].said("leader_and_isr", controller_epoch=1)[-1]["answer"] == "accepted"
    assert world.boxes[follower].core.term <= before
    assert world.boxes[follower].core.leader == first


@pytest.mark.parametrize(("rewatch", "again"), [("on", True), ("off", False)])
def test_zk_b9_a_follower_that_does_not_watch_again_never_contends_again(rewatch, again):
    world = World(NAMES, rewatch=rewatch, **TIMES)
    assert world.run(5000, until=lambda: bool(world.with_role()))
    world.run(2000)
    zk = world.boxes["zk"].core
    for _ in range(2):  # delete and create quickly: the leader's session ends, and somebody takes the node
        for session in [one for one, known in zk.tree.sessions.items() if known.client in world.with_role()]:
            zk.live[session].heard = -(10**12)
            zk.due = 0
        world.run(6000)
    live = [box.status() for box in brokers(world)]
    assert (len({status.leader for status in live}) == 1 and live[0].leader is not None) is again


def test_zk_b10_a_winner_from_an_old_isr_lacks_confirmed_records():
    world = cluster(acks="all", isr_in_force="local", truncate="epoch")
    old = leader(world)
    for name in others(world, old):
        world.sever(old, name)
    world.hold = lambda src, dst, body: (src, dst) == (old, "zk") and isinstance(body, m.Call)
    request = world.request(old, Append("k", "confirmed"))
    assert world.run(4 * LAG_MS, until=lambda: request in world.replies)
    assert isinstance(world.replies[request], Ok)
    world.kill(old, "zk")
    world.hold = None
    world.heal()
    world.start("zk")
    assert world.run(10_000, until=lambda: bool(world.with_role()))
    world.start(old)
    assert world.run(20_000, until=lambda: settled(world))
    assert "confirmed" not in values(world, leader(world))


def test_zk_b10_a_leader_that_waits_for_the_service_confirms_nothing_that_an_old_isr_can_lose():
    world = cluster(acks="all", truncate="epoch")
    old = leader(world)
    for name in others(world, old):
        world.sever(old, name)
    world.hold = lambda src, dst, body: (src, dst) == (old, "zk") and isinstance(body, m.Call)
    request = world.request(old, Append("k", "confirmed"))
    world.run(4 * LAG_MS)
    assert request not in world.replies


def test_truncating_to_the_high_watermark_loses_a_confirmed_record_when_a_restarted_replica_wins():
    # Kafka's KIP-101: the replica holds the record and not yet the high watermark that covers it
    lost = {}
    for truncate in ("hw", "epoch"):
        world = cluster(("a", "b", "zk"), acks="all", truncate=truncate, hw_checkpoint_interval_ms=600_000)
        old = leader(world)
        (other,) = others(world, old)
        assert world.write(old, "confirmed")
        world.run(1000)
        world.restart(other)
        world.hold = lambda src, dst, body, other=other: dst == other and isinstance(body, m.FetchReply)
        world.run(TIMEOUT_MS // 2)
        world.run(8000, until=lambda w=world, o=other: w.boxes[o].core.fetching)
        world.kill(old)
        assert world.run(8000, until=lambda w=world, o=other: o in w.with_role())
        lost[truncate] = "confirmed" not in values(world, other)
    assert lost == {"hw": True, "epoch": False}
