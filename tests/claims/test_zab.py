"""The 19 claims about ZAB: each holds for the honest core, and its test turns red under the planted bug of its rule."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Get, Ok
from dethrone.clusters.targets.zab.log import ACCEPTED, CURRENT, LOG
from dethrone.clusters.targets.zab.messages import (
    NOT_COUNTED,
    Ack,
    AckEpoch,
    Closed,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Notification,
    Packet,
    Txn,
    Vote,
    zxid_of,
)
from dethrone.clusters.targets.zab.target import TARGET
from dethrone.harness.core.clock import MS
from tests.claims.flips.zab import FLIPS
from tests.claims.table import claims
from tests.clusters.zab.spec import World, log_bytes

CLAIMS = claims("zab")
FLIP = {one.number: one.flip for one in CLAIMS}


def claim(number):
    return pytest.mark.claim(f"ZAB-{number}", flip=FLIP[f"ZAB-{number}"])


def epoch(world, name):
    return world.boxes[name].node.accepted


def test_the_claims_are_numbered_without_a_gap_and_every_planted_bug_flips_one():
    assert [one.number for one in CLAIMS] == [f"ZAB-{n}" for n in range(1, 20)]
    bugs = [name for name in TARGET.variants() if not name.startswith("harmless-")]
    assert sorted(FLIP.values()) == sorted([*bugs, *FLIPS])


def won_once(variant):
    """C wins epoch 1 with B, which hears nothing of it; A sleeps."""
    world = World(variant=variant, asleep="A")
    world.hold_kind(NewLeader)
    assert world.run(3000, until=lambda: world.bodies(NewLeader, src="C"))
    world.isolate("C")
    world.hold = None
    return world


@claim(1)
def test_claim_zab_1_one_leader_wins_an_epoch(variant):
    world = won_once(variant)
    world.restart("B")
    world.start("A")
    world.elect(among="AB")
    assert epoch(world, "B") == 2
    assert world.problems == []


@claim(2)
def test_claim_zab_2_a_leader_that_restarts_does_not_propose_its_epoch_again(variant):
    world = World(variant=variant, asleep="A")
    world.hold_kind(LeaderInfo)
    assert world.run(3000, until=lambda: world.bodies(LeaderInfo, src="C"))
    world.restart("C", power=True)
    world.hold, world.held_messages = None, []
    world.elect(among="BC")
    proposed = [body.epoch for body in world.bodies(LeaderInfo, src="C")]
    assert len(proposed) == 2
    assert proposed[0] < proposed[1]


@claim(3)
def test_claim_zab_3_a_new_epoch_is_above_the_leaders_own_accepted_one(variant):
    world = won_once(variant)
    world.start("A")
    world.elect(among="AB")
    assert epoch(world, "B") == 2
    assert world.problems == []


@claim(4)
def test_claim_zab_4_an_epoch_is_acknowledged_to_one_leader(variant):
    world = World(variant=variant, asleep="AC")
    for leader, other in (("C", "A"), ("A", "C")):
        for src, state in ((leader, "LEADING"), (other, "FOLLOWING")):
            world.deliver(src, "B", Notification(Vote(leader, 0, 0), 1, state))
        packets = [body for _, _, dst, body in world.sent if dst == leader and isinstance(body, Packet)]
        assert isinstance(packets[-1].body, FollowerInfo)
        link = packets[-1].link
        world.deliver(leader, "B", Packet(link, 1, LeaderInfo(1)))
        world.run(50)
        world.deliver(leader, "B", Closed(link))
    counted = [body.current for body in world.bodies(AckEpoch, src="B")]
    assert counted == [0, NOT_COUNTED]


@claim(5)
def test_claim_zab_5_winning_needs_a_quorum_of_ackepoch(variant):
    world = World(variant=variant)
    world.hold_kind(LeaderInfo)
    assert world.run(3000, until=lambda: world.bodies(LeaderInfo))
    world.run(500)
    assert world.notes("elected") == []
    world.release()
    world.elect()


def joined(variant, steps=-1):
    """A joins C and B, which hold one transaction; ``steps``: it is killed after so many steps."""
    world = World(variant=variant, asleep="A", sync=(2, 4))
    world.elect(among="BC")
    assert world.write("C", 1)
    world.boxes["A"].crash_in = steps
    world.start("A")
    return world, world.boxes["A"]


@claim(6)
def test_claim_zab_6_current_epoch_never_runs_ahead_of_the_log(variant):
    seen = 0
    for steps in range(60):
        world, box = joined(variant, steps)
        if world.run(2000, until=lambda box=box: not box.alive):
            box.disk.lose_power()
            current, zxids = box.stored()
            if current is not None:
                seen += 1
                assert zxids == world.boxes["C"].zxids
    assert seen


@claim(7)
def test_claim_zab_7_the_acknowledgement_of_newleader_means_a_durable_history(variant):
    world, box = joined(variant)
    assert world.run(2000, until=lambda: Ack(zxid_of(1)) in world.bodies(Ack, src="A"))
    world.kill("A", power=True)
    assert box.stored()[1] == world.boxes["C"].zxids


def files(current, *zxids):
    log = log_bytes(Txn(zxid, Append("k", place)) for place, zxid in enumerate(zxids, 1))
    return {ACCEPTED: b"2\n", CURRENT: b"%d\n" % current, LOG: log}


@claim(8)
def test_claim_zab_8_the_epoch_outranks_the_zxid(variant):
    old = [zxid_of(1, counter) for counter in (1, 2, 3, 4)]
    world = World(variant=variant, asleep="A", disks={"B": files(2, *old[:3]), "C": files(1, *old)})
    assert world.elect(among="BC") == "B"
    assert world.boxes["C"].zxids == old[:3]


@claim(9)
def test_claim_zab_9_diverging_tails_are_removed(variant):
    world = World(variant=variant)
    assert world.elect() == "C"
    assert world.write("C", 1)
    world.isolate("C")
    assert not world.write("C", 2, ms=50)
    assert world.run(10_000, until=lambda: world.leader(among="AB"))
    world.heal()
    world.run(5_000)
    assert world.write(world.leader(), 3)
    world.run(1_000)
    logs = [box.node.log.entries for box in world.boxes.values()]
    assert logs[0] == logs[1] == logs[2]
    assert world.problems == []


@claim(10)
def test_claim_zab_10_votes_show_the_end_of_the_log(variant):
    world = World(variant=variant)
    world.elect()
    world.isolate("C")
    assert not world.write("C", 1, ms=50)
    assert world.run(3000, until=lambda: world.boxes["C"].node.role == "LOOKING")
    votes = [body.vote for body in world.bodies(Notification, src="C")]
    assert votes[-1].zxid == zxid_of(1, 1)


@claim(11)
def test_claim_zab_11_a_joining_follower_misses_no_proposal(variant):
    world = World(variant=variant, asleep="A")
    world.elect(among="BC")
    world.hold_kind(Ack, src="A")
    world.start("A")
    assert world.run(3000, until=lambda: world.bodies(Ack, src="A"))
    assert world.write("C", 1)
    world.release()
    world.run(500)
    assert world.boxes["A"].zxids == world.boxes["C"].zxids


@claim(12)
def test_claim_zab_12_a_leader_does_not_serve_before_a_quorum_acknowledged_newleader(variant):
    world = World(variant=variant)
    world.hold_kind(Ack)
    assert world.run(3000, until=lambda: world.bodies(Ack))
    leader = world.boxes["C"]
    assert leader.node.leader == "C"
    assert not isinstance(world.ask("C", Get("k"), ms=100), Ok)
    world.release()
    world.elect()
    assert isinstance(world.ask("C", Get("k")), Ok)


@claim(13)
def test_claim_zab_13_acknowledged_writes_survive_the_loss_of_unsynced_data(variant):
    world = World(variant=variant, sync=(40, 60))
    world.elect()
    assert world.write("C", 1)
    for name in "ABC":
        world.boxes[name].batches.clear()  # nothing of what is under way gets to the disk
        world.kill(name, power=True)
    for name in "ABC":
        world.start(name)
    leader = world.elect()
    assert world.ask(leader, Get("k")).value == [1]


@claim(14)
def test_claim_zab_14_a_joining_follower_commits_what_was_committed_meanwhile(variant):
    world = World(variant=variant, asleep="A")
    world.elect(among="BC")
    world.hold_kind(Ack, src="A")
    world.start("A")
    assert world.run(3000, until=lambda: world.held_messages)
    assert world.write("C", 1)
    world.run(50)
    assert world.boxes["A"].node.follow.buffer
    world.release()
    world.run(500)
    assert world.boxes["A"].node.commit == world.boxes["C"].node.commit == 1


@claim(15)
def test_claim_zab_15_a_leader_is_established_while_a_quorum_is_up(variant):
    world = World(variant=variant, asleep="A")
    assert world.run(10_000, until=lambda: world.leader() == "C")


@claim(16)
def test_claim_zab_16_a_newcomer_joins_a_working_ensemble(variant):
    world = World(variant=variant)
    world.elect()
    world.restart("A")
    assert world.run(5_000, until=lambda: world.boxes["A"].node.leader == "C")
    assert epoch(world, "A") == 1


@claim(17)
def test_claim_zab_17_nodes_of_different_rounds_elect_a_leader_together(variant):
    world = World(variant=variant, asleep="A")
    world.elect(among="BC")
    world.kill("C")
    assert world.run(3000, until=lambda: world.boxes["B"].node.round == 2)
    world.start("A")
    assert world.run(10_000, until=lambda: world.leader() == "B")


@claim(18)
def test_claim_zab_18_synchronizing_a_lagging_follower_costs_no_further_epoch(variant):
    world = World(variant=variant, asleep="A")
    world.elect(among="BC")
    assert world.write("C", 1)
    world.kill("B")
    assert world.run(3000, until=lambda: world.boxes["C"].node.role == "LOOKING")
    world.start("A")
    assert world.run(20_000, until=lambda: world.leader() == "C" and world.boxes["A"].node.phase == "BROADCAST")
    assert epoch(world, "C") == 2


@claim(19)
def test_claim_zab_19_a_cut_leader_leaves_within_the_sync_limit_and_a_tick(variant):
    world = World(variant=variant)
    world.elect()
    world.run(1000)
    world.isolate("C")
    began = world.now
    assert world.run(5_000, until=lambda: world.boxes["C"].node.role == "LOOKING")
    knobs = world.knobs
    assert world.now - began <= (knobs.sync_limit + 1) * knobs.tick_time + 10 * MS
