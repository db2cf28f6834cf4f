"""The nemesis driver: overlapping faults compose, nothing is installed without evidence, everything is healed."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.harness.core.clock import Span
from dethrone.harness.core.hoststate import HEALTHY, healthy_cluster
from dethrone.harness.core.interfaces import ClusterView, Evidence
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault, Schedule, Step
from dethrone.harness.engine.run.fault_requests import FaultRequests
from dethrone.harness.engine.run.nemesis_driver import NemesisDriver, StepMark
from dethrone.harness.engine.run.realised_faults import Settled

NODES = ("n1", "n2", "n3")


class Freeze:
    kind = "freeze"

    def resolve(self, fault, view, rng):
        if fault.victims == "nobody":
            return "there is nobody"
        return (fault.victims,), {}

    def apply(self, state, victims, params):
        out = dict(state)
        for victim in victims:
            out[victim] = msgspec.structs.replace(out[victim], frozen=True)
        return out


class Cut(Freeze):
    kind = "cut"

    def apply(self, state, victims, params):
        out = dict(state)
        for victim in victims:
            out[victim] = msgspec.structs.replace(out[victim], cuts=("n3",))
        return out


def view_of(state):
    return ClusterView(nodes=NODES, leader="n1", roles=dict.fromkeys(NODES, "follower"), terms={}, state=state)


def fault(kind, victim, *, delay=0, hold=10):
    return PlannedFault(kind=kind, victims=victim, delay_ns=delay, hold_ns=hold)


class Play:
    """Carries a schedule out against a perfect (or chosen) world and keeps what was said."""

    def __init__(self, *steps, confirm=lambda host, state: True):
        schedule = Schedule(seed=1, strategy="test", steps=steps)
        self.driver = NemesisDriver(
            schedule,
            faults={"freeze": Freeze(), "cut": Cut()},
            nodes=NODES,
            rng=Rng(1),
            health_bound_ns=50,
            requests=FaultRequests({}, timeout_ns=1, bound_ns=1),
        )
        self.state = healthy_cluster(NODES)
        self.states = []
        self.settled = []
        self.marks = []
        self.confirm = confirm
        self.healthy = True

    def run(self, until=10_000):
        self.driver.start(0)
        now = 0
        while now < until and not self.driver.finished:
            notes, wanted = self.driver.step(now, view_of(self.state), healthy=self.healthy)
            self.note(notes)
            if wanted is not None:
                assert wanted.wants
                assert all(self.state[host] == state for host, state in wanted.before.items())
                span = Span(now, now + 2)
                evidence = {
                    host: Evidence(host=host, span=span, state=state, confirmed=self.confirm(host, state), why="no")
                    for host, state in wanted.wants.items()
                }
                settled = self.driver.settled(evidence, span)
                if settled:  # nothing: the same convergence is asked for again
                    self.state |= wanted.wants
                self.note(settled)
                self.states.append(dict(self.state))
            now += 1
        return now

    def note(self, notes):
        for item in notes:
            if isinstance(item, StepMark):
                self.marks.append((item.step, item.phase))
            else:
                assert isinstance(item, Settled)
                self.settled.append((item.realised.kind, item.phase, item.outcome))


def test_a_fault_begins_holds_and_is_healed():
    play = Play(Step(faults=(fault("freeze", "n1"),), gap_ns=5))
    play.run()
    assert play.settled == [("freeze", "begin", "installed"), ("freeze", "end", "healed")]
    assert play.marks == [(0, "begin"), (0, "healed"), (0, "healthy")]
    assert play.state == healthy_cluster(NODES)
    realised = play.driver.realised().faults[0]
    assert realised.end.lo - realised.begin.hi >= 10


def test_overlapping_faults_on_one_host_compose_and_end_apart():
    play = Play(Step(faults=(fault("freeze", "n1", hold=30), fault("cut", "n1", delay=5, hold=5)), gap_ns=1))
    play.run()
    both = play.states[1]["n1"]
    assert both.frozen
    assert both.cuts == ("n3",)
    assert play.states[2]["n1"] == msgspec.structs.replace(HEALTHY, frozen=True)
    assert play.state == healthy_cluster(NODES)


def test_a_fault_that_did_not_take_is_indeterminate_and_still_healed():
    play = Play(Step(faults=(fault("freeze", "n1"),), gap_ns=1), confirm=lambda host, state: not state.frozen)
    play.run()
    assert play.settled == [("freeze", "begin", "indeterminate"), ("freeze", "end", "healed")]


def lapsing(host):
    """A schedule of two faults on different hosts, one of whose hosts is found not to be as asked for."""
    play = Play(Step(faults=(fault("cut", "n1", hold=30), fault("freeze", "n2", hold=30)), gap_ns=1))
    step = play.driver.step

    def looked(now, view, *, healthy):
        if now == 15:
            play.driver.lapse(host, "our chain is not what was installed")
        return step(now, view, healthy=healthy)

    play.driver.step = looked
    play.run()
    return play


def test_a_fault_that_lapsed_ends_as_indeterminate_with_its_reason_and_others_do_not():
    play = lapsing("n1")
    assert [said for said in play.settled if said[1] == "end"] == [
        ("cut", "end", "indeterminate"),
        ("freeze", "end", "healed"),
    ]
    realised = {one.kind: one for one in play.driver.realised().faults}
    assert (realised["cut"].outcome, realised["cut"].healed) == ("indeterminate", True)
    assert realised["cut"].why == "n1: our chain is not what was installed"
    assert realised["freeze"].outcome == "installed"
    assert play.state == healthy_cluster(NODES)


def test_what_lapses_on_a_host_that_no_fault_changes_is_nobodys_matter():
    assert {said[2] for said in lapsing("n3").settled if said[1] == "end"} == {"healed"}


def test_a_heal_that_does_not_take_is_tried_again_and_then_said():
    play = Play(Step(faults=(fault("freeze", "n1"),), gap_ns=1), confirm=lambda host, state: state.frozen)
    play.run()
    assert play.settled[-1] == ("freeze", "end", "heal_failed")
    assert "n1" in play.driver.not_healed


def test_a_selector_without_a_victim_is_skipped_with_its_reason():
    play = Play(Step(faults=(fault("freeze", "nobody"),), gap_ns=1))
    play.run()
    assert play.settled == [("freeze", "begin", "skipped")]
    assert play.driver.realised().faults[0].why == "there is nobody"


def test_the_same_fault_twice_changes_nothing_the_second_time_and_is_skipped():
    play = Play(Step(faults=(fault("freeze", "n1", hold=50), fault("freeze", "n1", delay=10)), gap_ns=1))
    play.run()
    assert ("freeze", "begin", "skipped") in play.settled
    assert play.state == healthy_cluster(NODES)


def test_health_is_awaited_up_to_its_bound_and_its_absence_is_said():
    play = Play(Step(faults=(fault("freeze", "n1"),), gap_ns=1))
    play.healthy = False
    ended = play.run()
    assert play.marks[-1] == (0, "not-healthy")
    assert ended >= 50


def test_cancelling_ends_what_is_in_force_and_begins_nothing_more():
    play = Play(Step(faults=(fault("freeze", "n1", hold=5_000), fault("cut", "n2", delay=100)), gap_ns=1))
    play.driver.start(0)
    play.run(until=20)
    play.driver.cancel()
    now = 20
    while not play.driver.finished:
        notes, wanted = play.driver.step(now, view_of(play.state), healthy=True)
        play.note(notes)
        if wanted:
            play.state |= wanted.wants
            span = Span(now, now)
            play.note(
                play.driver.settled(
                    {h: Evidence(host=h, span=span, state=s, confirmed=True) for h, s in wanted.wants.items()}, span
                )
            )
        now += 1
    assert play.state == healthy_cluster(NODES)
    assert [kind for kind, phase, _ in play.settled if phase == "begin"] == ["freeze"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["freeze", "cut"]), st.sampled_from(NODES), st.integers(0, 30), st.integers(0, 30)
            ),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_whatever_the_schedule_every_begun_fault_ends_and_every_host_is_healthy_at_the_end(steps):
    play = Play(*(Step(faults=tuple(fault(k, v, delay=d, hold=h) for k, v, d, h in step), gap_ns=3) for step in steps))
    play.run()
    assert play.driver.finished
    assert play.state == healthy_cluster(NODES)
    begun = [entry for entry in play.settled if entry[1:] == ("begin", "installed")]
    ended = [entry for entry in play.settled if entry[1:] == ("end", "healed")]
    assert len(begun) == len(ended)
    assert all(realised.healed for realised in play.driver.realised().faults)


def test_an_answer_without_a_question_is_a_bug_of_the_caller():
    with pytest.raises(ValueError, match="no convergence"):
        Play().driver.settled({}, Span(0, 0))
