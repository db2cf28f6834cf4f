"""transfer: the leader is asked to hand leadership over, by the means that the system has for it.

Parameter ``to``: a selector of one other voter, ``follower`` without it. The request names that node; a system that
chooses the new leader itself may choose another one. Guarantees: pure; it is asked of no node that does not lead; it
counts as transferred only if another node leads a later term, and, where the old leader did not answer that it is done,
only if that is the node which was named. Out of scope: sending the request, and what a system makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.hoststate import HostState
from dethrone.harness.core.interfaces import ClusterView, FaultTraits, OpOutcome, OpPlan, Reading, Shown, Who
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis import selectors
from dethrone.nemesis.faults.kind import FaultKind
from dethrone.nemesis.parameters import bad, check_known

ANY_OTHER = "follower"


class Transfer(FaultKind, frozen=True, kw_only=True):
    """See ``dethrone.harness.core.interfaces.Fault``, ``Obliging`` and ``Requesting``."""

    def check(self, fault: PlannedFault, *, nodes: int) -> None:
        """Raise ConfigError for what every kind refuses, and for a ``to`` that is no selector of one node."""
        FaultKind.check(self, fault, nodes=nodes)
        to = fault.params.get("to", ANY_OTHER)
        if not isinstance(to, str):
            raise bad(self.kind, "to", to, "a selector is needed, like node:n3")
        if selectors.size(selectors.check(to, nodes=nodes), nodes) != 1:
            raise bad(self.kind, "to", to, "leadership goes to one node")

    def draw(self, rng: Rng, *, nodes: int, hold_ns: Ns, knobs: Mapping[str, Any]) -> PlannedFault:
        """From the leader, at once. Knobs: ``victims`` and ``to``."""
        del rng, nodes, hold_ns  # one leads, however many there are, and nothing is held
        check_known(self.kind, knobs, ("victims", *self.params))
        params = {"to": knobs["to"]} if "to" in knobs else {}
        return PlannedFault(kind=self.kind, victims=knobs.get("victims", "leader"), hold_ns=0, params=params)

    def oblige(self, who: Who, rng: Rng, *, nodes: int, hold_ns: Ns, company: int) -> PlannedFault:
        """In company late in the step, when the other fault has shown what it does and there may be a leader again, or
        after its end; always after the end of several others, which may leave no majority."""
        planned = self.draw(rng, nodes=nodes, hold_ns=hold_ns, knobs={"victims": who})
        if not company:
            return planned
        within = company == 1 and rng.chance(1, 2)
        delay_ns = rng.between(hold_ns * 3 // 4, hold_ns) if within else hold_ns * 5 // 4
        return msgspec.structs.replace(planned, delay_ns=delay_ns)

    def resolve(
        self, fault: PlannedFault, view: ClusterView, rng: Rng
    ) -> tuple[tuple[str, ...], Mapping[str, Any]] | str:
        """The leader, if the victims hold it, and the node that is to lead."""
        victims = selectors.resolve(selectors.parse(fault.victims), view, rng)
        if isinstance(victims, str):
            return victims
        leader = view.leader
        if leader is None or leader not in victims:
            return f"{', '.join(victims)} {'does' if len(victims) == 1 else 'do'} not lead"
        to = selectors.resolve(selectors.parse(fault.params.get("to", ANY_OTHER)), view, rng.stream("to"))
        if isinstance(to, str):
            return to
        others = [node for node in to if node != leader]
        return ((leader,), {"to": f"node:{others[0]}"}) if others else f"{leader} leads already"

    def apply(
        self, state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
    ) -> Mapping[str, HostState]:
        """``state`` as it is: nothing is done to hosts."""
        del victims, params
        return state

    def request(self, victims: tuple[str, ...], params: Mapping[str, Any]) -> OpPlan:
        """``transfer`` to the node, asked of the leader."""
        return OpPlan(f=self.traits.asks, value=_named(params), target=victims[0])

    def shown(
        self, victims: tuple[str, ...], params: Mapping[str, Any], answer: OpOutcome, node: str, reading: Reading
    ) -> bool:
        """Whether another node leads; the named one, where the answer left it open."""
        if not reading.leads or node in victims or answer.node not in {None, *victims}:
            return False
        return answer.status == "ok" or node == _named(params)


def _named(params: Mapping[str, Any]) -> str:
    return selectors.parse(params["to"]).names[0]


FAULT = Transfer(
    kind="transfer",
    line="ask the leader to hand leadership over to another node",
    params=("to",),
    capabilities=frozenset(),
    traits=FaultTraits(
        lasts="at-once",
        mild=True,
        owes=(Shown("leadership-transferred", "leader", "a transfer fault"),),
        nodes_min=2,
        asks="transfer",
    ),
)
