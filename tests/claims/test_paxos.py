"""Claims 1-33 … 1-49: basic Paxos."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Ok
from dethrone.clusters.targets.client_api import Propose as Want
from dethrone.clusters.targets.paxos.messages import Accepted, Nack, Prepare, Promise, Propose
from dethrone.harness.core.rng import Rng
from tests.clusters.paxos.spec import One, World, bodies, play, stored, val
from tests.world.chaos import drawn
from tests.world.effects import answer, replies, sent


def claim(n):
    return pytest.mark.claim(f"1-{n}", flip=f"flip-1-{n}")


@claim(33)
def test_claim_1_33_numbers_are_unique_among_proposers_and_rise_over_refusals_and_restarts(variant):
    numbers = []
    for node in "ABC":
        one = One(node=node, variant=variant)
        one.want()
        own = [one.id()]
        for _ in range(4):
            one.nack(one.id(), 0, src="ABC"["ABC".index(node) - 1])
            one.reach()
            one.fire("attempt/1")
            own.append(one.id())
        assert own == sorted(set(own))
        numbers += own
    assert len(set(numbers)) == len(numbers)
    world = World("ABC", variant=variant)
    world.isolate("A")
    world.boxes["A"].node.heard.update(B=0, C=0)
    world.request("A", Want(1, "x"))
    world.run(100)
    first = world.boxes["A"].node.instances[1].attempt.id
    world.restart("A")
    world.boxes["A"].node.heard.update(B=world.now, C=world.now)
    world.request("A", Want(1, "x"))
    assert world.boxes["A"].node.instances[1].attempt.id > first


@claim(34)
def test_claim_1_34_prepare_carries_the_number_only(variant):
    out = One(variant=variant).want("secret")
    asked = bodies(out, Prepare)
    assert asked
    assert {type(body).__struct_fields__ for body in asked} == {("instance", "id")}


@claim(35)
def test_claim_1_35_a_proposer_without_a_majority_in_reach_does_not_start(variant):
    one = One(variant=variant, alone=True)
    assert not sent(one.want(), Prepare)
    assert not sent(one.fire("attempt/1", after_ms=200), Prepare)
    one.now += 1
    out = one.hear("B", Accepted(9, 1, val("z")))
    assert [to for to, _ in sent(out, Prepare)] == ["B", "C"]
    world = World("ABC", variant=variant)
    world.isolate("A")
    world.request("A", Want(1, "x"))
    world.run(1500)
    assert not world.notes("prepare_sent")


@claim(36)
def test_claim_1_36_a_higher_number_is_promised_with_what_was_accepted(variant):
    one = One(variant=variant)
    assert answer(one.prepare(4)) == Promise(1, 4)
    one.proposal(4, "x")
    assert answer(one.prepare(8, src="C")) == Promise(1, 8, 4, val("x"))
    assert one.acceptor() == (8, 4, "x")


@claim(37)
def test_claim_1_37_a_number_not_above_all_seen_is_refused_or_met_with_silence(variant):
    one = One(stored(7), variant=variant)
    assert answer(one.prepare(4)) == Nack(1, 4, 7)
    assert answer(one.prepare(7)) == Nack(1, 7, 7)
    silent = One(stored(7), variant=variant, nack="off")
    assert not sent(silent.prepare(4))
    assert one.acceptor() == silent.acceptor() == (7, 0, None)


@claim(38)
def test_claim_1_38_after_a_promise_lower_requests_are_ignored(variant):
    for rule in ("eq", "ge"):
        one = One(variant=variant, accept_rule=rule, nack="off")
        one.prepare(8, src="C")
        assert not sent(one.prepare(4))
        assert not sent(one.proposal(4, "x"))
        assert one.acceptor() == (8, 0, None)


@claim(39)
def test_claim_1_39_a_majority_of_promises_comes_before_a_proposal(variant):
    one = One(variant=variant, members="ABCDE")
    one.want()
    number = one.id()
    assert not sent(one.promise(number), Propose)
    assert not sent(one.promise(number), Propose), "the same acceptor counts once"
    assert one.state() == "PREPARING"
    assert sent(one.promise(number, src="D"), Propose)


@claim(40)
def test_claim_1_40_the_value_of_the_highest_accepted_number_is_adopted(variant):
    one = One(variant=variant, members="ABCDE")
    one.want("own")
    number = one.id()
    one.promise(number, 2, "high", src="B")
    out = one.promise(number, 1, "low", src="C")
    assert bodies(out, Propose) == [Propose(1, number, val("high"))]


@claim(41)
def test_claim_1_41_the_choice_is_free_if_nothing_was_accepted(variant):
    one = One(variant=variant)
    one.want("own")
    number = one.id()
    assert bodies(one.promise(number), Propose) == [Propose(1, number, val("own"))]


@claim(42)
def test_claim_1_42_a_proposal_has_the_number_of_its_prepare(variant):
    world = World("ABC", variant=variant)
    world.propose("B", 1, "x", ms=500)
    prepared = {body.id for _, _, _, body in world.sent if type(body) is Prepare}
    proposed = {body.id for _, _, _, body in world.sent if type(body) is Propose}
    assert proposed
    assert proposed <= prepared


@claim(43)
def test_claim_1_43_accepted_at_the_promised_number_and_by_the_prose_above_it(variant):
    for rule, above in (("eq", False), ("ge", True), ("ge_literal", True)):
        one = One(variant=variant, accept_rule=rule)
        one.prepare(4)
        assert Accepted(1, 4, val("x")) in bodies(one.proposal(4, "x"))
        out = one.proposal(8, "y", src="C")
        assert bool(sent(out, Accepted)) == above
        assert one.acceptor() == ((8 if rule == "ge" else 4, 8, "y") if above else (4, 4, "x"))
        assert not sent(one.proposal(2, "z"), Accepted)


@claim(44)
def test_claim_1_44_an_acceptance_goes_to_the_proposer_and_every_learner(variant):
    one = One(variant=variant, members="ABCD")
    one.prepare(5)
    out = one.proposal(5, "x")
    assert [(to, body) for to, body in sent(out)] == [(name, Accepted(1, 5, val("x"))) for name in "BCD"]
    assert one.node.instances[1].tally[5][1] == {"A"}, "its own learner, too"


@claim(45)
def test_claim_1_45_an_acceptor_may_accept_several_proposals(variant):
    one = One(variant=variant, members="ABCDE")
    one.prepare(6)
    one.proposal(6, "x")
    one.prepare(8, src="D")
    assert sent(one.proposal(8, "y", src="D"), Accepted)
    assert one.acceptor() == (8, 8, "y")


@claim(46)
def test_claim_1_46_a_majority_under_one_number_decides_and_the_value_is_what_counts(variant):
    one = One(variant=variant, members="ABCDE")
    one.accepted(6, "x", src="B")
    one.accepted(8, "x", src="C")
    one.accepted(9, "x", src="D")
    assert one.chosen() is None, "three acceptors, but under three numbers"
    one.accepted(9, "x", src="B")
    one.accepted(9, "x", src="C")
    assert one.chosen() == "x"
    one.accepted(14, "x", src="B")
    one.accepted(14, "x", src="C")
    one.accepted(14, "x", src="E")
    assert replies(one.want("y")) == [Ok("x", 1)], "decided again under another number: the same decision"


@claim(47)
def test_claim_1_47_two_values_are_never_decided_whatever_happens(variant):
    for seed in range(40):
        for rule in ("eq", "ge"):
            world = World("ABC", seed=seed, variant=variant, log=False, accept_rule=rule)
            play(world, drawn(World, Rng(seed), "ABC", count=60))
            assert not world.problems, (seed, world.problems)


@claim(48)
def test_claim_1_48_failed_rounds_are_followed_by_others_and_end(variant):
    for seed in range(12):
        world = World("ABCDE", seed=seed, variant=variant, patience_ms=20_000, delay=(1, 30))
        world.hold = lambda src, dst, body: type(body) is Propose
        asked = [world.request(name, Want(1, name)) for name in "ABCDE"]
        world.run(1000)
        assert not world.replies
        world.hold = None
        world.run(10_000)
        assert len(world.notes("attempt_abandoned")) >= 5
        assert sorted(world.replies) == asked, seed
        assert len({body.value for body in world.replies.values()}) == 1


@claim(49)
def test_claim_1_49_each_instance_is_decided_by_itself(variant):
    world = World("ABC", variant=variant)
    decided = [world.propose(name, k, f"{name}{k}") for k, name in enumerate("ABCAB", 1)]
    assert decided == ["A1", "B2", "C3", "A4", "B5"]
    assert [world.learn("C", k) for k in range(1, 6)] == decided
    assert world.propose("C", 2, "again") == "B2"
    log = World("ABC", variant=variant)
    assert [log.ask(name, Append("k", n)).index for n, name in enumerate("ABC")] == [1, 2, 3]
    assert log.read("A") == [0, 1, 2]
