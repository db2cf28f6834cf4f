"""A run of the tests' world as a history and a plan: what the checkers would judge."""

from __future__ import annotations

import msgspec

from dethrone.clusters.systems.operations import outcome_of
from dethrone.clusters.systems.paxos import SYSTEM
from dethrone.clusters.targets.client_api import Learn, Propose
from dethrone.harness.core.clock import MS, Span
from dethrone.harness.core.events import SCHEMA, Begin, End, Invoke, Return, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from tests.checkers.histories import plan as tale_plan


def history(world) -> History:
    """Every trace event and every operation of the agreement workload, one millisecond each."""
    events = [Begin(seq=0, t=0, schema=SCHEMA, system="paxos", nodes=world.names, seed=world.seed)]
    counts: dict[tuple[str, int], int] = {}
    for what, first, second, third in world.told:
        seq = len(events)
        at = seq * MS
        if what == "invoke" and isinstance(third, Propose | Learn):
            f = "propose" if isinstance(third, Propose) else "learn"
            value = [third.instance, third.value] if isinstance(third, Propose) else third.instance
            events.append(Invoke(seq=seq, t=at, op=first, process=first, f=f, value=value, target=second))
        elif what == "return" and isinstance(world.asked[first], Propose | Learn):
            f = "propose" if isinstance(world.asked[first], Propose) else "learn"
            out = outcome_of(f, third, node=second)
            events.append(
                Return(seq=seq, t=at, op=first, status=out.status, value=out.value, error=out.error, node=second)
            )
        elif what in {"core", "shell"}:
            counts[first, second] = counts.get((first, second), 0) + 1
            events.append(
                Traced(
                    seq=seq,
                    t=at,
                    span=Span(at, at),
                    node=first,
                    incarnation=second,
                    n=counts[first, second],
                    name=third.name,
                    term=third.term,
                    role="",
                    source=what,
                    data=msgspec.to_builtins(dict(third.data)),
                )
            )
    events.append(End(seq=len(events), t=len(events) * MS, count=len(events), digest="", reason="complete"))
    return History(events)


def plan(world) -> Plan:
    """The plan of such a run, with the system's own promise."""
    settings = {"accept_rule": world.knobs.accept_rule, "acceptors": str(world.knobs.acceptors or len(world.names))}
    profile = world.knobs.profile
    knobs = SYSTEM.knobs(settings, profile=profile, variant=None)
    made = tale_plan(
        given=SYSTEM.promise(knobs, profile=profile, voters=len(world.names)),
        workload="agreement",
        system="paxos",
        profile=profile,
        variant=world.variant,
        seed=world.seed,
        knobs=knobs,
        observable=SYSTEM.observable(),
    )
    return msgspec.structs.replace(made, nodes=world.names, voters=world.names)
