"""Single handlers of the bully cores: each row of both elections, the log, and what the witness reads off the wire."""

from __future__ import annotations

import pytest

from dethrone.clusters.systems.bully import SYSTEM
from dethrone.clusters.targets.bully import messages as m
from dethrone.clusters.targets.bully.knobs import KNOBS
from dethrone.clusters.targets.bully.witness import BullyWitness
from dethrone.clusters.targets.client_api import Append, Cas, NotLeader, Refused
from dethrone.clusters.targets.zk_ephemeral.messages import Record
from dethrone.harness.core.clock import MS
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.machine import DiskDone, Fired, Halt, Reply, Request
from tests.clusters.bully.spec import Node


def beat(role="FOLLOWER", coordinator=None, optime=0, reign=0):
    return m.Heartbeat(role, coordinator, optime, reign, 0)


def to(node, kind):
    return sorted(name for name, _ in node.sent(kind))


def test_a_node_that_starts_asks_all_higher_ids_and_the_highest_leads_at_once():
    assert to(Node("n3"), m.Election) == ["n4", "n5"]
    top = Node("n5")
    assert top.role == "COORDINATOR"
    assert to(top, m.Coordinator) == ["n1", "n2", "n3", "n4"]
    assert to(Node("n3", elect_at_start="off"), m.Election) == []


def test_a_lower_id_is_answered_and_taken_over_and_a_higher_one_is_not():
    node = Node("n3", elect_at_start="off")
    assert ("n1", m.Okay(7)) in node.hear("n1", m.Election(7))
    assert node.role == "ELECTING"
    assert node.hear("n2", m.Election(9)) == [("n2", m.Okay(9))]
    assert node.hear("n5", m.Election(9)) == []
    assert Node("n3", elect_at_start="off", reply_ok="off").hear("n1", m.Election(7)) == []


def test_a_coordinator_that_is_asked_announces_itself_again():
    node = Node("n5")
    node.hear("n1", m.Election(4))
    assert to(node, m.Coordinator) == ["n1", "n2", "n3", "n4"]
    assert node.role == "COORDINATOR"


def test_silence_makes_a_coordinator_and_an_answer_of_this_round_a_wait():
    node = Node("n4")
    node.hear("n5", m.Okay(7))
    assert node.role == "ELECTING"
    node.hear("n5", m.Okay(1))
    assert node.role == "WAITING"
    node.give(Fired("wait"), after_ms=2_000)
    assert (node.role, node.core.round) == ("ELECTING", 2)
    node.give(Fired("wait"), after_ms=1_000)
    assert node.role == "COORDINATOR"


def test_a_higher_coordinator_is_followed_and_a_lower_one_is_bullied():
    node = Node("n3")
    node.hear("n5", m.Coordinator(1, 9))
    assert (node.role, node.core.coordinator) == ("FOLLOWER", "n5")
    node.hear("n2", m.Coordinator(5, 10))
    assert "bullied" in node.said()
    assert to(node, m.Election) == ["n4", "n5"]


def test_a_coordinator_that_hears_a_higher_one_follows_it_and_a_lower_one_hears_it_again():
    node = Node("n4")
    node.give(Fired("wait"), after_ms=1_000)
    assert node.role == "COORDINATOR"
    node.hear("n1", beat("COORDINATOR", "n1", reign=5))
    assert to(node, m.Coordinator) == ["n1", "n2", "n3", "n5"]
    node.hear("n5", beat("COORDINATOR", "n5", reign=5))
    assert (node.role, node.core.coordinator) == ("FOLLOWER", "n5")


def test_a_follower_stands_when_its_coordinator_is_silent_for_longer_than_the_timeout():
    node = Node("n3")
    node.hear("n5", m.Coordinator(1, 9))
    node.give(Fired("tick"), after_ms=2_000)
    assert node.role == "FOLLOWER"
    node.give(Fired("tick"), after_ms=500)
    assert node.role == "ELECTING"


def mongo(name="n1", members=("n1", "n2", "n3"), **settings):
    return Node(name, members, profile="mongo", **settings)


def ready(name="n1", **settings):
    """A node that hears both others and asks them whether they are fresher."""
    node = mongo(name, **settings)
    for peer in {"n1", "n2", "n3"} - {name}:
        node.hear(peer, beat("SECONDARY"))
    node.give(Fired("tick"), after_ms=2_000)
    return node


def test_a_candidate_needs_a_majority_in_sight_and_a_priority():
    alone = mongo()
    alone.give(Fired("tick"), after_ms=2_000)
    assert to(alone, m.Fresh) == []
    assert to(ready(), m.Fresh) == ["n2", "n3"]
    assert to(ready(priorities="n1:0"), m.Fresh) == []


@pytest.mark.parametrize("answer", [{"fresher": True, "veto": ""}, {"fresher": False, "veto": "not electable"}])
def test_a_fresher_node_or_a_veto_blocks_a_candidate(answer):
    node = ready()
    node.hear("n2", m.Freshness(1, 5, **answer))
    node.hear("n3", m.Freshness(1, 5, fresher=False, veto=""))
    assert to(node, m.Elect) == []
    assert "veto" in node.said()


def voted(*votes, node=None):
    node = node or ready()
    for peer in ("n2", "n3"):
        node.hear(peer, m.Freshness(1, -1, fresher=False, veto=""))
    assert to(node, m.Elect) == ["n2", "n3"]
    for peer, vote in zip(("n2", "n3"), votes, strict=True):
        node.hear(peer, m.Ballot(1, vote))
    return node


def test_more_than_half_of_the_votes_make_a_primary_and_a_veto_outweighs_them():
    assert voted(1, 0).role == "PRIMARY"
    assert voted(1, -10_000).role == "SECONDARY"
    lost = voted(0, 0)
    assert (lost.role, lost.core.lease) == ("SECONDARY", None)


def test_a_tie_of_logs_waits_once_for_a_random_time():
    node = ready()
    for peer in ("n2", "n3"):
        node.hear(peer, m.Freshness(1, 0, fresher=False, veto=""))
    assert to(node, m.Elect) == []
    node.give(Fired("wait"), after_ms=1_050)
    assert to(node, m.Fresh) == ["n2", "n3"]
    for peer in ("n2", "n3"):
        node.hear(peer, m.Freshness(2, 0, fresher=False, veto=""))
    assert to(node, m.Elect) == ["n2", "n3"]


def test_a_candidate_asks_again_when_an_answer_was_lost():
    node = ready()
    node.hear("n2", m.Freshness(1, -1, fresher=False, veto=""))
    for _ in range(2):
        for peer in ("n2", "n3"):
            node.hear(peer, beat("SECONDARY"))
        node.give(Fired("tick"), after_ms=2_000)
    assert to(node, m.Fresh) == ["n2", "n3"]


def test_votes_that_come_after_the_lease_do_not_count_unless_the_guard_is_off():
    for guard, role in (("on", "SECONDARY"), ("off", "PRIMARY")):
        node = ready(tally_guard=guard)
        for peer in ("n2", "n3"):
            node.hear(peer, m.Freshness(1, -1, fresher=False, veto=""))
        node.hear("n2", m.Ballot(1, 1), after_ms=31_000)
        node.hear("n3", m.Ballot(1, 1))
        assert node.role == role


def test_a_vote_binds_for_the_lease_and_a_restart_forgets_it_unless_it_is_stored():
    node = mongo("n3")
    assert node.hear("n1", m.Elect(1)) == [("n1", m.Ballot(1, 1))]
    assert node.hear("n2", m.Elect(1)) == [("n2", m.Ballot(1, 0))]
    assert node.hear("n2", m.Elect(2), after_ms=30_001) == [("n2", m.Ballot(2, 1))]
    assert mongo("n3").hear("n2", m.Elect(1)) == [("n2", m.Ballot(1, 1))]
    stored = mongo("n3", lease_persisted="on")
    stored.hear("n1", m.Elect(1))
    content = next(op.data for one in stored.out for op in getattr(one, "ops", ()) if getattr(op, "data", b""))
    again = Node("n3", ("n1", "n2", "n3"), profile="mongo", disk={"lease": content}, lease_persisted="on")
    assert again.hear("n2", m.Elect(1))[0] == ("n2", m.Ballot(1, 0))


def test_a_node_that_sees_a_primary_or_a_higher_priority_vetoes():
    node = mongo("n3")
    node.hear("n2", beat("PRIMARY", "n2", reign=5))
    assert node.hear("n1", m.Elect(1)) == [("n1", m.Ballot(1, -10_000))]
    node = mongo("n3", priorities="n2:2")
    node.hear("n2", beat("SECONDARY"))
    assert node.hear("n1", m.Elect(1)) == [("n1", m.Ballot(1, -10_000))]


def test_of_two_primaries_the_earlier_steps_down_and_one_without_a_majority_does():
    node = voted(1, 1)
    reign = node.core.reign
    node.hear("n2", beat("PRIMARY", "n2", reign=reign - 1))
    assert node.role == "PRIMARY"
    node.hear("n2", beat("PRIMARY", "n2", reign=reign + 1))
    assert (node.role, node.core.coordinator) == ("SECONDARY", "n2")
    cut = voted(1, 1)
    cut.give(Fired("tick"), after_ms=10_001)
    assert cut.role == "SECONDARY"
    assert "step_down" in cut.said()


def test_a_primary_makes_room_for_a_higher_priority():
    node = voted(1, 1)
    node.core.on = KNOBS.parse({"priorities": "n3:2"}, profile="mongo")
    node.give(Fired("tick"))
    assert node.role == "SECONDARY"


def test_a_follower_drops_what_follows_the_common_point():
    node = Node("n1")
    node.hear("n5", m.Coordinator(1, 9))
    old = tuple(Record(index, index, Append("k", index)) for index in (1, 2, 3))
    node.hear("n5", m.Entries(9, 1, 0, 0, old, 3, 0))
    node.hear("n4", m.Coordinator(2, 10))
    node.hear("n4", m.Entries(10, 1, 2, 7, (), 2, 0))
    assert node.sent(m.Stored) == [("n4", m.Stored(10, 1, 1, fits=False))]
    node.hear("n4", m.Entries(10, 2, 1, 1, (Record(2, 7, Append("k", 9)),), 2, 0))
    assert "rollback" in node.said()
    assert [one.epoch for one in node.core.log.entries] == [1, 7]
    node.hear("n5", m.Entries(9, 5, 0, 0, old, 3, 0))
    assert node.core.log.end == 2


def test_a_follower_refuses_writes_and_no_node_serves_what_is_not_served():
    node = Node("n1")
    node.hear("n5", m.Coordinator(1, 9))
    node.give(Request(1, Append("k", 1)))
    assert [one.body for one in node.out if type(one) is Reply] == [NotLeader("n5")]
    node.give(Request(2, Cas("k", 1, 2)))
    assert [type(one.body) for one in node.out if type(one) is Reply] == [Refused]


def test_a_failed_disk_and_an_unreadable_log_stop_the_node():
    node = Node("n5")
    node.give(DiskDone(1, "no space"))
    assert [type(one) for one in node.out] == [Halt]
    assert node.give(Fired("tick")) == []
    assert any(type(one) is Halt for one in Node("n5", disk={"log": "unreadable"}).out)


def test_the_witness_tells_an_election_by_its_first_heartbeat_with_the_voters_that_were_heard():
    witness = BullyWitness("n1")
    witness.booted({})
    assert [one.name for one in witness.sent("n2", m.Ballot(1, 1))] == ["vote"]
    assert witness.sent("n2", m.Ballot(1, 0)) == []
    witness.received("n2", m.Ballot(3, 1))
    witness.received("n3", m.Ballot(3, -10_000))
    (told,) = witness.sent("n2", beat("PRIMARY", "n1", reign=8))
    assert (told.name, told.term, told.data) == ("elected", 0, {"voters": ["n1", "n2"]})
    assert witness.sent("n3", beat("PRIMARY", "n1", reign=8)) == []
    assert [one.data for one in witness.sent("n3", m.Entries(8, 1, 0, 0, (), 4, 4))] == [{"index": 4}]
    assert witness.sent("n2", m.Entries(8, 2, 0, 0, (), 4, 4)) == []


def test_knobs_that_contradict_each_other_and_priorities_that_are_none_are_refused():
    for settings in ({"heartbeat_ms": "1500"}, {"priorities": "n1"}, {"priorities": "n1:-1"}, {"priorities": "n1:x"}):
        with pytest.raises(ConfigError):
            KNOBS.parse(settings)
    assert KNOBS.parse({"priorities": "n3:2,n1:0"}).priorities == {"n3": 2, "n1": 0}


def test_the_promise_has_no_terms_and_a_bound_for_stepping_down_only_where_a_leader_does():
    for profile, bound in (("classic", None), ("mongo", 1_200 * MS)):
        knobs = SYSTEM.knobs(SYSTEM.profile_defaults(profile).settings, profile=profile, variant=None)
        promise = SYSTEM.promise(knobs, profile=profile, voters=5)
        assert promise.step_down_ns == bound
        assert not promise.owes("one-leader-per-term")
        assert promise.owes("leader-when-owed")
        assert promise.owes("acknowledged-survives")
        assert promise.owes("step-down-without-quorum") == (bound is not None)
