"""NA-B1 … NA-B10 of the specification executed, and the knob that mends each one that a knob mends.

NA-B11 (a vote handled in the middle of a campaign's start) needs threads and cannot happen in a core.
"""

from __future__ import annotations

import pytest

from dethrone.clusters.targets import client_api
from dethrone.clusters.targets.nacos.messages import BeatRequest, VoteAnswer
from tests.clusters.nacos.chaos import double_votes, twice_elected
from tests.clusters.nacos.minisim import Sim


def quiet(names: str, **settings) -> Sim:
    """All nodes up, nobody due before the test says so."""
    sim = Sim(names, **settings)
    sim.start()
    calm(sim)
    return sim


def calm(sim: Sim, ms: int = 3_600_000) -> None:
    for name in sim.members:
        if sim.nodes[name].core is not None:
            sim.state(name).local.leader_due_ms = ms


def b1(*, beats: bool = False, **settings) -> Sim:
    """A (n1) elected by B (n2), B restarted, then C (n3) elected by B."""
    sim = quiet("n1 n2 n3", **settings)
    sim.cut("n1", "n3", both=False)
    sim.fire("n1")
    sim.run(100)
    assert sim.roles()["n1"] == ("LEADER", 1)
    sim.restart("n2")
    calm(sim)
    if beats:
        sim.run(6_000)
        assert sim.status("n2").leader == "n1"
    sim.heal()
    sim.cut("n1", "n2", "n3")
    sim.fire("n3")
    sim.run(6_000)
    return sim


@pytest.mark.parametrize("beats", [False, True])
def test_na_b1_a_restarted_voter_elects_a_second_leader_of_the_same_term(beats):
    sim = b1(beats=beats)
    assert sim.roles() == {"n1": ("LEADER", 1), "n2": ("FOLLOWER", 1), "n3": ("LEADER", 1)}
    assert twice_elected(sim) == [(1, {"n1", "n3"})]
    assert double_votes(sim) == [("n2", 1, {"n1", "n3"})]
    sim.run(60_000)
    assert (sim.roles()["n1"], sim.roles()["n3"]) == (("LEADER", 1), ("LEADER", 1))  # no limit in time


def test_na_b1_is_mended_by_persist_vote():
    sim = b1(persist_vote="true")
    assert sim.roles()["n3"] == ("CANDIDATE", 1)
    assert twice_elected(sim) == []
    assert double_votes(sim) == []


def test_na_b1_after_beats_is_mended_by_beat_raises_term():
    sim = b1(beats=True, beat_raises_term="true")
    assert sim.roles()["n3"] == ("CANDIDATE", 1)
    assert double_votes(sim) == []
    assert double_votes(b1(beats=False, beat_raises_term="true")) != []


def b2(**settings) -> Sim:
    sim = Sim("n1 n2 n3 n4 n5", **settings)
    sim.nodes["n3"].disk = {"data/naming/data/meta.properties": b"term=1\n"}
    sim.start()
    calm(sim)
    sim.cut("n1", "n3", both=False)
    sim.hold = lambda _src, dst, body: dst == "n1" and isinstance(body, VoteAnswer)
    sim.fire("n1")
    sim.run(100)
    sim.heal()
    sim.fire("n3")
    sim.run(100)
    assert sim.roles()["n3"] == ("LEADER", 2)
    assert sim.roles()["n1"] == ("FOLLOWER", 2)
    sim.hold = lambda *_: False
    sim.release()
    sim.run(10)
    return sim


def test_na_b2_late_answers_make_a_second_leader_of_the_same_term_without_any_crash():
    sim = b2()
    assert sim.roles()["n1"] == ("LEADER", 2)
    assert sim.status("n1").voted_for == "n3"
    assert [note.term for note in sim.named("elected")] == [2, 2]
    assert set(sim.named("elected", "n1")[0].data["terms"].values()) == {1}
    assert double_votes(sim) == []
    for name in ("n1", "n3"):
        sim.state(name).local.heartbeat_due_ms = 500
    sim.run(600)
    assert twice_elected(sim) == [(2, {"n1", "n3"})]


def test_na_b2_is_mended_by_count_current_term_only():
    sim = b2(count_current_term_only="true")
    assert sim.roles()["n1"] == ("FOLLOWER", 2)
    assert len(sim.named("elected")) == 1


def b3(**settings) -> Sim:
    sim = quiet("n1 n2 n3", **settings)
    for _ in range(3):
        sim.fire("n1")
        sim.run(50)
    sim.run(6_000)
    assert {sim.status(name).voted_for for name in sim.members} == {"n1"}
    sim.restart("n1")
    calm(sim)
    sim.fire("n1")
    sim.run(50)
    return sim


def test_na_b3_refusals_elect_a_leader_below_everybodys_term():
    sim = b3()
    assert sim.roles() == {"n1": ("LEADER", 1), "n2": ("FOLLOWER", 3), "n3": ("FOLLOWER", 3)}
    assert all(note.data["action"] == "refuse" for note in sim.named("vote_decision")[-2:])
    sim.run(6_000)
    assert [note.data["code"] for note in sim.named("beat_decision")[-2:]] == ["out_of_date"] * 2
    elected = [seen for node, seen in sim.witnessed("elected") if node == "n1"][-1]
    assert (elected.term, elected.data["voters"]) == (1, ["n1"])  # no majority by the witness' count
    sim.cut("n1", "n2", "n3")
    sim.fire("n2")
    sim.run(100)
    assert (sim.roles()["n1"], sim.roles()["n2"]) == (("LEADER", 1), ("LEADER", 4))


@pytest.mark.parametrize("knob", ["count_current_term_only", "persist_vote"])
def test_na_b3_is_mended_by_counting_the_current_term_only_or_by_remembering_it(knob):
    sim = b3(**{knob: "true"})
    assert sim.roles()["n1"] in {("CANDIDATE", 1), ("LEADER", 4)}


def b4(**settings) -> Sim:
    sim = Sim("n1 n2 n3", **settings)
    sim.start()
    sim.due(n1=500, n2=9_000, n3=12_000)
    sim.run(6_000)
    assert sim.roles()["n1"] == ("LEADER", 1)
    sim.cut("n1", "n2", "n3")
    return sim


def test_na_b4_a_leader_without_followers_never_resigns_and_takes_writes():
    sim = b4()
    sim.run(300_000)
    assert sim.roles()["n1"] == ("LEADER", 1)
    assert [term for role, term in sim.roles().values() if role == "LEADER"] != [1]
    write = sim.put("n1", "x", 7)
    sim.run(6_000)
    assert isinstance(sim.replies[write], client_api.Unknown)
    assert sim.state("n1").items.read("x") == 7


def test_na_b4_is_mended_by_leader_needs_majority_acks():
    sim = b4(leader_needs_majority_acks="true")
    sim.put("n1", "x", 7)
    sim.run(20_500 + 5_000)
    assert sim.roles()["n1"][0] == "CANDIDATE"


def test_na_b4_a_leader_with_a_majority_of_answers_stays_under_leader_needs_majority_acks():
    sim = Sim("n1 n2 n3", leader_needs_majority_acks="true")
    sim.start()
    sim.run(20_000)
    leader, term = next((name, term) for name, (role, term) in sim.roles().items() if role == "LEADER")
    sim.kill(next(name for name in sim.members if name != leader))
    sim.run(200_000)
    assert sim.roles()[leader] == ("LEADER", term)


def test_na_b5_crossing_beats_of_two_leaders_of_one_term_depose_both():
    sim = b1()
    sim.heal()
    for name in ("n1", "n3"):
        sim.state(name).local.heartbeat_due_ms = 500
    sim.run(600)
    assert [sim.status(name).role for name in sim.members] == ["FOLLOWER"] * 3
    assert (sim.status("n1").leader, sim.status("n3").leader) == ("n3", "n1")
    sim.run(13_000)
    assert [sim.status(name).role for name in sim.members] == ["FOLLOWER"] * 3
    sim.run(7_500)
    assert "LEADER" in {sim.status(name).role for name in sim.members}


def test_na_b6_a_returning_node_with_a_higher_term_deletes_acknowledged_data():
    sim = quiet("n1 n2 n3")
    sim.fire("n1")
    sim.run(6_000)
    sim.cut("n3", "n1", "n2")
    sim.due(n3=500)
    sim.run(65_000)
    assert sim.roles()["n3"][1] > 2
    write = sim.put("n1", "x", 7)
    sim.run(100)
    assert sim.replies[write] == client_api.Ok()
    sim.heal()
    sim.fire("n3")
    sim.run(6_000)
    assert sim.roles()["n3"][0] == "LEADER"
    for name in sim.members:
        assert "x" not in sim.state(name).items
        assert "data/naming/data/public/x" not in sim.nodes[name].disk
    assert {note.data["key"] for note in sim.named("data_deleted")} == {"x"}


def test_na_b6_is_prevented_by_switching_off_the_data_half_of_a_beat():
    sim = quiet("n1 n2 n3", beat_data="false")
    sim.fire("n1")
    sim.run(6_000)
    sim.cut("n3", "n1", "n2")
    sim.put("n1", "x", 7)
    sim.run(100)
    sim.heal()
    sim.fire("n3")
    sim.run(6_000)
    assert "x" in sim.state("n1").items


def test_na_b7_a_returning_isolated_node_deposes_a_working_leader():
    sim = quiet("n1 n2 n3")
    sim.fire("n1")
    sim.run(6_000)
    sim.cut("n3", "n1", "n2")
    sim.due(n3=500)
    sim.run(45_000)
    term = sim.roles()["n3"][1]
    sim.heal()
    assert sim.roles()["n1"] == ("LEADER", 1)
    sim.due(n3=500)
    sim.run(600)
    assert sim.roles() == {"n1": ("FOLLOWER", term + 1), "n2": ("FOLLOWER", term + 1), "n3": ("LEADER", term + 1)}


def test_na_b8_a_deposed_leader_still_takes_writes_by_its_leader_field():
    sim = quiet("n1 n2 n3")
    sim.fire("n1")
    sim.run(6_000)
    sim.state("n3").local.term = 8
    sim.cut("n3", "n2")
    sim.fire("n3")
    sim.run(1)
    sim.kill("n3")
    sim.run(10)
    assert (sim.status("n1").role, sim.status("n1").leader, sim.status("n1").term) == ("FOLLOWER", "n1", 9)
    write = sim.put("n1", "x", 7)
    sim.run(100)
    assert sim.replies[write] == client_api.Ok()


def test_na_b9_two_survivors_with_equal_dues_split_the_vote_and_try_again():
    sim = quiet("n1 n2 n3")
    sim.fire("n1")
    sim.run(6_000)
    sim.kill("n1")
    sim.due(n2=500, n3=500)
    sim.run(600)
    assert sim.roles() == {"n2": ("CANDIDATE", 2), "n3": ("CANDIDATE", 2)}
    sim.run(13_000)
    assert sim.roles() == {"n2": ("CANDIDATE", 2), "n3": ("CANDIDATE", 2)}
    sim.run(30_000)
    assert sorted(role for role, _ in sim.roles().values()) == ["FOLLOWER", "LEADER"]


def frozen_for_25_s(**settings) -> Sim:
    sim = quiet("n1 n2 n3", **settings)
    sim.fire("n1")
    sim.run(6_000)
    sim.due(n2=14_000, n3=18_000)
    sim.freeze("n1")
    sim.cut("n1", "n2", "n3")
    sim.run(25_000)
    assert sim.roles()["n2"] == ("LEADER", 2)
    sim.heal()
    sim.cut("n2", "n1", both=False)
    sim.thaw("n1")
    return sim


def test_na_b10_a_frozen_leader_wakes_up_as_leader_and_is_refused():
    sim = frozen_for_25_s()
    sim.run(1)
    assert sim.roles()["n1"] == ("LEADER", 1)
    before = len(sim.sent)
    sim.run(6_000)
    assert [src for _, src, _, body in sim.sent[before:] if isinstance(body, BeatRequest) and src == "n1"]
    refused = [note.data["code"] for note in sim.named("beat_decision") if note.data["sender"] == "n1"]
    assert refused[-1] == "out_of_date"
    assert sim.roles()["n1"] == ("LEADER", 1)
    sim.heal()
    sim.run(6_000)
    assert sim.roles()["n1"][0] == "FOLLOWER"
    assert sim.status("n1").leader == "n2"


def test_na_b10_with_a_burst_of_late_ticks_the_frozen_leader_campaigns_at_once():
    sim = frozen_for_25_s(late_ticks="burst")
    sim.run(1)
    assert sim.roles()["n1"] == ("CANDIDATE", 2)
