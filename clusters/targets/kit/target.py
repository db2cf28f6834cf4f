"""A protocol target out of its parts: what shells, simulator and systems need to know of a protocol, made once.

    TARGET = KitTarget(KNOBS, Rules, planted(planted_bugs), message=RaftMessage, core=RaftCore, witness=…)

Guarantees: the knobs of another target, members that are named twice or do not hold the node are a ConfigError before
a core is made. Out of scope: processes, sockets and files (``dethrone.clusters.node``), virtual time
(``dethrone.clusters.sim``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeVar

from dethrone.clusters.targets.client_api import ClientReply, ClientRequest
from dethrone.clusters.targets.kit.knobs import KnobTable, Settings
from dethrone.clusters.targets.kit.mutants import Mutant, MutantTable
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.machine import Core, Witness

K = TypeVar("K", bound=Settings)
R = TypeVar("R")

MakeCore = Callable[[str, tuple[str, ...], K, R], Core]
MakeWitness = Callable[[str, tuple[str, ...]], Witness]


class KitTarget(Generic[K, R]):
    """See ``dethrone.harness.core.machine.Target``."""

    def __init__(
        self,
        knobs: KnobTable[K],
        rules: Callable[[K], R],
        bugs: Mapping[str, Mutant],
        *,
        message: Any,
        core: MakeCore[K, R],
        witness: MakeWitness,
        request: Any = ClientRequest,
        reply: Any = ClientReply,
        transport: Literal["tcp", "http"] = "tcp",
        joins: Callable[[K], bool] = lambda _: False,
    ) -> None:
        """``rules`` are the honest ones, ``bugs`` those planted in them. ``core`` makes one for (node, members, knobs,
        rules). ``joins``: a node outside the members may start."""
        self.name = knobs.target
        self.transport = transport
        self.message_type: Any = message
        self.request_type: Any = request
        self.reply_type: Any = reply
        self.planted = bugs
        self.mutants = MutantTable(knobs, rules, bugs)
        self._knobs, self._core, self._witness, self._joins = knobs, core, witness, joins

    def knobs(self, settings: Mapping[str, str], *, profile: str | None = None) -> K:
        """Typed knobs from words; ConfigError for anything that cannot be."""
        return self._knobs.parse(settings, profile=profile)

    def core(self, *, node: str, members: tuple[str, ...], knobs: Any, variant: str | None) -> Core:
        """A fresh core."""
        if not isinstance(knobs, self._knobs.settings):
            raise ConfigError(
                f"the {self.name} target needs its own knobs", next_step="build them with TARGET.knobs(...)"
            )
        if not members or len(set(members)) != len(members):
            raise ConfigError("members must be different nodes, at least one", where=f"members {', '.join(members)}")
        if node not in members and not self._joins(knobs):
            raise ConfigError(
                f"{node} is not one of the members {', '.join(members)}", next_step="name it among the members"
            )
        return self._core(node, members, knobs, self.mutants.rules(variant, knobs))

    def witness(self, *, node: str, members: tuple[str, ...]) -> Witness:
        """A fresh witness for that node."""
        return self._witness(node, members)

    def variants(self) -> Mapping[str, str]:
        """Variant name → what it does wrong."""
        return {name: mutant.says for name, mutant in self.planted.items()}
