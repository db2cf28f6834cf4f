"""Each planted bug shows itself in the tests' world, by the shortest faults known; the honest build does not."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Ok
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.harness.core.rng import Rng
from tests.clusters.zk_ephemeral.spec import NAMES, TIMES, One, World, cluster, fast
from tests.world.chaos import drawn, play
from tests.world.effects import bodies, replies

SAFE = {"acks": "all", "truncate": "epoch"}


def both(name, **more):
    """The honest cluster and the broken one."""
    return cluster(**more), cluster(variant=name, **more)


def fail_over(w, *, ms=10_000):
    (old,) = w.with_role()
    w.kill(old)
    w.run(ms, until=lambda: bool(w.with_role()))
    return old


def broken_tree(w, what):
    """The service loses power, or finds its tree unreadable, and the leader is gone."""
    if what == "power":
        w.kill("zk", power=True)
    else:
        w.kill("zk")
        w.boxes["zk"].disk.store({"tree": b"\xff" * 40})
    w.start("zk")
    w.run(10_000)
    return w.problems


@pytest.mark.parametrize("name", ["01-state-not-written", "05-tree-not-synced"])
def test_epochs_that_the_service_forgets_are_given_again(name):
    for w, shows in zip(both(name), (False, True), strict=True):
        fail_over(w)
        assert bool(broken_tree(w, "power")) is shows


def test_an_unreadable_tree_taken_for_an_empty_one_gives_epochs_again():
    honest, broken = both("07-unreadable-means-fresh")
    assert not broken_tree(honest, "unreadable")
    assert honest.boxes["zk"].halted
    fail_over(broken)
    assert broken_tree(broken, "unreadable")


def test_an_answer_before_the_disk_shows_an_epoch_that_a_crash_takes_back():
    shows = []
    for variant in (None, "02-answer-before-persist"):
        w = World(variant=variant, asleep=NAMES, **TIMES)
        for name in reversed(NAMES):
            w.start(name)
        w.run(3)
        w.sync = None  # a hung disk: nothing is carried out any more
        w.run(3000)
        w.kill("zk", *w.with_role(), power=True)
        w.sync = (0, 2)
        w.start("zk")
        w.run(10_000)
        shows.append(bool(w.problems))
    assert shows == [False, True]


def test_a_failed_write_that_is_ignored_is_an_epoch_given_again():
    for w, shows in zip(both("04-ignore-failed-write"), (False, True), strict=True):
        zk = w.boxes["zk"]
        w.sync = None
        w.kill(*w.with_role())
        for _ in range(400):
            w.run(20)
            w.batch_done(zk, zk.life, "EIO")
        w.sync = (0, 2)
        w.kill("zk", *w.with_role(), power=True)
        w.start("zk")
        w.run(15_000)
        assert bool(w.problems) is shows


def test_a_broker_that_resumes_leads_without_owning_the_node():
    for w, shows in zip(both("10-resumes-leadership"), (False, True), strict=True):
        (old,) = w.with_role()
        w.kill(*NAMES[:-1])
        w.run(3000)
        w.start(old)
        w.run(1000)
        owner = w.boxes["zk"].core.tree.nodes.get(m.LEADER_PATH)
        leads = w.with_role() == [old]
        assert (leads and owner is None) is shows


def test_a_replica_outside_the_isr_that_contends_loses_confirmed_records():
    for w, shows in zip(both("12-contends-outside-isr", **SAFE), (False, True), strict=True):
        (old,) = w.with_role()
        rest = [name for name in NAMES[:-1] if name != old]
        for name in rest:
            w.sever(name, old)
        w.run(20_000, until=lambda w=w, o=old: w.boxes[o].status().extra["isr"] == [o])
        assert w.write(old, "confirmed")
        w.kill(old)
        w.heal()
        w.run(8000)
        assert bool(w.with_role()) is shows


def test_an_epoch_that_may_fall_falls_by_an_old_command():
    for variant, falls in ((None, False), ("25-epoch-may-fall", True)):
        one = One("a", profile="controller", variant=variant)
        one.open()
        one.hear("c", m.LeaderAndIsr(3, "b", 6, ("a", "b"), 2, 5))
        one.hear("c", m.LeaderAndIsr(2, "c", 4, ("a", "c"), 1, 5))
        assert (one.status().term < 6) is falls


def test_a_leader_that_never_steps_down_goes_on_after_its_end():
    for w, shows in zip(both("28-never-steps-down"), (False, True), strict=True):
        (old,) = w.with_role()
        w.sever(old, "zk")
        w.run(8000, until=lambda w=w: len(w.with_role()) == 2)
        w.heal()
        w.run(1500)
        assert (len(w.with_role()) == 2) is shows


def test_an_unchecked_high_watermark_falls():
    for variant, falls in ((None, False), ("42-follower-hw-unchecked", True)):
        one = One("a", variant=variant)
        one.follow("b", 4)
        records = (m.Record(1, 4, Append("k", 1)), m.Record(2, 4, Append("k", 2)))
        one.hear("b", m.FetchReply(m.FETCH_OK, 4, one.core.fetch_seq, 2, records))
        one.hear("b", m.FetchReply(m.FETCH_OK, 4, one.core.fetch_seq, 1))
        assert (one.status().commit < 2) is falls


def test_cutting_whenever_following_begins_loses_what_was_committed():
    for w, shows in zip(both("44-truncates-always", **SAFE), (False, True), strict=True):
        (leader,) = w.with_role()
        assert w.write(leader, "confirmed")
        w.run(500)
        other = next(name for name in NAMES[:-1] if name != leader)
        before = w.boxes[other].status().commit
        w.boxes[other].notes.clear()
        w.restart(other)
        w.run(6000)
        assert bool([cut for cut in w.boxes[other].said("truncated") if cut["from"] <= before]) is shows


def test_a_write_confirmed_after_the_local_append_is_lost_with_the_leader():
    for variant, shows in ((None, False), ("45-acks-after-local-append", True)):
        one = One("a", variant=variant, acks="all")
        one.lead(stored={"leader": "b", "leader_epoch": 4, "isr": ["a", "b"], "controller_epoch": 0})
        one.fetch_from("b", 0)
        assert bool([body for body in replies(one.ask(Append("k", 1))) if isinstance(body, Ok)]) is shows


def test_a_follower_that_tells_before_its_disk_tells_of_records_that_a_power_loss_takes():
    for variant, shows in ((None, False), ("46-acks-before-sync", True)):
        one = One("a", variant=variant, slow=True)
        one.follow("b", 4)
        out = one.hear("b", m.FetchReply(m.FETCH_OK, 4, one.core.fetch_seq, 0, (m.Record(1, 4, Append("k", 1)),)))
        assert bool([body for body in bodies(out, m.Fetch) if body.log_end == 1]) is shows


def test_without_compare_and_set_a_state_that_was_read_long_ago_is_published_over_a_newer_one():
    def held(src, dst, body):
        return (
            src == slow
            and isinstance(body, m.Call)
            and getattr(body.op, "path", "") == m.LEADER_PATH
            and contends(body)
        )

    def contends(body):
        return isinstance(body.op, m.Create)

    for w, shows in zip(both("plain-no-compare-and-set"), (False, True), strict=True):
        (old,) = w.with_role()
        slow, quick = (name for name in NAMES[:-1] if name != old)
        w.hold = held
        w.kill(old)
        assert w.run(5000, until=lambda w=w, q=quick: q in w.with_role())
        w.run(300)
        w.kill(quick)
        w.run(3000)
        w.hold = None
        w.run(3000)
        assert bool(w.problems) is shows


@pytest.mark.parametrize("name", ["plain-two-creators", "plain-epoch-not-raised"])
def test_two_leaders_of_one_epoch_are_seen_by_nearly_any_faults(name):
    found = 0
    for seed in range(60):
        w = fast(seed, variant=name, acks="all", truncate="epoch")
        play(w, drawn(World, Rng(seed), NAMES, count=40))
        found += bool(w.problems)
        if not w.problems and w.settle():
            one, *rest = w.values()
            found += any(other != one for other in rest) or not w.clients.acknowledged() <= set(one)
    assert found >= 10
