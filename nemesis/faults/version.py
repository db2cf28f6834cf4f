"""upgrade, downgrade: the node process is asked to end, stays down, and starts again as another version.

What it starts as is the version that it has from then on: healing starts the node, and takes no version back (a
``downgrade`` does). Without ``to`` a node goes to the next version, or the one before, in the order of the description.
Guarantees: pure; nodes that are there already, or beyond, are spared; a fault that finds no other is skipped and says
why. Out of scope: what shows that a node runs as its new version (``dethrone.harness.engine.run.version_proof``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HostState, with_more
from dethrone.harness.core.interfaces import Available, ClusterView, FaultTraits, No, Shown, Yes
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.harness.core.version_limits import VersionLimits
from dethrone.nemesis import selectors
from dethrone.nemesis.faults.kill import KILLED
from dethrone.nemesis.faults.kind import FaultKind
from dethrone.nemesis.parameters import check_known

BY_CHANCE = ("random", "follower", "peer")
"""Selectors that choose among the nodes that have somewhere to go."""


class VersionChange(FaultKind, frozen=True, kw_only=True):
    """One direction. See ``dethrone.harness.core.interfaces.Fault``; also ``Changing``."""

    params: tuple[str, ...] = ("to",)
    capabilities: frozenset[str] = frozenset({"signals", "versions"})
    ahead: Literal[1, -1]
    """Towards newer versions, or older ones."""

    def check_values(self, params: Mapping[str, Any]) -> None:
        """``to`` is a text."""
        if "to" in params and not isinstance(params["to"], str):
            raise ConfigError(
                f"the version {params['to']!r} of the fault {self.kind!r} is no text",
                next_step='write it in quotes: params = { to = "2.15.2" }',
            )

    def possible(self, versions: tuple[str, ...], *, begins_with: str, limits: VersionLimits) -> Available:
        """See ``dethrone.harness.core.interfaces.Changing``."""
        ahead = self._beyond(begins_with, versions)
        whys = [limits.refused(versions, {"": begins_with}, to) for to in ahead]
        if "" in whys:
            return Yes()
        if whys:
            return No(whys[0], f"remove {self.kind} from --faults, or add a fault that changes versions the other way")
        newest = self.ahead > 0
        return No(
            f"its nodes begin with {begins_with}, the {'newest' if newest else 'oldest'} of its versions",
            f"begin with another one: --set version={'oldest' if newest else 'newest'}",
        )

    def check_versions(self, fault: PlannedFault, versions: tuple[str, ...]) -> None:
        """See ``dethrone.harness.core.interfaces.Changing``."""
        if "to" in fault.params and fault.params["to"] not in versions:
            raise unknown_name("version", fault.params["to"], versions)

    def draw(self, rng: Rng, *, nodes: int, hold_ns: Ns, knobs: Mapping[str, Any]) -> PlannedFault:
        """Any nodes that have a version to go to, never more than a minority. Knobs: ``victims``, ``to``."""
        check_known(self.kind, knobs, ("victims", *self.params))
        params = {name: knobs[name] for name in self.params if name in knobs}
        victims = knobs.get("victims") or f"random:{rng.between(1, max(1, minority(nodes)))}"
        return PlannedFault(kind=self.kind, victims=victims, hold_ns=hold_ns, params=params)

    def resolve(
        self, fault: PlannedFault, view: ClusterView, rng: Rng
    ) -> tuple[tuple[str, ...], Mapping[str, Any]] | str:
        """The victims that change, and to which version ``to`` all of them go; or why none does."""
        selector, wanted = selectors.parse(fault.victims), fault.params.get("to")
        movable = [node for node in view.nodes if self._ways(view, node, wanted)]
        if not movable:
            why = f"no node has a version to {self.kind} to" if wanted is None else f"no node can go to {wanted}"
            return _with_reason(why, self._refusal(view, view.nodes, wanted))
        if selector.kind in BY_CHANCE:
            selector = msgspec.structs.replace(selector, count=min(selector.count, len(movable)))
            voters = tuple(node for node in view.voters or view.nodes if node in movable)
            view = msgspec.structs.replace(view, nodes=tuple(movable), voters=voters)
        chosen = selectors.resolve(selector, view, rng)
        if isinstance(chosen, str):
            return chosen
        victims = tuple(node for node in chosen if node in movable)
        if not victims:
            why = f"{', '.join(chosen)}: nothing to {self.kind} to from {view.version_of.get(chosen[0], 'no version')}"
            return _with_reason(why, self._refusal(view, chosen, wanted))
        if wanted is None:
            furthest = max(victims, key=lambda node: -self.ahead * view.versions.index(view.version_of[node]))
            wanted = self._ways(view, furthest)[0]
            victims = tuple(node for node in victims if self._ways(view, node, wanted))
        return victims, {**fault.params, "to": wanted}

    def apply(
        self, state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
    ) -> Mapping[str, HostState]:
        """``state`` with the victims down, and another version the next time that they start."""
        return with_more(state, dict.fromkeys(victims, HostState(down="SIGTERM", version=params["to"])))

    def _ways(self, view: ClusterView, node: str, wanted: str | None = None) -> tuple[str, ...]:
        """The versions that the node may become now, the nearest first; only ``wanted``, if it is named."""
        return tuple(to for to, why in self._tried(view, node, wanted) if not why)

    def _refusal(self, view: ClusterView, nodes: Sequence[str], wanted: str | None) -> str:
        """Why the system does not let the first of them go; "": no version lies ahead."""
        return next((why for node in nodes for _, why in self._tried(view, node, wanted) if why), "")

    def _tried(self, view: ClusterView, node: str, wanted: str | None) -> list[tuple[str, str]]:
        """The versions that lie ahead of the node, and why it cannot become each; "": it can."""
        ahead = self._beyond(view.version_of.get(node, ""), view.versions)
        limits = view.version_limits
        return [(to, limits.refused(view.versions, view.version_of, to)) for to in ahead if wanted in {None, to}]

    def _beyond(self, version: str, versions: tuple[str, ...]) -> tuple[str, ...]:
        """The versions that lie ahead of this one, the nearest first."""
        if version not in versions:
            return ()
        row = versions[:: self.ahead]
        return row[row.index(version) + 1 :]


def _with_reason(why: str, refusal: str) -> str:
    return f"{why}: {refusal}" if refusal else why


def _traits(kind: str) -> FaultTraits:
    return FaultTraits(
        harms="process",
        ends_process=True,
        takes_out=True,
        leaves_majority=True,
        owes=(Shown(f"{kind}d", "anybody", f"{kind} a node"),),
        shows=KILLED,
        touches=frozenset({"stopped", "version"}),
    )


UPGRADE = VersionChange(
    kind="upgrade",
    line="SIGTERM the node process, start it as a newer version, which stays, when the fault ends",
    ahead=1,
    traits=_traits("upgrade"),
)
DOWNGRADE = VersionChange(
    kind="downgrade",
    line="SIGTERM the node process, start it as an older version, which stays, when the fault ends",
    ahead=-1,
    traits=_traits("downgrade"),
)
