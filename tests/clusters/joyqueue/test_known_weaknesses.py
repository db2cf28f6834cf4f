"""The named weaknesses JQ-B1 to JQ-B8, each by its fault sequence; and what mends those that a knob mends."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Unknown
from dethrone.clusters.targets.joyqueue.messages import VoteRequest, VoteResponse
from tests.clusters.joyqueue.spec import One, World, disk
from tests.world.effects import names, sent

MENDED = {"fix_missing_return": "true", "sync_flag_reset": "true"}


def rival_elected(*, stored, **knobs):
    """A is a candidate whose send task to B waits; B elects C; then A's task to C runs and C refuses.

    The two can say nothing to each other but this request and its answer.
    """
    disks = {name: disk(term, voted, node=name) for name, (term, voted) in stored.items()}
    world = World("ABC", disks=disks, **knobs)

    def held(src, dst, body):
        if (src, dst) == ("A", "C"):
            return not isinstance(body, VoteRequest) or body.pre_vote
        return (src, dst) == ("C", "A") and not isinstance(body, VoteResponse)

    world.hold = held
    world.run(50)
    world.defer("A", "B", "vote", 4000)
    world.defer("A", "C", "vote", 1000)
    world.expire("A")
    world.run(100)
    a, c = world.boxes["A"].group, world.boxes["C"].group
    assert (a.role, a.term) == ("CANDIDATE", 1)
    world.expire("C")
    world.run(200)
    assert c.role == "LEADER"
    world.run(1000)
    return world


def test_b1_a_node_that_no_one_elected_leads_the_higher_term():
    world = rival_elected(stored={"C": (1, None)})
    a, c = world.boxes["A"].group, world.boxes["C"].group
    assert (a.role, a.term, c.role, c.term) == ("LEADER", 2, "LEADER", 2)
    assert a.voted_for is None
    assert any("INV-1: C and A lead term 2" in problem for problem in world.problems)
    assert any("INV-12: A leads term 2 with []" in problem for problem in world.problems)
    (answered,) = world.notes("vote_answer", of="A")
    assert answered.data["fallthrough"] is True
    assert world.notes("become_leader", of="A")[0].data["flags"] == ["A", "B"]


@pytest.mark.parametrize("knobs", [MENDED, {"fix_missing_return": "true"}, {"sync_flag_reset": "true"}])
def test_b1_is_gone_with_a_return_or_with_flags_that_are_reset_at_once(knobs):
    world = rival_elected(stored={"C": (1, None)}, **knobs)
    assert world.leaders_now() == ["C"]
    assert world.boxes["A"].group.term == 2
    assert world.problems == []


def test_b2_pre_vote_grants_are_counted_as_votes():
    world = rival_elected(stored={})
    assert world.leaders_now() == ["A", "C"]
    assert {world.boxes[name].group.term for name in "AC"} == {1}
    assert any("INV-1: C and A lead term 1" in problem for problem in world.problems)
    assert any("INV-12: A leads term 1 with ['A']" in problem for problem in world.problems)


@pytest.mark.parametrize(("knobs", "mended"), [(MENDED, True), ({"fix_missing_return": "true"}, False)])
def test_b2_is_gone_with_flags_that_are_reset_at_once_and_only_so(knobs, mended):
    world = rival_elected(stored={}, **knobs)
    assert (world.leaders_now() == ["C"]) is mended
    assert (world.problems == []) is mended


@pytest.mark.slow
def test_b1_and_b2_need_no_schedule_only_threads_that_are_late():
    found = set()
    for seed in range(60):
        world = World("ABC", seed=seed, profile="joyqueue-starved")
        cuts = world.rng.stream("cuts")
        for _ in range(12):
            world.heal()
            world.sever(cuts.choice("ABC"), cuts.choice("ABC"))
            world.run(cuts.between(2000, 12_000))
        found |= {problem[:6] for problem in world.problems}
    assert "INV-12" in found or "INV-1:" in found


def test_b3_a_late_task_asks_in_a_term_in_which_the_node_is_no_candidate_and_burns_a_vote():
    one = One(log=(1,), term=1)
    one.core.node.defer_task("*", "vote", 10**9)
    one.campaign()
    one.hear_vote_request("C", 5)
    assert (one.group.role, one.group.term, one.group.voted_for) == ("FOLLOWER", 5, None)
    late = sent(one.fire("tasks", after_ms=1000), VoteRequest)
    assert [(to, body.term, body.pre_vote) for to, body in late] == [("B", 5, False), ("C", 5, False)]
    voter = One(node="B", log=(1,), term=1)
    voter.hear("A", late[0][1])
    assert voter.group.voted_for == "A"
    again = voter.hear_vote_request("C", 5, (1, 1))
    assert not sent(again, VoteResponse)[0][1].vote_granted
    assert "vote_answer_ignored" in names(one.answer_vote(late[0]))
    assert one.group.role == "FOLLOWER"


def flapping(*, writes):
    world, leader = World.with_leader()
    first, second = [name for name in "ABC" if name != leader]
    world.sever(leader, second)
    led = [leader]
    for _ in range(600):
        world.run(100)
        now = world.leader()
        if now and now != led[-1]:
            led.append(now)
            if writes:
                assert world.write(now, len(led))
    assert world.problems == []
    return world, led, first


def test_b4_leadership_alternates_over_a_partial_cut_as_long_as_nothing_is_written():
    world, led, _ = flapping(writes=False)
    assert len(led) >= 6
    assert world.boxes[led[-1]].group.term >= len(led) - 1


def test_b4_ends_once_the_one_that_took_over_has_replicated_an_entry():
    _, led, _ = flapping(writes=True)
    assert len(led) == 2


def test_b5_a_leader_that_is_cut_off_leads_without_limit_and_commits_nothing():
    world, old = World.with_leader()
    world.isolate(old)
    world.run(60_000)
    number = world.request(old, Append("k", "lost"))
    world.run(240_000)
    now = world.leader()
    assert sorted(world.leaders_now()) == sorted({old, now})
    assert world.boxes[now].group.term > world.boxes[old].group.term
    assert number not in world.replies
    assert world.boxes[old].group.commit == 0
    assert world.problems == []
    world.heal()
    assert world.run(10_000, until=lambda: number in world.replies)
    assert isinstance(world.replies[number], Unknown)
    assert world.run(10_000, until=world.settled)
    assert world.leaders_now() == [now]


def voted_twice(persist_errors):
    """B's disk is full when it votes for A; it is killed; then A is cut off and C asks B."""
    world = World("ABC", persist_errors=persist_errors)
    world.run(50)
    world.isolate("C")
    world.boxes["B"].full = True
    world.expire("A")
    world.run(300)
    if world.boxes["B"].halted:
        return world
    assert world.boxes["A"].group.role == "LEADER"
    world.kill("B")
    world.boxes["B"].full = False
    world.start("B")
    world.partition("A", "BC")
    world.run(50)
    world.expire("C")
    world.run(300)
    return world


def test_b6_a_swallowed_error_of_the_disk_lets_a_node_vote_twice():
    world = voted_twice("swallow")
    assert world.leaders_now() == ["A", "C"]
    assert any(problem.startswith("INV-2: B voted twice in term 1") for problem in world.problems)
    assert any("INV-1: A and C lead term 1" in problem for problem in world.problems)
    assert world.notes("persist_failed", of="B")


def test_b6_is_gone_where_a_node_stops_that_cannot_store_its_vote():
    world = voted_twice("refuse")
    assert "ENOSPC" in world.boxes["B"].halted
    assert world.problems == []
    assert world.judge.votes.get(("topic", "B", 1)) is None


def test_b7_an_election_timer_that_expires_during_a_campaign_clears_flags_that_were_granted():
    one = One(members="ABCDE")
    asked = one.campaign(voters="BC")
    one.answer_vote(("B", asked["B"]))
    assert one.group.flags == {"A": True, "B": True, "C": False, "D": False, "E": False}
    again = one.expire()
    assert all(body.pre_vote for _, body in sent(again, VoteRequest))
    assert one.group.flags == {"A": True, "B": False, "C": False, "D": False, "E": False}
    one.answer_vote(("C", asked["C"]))
    assert one.group.role == "CANDIDATE"


def test_b8_a_group_of_one_node_leads_the_same_term_after_every_restart():
    world = World("A")
    for count in range(3):
        assert world.run(11_000, until=lambda count=count: len(world.notes("elected")) > count)
        world.restart("A")
    assert [note.data["term"] for note in world.notes("elected")] == [0, 0, 0]
