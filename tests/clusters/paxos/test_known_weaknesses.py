"""The named weaknesses of the specification, each by its own sequence, and the safe setting that withstands it."""

from __future__ import annotations

import pytest

from dethrone.checkers.agreement import CHECKER
from dethrone.clusters.targets.client_api import Ok, Unknown
from dethrone.clusters.targets.client_api import Propose as Want
from dethrone.clusters.targets.paxos.messages import Accepted, Nack, Prepare, Promise, Propose
from tests.clusters.paxos.histories import history, plan
from tests.clusters.paxos.spec import World


def let(*links, kinds=()):
    """A filter that keeps back everything of these kinds but on these links."""
    return lambda src, dst, body: type(body) in kinds and (src, dst) not in links


def agreement_broken(world):
    """Whether it is, as this world sees it and as the checker judges the same run."""
    made = plan(world)
    verdict = CHECKER.check(history(world), made.promise, made)
    broken = any(problem.startswith("agreement") for problem in world.problems)
    assert (verdict.outcome == "fail") == broken, verdict
    return broken


@pytest.mark.parametrize(("persist", "broken"), [("false", True), ("true", False)])
def test_px_b1_an_acceptor_that_forgets_lets_two_values_be_chosen(persist, broken):
    """A1 and A2 accept x; A2 starts again, empty; without A1, P2 hears of nothing and has y accepted by A2 and A3."""
    world = World("123", persist=persist)
    world.cut = {("1", "3"), ("3", "1")}
    world.hold = lambda src, dst, body: type(body) is Accepted and dst == "3"
    assert world.propose("1", 1, "x") == "x"
    world.hold = None
    world.restart("2")
    world.heal()
    world.isolate("1")
    assert world.propose("3", 1, "y") == ("y" if broken else "x")
    assert agreement_broken(world) == broken


def duel(backoff):
    world = World("AB1", backoff=backoff, patience_ms=60_000, seed=3, delay=(4, 4), sync=(0, 0), persist="false")
    slow = []

    def hold(src, dst, body):
        if type(body) is Propose:
            slow.append((src, dst, body))
            world.at(world.now + 20_000_000, world.deliver, src, dst, body)
            return True
        return False

    world.hold = hold
    world.propose("1", 99, "warm")
    first = world.request("A", Want(1, "a"))
    world.run(10)
    second = world.request("B", Want(1, "b"))
    world.run(5000)
    return world, {first, second}


@pytest.mark.parametrize("backoff", ["none", "random"])
def test_px_b2_without_backoff_two_proposers_outbid_each_other_and_numbers_grow(backoff):
    world, asked = duel(backoff)
    if backoff == "random":
        assert asked <= set(world.replies)
    else:
        ids = [note.data["id"] for note in world.notes("prepare_sent") if note.data["instance"] == 1]
        assert not asked & set(world.replies), "no decision while it lasts"
        assert len(ids) > 100
        assert max(ids) > 300
        world.hold = None
        world.run(5000)
    assert not world.problems


@pytest.mark.parametrize(("rule", "broken"), [("ge_literal", True), ("ge", False), ("eq", False)])
def test_px_b3_accepting_above_the_promise_without_promising_it(rule, broken):
    """P7's proposal reaches A2, which promised 6 only; then P6's proposal reaches A2 and takes its place."""
    world = World(("a1", "a2", "a3", "p6", "p7", "p8"), accept_rule=rule, acceptors=3, patience_ms=400)
    kinds = (Prepare, Promise, Propose, Accepted, Nack)
    world.hold = let(*both("p6", "a2", "a3"), kinds=kinds)
    for name in ("p6", "p7", "p8"):
        world.boxes[name].node.heard.update(a1=world.now, a2=world.now, a3=world.now)
    stop = world.hold
    world.hold = lambda s, d, b: stop(s, d, b) or type(b) is Propose
    world.request("p6", Want(1, "w"))
    world.run(20)
    (six,) = {b.id for _, _, b in world.held_messages if type(b) is Propose}
    to_a2 = next(i for i, (s, d, b) in enumerate(world.held_messages) if type(b) is Propose and d == "a2")
    stop = let(*both("p7", "a1", "a3"), ("p7", "a2"), kinds=kinds)
    # promises of a1 and a3; the proposal reaches a1 and a2
    world.hold = lambda s, d, b: (
        (type(b) is Propose and d == "a3") or (type(b) is Prepare and d == "a2") or stop(s, d, b)
    )
    world.request("p7", Want(1, "v"))
    world.run(20)
    proposed = {b.id for _, s, _, b in world.sent if type(b) is Propose and s == "p7"}
    assert proposed
    assert min(proposed) > six
    assert len(world.judge.tally.get((1, min(proposed), '"v"'), ())) == (1 if rule == "eq" else 2)
    world.deliver(*world.held_messages[to_a2])
    # from here on a1 is cut off
    stop = let(*both("p8", "a2", "a3"), kinds=kinds)
    world.hold = stop
    world.propose("p8", 1, "u")
    assert agreement_broken(world) == broken
    if broken:
        assert world.judge.decided[1][0] == '"v"'
        assert {key[2] for key, who in world.judge.tally.items() if len(who) >= 2} == {'"v"', '"w"'}


def both(proposer, *acceptors):
    return tuple(link for one in acceptors for link in ((proposer, one), (one, proposer)))


@pytest.mark.parametrize(("scheme", "broken"), [("plain_counter", True), ("unique", False)])
def test_px_b4_a_counter_that_starts_again_and_a_promise_that_comes_twice(scheme, broken):
    """P has x chosen under number 1, dies, and uses 1 again for y; an old promise makes up its majority."""
    world = World(("a1", "a2", "a3", "p"), id_scheme=scheme, acceptors=3, nack="off", patience_ms=400)
    world.isolate("a3")
    copies = []
    world.hold = lambda s, d, b: type(b) is Promise and copies.append((s, d, b))
    world.boxes["p"].node.heard.update(a1=world.now, a2=world.now)
    assert world.propose("p", 1, "x") == "x"
    world.held_messages += [(s, d, b) for s, d, b in copies if s == "a1"][:1]
    world.restart("p")
    world.heal()
    world.boxes["p"].node.heard.update(a1=world.now, a2=world.now, a3=world.now)
    world.hold = lambda s, d, b: type(b) is Accepted and d == "p" and b.value.value == "x"
    number = world.request("p", Want(1, "y"))
    world.run(15)
    world.deliver(*world.held_messages[0])
    world.run(2000)
    assert agreement_broken(world) == broken
    if broken:
        assert world.replies[number] == Ok("y", 1)
        assert '"x"' in world.judge.decided[1]


def test_px_b6_without_a_majority_nothing_is_decided_and_it_resumes_with_its_state():
    world = World("ABCDE", patience_ms=60_000)
    assert world.propose("A", 1, "x") == "x"
    for name in "BCD":
        world.kill(name)
    asked = [world.request("A", Want(2, "y")), world.request("E", Want(3, "z"))]
    world.run(3000)
    assert not set(asked) & set(world.replies)
    assert set(world.judge.decided) == {1}
    for name in "BCD":
        world.start(name)
    world.run(5000)
    assert [world.replies[n].value for n in asked] == ["y", "z"]
    assert world.learn("D", 1) == "x"
    assert not world.problems


@pytest.mark.parametrize("rule", ["eq", "ge"])
def test_px_b7_an_acceptor_that_missed_prepare_refuses_by_eq_and_accepts_by_ge(rule):
    world = World("ABC", accept_rule=rule, patience_ms=600)
    world.propose("A", 9, "warm")
    world.hold = lambda s, d, b: d == "C" and type(b) is Prepare
    number = world.request("A", Want(1, "x"))
    world.run(1000, until=lambda: any(type(b) is Promise and s == "B" and b.instance == 1 for _, s, _, b in world.sent))
    world.hold = lambda s, d, b: (d == "C" and type(b) is Prepare) or (d == "B" and type(b) is Propose)
    world.run(50)
    world.kill("B")
    world.run(2000)
    assert not world.problems
    if rule == "ge":
        assert world.replies[number] == Ok("x", 1)
    else:
        assert world.replies[number] == Unknown("not decided in time")
        assert world.notes("refused", of="C")
    world.mend()
    world.run(500)
    assert world.propose("A", 1, "later") == "x"


def test_px_b8_the_decided_leader_stays_decided_and_only_a_new_instance_replaces_it():
    world = World("ABC", profile="paxos-election")
    assert world.run(3000, until=lambda: world.leader() is not None)
    world.run(500)
    first = world.leader()
    epoch = world.boxes[first].node.epoch
    world.kill(first)
    world.run(3000)
    second = world.leader()
    assert second not in (None, first)
    others = [box for box in world.boxes.values() if box.alive]
    assert all(box.node.instances[-epoch].chosen.node == first for box in others), "epoch k keeps its answer"
    assert all(box.node.epoch > epoch for box in others)
    assert not world.problems


def test_a_leader_that_is_cut_off_does_not_notice_that_it_was_replaced():
    world = World("ABC", profile="paxos-election")
    world.run(2000)
    first = world.leader()
    world.isolate(first)
    world.run(3000)
    leads = [box.name for box in world.boxes.values() if box.node.leads]
    assert len(leads) == 2
    assert first in leads
    world.heal()
    world.run(1000)
    assert [box.name for box in world.boxes.values() if box.node.leads] == [world.leader()]
    assert world.leader() != first
    assert world.notes("step_down", of=first)
    assert not world.problems
