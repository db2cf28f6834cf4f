"""NA-B1 … NA-B10 of the specification executed, and the knob that mends each one that a knob mends.

NA-B11 (a vote handled in the middle of a campaign's start) needs threads and cannot happen in a core.
"""

from __future__ import annotations

import pytest

from dethrone.clusters.targets import client_api
from dethrone.clusters.targets.nacos.messages import BeatRequest, VoteAnswer
from tests.clusters.nacos.spec import World


def quiet(names: str, **settings) -> World:
    """All nodes up, nobody due before the test says so."""
    world = World(names, **settings)
    world.start()
    calm(world)
    return world


def calm(world: World, ms: int = 3_600_000) -> None:
    for name in world.names:
        if world.boxes[name].alive:
            world.state(name).local.leader_due_ms = ms


def b1(*, beats: bool = False, **settings) -> World:
    """A (n1) elected by B (n2), B restarted, then C (n3) elected by B."""
    world = quiet("n1 n2 n3", **settings)
    world.mute("n1", "n3")
    world.fire("n1")
    world.run(100)
    assert world.roles()["n1"] == ("LEADER", 1)
    world.restart("n2")
    calm(world)
    if beats:
        world.run(6_000)
        assert world.status("n2").leader == "n1"
    world.heal()
    world.sever("n1", "n2", "n3")
    world.fire("n3")
    world.run(6_000)
    return world


@pytest.mark.parametrize("beats", [False, True])
def test_na_b1_a_restarted_voter_elects_a_second_leader_of_the_same_term(beats):
    world = b1(beats=beats)
    assert world.roles() == {"n1": ("LEADER", 1), "n2": ("FOLLOWER", 1), "n3": ("LEADER", 1)}
    assert world.twice_elected() == [(1, {"n1", "n3"})]
    assert world.double_votes() == [("n2", 1, {"n1", "n3"})]
    world.run(60_000)
    assert (world.roles()["n1"], world.roles()["n3"]) == (("LEADER", 1), ("LEADER", 1))  # no limit in time


def b2(**settings) -> World:
    world = World("n1 n2 n3 n4 n5", **settings)
    world.boxes["n3"].disk.store({"data/naming/data/meta.properties": b"term=1\n"})
    world.start()
    calm(world)
    world.mute("n1", "n3")
    world.hold = lambda _src, dst, body: dst == "n1" and isinstance(body, VoteAnswer)
    world.fire("n1")
    world.run(100)
    world.heal()
    world.fire("n3")
    world.run(100)
    assert world.roles()["n3"] == ("LEADER", 2)
    assert world.roles()["n1"] == ("FOLLOWER", 2)
    world.release()
    world.run(10)
    return world


def test_na_b2_late_answers_make_a_second_leader_of_the_same_term_without_any_crash():
    world = b2()
    assert world.roles()["n1"] == ("LEADER", 2)
    assert world.status("n1").voted_for == "n3"
    assert [note.term for note in world.notes("elected")] == [2, 2]
    assert set(world.notes("elected", of="n1")[0].data["terms"].values()) == {1}
    assert world.double_votes() == []
    for name in ("n1", "n3"):
        world.state(name).local.heartbeat_due_ms = 500
    world.run(600)
    assert world.twice_elected() == [(2, {"n1", "n3"})]


def b3(**settings) -> World:
    world = quiet("n1 n2 n3", **settings)
    for _ in range(3):
        world.fire("n1")
        world.run(50)
    world.run(6_000)
    assert {world.status(name).voted_for for name in world.names} == {"n1"}
    world.restart("n1")
    calm(world)
    world.fire("n1")
    world.run(50)
    return world


def test_na_b3_refusals_elect_a_leader_below_everybodys_term():
    world = b3()
    assert world.roles() == {"n1": ("LEADER", 1), "n2": ("FOLLOWER", 3), "n3": ("FOLLOWER", 3)}
    assert all(note.data["action"] == "refuse" for note in world.notes("vote_decision")[-2:])
    world.run(6_000)
    assert [note.data["code"] for note in world.notes("beat_decision")[-2:]] == ["out_of_date"] * 2
    elected = [seen for node, seen in world.witnessed("elected") if node == "n1"][-1]
    assert (elected.term, elected.data["voters"]) == (1, ["n1"])  # no majority by the witness' count
    world.sever("n1", "n2", "n3")
    world.fire("n2")
    world.run(100)
    assert (world.roles()["n1"], world.roles()["n2"]) == (("LEADER", 1), ("LEADER", 4))


def b4(**settings) -> World:
    world = World("n1 n2 n3", **settings)
    world.start()
    world.due(n1=500, n2=9_000, n3=12_000)
    world.run(6_000)
    assert world.roles()["n1"] == ("LEADER", 1)
    world.sever("n1", "n2", "n3")
    return world


def test_na_b4_a_leader_without_followers_never_resigns_and_takes_writes():
    world = b4()
    world.run(300_000)
    assert world.roles()["n1"] == ("LEADER", 1)
    assert [term for role, term in world.roles().values() if role == "LEADER"] != [1]
    write = world.put("n1", "x", 7)
    world.run(6_000)
    assert isinstance(world.replies[write], client_api.Unknown)
    assert world.state("n1").items.read("x") == 7


def test_na_b4_a_leader_with_a_majority_of_answers_stays_under_leader_needs_majority_acks():
    world = World("n1 n2 n3", leader_needs_majority_acks="true")
    world.start()
    world.run(20_000)
    leader, term = next((name, term) for name, (role, term) in world.roles().items() if role == "LEADER")
    world.kill(next(name for name in world.names if name != leader))
    world.run(200_000)
    assert world.roles()[leader] == ("LEADER", term)


def test_na_b5_crossing_beats_of_two_leaders_of_one_term_depose_both():
    world = b1()
    world.heal()
    for name in ("n1", "n3"):
        world.state(name).local.heartbeat_due_ms = 500
    world.run(600)
    assert [world.status(name).role for name in world.names] == ["FOLLOWER"] * 3
    assert (world.status("n1").leader, world.status("n3").leader) == ("n3", "n1")
    world.run(13_000)
    assert [world.status(name).role for name in world.names] == ["FOLLOWER"] * 3
    world.run(7_500)
    assert "LEADER" in {world.status(name).role for name in world.names}


@pytest.mark.parametrize("beat_data", ["true", "false"])
def test_na_b6_a_returning_node_with_a_higher_term_deletes_acknowledged_data_by_the_data_half_of_its_beat(beat_data):
    world = quiet("n1 n2 n3", beat_data=beat_data)
    world.fire("n1")
    world.run(6_000)
    world.sever("n3", "n1", "n2")
    world.due(n3=500)
    world.run(65_000)
    assert world.roles()["n3"][1] > 2
    write = world.put("n1", "x", 7)
    world.run(100)
    assert world.replies[write] == client_api.Ok()
    world.heal()
    world.fire("n3")
    world.run(6_000)
    assert world.roles()["n3"][0] == "LEADER"
    for name in ("n1", "n2"):
        assert ("x" in world.state(name).items) is (beat_data == "false")
        assert ("data/naming/data/public/x" in world.boxes[name].disk.shown) is (beat_data == "false")
    assert {note.data["key"] for note in world.notes("data_deleted")} == ({"x"} if beat_data == "true" else set())


def test_na_b7_a_returning_isolated_node_deposes_a_working_leader():
    world = quiet("n1 n2 n3")
    world.fire("n1")
    world.run(6_000)
    world.sever("n3", "n1", "n2")
    world.due(n3=500)
    world.run(45_000)
    term = world.roles()["n3"][1]
    world.heal()
    assert world.roles()["n1"] == ("LEADER", 1)
    world.due(n3=500)
    world.run(600)
    assert world.roles() == {"n1": ("FOLLOWER", term + 1), "n2": ("FOLLOWER", term + 1), "n3": ("LEADER", term + 1)}


def test_na_b8_a_deposed_leader_still_takes_writes_by_its_leader_field():
    world = quiet("n1 n2 n3")
    world.fire("n1")
    world.run(6_000)
    world.state("n3").local.term = 8
    world.sever("n3", "n2")
    world.fire("n3")
    world.run(1)
    world.kill("n3")
    world.run(10)
    assert (world.status("n1").role, world.status("n1").leader, world.status("n1").term) == ("FOLLOWER", "n1", 9)
    write = world.put("n1", "x", 7)
    world.run(100)
    assert world.replies[write] == client_api.Ok()


def test_na_b9_two_survivors_with_equal_dues_split_the_vote_and_try_again():
    world = quiet("n1 n2 n3")
    world.fire("n1")
    world.run(6_000)
    world.kill("n1")
    world.due(n2=500, n3=500)
    world.run(600)
    assert world.roles() == {"n2": ("CANDIDATE", 2), "n3": ("CANDIDATE", 2)}
    world.run(13_000)
    assert world.roles() == {"n2": ("CANDIDATE", 2), "n3": ("CANDIDATE", 2)}
    world.run(30_000)
    assert sorted(role for role, _ in world.roles().values()) == ["FOLLOWER", "LEADER"]


def frozen_for_25_s(**settings) -> World:
    world = quiet("n1 n2 n3", **settings)
    world.fire("n1")
    world.run(6_000)
    world.due(n2=14_000, n3=18_000)
    world.pause("n1")
    world.sever("n1", "n2", "n3")
    world.run(25_000)
    assert world.roles()["n2"] == ("LEADER", 2)
    world.heal()
    world.mute("n2", "n1")
    world.resume("n1")
    return world


def cut_off_with_a_write(**settings) -> World:
    world = b4(**settings)
    world.put("n1", "x", 7)
    world.run(20_500 + 5_000)
    return world


def woken_up(**settings) -> World:
    world = frozen_for_25_s(**settings)
    world.run(1)
    return world


MENDED = [
    (b1, {"persist_vote": "true"}, "n3", [("CANDIDATE", 1)]),
    (b1, {"beats": True, "beat_raises_term": "true"}, "n3", [("CANDIDATE", 1)]),
    (b2, {"count_current_term_only": "true"}, "n1", [("FOLLOWER", 2)]),
    (b3, {"count_current_term_only": "true"}, "n1", [("CANDIDATE", 1), ("LEADER", 4)]),
    (b3, {"persist_vote": "true"}, "n1", [("CANDIDATE", 1), ("LEADER", 4)]),
    (cut_off_with_a_write, {"leader_needs_majority_acks": "true"}, "n1", [("CANDIDATE", 2), ("CANDIDATE", 3)]),
    (woken_up, {"late_ticks": "burst"}, "n1", [("CANDIDATE", 2)]),
]
"""Weakness, the knob that mends it (or, of B10, makes the leader campaign at once), and what its node then is."""


@pytest.mark.parametrize(("weakness", "settings", "node", "roles"), MENDED)
def test_a_knob_mends_the_weakness(weakness, settings, node, roles):
    world = weakness(**settings)
    assert world.roles()[node] in roles
    assert world.twice_elected() == []
    assert world.double_votes() == []


def test_na_b1_without_beats_is_not_mended_by_beat_raises_term():
    assert b1(beat_raises_term="true").double_votes() != []


def test_na_b10_a_frozen_leader_wakes_up_as_leader_and_is_refused():
    world = frozen_for_25_s()
    world.run(1)
    assert world.roles()["n1"] == ("LEADER", 1)
    before = len(world.sent)
    world.run(6_000)
    assert [src for _, src, _, body in world.sent[before:] if isinstance(body, BeatRequest) and src == "n1"]
    refused = [note.data["code"] for note in world.notes("beat_decision") if note.data["sender"] == "n1"]
    assert refused[-1] == "out_of_date"
    assert world.roles()["n1"] == ("LEADER", 1)
    world.heal()
    world.run(6_000)
    assert world.roles()["n1"][0] == "FOLLOWER"
    assert world.status("n1").leader == "n2"
