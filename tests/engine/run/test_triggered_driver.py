"""Faults that wait for events: hits and misses are told, with latencies; steps end; nothing is heard in vain."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.harness.core import registry
from dethrone.harness.core import world as w
from dethrone.harness.core.clock import SECOND, Span
from dethrone.harness.core.events import FaultEvent, Invoke, NodeProcess, Observed, Return, Traced
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.interfaces import ClusterView, Evidence, HostNews, TraceLine
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import AfterFault, OnEvent, PlannedFault, Schedule, Step
from dethrone.harness.engine.run.director import Director
from dethrone.harness.engine.run.fault_requests import FaultRequests
from dethrone.harness.engine.run.nemesis_driver import NemesisDriver, StepMark
from dethrone.harness.engine.run.trigger_figures import trigger_figures
from dethrone.nemesis.faults import kill, partition, pause, restart

from . import fake

CONDITIONS = registry.load_all(registry.TRIGGERS)

NODES = ("n1", "n2", "n3")
FAULTS = {module.FAULT.kind: module.FAULT for module in (kill, partition, pause, restart)}
TAKES = 2
"""How long a convergence lasts."""


def traced(name, node, *, at, term=2, data=None, n=1):
    return Traced(
        seq=0, t=at, span=Span(at, at), node=node, incarnation=1, n=n, name=name, term=term, role="", source="core",
        data=data or {},
    )  # fmt: skip


def on(event, *, within=50, **fields):
    return OnEvent(event=event, within_ns=within, **fields)


def fault(kind, victims, *, hold=10, **fields):
    return PlannedFault(kind=kind, victims=victims, hold_ns=hold, **fields)


class Play:
    """A schedule against a perfect world, with scripted events: moment → events."""

    def __init__(self, *steps, script=(), traced=True, seed=1):
        schedule = Schedule(seed=seed, strategy="test", steps=steps)
        self.driver = NemesisDriver(
            schedule,
            faults=FAULTS,
            nodes=NODES,
            rng=Rng(seed),
            health_bound_ns=5,
            requests=FaultRequests({}, timeout_ns=1, bound_ns=1),
            conditions=CONDITIONS,
            traced=traced,
        )
        self.state = healthy_cluster(NODES)
        self.script = list(script)
        self.due = None
        self.told = []
        self.marks = []
        self.unheard = 0

    def view(self):
        return ClusterView(
            nodes=NODES, leader="n1", roles=dict.fromkeys(NODES, "follower"), terms=dict.fromkeys(NODES, 1),
            state=self.state,
        )  # fmt: skip

    def feed(self, event, now):
        if type(event) in self.driver.hears:
            self.driver.feed(event, now, self.view)
        else:
            self.unheard += 1

    def run(self, until=2_000):
        self.driver.start(0)
        now = 0
        while now < until and not self.driver.finished:
            for at, event in self.script:
                if at == now:
                    self.feed(event, now)
            if self.due is not None and now >= self.due[0]:
                _, wanted, span = self.due
                self.due = None
                self.state |= wanted.wants
                found = {h: Evidence(host=h, span=span, state=s, confirmed=True) for h, s in wanted.wants.items()}
                self.note(self.driver.settled(found, span), now)
            notes, wanted = self.driver.step(now, self.view(), healthy=True)
            self.note(notes, now)
            if wanted is not None:
                self.due = (now + TAKES, wanted, Span(now, now + TAKES))
            now += 1
        assert now < until, "the schedule does not end"
        return now

    def note(self, notes, now):
        for item in notes:
            if isinstance(item, StepMark):
                self.marks.append((item.step, item.phase))
                continue
            realised = item.realised
            self.told.append((realised.kind, item.phase, item.outcome, realised.victims))
            event = FaultEvent(
                seq=0, t=now, fault=realised.fault, step=realised.step, kind=realised.kind, phase=item.phase,
                span=item.span, victims=realised.victims, outcome=item.outcome,
                evidence={key: item.evidence[key] for key in ("name",) if key in item.evidence},
            )  # fmt: skip
            self.feed(event, now)

    @property
    def realised(self):
        return self.driver.realised().faults


def test_a_fault_begins_when_its_event_comes_and_hits_whom_the_event_names():
    play = Play(Step(faults=(fault("kill", "actor", when=on("elected")),), gap_ns=1),
                script=[(7, traced("elected", "n3", at=6))])  # fmt: skip
    play.run()
    assert play.told == [("kill", "begin", "installed", ("n3",)), ("kill", "end", "healed", ("n3",))]
    (one,) = play.realised
    assert one.begin == Span(7, 9)
    trigger = one.trigger
    assert (trigger.event, trigger.outcome, trigger.actor, trigger.term) == ("elected", "hit", "n3", 2)
    assert (trigger.at, trigger.seen_ns, trigger.latency_ns) == (Span(6, 6), 7, 3)
    assert play.state == healthy_cluster(NODES)


def test_an_event_that_does_not_come_in_time_is_a_miss_and_the_step_goes_on():
    play = Play(Step(faults=(fault("kill", "actor", when=on("elected", within=20)),), gap_ns=1),
                Step(faults=(fault("pause", "leader"),), gap_ns=1),
                script=[(40, traced("elected", "n3", at=40))])  # fmt: skip
    play.run()
    assert [entry[:3] for entry in play.told] == [
        ("kill", "begin", "skipped"),
        ("pause", "begin", "installed"),
        ("pause", "end", "healed"),
    ]
    missed = play.realised[0]
    assert missed.trigger.outcome == "miss"
    assert missed.trigger.latency_ns is None
    assert "did not occur within 20 ns" in missed.why


def test_the_delay_counts_from_the_event_and_not_from_when_it_was_seen():
    play = Play(Step(faults=(fault("kill", "actor", delay_ns=10, when=on("elected")),), gap_ns=1),
                script=[(9, traced("elected", "n2", at=5))])  # fmt: skip
    play.run()
    assert play.realised[0].begin.lo == 15


def test_the_third_event_of_a_kind_hits_and_one_told_twice_counts_once():
    votes = [(at, traced("vote_decision", "n2", at=at, term=at, data={"candidate": "n3", "granted": True}))
             for at in (5, 6, 7, 8)]  # fmt: skip
    again = [(at, msgspec.structs.replace(event, name="vote", source="shell")) for at, event in votes]
    play = Play(Step(faults=(fault("restart", "voter", hold=0, when=on("vote-granted", count=3)),), gap_ns=1),
                script=sorted(votes + again, key=lambda pair: pair[0]))  # fmt: skip
    play.run()
    assert play.realised[0].trigger.term == 7
    assert play.realised[0].victims == ("n2",)


def test_a_trigger_after_a_fault_is_armed_only_once_that_fault_is_in_force():
    play = Play(Step(faults=(fault("kill", "leader", name="base", delay_ns=10, hold=60),
                             fault("pause", "actor", when=on("elected", after="base"))), gap_ns=1),
                script=[(5, traced("elected", "n2", at=5)), (11, traced("elected", "n2", at=11, term=3)),
                        (20, traced("elected", "n3", at=20, term=4))])  # fmt: skip
    play.run()
    assert play.unheard >= 2
    assert [r.victims for r in play.realised] == [("n1",), ("n3",)]


def test_a_fault_after_another_counts_its_delay_from_that_ones_effect():
    first = fault("kill", "leader", name="a", delay_ns=4, hold=30)
    second = fault("pause", "spared-by:a", when=AfterFault(fault="a"), delay_ns=3)
    play = Play(Step(faults=(first, second), gap_ns=1))
    play.run()
    first, second = play.realised
    assert second.begin.lo == first.begin.hi + 3
    assert second.victims == ("n2", "n3")


def test_what_waits_for_a_fault_that_was_skipped_is_skipped_too_down_the_chain():
    play = Play(Step(faults=(fault("kill", "voter", name="a", when=on("elected", within=10)),
                             fault("pause", "actor", name="b", when=on("elected", after="a")),
                             fault("pause", "hit-by:b", when=AfterFault(fault="b"))), gap_ns=1))  # fmt: skip
    play.run()
    assert [r.outcome for r in play.realised] == ["skipped"] * 3
    assert [r.trigger and r.trigger.outcome for r in play.realised] == ["miss", "miss", None]
    assert "'a' that it waits for was skipped" in play.realised[1].why


def test_a_hit_whose_victim_cannot_be_found_is_a_hit_without_effect():
    play = Play(Step(faults=(fault("kill", "voter", when=on("elected")),), gap_ns=1),
                script=[(5, traced("elected", "n2", at=5))])  # fmt: skip
    play.run()
    (one,) = play.realised
    assert one.outcome == "skipped"
    assert "names no voter" in one.why
    assert (one.trigger.outcome, one.trigger.latency_ns) == ("hit", None)


def test_a_fault_ends_on_its_event_before_its_hold_is_over():
    step = Step(faults=(fault("kill", "leader", hold=500, until=on("elected", within=400)),), gap_ns=1)
    play = Play(step, script=[(30, traced("elected", "n2", at=30))])
    assert play.run() < 100
    (one,) = play.realised
    assert one.end.lo == 30
    assert (one.until.outcome, one.until.latency_ns) == ("hit", TAKES)
    late = Play(step)
    late.run()
    (one,) = late.realised
    assert one.end.lo >= 500
    assert one.until.outcome == "miss"


def test_one_event_begins_a_fault_and_then_ends_another():
    play = Play(Step(faults=(fault("kill", "leader", name="base", hold=500, until=on("elected", within=400)),
                             fault("pause", "actor", when=on("elected", after="base"))), gap_ns=1),
                script=[(30, traced("elected", "n2", at=30))])  # fmt: skip
    play.run()
    assert [entry[:2] for entry in play.told] == [
        ("kill", "begin"),
        ("pause", "begin"),
        ("kill", "end"),
        ("pause", "end"),
    ]


def test_a_heal_triggers_a_break_somewhere_else():
    play = Play(Step(faults=(fault("partition", "leader", name="cut", params={"shape": "isolate"}),
                             fault("kill", "peer", when=on("healed", where={"fault": "cut"}))), gap_ns=1))  # fmt: skip
    play.run()
    assert [entry[:3] for entry in play.told][1:3] == [("partition", "end", "healed"), ("kill", "begin", "installed")]
    assert play.realised[1].victims[0] in {"n2", "n3"}


def test_a_whole_step_can_wait_for_an_event_and_a_missed_step_is_left_out():
    step = Step(
        when=on("elected", within=30), faults=(fault("kill", "actor"), fault("pause", "peer", delay_ns=3)), gap_ns=1
    )
    play = Play(step, script=[(12, traced("elected", "n3", at=12))])
    play.run()
    assert play.marks == [(0, "begin"), (0, "healed"), (0, "healthy")]
    assert play.realised[0].victims == ("n3",)
    assert play.realised[1].begin.lo >= 15
    assert [r.trigger.outcome for r in play.realised] == ["hit", "hit"]
    play = Play(step)
    play.run()
    assert play.marks == [(0, "missed"), (0, "healed"), (0, "healthy")]
    assert [(r.outcome, r.trigger.outcome) for r in play.realised] == [("skipped", "miss")] * 2


def test_an_acknowledged_write_hits_and_one_invoked_before_does_not_matter():
    def op(number, at, f="append"):
        asked = Invoke(seq=0, t=at, op=number, process=0, f=f, value=1, target="n1")
        return [(at, asked), (at + 1, Return(seq=0, t=at + 1, op=number, status="ok", node="n2"))]

    play = Play(Step(faults=(fault("kill", "actor", when=on("write-acked", count=2)),), gap_ns=1),
                script=[*op(1, 5, "read"), *op(2, 7), *op(3, 9)])  # fmt: skip
    play.run()
    assert play.realised[0].begin.lo == 10
    assert play.realised[0].victims == ("n2",)


def test_without_traces_a_leader_of_a_newer_term_counts_and_the_old_one_does_not():
    def polled(node, term, at):
        return (at, Observed(seq=0, t=at, span=Span(at, at), node=node, incarnation=1, role="l", leads=True, term=term))

    script = [polled("n1", 1, 5), polled("n3", 1, 7), polled("n2", 2, 9), polled("n2", 2, 10)]
    step = Step(faults=(fault("kill", "actor", when=on("elected", within=30)),), gap_ns=1)
    play = Play(step, script=script, traced=False)
    play.run()
    assert play.realised[0].victims == ("n2",)
    assert play.realised[0].begin.lo == 9
    play = Play(step, script=script, traced=True)
    play.run()
    assert play.realised[0].trigger.outcome == "miss"


def test_whose_doing_counts_is_asked_of_the_moment_of_the_event():
    play = Play(Step(faults=(fault("kill", "actor", when=on("elected", by="follower")),), gap_ns=1),
                script=[(5, traced("elected", "n1", at=5)), (9, traced("elected", "n2", at=9, term=3))])  # fmt: skip
    play.run()
    assert play.realised[0].victims == ("n2",)


def test_whose_doing_counts_can_be_told_by_earlier_faults():
    play = Play(
        Step(
            faults=(
                fault("pause", "node:n2", name="a", hold=40),
                fault("kill", "actor", when=on("elected", by="spared-by:a", after="a")),
            ),
            gap_ns=1,
        ),
        script=[(5, traced("elected", "n2", at=5)), (9, traced("elected", "n3", at=9, term=3))],
    )
    play.run()
    assert play.realised[1].victims == ("n3",)


def test_nothing_is_heard_unless_something_is_armed():
    play = Play(Step(faults=(fault("kill", "leader"),), gap_ns=1))
    assert play.driver.hears == frozenset()
    play = Play(Step(faults=(fault("kill", "actor", when=on("ready")),), gap_ns=1))
    play.driver.start(0)
    play.driver.step(0, play.view(), healthy=True)
    assert play.driver.hears == {NodeProcess}
    play.driver.cancel()
    assert play.driver.hears == frozenset()


def test_the_driver_wakes_up_for_a_miss():
    play = Play(Step(faults=(fault("kill", "actor", when=on("elected", within=33)),), gap_ns=1))
    play.driver.start(0)
    play.driver.step(0, play.view(), healthy=True)
    assert play.driver.wake_at() == 33


events = st.tuples(
    st.integers(1, 120),
    st.sampled_from(["elected", "step_down", "vote_decision"]),
    st.sampled_from(NODES),
    st.integers(1, 4),
)
whens = st.sampled_from(
    [on("elected", within=40), on("stepped-down", within=25, count=2), on("vote-granted", within=60), on("healed")]
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["kill", "pause"]), whens, st.booleans(), st.integers(0, 20)),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=3,
    ),
    st.lists(events, max_size=25),
    st.integers(0, 5),
)
def test_whatever_happens_every_fault_is_told_and_every_host_is_healthy_at_the_end(steps, happened, seed):
    plan = []
    for step in steps:
        faults = [fault("restart", "random", hold=0, name="base")]
        for number, (kind, when, after, delay) in enumerate(step):
            armed = msgspec.structs.replace(when, after="base" if after else "")
            faults.append(fault(kind, "actor", delay_ns=delay, when=armed, name=f"f{number}"))
        plan.append(Step(faults=tuple(faults), gap_ns=3))
    script = [
        (at, traced(name, node, at=at, term=term, data={"candidate": "n9", "granted": True}))
        for at, name, node, term in happened
    ]
    play = Play(*plan, script=script, seed=seed)
    play.run()
    assert play.state == healthy_cluster(NODES)
    assert len(play.realised) == sum(len(step.faults) for step in plan)
    for realised in play.realised:
        assert realised.healed
        hit = realised.trigger is not None and realised.trigger.outcome == "hit"
        assert (realised.outcome == "installed") <= (hit or realised.name == "base")
        assert (realised.begin is None) == (realised.outcome == "skipped")


def test_references_that_cannot_hold_are_refused_when_a_step_is_made():
    good = fault("kill", "leader", name="a")
    with pytest.raises(ValueError, match="names no earlier fault"):
        Step(faults=(fault("kill", "actor", when=on("elected", after="a")), good), gap_ns=1)
    with pytest.raises(ValueError, match="two faults of one step"):
        Step(faults=(good, good), gap_ns=1)
    with pytest.raises(ValueError, match="within_ns"):
        OnEvent(event="elected", within_ns=0)
    with pytest.raises(ValueError, match="count"):
        OnEvent(event="elected", within_ns=1, count=0)


def test_stored_schedules_of_the_first_version_still_read():
    text = b"""{"seed": 1, "strategy": "random", "schema": 1, "obligations": ["leader-killed"], "health_bound_ns": null,
        "steps": [{"gap_ns": 5, "faults": [
            {"kind": "kill", "victims": "leader", "hold_ns": 7, "delay_ns": 2, "params": {}}]}]}"""
    schedule = msgspec.json.decode(text, type=Schedule)
    assert schedule.steps[0].faults == (PlannedFault(kind="kill", victims="leader", hold_ns=7, delay_ns=2),)
    with pytest.raises(msgspec.ValidationError, match="reads up to"):
        msgspec.json.decode(text.replace(b'"schema": 1', b'"schema": 99'), type=Schedule)


def test_a_trace_line_makes_the_director_begin_the_fault_in_the_same_step_and_history_tells_it():
    lines = [
        TraceLine(incarnation=1, n=1, mono_ns=7 * SECOND, name="elected", term=2, role="LEADER", source="core", data={})
    ]
    news = HostNews(
        host="n2",
        kind="trace",
        span=Span(0, 0),
        data={"offset": [0, 5], "lines": [msgspec.json.encode(line) for line in lines], "incarnation": 1},
    )
    base = fake.draft()
    step = Step(
        faults=(PlannedFault(kind="pause", victims="actor", hold_ns=SECOND, when=on("elected", within=9 * SECOND)),),
        gap_ns=1,
    )
    plan = msgspec.structs.replace(
        base.plan, observable=("traced",), schedule=Schedule(seed=1, strategy="test", steps=(step, step))
    )
    draft = msgspec.structs.replace(base, plan=plan, faults=FAULTS, conditions={"elected": CONDITIONS["elected"]})
    world = fake.FakeWorld([(7 * SECOND + 40, w.HostSaid(news))])
    director = Director(draft)
    history = fake.play(director, world)
    began, ended, missed = [event for event in history if isinstance(event, FaultEvent)]
    seen = next(event for event in history if isinstance(event, Traced))
    assert began.victims == ("n2",)
    assert began.evidence["trigger"]["outcome"] == "hit"
    assert began.evidence["trigger"]["latency_ns"] == began.span.hi - seen.span.lo
    assert next(at for at, action in world.log if isinstance(action, w.Converge)) == 7 * SECOND + 40
    assert ended.outcome == "healed"
    assert (missed.outcome, missed.evidence["trigger"]["outcome"]) == ("skipped", "miss")
    assert trigger_figures(director.realised())["hits"] == 1


def polled(node, at, role):
    return Observed(
        seq=at, t=at, span=Span(at, at), node=node, incarnation=1, role=role, leads=role == "leader", term=2
    )  # fmt: skip


@pytest.mark.parametrize("with_traces", [True, False])
def test_an_edge_of_status_is_seen_in_polls_whether_or_not_there_are_traces(with_traces):
    when = on("status-changed", where={"field": "role", "to": "leader"})
    play = Play(Step(faults=(fault("kill", "actor", when=when),), gap_ns=1), traced=with_traces)
    play.driver.triggers.observed.update({("n2", ""): polled("n2", 1, "leader"), ("n3", ""): polled("n3", 2, "voter")})
    play.script = [(5, polled("n2", 5, "leader")), (9, polled("n3", 9, "leader"))]
    play.run()
    (trigger,) = [one.trigger for one in play.driver.realised().faults]
    assert (trigger.outcome, trigger.actor, trigger.at) == ("hit", "n3", Span(2, 9))
