"""The planted bugs: shown by random worlds where these show them, by a sequence of their own where not."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.kraft.messages import (
    BeginQuorumEpochRequest,
    VoteResponse,
)
from dethrone.clusters.targets.kraft.rules import Rules
from dethrone.clusters.targets.kraft.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.rng import Rng
from tests.clusters.kraft.chaos import converged, drawn, mend, play
from tests.clusters.kraft.minisim import World, leaders
from tests.clusters.kraft.single import C, One, answer, disk, halted, vote


def names_for(variant):
    if variant.nodes_min == 5 or "observers" in variant.needs:
        return "ABCDE"
    return "ABCD" if variant.nodes_min == 4 else "ABC"


def knobs_for(variant):
    return {"observers": "D,E"} if "observers" in variant.needs else {}


CHAOTIC = {
    "01-vote-not-written": "INV-2",
    "02-answer-before-persist": "INV-3",
    "05-vote-not-synced": "INV-",
    "06-delete-then-rename": "INV-3",
    "10-resumes-leadership": "a second time",
    "12-grant-without-log-check": "INV-4",
    "14-last-epoch-is-current": "INV-4",
    "16-counts-older-epoch": "INV-12",
    "17-counts-higher-epoch": "INV-1",
    "21-majority-of-responders": "INV-12",
    "22-half-is-enough": "INV-12",
    "23-observers-vote": "INV-12",
    "25-epoch-may-fall": "INV-3",
    "40-commits-old-epochs": "INV-5",
    "42-follower-hw-unchecked": "INV-5",
    "45-acks-after-local-append": "stale read",
    "46-fetches-before-sync": "INV-4",
    "plain-writes-epoch-before": "INV-",
    "plain-votes-twice": "INV-2",
    "plain-never-diverges": "INV-5",
}


@pytest.mark.parametrize("name", CHAOTIC)
def test_a_random_world_shows_it_and_the_honest_build_survives_the_same_world(name):
    variant = TARGET.planted[name]
    names, knobs = names_for(variant), knobs_for(variant)
    for seed in range(60):
        schedule = drawn(Rng(seed).stream("chaos"), names, count=120)
        world = play(World(names, seed=seed, variant=name, **knobs), schedule)
        if any(CHAOTIC[name] in problem for problem in world.problems):
            assert play(World(names, seed=seed, **knobs), schedule).problems == []
            return
    pytest.fail("sixty worlds do not show it")


@pytest.mark.parametrize("name", [name for name in TARGET.planted if name.startswith("harmless")])
def test_the_harmless_builds_stay_safe_and_converge(name):
    for seed in range(8):
        world = World("ABC", seed=seed, variant=name)
        play(world, drawn(Rng(seed).stream("chaos"), "ABC", count=100))
        mend(world)
        assert world.run(10_000, until=lambda w=world: converged(w))
        assert world.problems == []


def test_there_are_five_harmless_builds_and_every_other_names_its_checkers():
    harmless = [name for name in TARGET.planted if name.startswith("harmless")]
    assert len(harmless) == 5
    for name, variant in TARGET.planted.items():
        assert bool(variant.caught_by) == (name not in harmless)
        assert TARGET.variants()[name] == variant.says


@pytest.mark.parametrize("name", TARGET.planted)
def test_a_build_overrides_rules_and_nothing_else(name):
    made = TARGET.planted[name].rules(TARGET.knobs({"observers": "D"}))
    own = {key for key in vars(type(made)) if not key.startswith("_")}
    assert 1 <= len(own) <= 2
    assert own <= set(vars(Rules))


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
    assert ("A" in leaders(world)) == (variant is not None)


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


@pytest.mark.parametrize("name", ["33-no-jitter", "34-same-seed"])
def test_33_and_34_votes_split_again_and_again(name):
    honest, broken = [], []
    for seed in range(8):
        for variant, rounds in ((None, honest), (name, broken)):
            world = World("ABCD", seed=seed, variant=variant, delay=(2, 2), fsync=(0, 0))
            world.run(30_000, until=lambda w=world: w.leader() is not None)
            rounds.append(len(world.notes("election_started")))
    assert sum(broken) > 3 * sum(honest)


@pytest.mark.parametrize("variant", [None, "52-timers-on-wall-clock"])
def test_52_followers_whose_clocks_are_set_back_do_not_replace_a_dead_leader(variant):
    world = World("ABC", variant=variant)
    leader = world.elect("A")
    world.run(1_000)
    for name in "BC":
        world.step_wall(name, -3600 * 1000 * MS)
    world.kill(leader)
    found = world.run(10_000, until=lambda: world.leader() is not None)
    assert found == (variant is None)


@pytest.mark.parametrize("variant", [None, "plain-wants-every-vote"])
def test_plain_nobody_is_elected_while_one_is_silent(variant):
    world = World("ABC", asleep="C", variant=variant)
    assert world.run(10_000, until=lambda: world.leader() is not None) == (variant is None)
    world.run(10)
    assert bool(world.messages(BeginQuorumEpochRequest)) == (variant is None)
