"""The planted bugs: each differs in its one rule, shows its mistake, and the honest build does not."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Get, Ok
from dethrone.clusters.targets.joyqueue.target import TARGET
from dethrone.harness.core.clock import SECOND
from tests.clusters.joyqueue.spec import One, World
from tests.world.effects import answer


def words_of(name):
    bug = TARGET.planted[name]
    needs = {key: word for key, word in bug.needs.items() if word != "*"}
    return {**needs, **bug.advised, **({"learners": "E"} if "learners" in bug.needs else {})}


# --- sequences --------------------------------------------------------------------------------------------------


def rivals(variant, *, restart=None, before=lambda world: None, **settings):
    """A and C, who cannot hear each other, both stand in term 1. B votes for A, is restarted, and C asks it."""
    world = World("ABC", variant=variant, **settings)
    world.run(50)
    world.sever("A", "C")
    world.defer("C", "B", "vote", 1000)
    before(world)
    world.expire("A")
    world.expire("C")
    world.run(300)
    if world.boxes["B"].alive:
        world.kill("B", **(restart or {}))
    world.isolate("A")
    if not world.boxes["B"].halted:
        world.boxes["B"].full = False
        world.start("B")
        world.run(2000)
    return world


def fill(world):
    world.boxes["B"].full = True


@pytest.mark.parametrize(
    ("variant", "how"),
    [
        ("01-vote-not-written", {}),
        ("05-vote-not-synced", {"restart": {"power": True}}),
        ("04-ignore-failed-vote-write", {"before": fill}),
    ],
)
def test_a_vote_that_was_not_stored_is_given_twice(variant, how):
    assert any("INV-2: B voted twice in term 1" in problem for problem in rivals(variant, **how).problems)
    assert rivals(None, **how).problems == []


def test_02_a_vote_that_was_answered_before_it_was_stored_is_given_twice():
    def killed_early(variant):
        world = World("ABC", variant=variant, sync=(200, 200))
        world.run(2000)
        world.sever("A", "C")
        world.defer("C", "B", "vote", 1500)
        world.expire("A")
        world.expire("C")
        world.run(2000, until=lambda: world.notes("vote_decision", of="B"))
        batch, world.boxes["B"].batches = world.boxes["B"].batches, type(world.boxes["B"].batches)()
        world.kill("B")
        assert batch or variant is None
        world.isolate("A")
        world.start("B")
        world.run(4000)
        return world

    assert any("INV-2: B voted twice" in problem for problem in killed_early("02-answer-before-persist").problems)
    assert killed_early(None).problems == []


def test_11_a_candidate_that_restarts_votes_for_its_rival_in_its_own_term():
    def restarted(variant):
        world = World("ABC", variant=variant, profile="joyqueue-mended")
        world.run(50)
        world.sever("A", "C")
        world.defer("C", "B", "vote", 5000)
        world.defer("C", "A", "vote", 1000)
        world.expire("A")
        world.expire("C")
        world.run(300)
        world.restart("A")
        world.heal()
        world.hold = lambda src, _dst, body: src == "B"
        world.run(1500)
        return world

    assert any("INV-2: A voted twice" in problem for problem in restarted("11-forgets-own-vote").problems)
    assert restarted(None).problems == []


def test_06_a_kill_between_the_two_steps_forgets_term_and_vote():
    def cut_short(variant):
        world = World("ABC", variant=variant)
        world.run(50)
        box = world.boxes["B"]
        world.sever("A", "C")
        world.expire("A")
        world.run(300, until=lambda: box.batches and world.notes("prevote_decision", of="B"))
        ops = box.batches[0].ops
        for op in ops[:3]:
            box.disk.carry_out(op)
        box.batches.clear()
        world.kill("B")
        world.start("B")
        return box.disk.shown.get("topic/metadata")

    assert cut_short("06-delete-then-rename") is None
    assert cut_short(None) is not None


def test_07_an_unreadable_file_is_taken_for_a_node_that_never_voted():
    image = {"topic/metadata": "unreadable"}
    assert One(image=image, variant="07-unreadable-means-fresh").group.started
    assert not One(image=image).group.started


def test_10_a_restarted_leader_goes_on_in_its_term():
    for variant, role in (("10-resumes-leadership", "LEADER"), (None, "FOLLOWER")):
        assert One(term=3, voted_for="A", log=(1, 3), variant=variant).group.role == role


def test_16_a_vote_of_the_campaign_before_is_counted():
    for variant, role in (("16-counts-older-term", "LEADER"), (None, "CANDIDATE")):
        one = One(variant=variant, **{**words_of("16-counts-older-term"), "time_factor": "1"})
        late = one.campaign()["B"]
        one.fire("vote", after_ms=5000)
        one.now += 5 * SECOND
        one.campaign(voters="C")
        one.answer_vote(("B", late))
        assert (one.group.role, one.group.term) == (role, 2)


def test_27_a_node_refuses_the_leader_of_a_term_in_which_it_stood():
    for variant, success in (("27-refuses-campaigned-term", False), (None, True)):
        one = One(variant=variant).campaigning()
        assert answer(one.hear_append("C", 1)).success is success


def test_31_a_request_puts_the_own_election_off():
    for variant, put_off in (("31-any-request-resets-timer", True), (None, False)):
        one = One(term=4, log=(4,), variant=variant)
        one.now += SECOND
        one.hear_vote_request("B", 4)
        assert (one.group.reset_at == one.now) is put_off


def test_34_all_nodes_draw_the_same():
    for variant, same in (("34-same-seed", True), (None, False)):
        world = World("ABC", variant=variant, seed=3)
        world.run(5001)
        drawn_at = [box.group.deadline for box in world.boxes.values()]
        assert (len(set(drawn_at)) == 1) is same


def test_37_a_voter_of_a_lower_term_does_not_help_and_an_asker_of_one_gets_no_answer():
    one = One(term=5, variant="37-pre-vote-terms-compared")
    asked = dict(_sent(one.expire()))
    one.answer_vote(("B", asked["B"]), term=2)
    assert one.group.role == "FOLLOWER"
    assert _sent(one.hear_vote_request("B", 2, pre=True)) == []
    honest = One(term=5)
    asked = dict(_sent(honest.expire()))
    honest.answer_vote(("B", asked["B"]), term=2)
    assert honest.group.role == "CANDIDATE"


def _sent(out):
    return [(e.to, e.body) for e in out if type(e).__name__ == "Send"]


def test_40_entries_of_an_older_term_are_committed_by_counting():
    for variant, commit in (("40-commits-old-terms", 1), (None, 0)):
        one = One(term=1, log=(1,), variant=variant)
        first = next(pair for pair in _sent(one.lead()) if getattr(pair[1], "entries", ()))
        one.answer_append(first)
        assert one.group.commit == commit


def test_52_a_wall_clock_that_steps_back_delays_the_election():
    for variant, late in (("52-election-on-wall-clock", True), (None, False)):
        world = World("ABC", variant=variant)
        world.elect()
        world.step_wall(-3_600_000)
        world.kill(world.leader())
        assert world.run(60_000, until=lambda w=world: w.leader() is not None) is not late


def test_a_read_of_a_new_leader_sees_what_was_acknowledged_only_through_the_log():
    answered = {}
    for variant in (None, "56-reads-before-own-term"):
        world, leader = World.with_leader(variant=variant)
        assert isinstance(world.ask(leader, Append("k", 1)), Ok)
        world.kill(leader)
        assert world.run(60_000, until=lambda w=world: w.leader() is not None)
        answered[variant] = world.ask(world.leader(), Get("k")).value
    assert answered == {None: [1], "56-reads-before-own-term": None}
