"""The loop of every run in virtual time: the world advances, the director decides, and the caller takes the events.

Guarantees: events are taken before the actions that they announce begin; the director's decisions take no simulated
time; a run that does not end is given up. ``virtual_run`` writes the events down, ``rehearsal`` keeps them; both
judge.
"""

from __future__ import annotations

from collections.abc import Callable

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import ClusterError, ConfigError
from dethrone.harness.core.events import AnyEvent
from dethrone.harness.core.world import Stop, VirtualBackend, VirtualWorld
from dethrone.harness.engine.run.director import Director
from dethrone.harness.engine.run.garbage_collection import no_garbage
from dethrone.harness.engine.run.planning import Draft

TICK_NS = 100 * MS
"""The longest simulated time between two steps of the director; sooner wherever it has something to do."""

REST_NS = 500 * MS
"""The same while nothing is to be decided."""

ENDLESS = 20
"""A run that lasts this many times its time limit, and ten minutes, is a bug of ours: it is given up."""


def world_of(drafted: Draft) -> VirtualWorld:
    """The world of this draft, at its moment 0. Raises ConfigError for a backend of real hosts."""
    backend = drafted.backend
    if not isinstance(backend, VirtualBackend):
        raise ConfigError(f"the backend {backend.name!r} cannot simulate", next_step="use --on sim")
    return backend.world(drafted.system, drafted.plan)


def play(
    director: Director,
    world: VirtualWorld,
    take: Callable[[list[AnyEvent]], object],
    interrupted: Callable[[], str] = str,
) -> None:
    """From the opening to the end. ``take`` gets the events of each step, in order.

    ``interrupted``: the signal by which the user asked the run to end, or "". Raises ClusterError for a run that does
    not end.
    """
    director.tick_ns, director.rest_ns = TICK_NS, REST_NS
    limit: Ns = ENDLESS * (director.plan.time_limit_ns + 30 * SECOND) + 600 * SECOND
    step, wake_at, submit, wait, moment = director.step, director.wake_at, world.submit, world.wait, world.now
    stopped = False
    now = moment()
    with no_garbage():
        events, actions = director.open(now)
        while True:
            if events:
                take(events)
            for action in actions:
                submit(action)
            if director.done:
                return
            world.eager = director.attentive
            happenings = wait(wake_at(now))
            now = moment()
            if now > limit:
                raise ClusterError("the simulated run did not end", next_step="this is a bug of dethrone: report it")
            if not stopped and (signal := interrupted()):
                stopped = True
                happenings = [*happenings, Stop(signal)]
            events, actions = step(now, happenings)
