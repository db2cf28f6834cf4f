"""Single-server membership changes: raft-ext 5."""

import pytest

from dethrone.clusters.targets.client_api import Append, ChangeConfig, Ok, Refused, Transfer
from dethrone.clusters.targets.raft.messages import Config, Entry, Noop
from dethrone.harness.core.clock import MS
from dethrone.harness.core.rng import Rng
from tests.clusters.raft.spec import One, World, heartbeat
from tests.world.chaos import drawn, play
from tests.world.effects import names, note, replies

SINGLE = {"membership": "single_server"}


def world_of(names="ABC", spare="", **more):
    world, leader = World.with_leader(names, spare=spare, **SINGLE, **more)
    world.run(100)
    for name in spare:
        world.start(name)
    return world, leader


def voters(world):
    return {box.name: box.node.voters for box in world.boxes.values() if box.alive}


def test_a_node_is_added_as_a_learner_first_and_counts_when_it_caught_up():
    world, leader = world_of(spare="D")
    for value in range(5):
        assert world.write(leader, value)
    assert isinstance(world.ask(leader, ChangeConfig(add="D"), ms=2000), Ok)
    world.run(200)
    assert set(voters(world).values()) == {("A", "B", "C", "D")}
    appended = [n.data for n in world.boxes[leader].notes if n.name == "config" and n.data["what"] == "appended"]
    assert [(row["voters"], row["learners"]) for row in appended] == [(list("ABC"), ["D"]), (list("ABCD"), [])]
    assert world.boxes["D"].node.machine.read("k") == list(range(5))
    assert world.problems == []


def test_a_node_that_does_not_answer_is_not_added():
    world, leader = world_of(spare="D")
    world.kill("D")
    assert isinstance(world.ask(leader, ChangeConfig(add="D"), ms=5000), Refused)
    world.run(200)
    assert world.boxes[leader].node.config == Config(("A", "B", "C"), ())


def test_a_removed_node_learns_it_and_campaigns_no_more():
    world, leader = world_of("ABCD")
    gone = next(name for name in "ABCD" if name != leader)
    assert isinstance(world.ask(leader, ChangeConfig(remove=gone)), Ok)
    world.run(200)
    assert gone not in world.boxes[gone].node.voters
    elected = len(world.judge.leaders)
    world.run(5000)
    assert len(world.judge.leaders) == elected
    assert world.boxes[gone].node.counters.get("prevote_rounds", 0) <= 1


def test_a_removed_leader_leads_until_the_entry_commits_and_then_steps_down():
    world, leader = world_of("ABC")
    assert isinstance(world.ask(leader, ChangeConfig(remove=leader)), Ok)
    box = world.boxes[leader]
    assert box.node.leading is None
    assert [n.data["why"] for n in box.notes if n.name == "step_down"] == ["removed"]
    others = [name for name in "ABC" if name != leader]
    assert world.run(3000, until=lambda: world.leader(among=others))
    assert world.problems == []


def test_growing_and_shrinking_under_load_keeps_everything():
    world, leader = world_of("ABC", spare="DE")
    for number, change in enumerate([{"add": "D"}, {"add": "E"}, {"remove": "A"}, {"remove": "D"}]):
        leader = world.elect()
        assert world.write(leader, number)
        world.run(1000, until=lambda: world.leader() is not None)
        answer = world.ask(world.leader(), ChangeConfig(**change), ms=3000)
        assert isinstance(answer, Ok), (change, answer)
        world.run(1500)
    leader = world.leader()
    assert set(world.boxes[leader].node.voters) == {"B", "C", "E"}
    assert world.boxes[leader].node.machine.read("k") == [0, 1, 2, 3]
    assert world.problems == []


@pytest.mark.parametrize(
    "change",
    [{}, {"add": "X", "remove": "A"}, {"add": "A"}, {"remove": "X"}],
    ids=["none", "both", "voter", "stranger"],
)
def test_changes_that_make_no_sense_are_refused(change):
    world, leader = world_of()
    assert isinstance(world.ask(leader, ChangeConfig(**change)), Refused)


def test_static_members_stay():
    world, leader = World.with_leader()
    assert isinstance(world.ask(leader, ChangeConfig(remove="A")), Refused)


def test_one_change_at_a_time():
    world, leader = world_of("ABCD")
    others = [name for name in "ABCD" if name != leader]
    world.request(leader, ChangeConfig(remove=others[0]))
    assert isinstance(world.ask(leader, ChangeConfig(remove=others[1])), Refused)


def leading(**knobs):
    return One(members="ABCD", **SINGLE, **knobs).leading(votes="BC")


def test_a_change_waits_for_an_entry_of_the_own_term():
    one = leading()
    assert isinstance(replies(one.ask(ChangeConfig(remove="D")))[0], Refused)
    for peer in "BC":
        one.ack(peer)
    assert not replies(one.ask(ChangeConfig(remove="D")))


def test_without_that_rule_it_does_not():
    one = leading(config_needs_own_commit="off")
    assert not replies(one.ask(ChangeConfig(remove="D")))


def test_the_latest_configuration_counts_committed_or_not_and_truncation_reverts_it():
    one = One(**SINGLE, term=2)
    grown = (Entry(1, 2, Noop()), Entry(2, 2, Config(("A", "B", "C", "D"))))
    out = one.hear("B", heartbeat("B", 2, new=grown))
    assert note(out, "config")["what"] == "adopted"
    assert (one.node.voters, one.node.commit) == (("A", "B", "C", "D"), 0)
    out = one.hear("C", heartbeat("C", 3, 1, 2, new=(Entry(2, 3, Noop()),)))
    assert note(out, "config")["what"] == "reverted"
    assert one.node.voters == ("A", "B", "C")


def test_a_configuration_survives_a_restart():
    world, leader = world_of("ABCD")
    gone = next(name for name in "ABCD" if name != leader)
    world.ask(leader, ChangeConfig(remove=gone))
    world.run(200)
    for name in "ABCD":
        world.restart(name, power=True)
    assert all(gone not in names for names in voters(world).values())


def test_a_removed_node_with_the_longest_log_still_campaigns_until_its_removal_is_committed():
    one = One(**SINGLE, term=2)
    one.hear("B", heartbeat("B", 2, new=(Entry(1, 2, Noop()), Entry(2, 2, Config(("B", "C"))))))
    out = one.time_out()
    assert "prevote_started" in names(out)
    assert one.node.round.granted == set()
    one.hear("B", heartbeat("B", 2, 2, 2, commit=2, seq=2))
    for _ in range(4):
        assert "prevote_started" not in names(one.fire("election", after_ms=400))


@pytest.mark.parametrize("seed", range(30))
def test_random_changes_transfers_and_faults_stay_safe_and_heal(seed):
    world = World("ABC", seed=seed, spare="DE", transfer="on", reads=["readindex", "lease"][seed % 2], **SINGLE)
    for name in "DE":
        world.start(name)
    rng = Rng(seed).stream("members")
    for _ in range(20):
        play(world, drawn(World, rng, "ABCDE", count=4))
        if rng.chance(1, 2):
            world.mend()
            world.run(600)
        leader = world.leader()
        if leader and not world.boxes[leader].paused:
            node = rng.choice("ABCDE")
            asked = rng.choice([ChangeConfig(add=node), ChangeConfig(remove=node), Transfer(node)])
            world.ask(leader, asked, ms=rng.between(10, 800))
    world.mend()

    def healed():
        leader = world.leader()
        if leader is None:
            return False
        node = world.boxes[leader].node
        followers = [world.boxes[name].node for name in node.voters]
        return all(f.leader == leader and f.commit == node.log.end for f in followers)

    assert world.run(8000, until=healed)
    assert world.problems == []


def test_a_learner_grants_votes_but_never_campaigns_and_never_counts():
    one = One(node="D", members="ABC", **SINGLE)
    for _ in range(4):
        assert "prevote_started" not in names(one.fire("election", after_ms=400))
    one = One(**SINGLE, term=2)
    one.hear("B", heartbeat("B", 2, new=(Entry(1, 2, Config(("A", "B"), ("C",))),)))
    one.lead(votes="B")
    one.ask(Append("k", 1))
    one.ack("C")
    assert one.node.commit == 0
    assert one.now > 10_000 * MS
