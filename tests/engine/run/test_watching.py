"""What agents look for comes from the schedule; hosts that cannot show it are refused before a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dethrone.clusters.sim.backend import BACKEND as SIM
from dethrone.harness.core import registry
from dethrone.harness.core import world as w
from dethrone.harness.core.clock import SECOND, Span
from dethrone.harness.core.errors import MissingCapability
from dethrone.harness.core.events import FaultEvent, Sighted
from dethrone.harness.core.interfaces import BackendTraits, HostNews
from dethrone.harness.core.schedule import OnEvent, PlannedFault, Schedule, Step
from dethrone.harness.engine.run.director import Director
from dethrone.harness.engine.run.planning import with_plan
from dethrone.harness.engine.run.watching import watches_for

from .fake import FakeWorld, draft
from .test_director import play

SYSTEM = SimpleNamespace(name="mine", log_patterns=lambda: {"leads": "became leader"})
HOSTS = SimpleNamespace(name="local", traits=BackendTraits())
WITHOUT = SimpleNamespace(name="attach", traits=BackendTraits(capabilities=frozenset({"signals"})))


def logged(**where):
    return OnEvent(event="logged", within_ns=60 * SECOND, where=where)


def test_agents_look_for_what_the_schedule_waits_for():
    (found,) = watches_for([logged(pattern="leads")], system=SYSTEM, backend=HOSTS)
    assert found.pattern == "became leader"
    assert watches_for([OnEvent(event="elected", within_ns=1)], system=SYSTEM, backend=WITHOUT) == ()


@pytest.mark.parametrize(
    ("backend", "why"), [(SIM, "simulated nodes keep no log"), (WITHOUT, "agent of ours can read")]
)
def test_hosts_without_a_log_are_refused(backend, why):
    with pytest.raises(MissingCapability, match=why):
        watches_for([logged(regex="a")], system=SYSTEM, backend=backend)


def sighting(at, name, n=1):
    data = {"by": "log", "name": name, "n": n, "incarnation": 1, "line": "x\ny"}
    return at, w.HostSaid(HostNews(host="n2", kind="sighted", span=Span(at - 2, at - 1), data=data))


def test_a_sighting_starts_the_fault_that_waits_for_it_and_no_other_is_written():
    drafted = draft()
    fault = PlannedFault(kind="freeze", victims="leader", hold_ns=SECOND, when=logged(regex="a"))
    schedule = Schedule(seed=1, strategy="test", steps=(Step(faults=(fault,), gap_ns=SECOND),))
    drafted = with_plan(drafted, schedule=schedule)
    conditions = registry.load_all(registry.TRIGGERS)
    drafted = type(drafted)(**{f: getattr(drafted, f) for f in drafted.__struct_fields__} | {"conditions": conditions})
    script = [sighting(SECOND, "regex=a"), *(sighting((n + 8) * SECOND, f"regex={'ba'[n]}", n + 1) for n in range(2))]
    history = play(Director(drafted), FakeWorld([*script, sighting(11 * SECOND, "regex=a", 9)]))
    assert [event.name for event in history if isinstance(event, Sighted)] == ["regex=b", "regex=a"]
    begun = next(event for event in history if isinstance(event, FaultEvent))
    trigger = begun.evidence["trigger"]
    assert (trigger["outcome"], trigger["actor"], trigger["at"]) == ("hit", "n2", [9 * SECOND - 2, 9 * SECOND - 1])
    assert trigger["latency_ns"] >= begun.span.hi - 9 * SECOND


def test_what_may_still_be_drawn_is_looked_for_from_the_start():
    assert [one.name for one in watches_for([], system=SYSTEM, backend=HOSTS, more=True)] == ["pattern=leads"]
    assert watches_for([], system=SYSTEM, backend=WITHOUT, more=True) == ()
    assert watches_for([], system=SYSTEM, backend=SIM, more=True) == ()
