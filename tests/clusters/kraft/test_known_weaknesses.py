"""KR-B1 to KR-B7: each fault sequence shows its symptom, and what must hold beside it holds."""

import pytest

from dethrone.clusters.targets.client_api import Append, Get, Ok, Unknown
from dethrone.clusters.targets.kraft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.kraft.rules import LEADER
from dethrone.clusters.targets.kraft.storage import STATE
from dethrone.clusters.targets.kraft.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.rng import Rng
from tests.clusters.kraft.spec import World


def steady(names="ABC", **more):
    """A world whose leader is A and whose followers have all it has."""
    world = World(names, **more)
    world.elect("A")
    world.run(1200)
    assert world.leader() == "A"
    return world


# --- KR-B1: a cut-off leader without the check of its quorum ------------------------------------------------------


def test_kr_b1_without_the_check_a_cut_off_leader_stays_serves_stale_reads_and_loses_its_writes():
    world = steady(check_quorum="off")
    assert world.write("A", 1)
    world.isolate("A")
    lost = world.request("A", Append("k", "lost"))
    assert world.run(10_000, until=lambda: world.leader() != "A")
    second = world.leader()
    assert world.write(second, 2)
    world.run(30_000)
    assert set(world.with_role(LEADER)) == {"A", second}
    assert world.boxes["A"].status().term < world.boxes[second].status().term
    assert world.ask("A", Get("k")).value == [1]
    assert world.ask(second, Get("k")).value == [1, 2]
    assert lost not in world.replies
    world.heal()
    assert world.run(10_000, until=lambda: world.with_role(LEADER) == [second] and world.boxes["A"].status().commit > 3)
    assert isinstance(world.replies[lost], Unknown)
    assert world.notes("truncate", of="A")
    assert world.ask(second, Get("k")).value == [1, 2]
    assert world.problems == []


@pytest.mark.parametrize(("profile", "f"), [("kraft", 2000), ("kraft-3.7", 3000)])
@pytest.mark.parametrize("seed", range(5))
def test_kr_b1_with_the_check_it_resigns_within_its_window(profile, f, seed):
    world = steady(profile=profile, seed=seed)
    world.isolate("A")
    cut = world.now
    assert world.run(f + 30, until=lambda: "A" not in world.with_role(LEADER))
    assert world.now - cut <= (f + 10) * MS
    assert world.boxes["A"].status().role == "Resigned"


def test_kr_b1_five_voters_a_leader_with_one_follower_left_resigns():
    world = steady("ABCDE")
    world.partition("AB", "CDE")
    assert world.run(2100, until=lambda: world.boxes["A"].status().role == "Resigned")
    assert world.run(10_000, until=lambda: world.leader(among="CDE") is not None)
    assert world.problems == []


# --- KR-B2: a lost or torn file -----------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["deleted", "torn"])
def test_kr_b2_a_voter_that_loses_its_file_votes_twice_and_makes_two_leaders_of_one_epoch(damage):
    world = World("ABC", asleep="C")
    world.sever("A", "C")
    world.hold = lambda src, dst, body: isinstance(body, BeginQuorumEpochRequest | FetchRequest)
    world.campaign("A")  # no record of this epoch reaches B
    assert world.run(500, until=lambda: world.leader() == "A")
    epoch = world.boxes["A"].node.epoch
    assert world.judge.votes["", "B", epoch] == "A"
    world.kill("B")
    content = world.boxes["B"].disk.remove(STATE)
    if damage == "torn":
        world.boxes["B"].disk.store({STATE: content[: len(content) // 2]})
    world.isolate("A")
    world.start("B")
    world.start("C")
    world.hold = None
    world.run(10)
    assert bool(world.notes("quorum_state_deleted", of="B")) == (damage == "torn")
    world.campaign("C")
    assert world.run(500, until=lambda: world.leader(among="C") == "C")
    assert world.boxes["C"].node.epoch == epoch  # C knew of no epoch: it stood in the very one that A leads
    world.run(10)
    assert world.with_role(LEADER) == ["A", "C"]
    assert any(problem.startswith("INV-1") for problem in world.problems)
    assert any(problem.startswith("INV-2: B") for problem in world.problems)


def test_kr_b2_with_its_file_the_same_voter_refuses():
    world = World("ABC", asleep="C")
    world.sever("A", "C")
    world.hold = lambda src, dst, body: isinstance(body, BeginQuorumEpochRequest | FetchRequest)
    world.campaign("A")
    assert world.run(500, until=lambda: world.leader() == "A")
    world.restart("B")
    world.isolate("A")
    world.start("C")
    world.hold = None
    world.campaign("C")
    world.run(500)
    assert world.with_role(LEADER) == ["A"]
    assert world.problems == []


# --- KR-B3: no pre-vote -------------------------------------------------------------------------------------------


def test_kr_b3_an_isolated_follower_deposes_a_working_leader_when_it_returns_even_if_its_log_is_behind():
    world = steady()
    world.isolate("C")
    assert world.write("A", 1)
    world.run(30_000)
    assert world.leader() == "A"
    epoch = world.boxes["A"].node.epoch
    assert world.boxes["C"].node.epoch > epoch + 3
    world.heal()
    assert world.run(5_000, until=lambda: "A" not in world.with_role(LEADER))
    assert world.run(10_000, until=lambda: world.leader() is not None)
    assert world.boxes[world.leader()].node.epoch > epoch
    assert world.leader() != "C" or world.boxes["C"].node.log.end > 1
    assert not [note for note in world.notes("vote_decision") if note.data["candidate"] == "C" and note.data["granted"]]
    assert world.problems == []


# --- KR-B4: a half-open link --------------------------------------------------------------------------------------


def test_kr_b4_followers_that_send_and_do_not_hear_campaign_and_depose_a_leader_that_does_not_resign():
    world = steady()
    epoch = world.boxes["A"].node.epoch
    world.cut = {("A", "B"), ("A", "C")}
    assert world.run(10_000, until=lambda: world.leader() not in (None, "A"))
    assert not world.notes("check_quorum_expired", of="A")
    left = [note for note in world.notes("transition", of="A") if note.data["from"] == "Leader"]
    assert [note.data["to"] for note in left] == ["Unattached"]
    assert world.boxes[world.leader()].node.epoch > epoch
    assert world.problems == []


# --- KR-B5: two voters --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", ["leader", "follower"])
def test_kr_b5_of_two_voters_none_leads_alone(victim):
    world = steady("AB")
    name = "A" if victim == "leader" else "B"
    other = "AB".replace(name, "")
    world.kill(name)
    assert world.run(2_100, until=lambda: world.with_role(LEADER) == [])
    world.run(20_000)
    assert world.with_role(LEADER) == []
    assert world.boxes[other].status().role in ("Candidate", "Resigned")
    world.start(name)
    assert world.run(10_000, until=lambda: len(world.with_role(LEADER)) == 1)
    assert world.problems == []


# --- KR-B6: a frozen leader ---------------------------------------------------------------------------------------


def test_kr_b6_a_thawed_leader_reports_leader_until_its_timer_and_its_writes_never_commit():
    world = steady()
    assert world.write("A", 1)
    world.pause("A")
    world.run(5_000)
    assert world.leader(among="BC") is not None
    assert "A" in world.with_role(LEADER)
    lost = world.request("A", Append("k", "lost"))
    world.resume("A")
    assert world.run(5, until=lambda: "A" not in world.with_role(LEADER))
    assert world.run(10_000, until=lambda: world.boxes["A"].status().role == "Follower")
    world.run(1_000)
    assert not isinstance(world.replies.get(lost), Ok)
    assert world.ask(world.leader(), Get("k")).value == [1]
    assert world.problems == []


# --- KR-B7: fetch timers that run out together --------------------------------------------------------------------


def test_kr_b7_killing_the_leader_of_five_makes_several_candidates_and_several_rounds():
    split = several = 0
    for seed in range(40):
        world, leader = World.with_leader("ABCDE", seed=seed)
        world.run(3_000)
        world.kill(leader)
        before = world.now
        epoch = world.boxes[leader].node.epoch
        assert world.run(10_000, until=lambda w=world: w.leader() is not None), "allowed are 10 s"
        assert world.now - before >= 1_400 * MS  # the last answer of a parked fetch was at most 500 ms ago
        stood = [note.term for note in world.notes("election_started") if note.term > epoch]
        several += len(stood) != len(set(stood))
        split += bool(world.notes("backoff"))
        assert world.problems == []
    assert several >= 4
    assert split >= 1


def test_after_many_rounds_in_vain_the_back_off_is_its_maximum_for_everybody_and_parts_nobody_any_more():
    rules = TARGET.mutants.rules(None, TARGET.knobs({}, profile="kraft"))

    def drawn(retries):
        rng = Rng(retries)
        return [rules.backoff_ms(rng, retries) for _ in range(1_000)]

    assert len(set(drawn(3))) == 8
    assert drawn(15).count(rules.knobs.election_backoff_max_ms) > 990


# --- the rest of the specification's section on liveness ----------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_a_clean_shutdown_hands_over_within_a_second(seed):
    world = steady("ABC", seed=seed)
    world.write("A", 1)
    world.ring("A", "shutdown")
    assert world.run(1_000, until=lambda: world.leader(among="BC") is not None)
    assert world.problems == []


def test_a_wall_clock_step_starts_an_election_only_where_timers_are_on_the_wall_clock():
    for clock, disturbed in (("mono", False), ("wall", True)):
        world = steady(clock=clock)
        world.step_wall(3_000, "B")
        world.run(200)
        assert bool([n for n in world.notes("election_started", of="B") if n.data["term"] > 1]) == disturbed
        assert world.problems == []


def test_a_steady_quorum_sends_two_fetches_a_second_and_follower_and_nothing_else():
    world = steady()
    world.sent.clear()
    notes = sum(len(box.notes) for box in world.boxes.values())
    world.run(10_000)
    assert {type(body) for _, _, _, body in world.sent} == {FetchRequest, FetchResponse}
    assert 38 <= len(world.messages(FetchRequest)) <= 42
    assert sum(len(box.notes) for box in world.boxes.values()) == notes


def test_votes_are_repeated_until_somebody_answers():
    world = World("ABC")
    world.isolate("A")
    world.campaign("A")
    world.run(900)
    assert len(world.messages(VoteRequest, src="A")) == 2
    assert world.messages(VoteResponse, dst="A") == []
