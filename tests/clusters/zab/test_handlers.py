"""Handlers of single nodes, one event at a time."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Cas, Get, NotLeader, Ok, Put, Refused, Release, Unknown
from dethrone.clusters.targets.zab import messages as m
from dethrone.clusters.targets.zab.log import ACCEPTED, CURRENT
from dethrone.clusters.targets.zab.node import Link
from dethrone.clusters.targets.zab.target import TARGET
from dethrone.harness.core.errors import ConfigError
from tests.claims.test_zab import files
from tests.clusters.zab.spec import World


def test_a_connection_hands_over_in_order_each_message_once():
    link = Link("B", 1, 0)
    assert link.take(m.Packet(1, 2, m.Ping()), 5) == []
    assert (link.heard, link.got) == (0, 0)
    assert link.take(m.Packet(1, 1, m.Diff(0)), 6) == [m.Diff(0), m.Ping()]
    assert link.take(m.Packet(1, 2, m.Ping()), 7) == []
    assert link.got == 2


def test_a_packet_of_an_unknown_connection_is_answered_with_its_end():
    world = World(asleep="AB")
    world.deliver("A", "C", m.Packet(99, 1, m.Ping()))
    assert (world.sent[-1][2], world.sent[-1][3]) == ("A", m.Closed(99))


@pytest.mark.parametrize("vote", [m.Vote("X", 0, 0), m.Vote("C", 0, 0)])
def test_votes_of_and_for_strangers_are_ignored(vote):
    world = World(asleep="AB")
    world.deliver("X" if vote.leader == "C" else "A", "C", m.Notification(vote, 9, "LOOKING"))
    assert world.boxes["C"].node.round == 1


def test_a_late_voter_of_an_older_round_gets_the_own_vote():
    world = World(asleep="AB")
    world.boxes["C"].node.round = 5
    world.deliver("A", "C", m.Notification(m.Vote("A", 9, 9), 4, "LOOKING"))
    body = world.sent[-1][3]
    assert (body.round, body.vote.leader) == (5, "C")


def test_a_node_refuses_to_start_where_its_epochs_contradict():
    world = World(asleep="AB", disks={"C": {ACCEPTED: b"1\n", CURRENT: b"2\n"}})
    assert "below currentEpoch" in world.boxes["C"].halted


def test_a_log_ahead_of_current_epoch_starts_with_the_stored_one():
    world = World(asleep="AB", disks={"C": files(1, m.zxid_of(2, 1))})
    assert world.boxes["C"].node.vote == m.Vote("C", m.zxid_of(2, 1), 1)


@pytest.mark.parametrize(
    ("theirs", "mode"),
    [
        ((m.zxid_of(1, 1), m.zxid_of(2, 1)), m.Diff),  # its log is a part of the leader's
        ((), m.Diff),
        ((m.zxid_of(1, 1), m.zxid_of(2, 1), m.zxid_of(2, 2)), m.Diff),
        ((m.zxid_of(1, 1), m.zxid_of(1, 2)), m.Snap),  # diverges where the leader's next epoch begins
    ],
)
def test_how_a_follower_is_synchronized(theirs, mode):
    own = (m.zxid_of(1, 1), m.zxid_of(2, 1), m.zxid_of(2, 2))
    world = World(asleep="A", disks={"C": files(2, *own), "B": files(1, *theirs)})
    world.elect(among="BC")
    assert len(world.bodies(mode, src="C", dst="B")) == 1
    assert world.boxes["B"].zxids == list(own)


def test_a_follower_with_more_than_the_leader_cuts_its_log():
    old = (m.zxid_of(1, 1), m.zxid_of(1, 2))
    world = World(asleep="A", disks={"C": files(2, old[0]), "B": files(1, *old)})
    world.elect(among="BC")
    assert world.bodies(m.Trunc, dst="B") == [m.Trunc(old[0])]
    assert world.boxes["B"].zxids == [old[0]]


def test_a_follower_passes_writes_on_and_answers_them_at_its_commit():
    world = World()
    world.elect()
    assert isinstance(world.ask("A", Append("k", 1)), Ok)
    assert world.ask("B", Put("r", 5)).index == 2
    assert world.ask("A", Cas("r", 4, 6)).value is False
    assert world.ask("C", Get("r")).value == 5
    assert isinstance(world.ask("A", Release("l", "me")), Refused)


def test_nothing_is_served_while_looking_and_waiting_writes_become_unknown():
    world = World(asleep="AB")
    assert world.ask("C", Get("k")) == NotLeader(None)
    world = World()
    world.elect()
    world.isolate("A")
    number = world.request("A", Append("k", 1))
    world.run(5_000)
    assert isinstance(world.replies[number], Unknown)


def test_a_leader_whose_counter_is_used_up_looks_again():
    world = World()
    world.elect()
    world.boxes["C"].node.lead.counter = m.COUNTER_MAX
    world.request("C", Append("k", 1))
    assert world.boxes["C"].node.role == "LOOKING"
    world.elect()
    assert world.boxes["C"].node.accepted == 2


def test_a_follower_refuses_an_epoch_below_the_accepted_one():
    world = World(asleep="AC", disks={"B": {ACCEPTED: b"7\n", CURRENT: b"0\n"}})
    world.run(10)
    for src, state in (("C", "LEADING"), ("A", "FOLLOWING")):
        world.deliver(src, "B", m.Notification(m.Vote("C", 0, 0), 1, state))
    opened = world.bodies(m.FollowerInfo, src="B")
    assert opened == [m.FollowerInfo(7)]
    world.deliver("C", "B", m.Packet(world.boxes["B"].node.follow.number, 1, m.LeaderInfo(6)))
    world.run(10)
    assert world.boxes["B"].node.role == "LOOKING"
    assert world.notes("epoch_refused")


def test_a_follower_tries_again_where_its_leader_does_not_lead_yet():
    world = World(asleep="AC")
    for src, state in (("C", "LEADING"), ("A", "FOLLOWING")):
        world.deliver(src, "B", m.Notification(m.Vote("C", 0, 0), 1, state))
    for tries in range(1, 6):
        assert len(world.bodies(m.FollowerInfo, src="B")) == tries
        world.deliver("C", "B", m.Closed(world.boxes["B"].node.follow.number))
        world.run(110)
    assert world.boxes["B"].node.role == "LOOKING"


def test_a_gap_in_the_proposals_ends_the_connection():
    world = World()
    world.elect()
    follow = world.boxes["A"].node.follow
    follow.last = m.zxid_of(1, 5)
    world.write("C", 1)
    assert world.notes("gap", of="A")


def test_a_lone_voter_leads():
    world = World("A")
    assert world.elect() == "A"
    assert world.write("A", 1)


def test_knobs_are_spelled_as_zookeeper_spells_them_and_may_not_contradict():
    assert TARGET.knobs({"tickTime": "100", "initLimit": "3"}).init_ns == 300_000_000
    with pytest.raises(ConfigError):
        TARGET.knobs({"min_notification_interval_ms": "70000"})


def test_a_history_without_transactions_is_acknowledged_too():
    world = World()
    world.elect()
    assert {body.end for body in world.bodies(m.NewLeader)} == {0}
