"""Each planted bug by its shortest order of events; the honest build withstands the very same order.

Numbers, three nodes: A 3, 6 … B 4, 7 … C 5, 8 …
"""

from __future__ import annotations

from functools import partial

import pytest

from dethrone.checkers.agreement import CHECKER
from dethrone.clusters.targets.client_api import Learn
from dethrone.clusters.targets.client_api import Propose as Want
from dethrone.clusters.targets.paxos.messages import Accepted, Ask, Nack, Prepare, Promise, Told
from dethrone.clusters.targets.paxos.storage import FILE
from dethrone.clusters.targets.paxos.target import TARGET
from dethrone.harness.core.rng import Rng
from tests.clusters.paxos.histories import history, plan
from tests.clusters.paxos.script import Script
from tests.clusters.paxos.spec import World, play
from tests.world.chaos import drawn

CHOSEN_BY_A_AND_B = "A wants x; A prepares B; A accepts B"
THEN_C_WANTS_Y = "C wants y; C prepares B; C accepts B"
TWO_VALUES = (
    "A wants x; A prepares B; B wants y; B prepares C; B accepts C; restart A; A wants z; A prepares B; A accepts B"
)
"""A accepted (3, x) alone; y is chosen under 4 by B and C; A proposes again and hears of both."""

SCRIPTS = {
    "01-acceptance-not-written": f"{CHOSEN_BY_A_AND_B}; restart B; {THEN_C_WANTS_Y}",
    "05-not-synced": f"{CHOSEN_BY_A_AND_B}; power B; {THEN_C_WANTS_Y}",
    "10-resumes-number": f"{CHOSEN_BY_A_AND_B}; restart A; A wants y; A accepts BC",
    "11-forgets-own-acceptances": f"{CHOSEN_BY_A_AND_B}; restart A; C wants y; C prepares A; C accepts A",
    "12-promise-hides-accepted": f"{CHOSEN_BY_A_AND_B}; restart B; {THEN_C_WANTS_Y}",
    "14-accepted-under-promised": TWO_VALUES,
    "18-promises-are-acceptances": f"A wants x; A prepares B; restart A; {THEN_C_WANTS_Y}",
    "22-half-is-enough": (
        "A wants x; A prepares B; A accepts B telling A; C wants y; C prepares D; C accepts D telling C"
    ),
    "25-promise-may-fall": "B wants b; C wants c; C prepares A; B prepares A; B accepts A; C accepts B",
    "42-learns-from-one": f"A wants x; A prepares B; {THEN_C_WANTS_Y}",
    "44-accepts-any-number": f"A wants x; A prepares B; {THEN_C_WANTS_Y}; A accepts B",
    "56-answers-own-value": "A wants x; A wants y; A prepares B; A accepts B telling A",
    "plain-adopts-lowest": TWO_VALUES,
    "px-b5-ignores-accepted": f"{CHOSEN_BY_A_AND_B}; restart B; {THEN_C_WANTS_Y}",
}
"""Bug → its order: who wants which value, who carries out which phase with which acceptors, who restarts."""

NAMES = {"17-refusal-is-promise": "ABCP", "22-half-is-enough": "ABCD"}
KNOBS = {
    "02-promise-before-persist": {"accept_rule": "ge"},
    "16-counts-older-promises": {"accept_rule": "ge"},
    "17-refusal-is-promise": {"accept_rule": "ge", "acceptors": 3},
    "25-promise-may-fall": {"accept_rule": "ge"},
    "plain-promise-not-written": {"accept_rule": "ge"},
}


def told(script, s):
    """Carry out a script."""
    for step in script.split("; "):
        match step.split():
            case "restart", name:
                s.restart(name)
            case "power", name:
                s.restart(name, power=True)
            case name, "wants", value:
                s.want(name, value)
            case name, "prepares", acceptors:
                s.prepare(name, *acceptors)
            case name, "accepts", acceptors, *telling:
                s.accept(name, *acceptors, told=telling[1:])
            case _:
                raise ValueError(step)


def a_promise_is_forgotten(s):
    told("B wants b; C wants c", s)
    a = s.boxes["A"]
    if "02" in (s.variant or "02"):
        s.sync = None
    s.give("C", "A", Prepare)
    a.batches.clear()
    s.sync = (0, 0)
    s.restart("A")
    s.give("A", "C", Promise)
    told("B prepares A; B accepts A; C accepts B", s)


def an_acceptance_that_could_not_be_written_is_told_later(s):
    told("B wants x; B prepares A", s)
    s.boxes["A"].full = True
    s.accept("B", "A")
    s.boxes["A"].full = False
    if s.boxes["A"].halted:
        return
    s.request("C", Learn(1))
    for name in "AB":
        s.give_all("C", name, Ask)
        s.give_all(name, "C", Told)
    told("restart A; restart C; C wants y; C prepares A; C accepts A", s)


def a_damaged_file_is_taken_for_none(s):
    told("B wants x; B prepares A; B accepts A", s)
    s.kill("A")
    disk = s.boxes["A"].disk
    content = disk.shown[FILE]
    disk.store({FILE: content[:20] + b"\0" + content[21:]})
    s.start("A")
    told("C wants y; C prepares A; C accepts A", s)


def a_promise_of_an_earlier_number_arrives_late(s):
    s.want("B", "b")
    s.give("B", "A", Prepare)
    s.run(700, until=lambda: s.boxes["B"].node.instances[1].attempt.id > 4)
    s.boxes["B"].node.heard.update(A=s.now, C=s.now)
    s.run(700, until=lambda: s.boxes["B"].node.instances[1].attempt.id > 4)
    s.run(1)
    assert s.boxes["B"].node.instances[1].attempt.id == 7
    told("C wants c; C prepares A; C accepts A", s)
    s.give("A", "B", Promise, 4)
    s.accept("B", "C")


def a_refusal_is_counted(s):
    told("A wants x; A prepares C; A accepts C; P wants p", s)
    s.give("P", "A", Prepare)
    s.want("B", "b")
    s.give("B", "A", Prepare)
    s.give("A", "B", Nack)
    s.accept("B", "C")


def one_value_under_two_numbers_is_counted_together(s):
    told("A wants x; A prepares B; B wants y; B prepares C; C wants z; C prepares A", s)
    s.give("C", "A", Accepted)
    s.give("A", "C", Accepted)
    told("restart B; B wants w; B prepares A; B accepts A", s)


def an_acceptance_is_told_before_it_is_written(s):
    told("A wants x; A prepares B", s)
    s.sync = None
    s.accept("A", "B", told="A")
    s.boxes["B"].batches.clear()
    s.sync = (0, 0)
    told(f"restart B; {THEN_C_WANTS_Y}", s)


SEQUENCES = {
    **{name: partial(told, script) for name, script in SCRIPTS.items()},
    "02-promise-before-persist": a_promise_is_forgotten,
    "04-ignore-failed-write": an_acceptance_that_could_not_be_written_is_told_later,
    "07-unreadable-means-fresh": a_damaged_file_is_taken_for_none,
    "16-counts-older-promises": a_promise_of_an_earlier_number_arrives_late,
    "17-refusal-is-promise": a_refusal_is_counted,
    "40-counts-across-numbers": one_value_under_two_numbers_is_counted_together,
    "46-accepts-before-sync": an_acceptance_is_told_before_it_is_written,
    "plain-promise-not-written": a_promise_is_forgotten,
}


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
    tell, names, knobs = SEQUENCES[name], NAMES.get(name, "ABC"), KNOBS.get(name, {})
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


@pytest.mark.parametrize("variant", [None, "21-majority-of-reachable"])
def test_21_a_majority_of_the_reachable_decides_on_both_sides_of_a_partition(variant):
    world = World("ABCDE", variant=variant)
    world.isolate("A", "B")
    world.request("A", Want(1, "x"))
    world.request("C", Want(1, "y"))
    world.run(4000)
    assert bool(world.problems) is (variant is not None)


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
