"""What the kinds share whose victims one selector names and whose parameters are carried out as they were planned.

A new kind of fault is one module next to this one and one line of ``pyproject.toml`` (entry points
``dethrone.faults``): nothing else lists kinds. All that other places need to know of it, it declares as ``FaultTraits``
(``dethrone.harness.core.interfaces``); ``docs/new-fault.md`` says which answer has which effect. Only an effect that no
kind has yet needs more: a part of ``HostState`` (``harness/core/hoststate``) and its name (``Part`` in
``harness/core/interfaces/faults``), its agent (``clusters/agent/host/convergence``), its simulation (``clusters/sim``),
the backends that can do it (``capabilities``), and whether it makes a node stand still (``checkers/noise``).
Guarantees: pure. Out of scope: what is drawn, and what the victims suffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import ClusterView, FaultTraits
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis import selectors
from dethrone.nemesis.parameters import check_known, check_times


class FaultKind(msgspec.Struct, frozen=True, kw_only=True):
    """The constant part of a ``dethrone.harness.core.interfaces.Fault``."""

    kind: str
    line: str
    params: tuple[str, ...] = ()
    """Names of its parameters."""
    capabilities: frozenset[str]
    traits: FaultTraits

    def summary(self) -> str:
        """One line for ``list faults``."""
        return self.line

    def check(self, fault: PlannedFault, *, nodes: int) -> None:
        """Raise ConfigError for bad parameters, a bad selector, too many victims, or a hold of what ends at once."""
        check_known(self.kind, fault.params, self.params)
        check_times(fault)
        if self.traits.lasts == "at-once" and fault.hold_ns:
            raise ConfigError(
                f"the fault {self.kind!r} ends at once; a hold of {fault.hold_ns} ns makes no sense",
                next_step="set hold_ns to 0, or use kill" if self.traits.ends_process else "set hold_ns to 0",
            )
        self.check_values(fault.params)
        selectors.check(fault.victims, nodes=nodes)

    def check_values(self, params: Mapping[str, Any]) -> None:
        """Raise ConfigError for a value that a parameter cannot have."""

    def resolve(
        self, fault: PlannedFault, view: ClusterView, rng: Rng
    ) -> tuple[tuple[str, ...], Mapping[str, Any]] | str:
        """Victims, with the parameters as planned; or why it cannot be done now."""
        victims = selectors.resolve(selectors.parse(fault.victims), view, rng)
        return victims if isinstance(victims, str) else (victims, dict(fault.params))

    def needs(self) -> frozenset[str]:
        """What hosts must be able to do."""
        return self.capabilities
