"""deafen: hosts drop what arrives from peers with an odd number. One file, and the whole of a kind of fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.hoststate import HostCommand, HostState, Trouble, with_more
from dethrone.harness.core.interfaces import FaultTraits, Shown
from dethrone.harness.core.interfaces.faults import AS_NETWORK_FAULT
from dethrone.nemesis.faults.afflicted import Affliction

RULE = ("INPUT", "-s", "{address}", "-m", "comment", "--comment", "dethrone-deafen-{run}", "-j", "DROP")


def trouble(deaf: tuple[str, ...]) -> Trouble:
    """Nothing of these peers arrives."""
    return Trouble(
        kind="deafen",
        says=f"deaf to the odd peers {', '.join(deaf)}",
        means=HostState(cuts=deaf),
        unmodelled=False,
        commands=(
            HostCommand(
                of=deaf,
                begin=("iptables", "-w", "3", "-A", *RULE),
                check=("iptables", "-w", "3", "-C", *RULE),
                end=("iptables", "-w", "3", "-D", *RULE),
            ),
        ),
    )


def deafen(state: Mapping[str, HostState], victims: tuple[str, ...], _: Mapping[str, Any]) -> Mapping[str, HostState]:
    """``state`` with the victims deaf to their odd peers."""
    odd = [node for node in sorted(state) if int(node[1:]) % 2]
    peers = {victim: tuple(node for node in odd if node != victim) for victim in victims}
    return with_more(state, {one: HostState(troubles=(trouble(deaf),)) for one, deaf in peers.items() if deaf})


FAULT = Affliction(
    kind="deafen",
    line="drop what arrives from peers with an odd number",
    params=(),
    judge=lambda _: None,
    draws=lambda _rng, _hold_ns: {},
    afflict=deafen,
    capabilities=frozenset({"commands"}),
    traits=FaultTraits(
        harms="network",
        owes=(Shown("leader-deafened", "leader", "deafen the leader"),),
        borne_as=AS_NETWORK_FAULT,
    ),
)
