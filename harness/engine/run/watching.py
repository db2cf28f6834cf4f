"""What the agents of a run look for, by the triggers of its schedule, and whether its hosts can.

Guarantees: pure; what cannot be looked for is refused before a run, with the reason. Out of scope: looking
(``dethrone.clusters.agent``) and what a trigger means (``dethrone.nemesis``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dethrone.harness.core.errors import MissingCapability
from dethrone.harness.core.interfaces import Backend, Speaking, System
from dethrone.harness.core.schedule import OnEvent
from dethrone.harness.core.watches import FRAME, LOGGED, METRIC, Watch, watches_of
from dethrone.harness.core.world import VirtualBackend

NEEDS: Mapping[str, str] = {LOGGED: "logs", FRAME: "frames", METRIC: "pages"}
"""Trigger → what hosts must be able to show (``BackendTraits.capabilities``)."""
_LACKS = {
    "logs": "its nodes have no logs that an agent of ours can read",
    "frames": "its agents may not see what their hosts send",
    "pages": "its agents ask nodes for no pages",
}
_SIMULATED = {
    "logs": "simulated nodes keep no log while they run",
    "frames": "simulated messages have neither bytes nor a length",
    "pages": "simulated nodes serve no pages",
}


def named_patterns(system: System) -> Mapping[str, str]:
    """The patterns of logged lines that a system names."""
    return system.log_patterns() if isinstance(system, Speaking) else {}


def logged_channels(system: System, backend: Backend) -> frozenset[str]:
    """``logged:NAME`` for every pattern that is named and can be looked for: what a strategy may draw."""
    if isinstance(backend, VirtualBackend) or NEEDS[LOGGED] not in backend.traits.capabilities:
        return frozenset()
    return frozenset(f"{LOGGED}:{name}" for name in named_patterns(system))


def watches_for(
    triggers: Iterable[OnEvent], *, system: System, backend: Backend, more: bool = False
) -> tuple[Watch, ...]:
    """What the agents look for. Raises ConfigError, or MissingCapability if hosts of this backend cannot show it.

    ``more``: further steps may be drawn, with any of the named patterns.
    """
    wanted = list(triggers)
    virtual = isinstance(backend, VirtualBackend)
    if more:
        names = sorted(channel.partition(":")[2] for channel in logged_channels(system, backend))
        wanted += [OnEvent(event=LOGGED, within_ns=1, where={"pattern": name}) for name in names]
    for trigger in wanted:
        need = NEEDS.get(trigger.event)
        if need is None or (not virtual and need in backend.traits.capabilities):
            continue
        lacking = _SIMULATED[need] if virtual else _LACKS[need]
        raise MissingCapability(
            f"the trigger {trigger.event!r} cannot happen on {backend.name!r}: {lacking}",
            next_step="run with --on docker, local or ssh, or use another event (dethrone list triggers)",
        )
    return watches_of(wanted, named_patterns(system), system=system.name)
