"""The clocks of the node: skewed as wanted, by the way that its host has for it, and measured in the node.

Guarantees: a skew counts only if it was measured from inside the process: by its own report on a socket, by a reader
of what is in its vDSO, and, where the description names a command, by what the process itself prints. Out of scope:
each way by itself (``clocks``, ``vdso_clock``, ``told_clock``), and when processes start.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.agent.host.clocks import (
    CLOCK_LIMIT_S,
    CLOCK_START_LIMIT_S,
    FakeClock,
    HostClock,
    measure_skew,
    read_clocks,
)
from dethrone.clusters.agent.host.common import SECOND, Refused, now_ns
from dethrone.clusters.agent.host.node import NodeProcess
from dethrone.clusters.agent.host.processes import Processes
from dethrone.clusters.agent.host.told_clock import ToldClock
from dethrone.clusters.agent.host.vdso_clock import hand_as

Expected = Callable[[int], "tuple[int, ...]"]
"""The skews (ns) that are right at a monotonic time."""


class NodeClocks:
    """The clocks of the node's processes, or the machine's where those are set. Used by one thread at a time."""

    def __init__(self, clock: FakeClock, node: NodeProcess, processes: Processes) -> None:
        self._clock = clock
        self._node = node
        self._processes = processes
        self._told: ToldClock | None = None
        self._woke_ns = 0
        """When the process was last started or thawed."""
        self._reported = 0
        """The last incarnation that reported its clocks."""

    def woke(self) -> None:
        """The process was just started or thawed."""
        self._woke_ns = now_ns()

    def want(self, wanted: Mapping[str, Any] | None) -> None:
        """Have this skew from the next start of the process on."""
        self._clock.set(wanted)
        if self._node.vdso is not None:
            self._node.vdso.set(wanted)

    @property
    def hold(self) -> bool:
        """Whether a change of a clock holds the process for a moment."""
        return not self._clock.preloaded and self._node.vdso is not None

    @property
    def _socket(self) -> str | None:
        """Where the process reports its clocks, if it does."""
        return None if self._node.spec is None else self._node.spec["clock_socket"]

    @property
    def _command(self) -> ToldClock | None:
        """What asks the process for its clock, where its description names a command."""
        question = None if self._node.spec is None else self._node.spec["clock_command"]
        if question is None:
            return None
        if self._told is None or self._told.question != question:
            self._told = ToldClock(self._processes, question, lambda: hand_as(self._node.confined))
        return self._told

    def ask_command(self) -> dict[str, Any]:
        """What the process prints now, compared with our clock. Raises Refused without a command, or an answer."""
        command = self._command
        if command is None:
            raise Refused("no command is known that asks the node for its clock")
        told = command.ask()
        skew, within = told.skew()
        wrong = told.error((0,)) > command.question["tolerance_ns"]
        return {"printed": told.printed, "wall_ns": told.wall_ns, "skew_ns": skew, "within_ns": within, "wrong": wrong}

    def set_host(self, clock: HostClock, want: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Skew the machine's clock as wanted, and measure the skew in the target if it reports its clock."""
        was_skewed = clock.base_ns is not None
        try:
            ok, why, found = clock.set(want["clock"])
        except OSError as error:
            return f"the clock cannot be set: {error.strerror or error}", {}
        base_ns = clock.base_ns
        why = "" if ok else why
        if not self._node.running or want["frozen"] or not (was_skewed or want["clock"]):
            return why, found
        if base_ns is not None and self._socket is not None:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                mono, wall = read_clocks(self._socket, CLOCK_LIMIT_S)
                found["target_skew_ns"] = wall - mono - base_ns
        if self._command is not None:
            right = time.time_ns if base_ns is None else lambda: now_ns() + base_ns
            wrong, found["told"] = self._command.compared(lambda _: (clock.expected_ns(),), right)
            why = why or wrong
        return why, found

    def skew(self, want: Mapping[str, Any], *, fresh: bool) -> tuple[str, dict[str, Any]]:
        """Bring the wanted skew about: why it is not in force, and what was measured. ``fresh``: just started."""
        clock, node, wanted = self._clock, self._node, want["clock"]
        if not clock.preloaded and node.vdso is not None:
            node.vdso.set(wanted)
            return node.vdso.apply(None if want["frozen"] else self._asked)
        if wanted is not None and wanted["mono_rate_ppm"]:
            return "only static Go programs are given a rate of monotonic time", {}
        clock.set(wanted)
        if wanted is None and (fresh or not clock.touched):
            clock.touched = False
            return "", {"file": "+0"}
        if self._socket is None:
            return "the skew cannot be measured: the node has no clock socket", {}
        if want["frozen"]:
            # No thread reads that clock until the process is thawed, and the step that thaws it measures it.
            return "", {"deferred": "the process is frozen"}
        return self._measured(self._socket, wanted)

    def lapsed(self) -> list[str]:
        """Why a skew of the running process, which is about to end, is no longer in force."""
        if not self._clock.preloaded:
            return [] if self._node.vdso is None else self._node.vdso.lapsed(self._asked)
        if self._socket is None:
            return []
        found = self._measure(self._socket, self._clock.expected, CLOCK_LIMIT_S)
        wrong = "skew_ns" in found and "why" in found
        return [f"its clock was not as requested: {found['why']}"] if wrong else []

    def _measure(self, path: str, expected: Expected, limit_s: float, *, just_started: bool = False) -> dict[str, Any]:
        """What the process reports on its socket."""
        alive = lambda: self._node.running  # noqa: E731
        return measure_skew(path, expected, limit_s=limit_s, just_started=just_started, alive=alive)

    def _asked(self, expected: Expected) -> Mapping[str, Any]:
        """The clocks of the process as it reports or prints them itself; empty if it does not."""
        if self._command is not None:
            why, told = self._command.compared(expected)
            return {"told": told, **({"why": why} if why else {})}
        if self._socket is None or not os.path.exists(self._socket):  # noqa: PTH110
            return {}
        return self._measure(self._socket, expected, CLOCK_LIMIT_S)

    def _measured(self, path: str, wanted: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
        clock = self._clock
        # Just started, or frozen at its start and just thawed: it may not listen yet.
        young = self._reported != self._node.incarnation and now_ns() - self._woke_ns < CLOCK_START_LIMIT_S * SECOND
        limit_s = CLOCK_START_LIMIT_S if young else CLOCK_LIMIT_S
        strobe = wanted is not None and wanted["strobe"] is not None and not clock.strobing
        found = self._measure(path, clock.expected, limit_s, just_started=young)
        plain = wanted is not None and wanted["strobe"] is None and "why" in found and "skew_ns" in found
        if plain and clock.learn_loading(found["skew_ns"] - clock.expected(found["lo"])[0]):
            found = self._measure(path, clock.expected, limit_s, just_started=young)
        if "skew_ns" in found:
            self._reported = self._node.incarnation
        if strobe and "why" not in found:
            clock.flip(high=True)
            high = self._measure(path, clock.expected, limit_s, just_started=young)
            clock.flip(high=False)
            if "why" in high:
                found["why"] = high["why"]
            else:
                found["strobe_skew_ns"] = high["skew_ns"]
        if strobe:
            clock.begin_strobe()
        why = found.pop("why", "")
        if not why and wanted is None:
            clock.touched = False
        return why, {key: value for key, value in found.items() if key not in {"lo", "hi"}}
