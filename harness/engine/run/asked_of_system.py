"""Before a run: what kinds of faults ask of the system itself, and whether it can be asked. Pure.

Guarantees: a fault that asks for what no client of the system serves is refused. Out of scope: asking
(``fault_requests``).
"""

from __future__ import annotations

from collections.abc import Iterable

from dethrone.harness.core.errors import MissingCapability
from dethrone.harness.core.interfaces import Enabling, No, Remaking, System, declared


def enabling_knobs(system: System, kinds: Iterable[str]) -> dict[str, str]:
    """The knobs under which the system does what these kinds of faults ask of it."""
    if not isinstance(system, Enabling):
        return {}
    asked = [operation for kind in kinds if (operation := declared(kind).asks)]
    return {knob: word for operation in asked for knob, word in system.enabling(operation).items()}


def refuse_unserved(system: System, kind: str, asks: str) -> None:
    """Raise MissingCapability for a kind that asks for an operation which the system does not have."""
    if asks and asks not in system.operations():
        raise MissingCapability(
            f"{system.name} cannot be asked for what the fault {kind!r} is: its clients serve no {asks!r}",
            next_step=f"remove it from --faults; of a system of your own, [membership] {asks} says how to ask",
        )


def refuse_unremaking(system: System, kind: str) -> None:
    """Raise MissingCapability for a kind that changes the members of a system which cannot."""
    able = system.changes_members() if isinstance(system, Remaking) else No("it says no way to change them")
    if declared(kind).removes and isinstance(able, No):
        raise MissingCapability(
            f"the members of {system.name} cannot be changed by the fault {kind!r}: {able.why}",
            next_step="remove it from --faults; of a system of your own, [membership] remove and add say how to do it",
        )
