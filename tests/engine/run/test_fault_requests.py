"""What faults ask of the system: refused, shown or unknown, and never in the way of other faults."""

from __future__ import annotations

import pytest

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import Span
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.interfaces import ClusterView, Evidence, OpOutcome, Reading
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import AfterFault, PlannedFault, Schedule, Step
from dethrone.harness.engine.run.fault_requests import FaultRequests
from dethrone.harness.engine.run.nemesis_driver import NemesisDriver, StepMark
from dethrone.nemesis.faults import pause, transfer

NODES = ("n1", "n2", "n3")
AGREED = OpOutcome(status="ok", node="n1")
SILENT = OpOutcome(status="info", error="timeout", node="n1")
REFUSED = OpOutcome(status="fail", error="another transfer is under way", node="n1")
BOUND = 100


def planned(kind="transfer", victims="leader", *, hold=0, delay=0, **fields):
    if kind == "transfer":
        fields |= {"params": {"to": "node:n2"}}
    return PlannedFault(kind=kind, victims=victims, hold_ns=hold, delay_ns=delay, **fields)


class Play:
    """One step against perfect hosts. ``answer``: what the leader says 5 ns after it was asked, None: nothing.

    ``leader``: (when it is polled, the node, its term). All moments are those of the harness.
    """

    def __init__(self, *faults, answer=AGREED, leader=(10, "n2", 2), until=1_000):
        self.readings = {"n1": (Span(0, 1), Reading(role="leader", leads=True, term=1))}
        self.requests = FaultRequests(self.readings, timeout_ns=50, bound_ns=BOUND)
        self.driver = NemesisDriver(
            Schedule(seed=1, strategy="test", steps=(Step(faults=faults, gap_ns=1),)),
            faults={"transfer": transfer.FAULT, "pause": pause.FAULT},
            nodes=NODES,
            rng=Rng(1),
            health_bound_ns=5,
            requests=self.requests,
        )
        self.sent = []
        self.told = []
        self.driver.start(0)
        state = healthy_cluster(NODES)
        for now in range(until):
            if now == leader[0]:
                self.readings[leader[1]] = (Span(now - 1, now), Reading(role="leader", leads=True, term=leader[2]))
            if self.sent and answer is not None and now == self.sent[0][0] + 5:
                self.driver.answered(w.RequestDone(self.sent[0][1].token, now, answer))
            terms = dict.fromkeys(NODES, 1)
            view = ClusterView(nodes=NODES, leader="n1", roles={"n1": "leader"}, terms=terms, state=state)
            notes, wanted = self.driver.step(now, view, healthy=True)
            self.told += [note for note in notes if not isinstance(note, StepMark)]
            self.sent += [(now, request) for request in self.requests.to_send()]
            if wanted is not None:
                span = Span(now, now)
                hosts = wanted.wants.items()
                found = {host: Evidence(host=host, span=span, state=want, confirmed=True) for host, want in hosts}
                self.told += self.driver.settled(found, span)
                state = {**state, **wanted.wants}
            if self.driver.finished:
                break

    @property
    def outcomes(self):
        return [(one.realised.kind, one.phase, one.outcome) for one in self.told]


def test_a_transfer_is_in_force_once_another_node_leads_a_later_term_and_nothing_is_left_of_it():
    play = Play(planned())
    assert [(request.plan.f, request.plan.value, request.plan.target) for _, request in play.sent] == [
        ("transfer", "n2", "n1")
    ]
    assert play.outcomes == [("transfer", "begin", "installed"), ("transfer", "end", "healed")]
    begin, end = play.told
    assert begin.span == Span(0, 10)
    assert begin.evidence["answer"] == {"status": "ok", "leader": "n2", "term": 2}
    assert end.span == Span(10, 10)
    assert play.driver.realised().faults[0].healed


@pytest.mark.parametrize(
    ("answer", "leader", "why"),
    [
        (AGREED, (10, "n1", 2), "n1 agreed, and no effect was seen within 100 ns"),  # the same node, in a later term
        (AGREED, (10, "n2", 1), "no effect was seen"),  # not a later term
        (AGREED, (0, "n2", 2), "no effect was seen"),  # what was polled before it was asked
        (AGREED, (200, "n2", 2), "no effect was seen"),  # too late
        (SILENT, (10, "n3", 2), "did not say what came of it (timeout)"),
    ],
)
def test_what_was_not_seen_to_come_about_is_unknown(answer, leader, why):
    play = Play(planned(), answer=answer, leader=leader)
    assert play.outcomes == [("transfer", "begin", "indeterminate"), ("transfer", "end", "healed")]
    assert why in play.told[0].why
    assert play.told[0].span == Span(0, 5)  # no leader is excused for longer than the answer took


def test_a_leader_that_did_not_answer_in_time_is_believed_if_the_named_node_leads():
    assert Play(planned(), answer=SILENT).outcomes[0] == ("transfer", "begin", "installed")


def test_what_the_system_refused_did_not_happen_and_what_waits_for_it_does_not_either():
    after = planned("pause", "node:n3", hold=5, when=AfterFault(fault="moved"))
    play = Play(planned(name="moved"), after, answer=REFUSED)
    assert play.outcomes == [("transfer", "begin", "skipped"), ("pause", "begin", "skipped")]
    assert play.told[0].why == "n1 refused: another transfer is under way"
    assert [fault.fault for fault in play.driver.realised().faults] == [0, 1]


def test_a_fault_that_waits_for_a_transfer_begins_once_it_is_in_force():
    after = planned("pause", "hit-by:moved", hold=5, when=AfterFault(fault="moved"))
    play = Play(planned(name="moved"), after)
    assert play.outcomes == [
        ("transfer", "begin", "installed"),
        ("transfer", "end", "healed"),
        ("pause", "begin", "installed"),
        ("pause", "end", "healed"),
    ]
    assert play.told[2].realised.victims == ("n1",)


def test_other_faults_begin_and_end_while_a_transfer_is_under_way():
    play = Play(planned(), planned("pause", "node:n3", hold=3, delay=2), leader=(60, "n2", 2))
    assert [kind for kind, _, _ in play.outcomes] == ["pause", "pause", "transfer", "transfer"]
    assert play.outcomes[2] == ("transfer", "begin", "installed")


def test_a_transfer_that_the_end_of_the_run_cuts_short_is_unknown():
    play = Play(planned(), answer=None, until=20)
    assert play.told == []
    begin, end = play.driver.close(Span(20, 30), healed=True)
    assert (begin.outcome, begin.span, end.outcome) == ("indeterminate", Span(0, 30), "healed")
    assert "the run ended" in begin.why


def test_an_answer_to_no_request_changes_nothing():
    play = Play(planned(), until=20)
    play.driver.answered(w.RequestDone(99, 30, AGREED))
    assert play.requests.pending == ()
