"""Planted bugs that a checker must find in the history of a world; the honest build passes the same world."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.raft.messages import Config, VoteReply
from dethrone.clusters.targets.raft.target import TARGET
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.rng import Rng
from tests.clusters.raft.recorded import Recorded
from tests.clusters.raft.spec import honest_and
from tests.clusters.raft.test_sequences import win


def judged(world, checker, *, broken, words=""):
    verdict = world.verdict(checker)
    told = " ".join([verdict.reason, *(found.sentence for found in verdict.findings)])
    assert verdict.outcome == ("fail" if broken else "pass"), (verdict.outcome, told, verdict.evidence)
    if broken:
        assert words in told
        assert all(1 <= len(found.certificate) <= 8 for found in verdict.findings)
    return verdict


# --- vote-is-durable --------------------------------------------------------------------------------------------


def granted(variant, **more):
    """B has just told A that it votes for it."""
    world = Recorded("ABC", variant=variant, profile="raft-paper", **more)
    world.run(20)
    world.campaign("A")
    assert world.run(140, until=lambda: any(e.name == "vote" for e in world.boxes["B"].witnessed))
    return world


@honest_and("01-vote-not-written")
def test_01_the_vote_is_not_on_disk_at_the_next_start(variant, broken):
    world = granted(variant)
    world.restart("B")
    judged(world, "vote-is-durable", broken=broken, words="its disk holds no vote of that term")


@honest_and("04-ignore-failed-vote-write")
def test_04_the_vote_whose_write_failed_is_given_at_the_next_request(variant, broken):
    world = Recorded("ABC", variant=variant, profile="raft-paper")
    world.run(20)
    start = world.start_batch
    failed = []

    def fails_once(box):
        if box.name == "B" and not failed:
            failed.append(box)
            world.at(world.now + MS, world.batch_done, box, box.life, "EIO")
        else:
            start(box)

    world.start_batch = fails_once
    world.campaign("A")
    world.run(140)
    if not broken:
        assert "EIO" in world.boxes["B"].halted
        world.boxes["B"].alive = True
    world.restart("A")
    world.restart("B")
    judged(world, "vote-is-durable", broken=broken, words="its disk holds nothing")


@honest_and("05-vote-not-synced")
def test_05_a_loss_of_power_takes_the_vote(variant, broken):
    world = granted(variant)
    world.restart("B", power=True)
    judged(world, "vote-is-durable", broken=broken, words="its disk holds nothing")


@honest_and("06-delete-then-rename")
def test_06_a_kill_between_delete_and_rename_leaves_no_file(variant, broken):
    world = granted(variant)
    box = world.boxes["B"]
    world.run(100)
    start, world.start_batch = world.start_batch, lambda box: start(box) if box.name != "B" else None
    world.campaign("C")
    world.run(50)
    ops = box.batches[0].ops
    box.batches.clear()
    for op in ops[:3]:
        box.disk.carry_out(op)
    world.kill("B")
    world.start("B")
    judged(world, "vote-is-durable", broken=broken, words="its disk holds nothing")


@honest_and("07-unreadable-means-fresh")
def test_07_a_node_goes_on_from_a_file_that_it_cannot_read(variant, broken):
    world = granted(variant)
    world.kill("B")
    world.boxes["B"].disk.store({"vote": b"?"})
    world.start("B")
    world.run(2000)
    verdict = judged(world, "vote-is-durable", broken=broken, words="could not read its vote file")
    assert verdict.evidence["unreadable"] == 1


# --- members-only -----------------------------------------------------------------------------------------------

SINGLE = {"membership": "single_server"}


def without_d(variant):
    """A leads A, B and C, which took D out of their number."""
    world = win(Recorded("ABCD", variant=variant, **SINGLE), "A")
    world.run(100)
    assert world.do("reconfigure", ["remove", "D"], "A")() is None
    return world


@honest_and("23-non-members-vote")
def test_23_the_vote_of_a_removed_node_is_asked_for_and_counted(variant, broken):
    world = without_d(variant)
    world.run(300)
    assert world.boxes["B"].node.config == Config(("A", "B", "C"))
    world.kill("A")
    world.run(3000)
    judged(world, "members-only", broken=broken, words="with votes of")


@honest_and("53-config-on-commit")
def test_53_the_old_members_count_the_entry_that_changes_them(variant, broken):
    world = without_d(variant)
    world.run(300)
    world.partition("AB", "CD")
    world.do("reconfigure", ["add", "D"], "A", ms=50)()
    world.heal()
    world.sever("A", "C")
    world.sever("B", "C")
    world.sever("C", "D")
    # D catches up; then only A and B hear of the entry that makes it a voter
    world.hold = lambda src, dst, body: (
        dst == "D"
        and any(
            isinstance(entry.command, Config) and "D" in entry.command.voters for entry in getattr(body, "entries", ())
        )
    )
    world.run(1500)
    world.heal()
    world.hold = None
    world.run(1500)
    judged(world, "members-only", broken=broken, words="of the members A, B, C, D had stored it")


@honest_and("54-removed-node-campaigns")
def test_54_a_removed_node_goes_on_campaigning(variant, broken):
    world = without_d(variant)
    world.run(3000)
    verdict = judged(world, "members-only", broken=broken, words="D stood for election in term")
    assert verdict.evidence["removals_known"]


# --- no-livelock ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["33-no-jitter", None])
def test_33_votes_are_split_more_often_than_chance_explains(name, seed):
    world = Recorded("ABC", variant=name, seed=seed, polls=False)
    for _ in range(20):
        world.run(2500)
        leader = world.leader() or "A"
        world.kill(leader)
        world.run(2500)
        world.start(leader)
    world.run(4000)
    judged(world, "no-livelock", broken=name is not None, words="split the vote")


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["34-same-seed", None])
def test_34_all_stand_at_once_after_a_common_start(name, seed):
    world = Recorded("ABC", variant=name, seed=seed, polls=False)
    for _ in range(20):
        world.run(2500)
        for node in "ABC":
            world.kill(node)
        for node in "ABC":
            world.start(node)
    world.run(4000)
    judged(world, "no-livelock", broken=name is not None, words="split the vote")


@honest_and("27-refuses-campaigned-term")
def test_27_a_node_that_lost_refuses_the_winner_of_its_term_for_ever(variant, broken):
    for seed in range(20):
        world = Recorded("ABC", variant=variant, seed=seed)
        world.campaign("A")
        world.campaign("C")
        world.run(100)
        stood = {e.name for box in (world.boxes["A"], world.boxes["C"]) for e in box.witnessed if e.name == "elected"}
        if stood and {"A", "C"} <= {
            name for (_, name, term), who in world.judge.votes.items() if name == who and term == 1
        }:
            break
    world.run(6000)
    judged(world, "no-livelock", broken=broken, words="times in a row")


@honest_and("31-any-request-resets-deadline")
def test_31_an_asker_that_cannot_win_keeps_the_only_one_that_can_from_asking(variant, broken):
    world = win(Recorded("ABC", variant=variant), "A")
    world.isolate("C")
    assert world.write("A", 1)
    world.run(100)
    node = world.boxes["C"].node
    node.rules.deadline = lambda rng: 100 * MS
    node.timeout_min = 100 * MS
    world.kill("A")
    world.heal()
    world.run(6000)
    judged(world, "no-livelock", broken=broken, words="C stood for election")


@honest_and("39-repeated-request-refused")
def test_39_every_first_answer_is_lost(variant, broken):
    world = Recorded("ABC", variant=variant)
    world.kill("C")
    seen = set()

    def first(src, dst, body):
        key = (src, dst, getattr(body, "term", 0))
        if not isinstance(body, VoteReply) or not body.vote_granted or key in seen:
            return False
        seen.add(key)
        return True

    world.hold = first
    world.run(8000)
    judged(world, "no-livelock", broken=broken, words="times in a row")


# --- lease-exclusion --------------------------------------------------------------------------------------------


def old_leader_is_asked(variant, *, wall_back=0, pause=False):
    """A holds a lease as leader and is cut off; B is elected and gives the lock to c2; A is asked who holds it."""
    world = Recorded("ABC", variant=variant, reads="lease")
    world.run(200)
    win(world, "A")
    token = world.do("acquire", ["l", "c1", 100], "A")()
    world.run(320)
    assert world.do("holder", "l", "A")() == ["c1", token]
    for box in world.boxes.values():
        box.node.timeout_min = 150 * MS
    if pause:
        world.pause("A")
    world.isolate("A")
    if wall_back:
        world.step_wall(-wall_back)
    world.boxes["B"].node.rules.deadline = lambda rng: 150 * MS
    assert world.run(1000, until=lambda: world.leader(among="BC") is not None)
    assert world.do("acquire", ["l", "c2", 100], world.leader(among="BC"))() > token
    answer = world.do("holder", "l", "A")
    world.run(2)
    if pause:
        world.resume("A")
    answer()
    return world


@pytest.mark.parametrize("words", ["was seen with token", "served a read under its lease of term"])
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("47-lease-on-wall-clock", {"wall_back": 10_000}),
        ("49-lease-on-timer", {}),
        ("51-lease-without-recheck", {"pause": True}),
    ],
)
def test_47_49_51_an_old_leader_tells_an_old_holder(name, how, words):
    judged(old_leader_is_asked(name, **how), "lease-exclusion", broken=True, words=words)
    judged(old_leader_is_asked(None, **how), "lease-exclusion", broken=False)


# --- nobody else ------------------------------------------------------------------------------------------------

CHECKERS = ("members-only", "vote-is-durable", "lease-exclusion", "no-livelock")
HARMLESS = [None, *(name for name in TARGET.planted if name.startswith("harmless"))]


def suffer(world, rng, names, seconds):
    """Faults of many kinds, one after another."""
    while world.now < seconds * SECOND:
        leader = world.leader() or names[0]
        who = rng.choice((leader, leader, rng.choice(names)))
        match rng.below(5):
            case 0:
                world.isolate(who)
                world.run(rng.between(500, 2500))
                world.heal()
            case 1:
                if world.boxes[who].alive:
                    world.kill(who, power=rng.chance(1, 2))
                    world.run(rng.between(100, 1500))
                    world.start(who)
            case 2:
                world.pause(who)
                world.run(rng.between(300, 1500))
                world.resume(who)
            case 3:
                world.lose(15)
                world.run(2000)
                world.lose(0)
            case _:
                for name in [name for name in names if world.boxes[name].alive]:
                    world.kill(name, power=True)
                for name in names:
                    world.start(name)
        if rng.chance(1, 2):
            world.run(rng.between(100, 5000))
    world.mend()
    world._settle()
    world.run(5000)


@pytest.mark.slow
@pytest.mark.parametrize("variant", HARMLESS)
@pytest.mark.parametrize(
    ("workload", "knobs"), [("lease", {"reads": "lease"}), ("membership", SINGLE)], ids=["lease", "membership"]
)
def test_honest_and_harmless_builds_raise_no_alarm(workload, knobs, variant):
    seed = HARMLESS.index(variant)
    world = Recorded("ABCDE" if workload == "membership" else "ABC", seed=seed, variant=variant, **knobs)
    world.drive(workload)
    suffer(world, Rng(seed).stream("suffer"), world.names, 12)
    world.finish()
    for name in CHECKERS:
        verdict = world.verdict(name)
        assert verdict.outcome in {"pass", "n/a"}, (name, verdict.reason, verdict.evidence)
    assert world.problems == []


def test_locks_are_held_and_members_do_change_in_those_worlds():
    world = Recorded("ABC", reads="lease")
    world.drive("lease")
    world.run(5000)
    evidence = world.verdict("lease-exclusion").evidence
    assert evidence["certain_holds"] > 20
    assert evidence["lease_reads_compared"] > 20
    world = Recorded("ABCDE", **SINGLE)
    world.drive("membership")
    world.run(20_000)
    evidence = world.verdict("members-only").evidence
    assert evidence["configurations"] > 5
    assert evidence["commits_counted"] > 20
