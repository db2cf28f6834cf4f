"""Each planted bug by its shortest order of events; the honest build withstands the very same order.

Numbers, three nodes: A 3, 6 … B 4, 7 … C 5, 8 …
"""

from __future__ import annotations

import pytest

from dethrone.checkers.agreement import CHECKER
from dethrone.clusters.targets.client_api import Learn
from dethrone.clusters.targets.paxos.messages import Accepted, Ask, Nack, Prepare, Promise, Told
from dethrone.clusters.targets.paxos.storage import FILE
from dethrone.clusters.targets.paxos.target import TARGET
from dethrone.harness.core.rng import Rng
from tests.clusters.paxos.histories import history, plan
from tests.clusters.paxos.script import Script
from tests.clusters.paxos.spec import World, play
from tests.world.chaos import drawn

SEQUENCES = {}


def sequence(name, names="ABC", **knobs):
    def keep(tell):
        SEQUENCES[name] = (tell, names, knobs)
        return tell

    return keep


@sequence("plain-promise-not-written", accept_rule="ge")
@sequence("02-promise-before-persist", accept_rule="ge")
def a_promise_is_forgotten(s):
    s.want("B", "b")
    s.want("C", "c")
    a = s.boxes["A"]
    if "02" in (s.variant or "02"):
        s.sync = None
    s.give("C", "A", Prepare)
    a.batches.clear()
    s.sync = (0, 0)
    s.restart("A")
    s.give("A", "C", Promise)
    s.prepare("B", "A")
    s.accept("B", "A")
    s.accept("C", "B")


@sequence("04-ignore-failed-write")
def an_acceptance_that_could_not_be_written_is_told_later(s):
    s.want("B", "x")
    s.prepare("B", "A")
    s.boxes["A"].full = True
    s.accept("B", "A")
    s.boxes["A"].full = False
    if s.boxes["A"].halted:
        return
    s.request("C", Learn(1))
    for name in "AB":
        s.give_all("C", name, Ask)
        s.give_all(name, "C", Told)
    for name in "AC":
        s.restart(name)
    s.want("C", "y")
    s.prepare("C", "A")
    s.accept("C", "A")


@sequence("07-unreadable-means-fresh")
def a_damaged_file_is_taken_for_none(s):
    s.want("B", "x")
    s.prepare("B", "A")
    s.accept("B", "A")
    s.kill("A")
    disk = s.boxes["A"].disk
    content = disk.shown[FILE]
    disk.store({FILE: content[:20] + b"\0" + content[21:]})
    s.start("A")
    s.want("C", "y")
    s.prepare("C", "A")
    s.accept("C", "A")


@sequence("10-resumes-number")
def a_number_is_used_again_after_a_restart(s):
    s.want("A", "x")
    s.prepare("A", "B")
    s.accept("A", "B")
    s.restart("A")
    s.want("A", "y")
    s.accept("A", "B", "C")


@sequence("11-forgets-own-acceptances")
def its_own_proposal_is_forgotten(s):
    s.want("A", "x")
    s.prepare("A", "B")
    s.accept("A", "B")
    s.restart("A")
    s.want("C", "y")
    s.prepare("C", "A")
    s.accept("C", "A")


def two_values_lie_about(s):
    """A accepted (3, x) alone; y is chosen under 4 by B and C; A proposes again and hears of both."""
    s.want("A", "x")
    s.prepare("A", "B")
    s.want("B", "y")
    s.prepare("B", "C")
    s.accept("B", "C")
    s.restart("A")
    s.want("A", "z")
    s.prepare("A", "B")
    s.accept("A", "B")


sequence("14-accepted-under-promised")(two_values_lie_about)
sequence("plain-adopts-lowest")(two_values_lie_about)


@sequence("12-promise-hides-accepted")
@sequence("px-b5-ignores-accepted")
@sequence("01-acceptance-not-written")
def a_second_proposer_after_a_choice(s):
    s.want("A", "x")
    s.prepare("A", "B")
    s.accept("A", "B")
    s.restart("B")
    s.want("C", "y")
    s.prepare("C", "B")
    s.accept("C", "B")


@sequence("05-not-synced")
def a_power_loss_takes_what_was_not_synced(s):
    s.want("A", "x")
    s.prepare("A", "B")
    s.accept("A", "B")
    s.restart("B", power=True)
    s.want("C", "y")
    s.prepare("C", "B")
    s.accept("C", "B")


@sequence("16-counts-older-promises", accept_rule="ge")
def a_promise_of_an_earlier_number_arrives_late(s):
    s.want("B", "b")
    s.give("B", "A", Prepare)
    s.run(700, until=lambda: s.boxes["B"].node.instances[1].attempt.id > 4)
    s.boxes["B"].node.heard.update(A=s.now, C=s.now)
    s.run(700, until=lambda: s.boxes["B"].node.instances[1].attempt.id > 4)
    s.run(1)
    assert s.boxes["B"].node.instances[1].attempt.id == 7
    s.want("C", "c")
    s.prepare("C", "A")
    s.accept("C", "A")
    s.give("A", "B", Promise, 4)
    s.accept("B", "C")


@sequence("17-refusal-is-promise", "ABCP", acceptors=3, accept_rule="ge")
def a_refusal_is_counted(s):
    s.want("A", "x")
    s.prepare("A", "C")
    s.accept("A", "C")
    s.want("P", "p")
    s.give("P", "A", Prepare)
    s.want("B", "b")
    s.give("B", "A", Prepare)
    s.give("A", "B", Nack)
    s.accept("B", "C")


@sequence("18-promises-are-acceptances")
def promises_alone_decide(s):
    s.want("A", "x")
    s.prepare("A", "B")
    s.restart("A")
    s.want("C", "y")
    s.prepare("C", "B")
    s.accept("C", "B")


@sequence("22-half-is-enough", "ABCD")
def two_halves_decide(s):
    s.want("A", "x")
    s.prepare("A", "B")
    s.accept("A", "B", told="A")
    s.want("C", "y")
    s.prepare("C", "D")
    s.accept("C", "D", told="C")


@sequence("25-promise-may-fall", accept_rule="ge")
def a_lower_number_is_promised_after_a_higher_one(s):
    s.want("B", "b")
    s.want("C", "c")
    s.prepare("C", "A")
    s.prepare("B", "A")
    s.accept("B", "A")
    s.accept("C", "B")


@sequence("40-counts-across-numbers")
def one_value_under_two_numbers_is_counted_together(s):
    s.want("A", "x")
    s.prepare("A", "B")
    s.want("B", "y")
    s.prepare("B", "C")
    s.want("C", "z")
    s.prepare("C", "A")
    s.give("C", "A", Accepted)
    s.give("A", "C", Accepted)
    s.restart("B")
    s.want("B", "w")
    s.prepare("B", "A")
    s.accept("B", "A")


@sequence("42-learns-from-one")
def one_acceptance_is_taken_for_a_decision(s):
    s.want("A", "x")
    s.prepare("A", "B")
    s.want("C", "y")
    s.prepare("C", "B")
    s.accept("C", "B")


@sequence("44-accepts-any-number")
def a_proposal_below_the_promise_is_accepted(s):
    s.want("A", "x")
    s.prepare("A", "B")
    s.want("C", "y")
    s.prepare("C", "B")
    s.accept("C", "B")
    s.accept("A", "B")


@sequence("46-accepts-before-sync")
def an_acceptance_is_told_before_it_is_written(s):
    s.want("A", "x")
    s.prepare("A", "B")
    s.sync = None
    s.accept("A", "B", told="A")
    s.boxes["B"].batches.clear()
    s.sync = (0, 0)
    s.restart("B")
    s.want("C", "y")
    s.prepare("C", "B")
    s.accept("C", "B")


@sequence("56-answers-own-value")
def each_client_hears_its_own_value(s):
    s.want("A", "x")
    s.want("A", "y")
    s.prepare("A", "B")
    s.accept("A", "B", told="A")


class Play(Script):
    def give_all(self, src, dst, kind):
        """Hand over every such message, once."""
        for index, (a, b, body) in enumerate(self.held_messages):
            if (a, b, type(body)) == (src, dst, kind) and index not in self.used:
                self.used.add(index)
                self.deliver(a, b, body)
        self.run(1)


@pytest.mark.parametrize("name", sorted(SEQUENCES))
def test_the_bug_shows_and_the_honest_build_withstands(name):
    tell, names, knobs = SEQUENCES[name]
    broken = Play(names, variant=name, **knobs)
    tell(broken)
    assert broken.broken(), "the sequence does not show the bug"
    verdict = judged(broken)
    assert verdict.outcome == "fail", (verdict, broken.problems)
    assert all(len(found.certificate) <= 8 for found in verdict.findings)
    honest = Play(names, **knobs)
    tell(honest)
    assert not honest.problems
    assert judged(honest).outcome in {"pass", "unknown"}


def judged(world):
    """What the checker says of it."""
    made = plan(world)
    return CHECKER.check(history(world), made.promise, made)


@pytest.mark.parametrize("profile", ["paxos", "paxos-election"])
def test_the_checker_passes_honest_runs_under_faults_and_has_evidence(profile):
    passed = 0
    for seed in range(15):
        world = play(World("ABC", seed=seed, profile=profile, log=False), drawn(World, Rng(seed), "ABC", count=50))
        verdict = judged(world)
        assert verdict.outcome in {"pass", "unknown"}, verdict
        passed += verdict.outcome == "pass"
        feed = CHECKER.watcher(plan(world).promise, plan(world))
        assert not any(map(feed, history(world)))
    assert passed >= 13


def test_21_a_majority_of_the_reachable_decides_on_both_sides_of_a_partition():
    world = World("ABCDE", variant="21-majority-of-reachable")
    world.isolate("A", "B")
    world.request("A", _want("x"))
    world.request("C", _want("y"))
    world.run(4000)
    assert world.problems
    honest = World("ABCDE")
    honest.isolate("A", "B")
    honest.request("A", _want("x"))
    honest.request("C", _want("y"))
    honest.run(4000)
    assert not honest.problems


def _want(value):
    from dethrone.clusters.targets.client_api import Propose

    return Propose(1, value)


def test_52_a_wall_clock_that_steps_back_leaves_the_epochs_without_a_leader():
    leaders = {}
    for variant in (None, "52-timers-on-wall-clock"):
        world = World("ABC", variant=variant, profile="paxos-election")
        world.step_wall(7_200_000)
        world.run(2000)
        first = world.leader()
        assert first
        world.step_wall(-3_600_000)
        world.kill(first)
        world.run(5000)
        leaders[variant] = world.leader()
    assert leaders[None]
    assert not leaders["52-timers-on-wall-clock"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TARGET.planted if name.startswith("harmless-")])
def test_harmless_builds_break_nothing(name):
    for seed in range(10):
        for log, profile in ((False, "paxos"), (True, "paxos-election")):
            world = World("ABC", seed=seed, variant=name, profile=profile, log=log)
            assert not play(world, drawn(World, Rng(seed), "ABC", count=50)).problems, seed


def test_every_bug_has_its_sequence():
    told = set(SEQUENCES) | {"21-majority-of-reachable", "52-timers-on-wall-clock"}
    assert told == {name for name, one in TARGET.planted.items() if one.caught_by}
