"""Where the time of a simulated run goes: samples of its stack, counted by the part of the simulator at work.

A timer of this process' CPU time interrupts it; the innermost frame of ours says which part worked. Guarantees: what it
measures runs at its own speed (a profiler of calls would charge many small functions more than few large ones). Out of
scope: what a line costs. Linux delivers about 250 samples a CPU second, so ten seconds tell shares to a percent or two.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import dethrone

ROOT = dethrone.__file__.removesuffix("__init__.py")
INTERVAL_S = 0.001

PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("network", ("clusters/sim/network", "clusters/sim/links", "clusters/sim/chance")),
    ("observer", ("clusters/sim/clients.py:Observer",)),
    (
        "client",
        (
            "clusters/sim/clients",
            "clusters/systems",
            "workloads",
            "harness/engine/run/client_operations",
            "harness/engine/run/op_pacing",
        ),
    ),
    ("world", ("clusters/sim/world", "harness/engine/run/virtual_loop")),
    ("node", ("clusters/sim", "clusters/node")),
    ("witness", ("clusters/targets/kit/witness", "clusters/targets/raft/witness")),
    ("core", ("clusters/targets",)),
    (
        "nemesis",
        (
            "nemesis",
            "harness/core/hoststate",
            "harness/core/schedule",
            "harness/engine/run/nemesis_driver",
            "harness/engine/run/realised_faults",
            "harness/engine/run/armed_triggers",
            "harness/engine/run/host_convergence",
        ),
    ),
    (
        "history",
        (
            "harness/core/history",
            "harness/core/store",
            "harness/engine/run/virtual_run",
            "harness/engine/run/lifecycle",
        ),
    ),
    ("director", ("harness",)),
)
"""Part → how the names of its functions begin (``file:qualified name``); the first that fits counts."""
OTHER = "other"


def part_of(name: str) -> str:
    """The part that a function belongs to, by its file below the package and its qualified name."""
    return next((part for part, begins in PARTS if name.startswith(begins)), OTHER)


@contextmanager
def sampled(found: Counter[str]) -> Iterator[None]:
    """Count samples by part in ``found``, while this lasts. Main thread only."""

    def sample(_number: int, frame: FrameType | None) -> None:
        while frame is not None and not frame.f_code.co_filename.startswith(ROOT):
            frame = frame.f_back
        if frame is None:
            found[OTHER] += 1
        else:
            found[part_of(f"{frame.f_code.co_filename.removeprefix(ROOT)}:{frame.f_code.co_qualname}")] += 1

    before = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def shares(found: Counter[str]) -> str:
    """``core 40 %, node 20 %, …``, the largest first."""
    total = max(1, found.total())
    return ", ".join(f"{part} {100 * samples / total:.0f} %" for part, samples in found.most_common())
