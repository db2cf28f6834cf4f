"""The world as the director meets it. Its data and interfaces are of the core, for backends build worlds, too."""

from __future__ import annotations

from harness.core.world import (
    Action,
    Broken,
    Converge,
    ConvergeDone,
    Happening,
    HostSaid,
    InvokeOp,
    OpDone,
    Polled,
    Stalled,
    StartNodes,
    Stop,
    Traces,
    TraceTold,
    VirtualBackend,
    World,
)

__all__ = [
    "Action",
    "Broken",
    "Converge",
    "ConvergeDone",
    "Happening",
    "HostSaid",
    "InvokeOp",
    "OpDone",
    "Polled",
    "Stalled",
    "StartNodes",
    "Stop",
    "TraceTold",
    "Traces",
    "VirtualBackend",
    "World",
]
