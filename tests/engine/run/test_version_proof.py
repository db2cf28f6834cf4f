"""A change of versions counts only if the node itself reports the new one, after its start."""

import msgspec
import pytest

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import MS, SECOND, Span
from dethrone.harness.core.events import Converged, FaultEvent, Mark, NodeProcess
from dethrone.harness.core.hoststate import HostState
from dethrone.harness.core.interfaces import HostNews
from dethrone.harness.engine.run.director import Director

from .fake import FakeWorld, draft, play

OLD, NEW = "1", "2"


class Change:
    """A node goes down, and starts as the new version."""

    kind = "freeze"

    def resolve(self, fault, view, rng):
        return ("n2",), {"to": NEW}

    def apply(self, state, victims, params):
        return {**state, **{node: state[node].plus(HostState(down="SIGTERM", version=NEW)) for node in victims}}


class Restarting(FakeWorld):
    """Nodes answer with a version once they run; n2 says ``says`` after its second start, ``after`` it. ``died``: its
    first process ended by itself."""

    def __init__(self, *, says=NEW, after=300 * MS, ends=False, died=False):
        super().__init__()
        self.says, self.after, self.ends, self.died = says, after, ends, died
        self.back = None

    def submit(self, action):
        super().submit(action)
        if isinstance(action, w.Converge) and "n2" in action.wants:
            moment = self.time + 2 * MS
            if self.died and action.wants["n2"].down is not None:
                self.tell(moment, "exited", incarnation=1, code=2, asked=False, lines=["panic"])
            if action.wants["n2"].down is None and action.before["n2"].down is not None:
                self.back = moment
                self.tell(moment, "started", incarnation=2, version=NEW, asked=True)
                if self.ends:
                    self.tell(moment + MS, "exited", incarnation=2, code=1, asked=False, lines=["bad data"])

    def tell(self, moment, kind, **data):
        self.push(moment, w.HostSaid(HostNews(host="n2", kind=kind, span=Span(moment, moment), data=data)))

    def poll(self, node):
        polled = super().poll(node)
        version = OLD
        if node == "n2" and self.state["n2"].down is not None:
            return w.Polled(node, polled.span, None, "down")
        if node == "n2" and self.back is not None:
            if self.ends or self.time < self.back + self.after:
                return w.Polled(node, polled.span, None, "not yet")
            version = self.says
        return msgspec.structs.replace(polled, reading=msgspec.structs.replace(polled.reading, version=version))


def played(world, *, hold=SECOND):
    drafted = draft(steps=1, hold=hold)
    plan = msgspec.structs.replace(drafted.plan, versions=(OLD, NEW))
    director = Director(msgspec.structs.replace(drafted, plan=plan, faults={"freeze": Change()}))
    return director, play(director, world)


def ends(history):
    return [event for event in history if isinstance(event, FaultEvent) and event.phase == "end"]


def test_a_node_that_reports_its_new_version_has_changed_it():
    director, history = played(Restarting())
    [end] = ends(history)
    assert (end.outcome, end.why) == ("healed", "")
    assert end.evidence["versions"] == {"n2": {"wanted": NEW, "version": NEW}}
    [fault] = director.realised().faults
    assert (fault.outcome, fault.healed) == ("installed", True)
    said = [(e.node, e.phase, e.version) for e in history if isinstance(e, NodeProcess) and e.version]
    assert ("n2", "started", NEW) in said
    assert ("n1", "ready", OLD) in said
    assert director.end_reason == "complete"


def test_nothing_else_is_done_to_the_cluster_until_the_node_has_said_it():
    _, history = played(Restarting(after=3 * SECOND))
    [end] = ends(history)
    [back] = [
        event for event in history if isinstance(event, Converged) and event.before.version and not event.after.down
    ]
    assert end.t - back.span.hi >= 3 * SECOND - 100 * MS


@pytest.mark.parametrize(
    ("world", "why"),
    [
        (Restarting(says=OLD), "was started as version 2 and reports 1"),
        (Restarting(says=None), "was started as version 2 and reports none"),
        (Restarting(after=60 * SECOND), "did not answer within 20 s"),
        (Restarting(ends=True), "its process ended before it could say"),
    ],
)
def test_what_a_node_does_not_report_did_not_certainly_happen(world, why):
    director, history = played(world)
    [end] = ends(history)
    assert end.outcome == "indeterminate"
    assert why in end.why
    [fault] = director.realised().faults
    assert (fault.outcome, fault.healed) == ("indeterminate", True)


def test_a_node_that_had_died_before_is_the_version_that_it_says_it_is_after_its_start():
    _, history = played(Restarting(died=True))
    [end] = ends(history)
    assert (end.outcome, end.why) == ("healed", "")


def test_a_run_that_ends_in_the_middle_of_a_change_heals_and_says_what_the_node_is():
    world = Restarting()
    world.push(7 * SECOND, w.Stop("SIGINT"))
    director, history = played(world, hold=60 * SECOND)
    assert director.end_reason == "interrupted"
    [end] = ends(history)
    assert end.outcome == "healed"
    assert [mark.name for mark in history if isinstance(mark, Mark)][-1] == "stop"
    assert world.state["n2"] == HostState()
