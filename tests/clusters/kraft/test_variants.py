"""The planted bugs that random worlds do not show: each by a sequence of its own."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.kraft.messages import BeginQuorumEpochRequest, VoteResponse
from dethrone.clusters.targets.kraft.rules import LEADER
from tests.clusters.kraft.spec import C, One, World, disk, vote
from tests.world.effects import answer, halted

# --- sequences ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", [None, "04-ignore-failed-vote-write"])
def test_04_a_vote_whose_write_failed_is_given_and_given_again_after_a_restart(variant):
    one = One(disk(4), variant=variant)
    one.slow = True
    out = one.hear("B", vote(2, 5))
    assert [type(effect).__name__ for effect in out][-1] == ("Send" if variant is None else "Disk")
    assert bool(halted(one.done("disk full"))) == (variant is None)
    if variant is not None:
        assert answer(one.again().hear("C", vote(3, 5)), VoteResponse).partition.vote_granted


@pytest.mark.parametrize("image", [disk(4, leader=1), disk(4, voted=1)])
@pytest.mark.parametrize("variant", [None, "11-forgets-own-vote"])
def test_11_a_leader_or_candidate_votes_in_its_own_epoch_after_a_restart(variant, image):
    again = One(image, variant=variant)  # of a leader: quorum-state was written, the record of its epoch was not
    made = answer(again.hear("C", vote(C, 4)), VoteResponse)
    assert made.partition.vote_granted == (variant is not None)


@pytest.mark.parametrize("variant", [None, "28-never-resigns", "30-own-append-is-contact"])
def test_28_and_30_a_cut_off_leader_stays(variant):
    world = World("ABC", variant=variant)
    world.elect("A")
    world.run(1_000)
    world.isolate("A")
    for value in range(12):
        world.request("A", Append("k", value))
        world.run(500)
    assert ("A" in world.with_role(LEADER)) == (variant is not None)


@pytest.mark.parametrize("variant", [None, "31-any-request-restarts-timers"])
def test_31_a_voter_with_an_old_log_that_keeps_campaigning_keeps_all_others_from_it(variant):
    world = World("ABC", variant={"A": variant, "B": variant, "C": None}, seed=5)
    world.elect("A")
    world.isolate("C")
    assert world.write("A", 1)
    world.kill("A")
    world.heal()
    for _ in range(30):
        world.campaign("C")  # it backs off, or stands in a new epoch
        world.run(400, until=lambda: world.leader(among="B") is not None)
    assert (world.leader(among="B") is not None) == (variant is None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["33-no-jitter", "34-same-seed"])
def test_33_and_34_votes_split_again_and_again(name):
    honest, broken = [], []
    for seed in range(8):
        for variant, rounds in ((None, honest), (name, broken)):
            world = World("ABCD", seed=seed, variant=variant, delay=(2, 2), sync=(0, 0))
            world.run(30_000, until=lambda w=world: w.leader() is not None)
            rounds.append(len(world.notes("election_started")))
    assert sum(broken) > 3 * sum(honest)


@pytest.mark.parametrize("variant", [None, "52-timers-on-wall-clock"])
def test_52_followers_whose_clocks_are_set_back_do_not_replace_a_dead_leader(variant):
    world = World("ABC", variant=variant)
    leader = world.elect("A")
    world.run(1_000)
    for name in "BC":
        world.step_wall(-3_600_000, name)
    world.kill(leader)
    found = world.run(10_000, until=lambda: world.leader() is not None)
    assert found == (variant is None)


@pytest.mark.parametrize("variant", [None, "plain-wants-every-vote"])
def test_plain_nobody_is_elected_while_one_is_silent(variant):
    world = World("ABC", asleep="C", variant=variant)
    assert world.run(10_000, until=lambda: world.leader() is not None) == (variant is None)
    world.run(10)
    assert bool(world.messages(BeginQuorumEpochRequest)) == (variant is None)
