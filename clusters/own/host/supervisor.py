"""The node: its processes in their order, and its end.

Guarantees: a process that ends unasked ends the node as it ended itself. Out of scope: a single process
(``process``).
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dethrone.clusters.own.host.family import (
    ANSWER_LIMIT_S,
    SHOWN_MAX,
    SIGNAL_LIMIT_S,
    CannotStart,
    await_that,
    living,
    send,
    stay_together,
    tell,
)
from dethrone.clusters.own.host.once import Once
from dethrone.clusters.own.host.process import Process

TURN_S, CALM_S = 0.05, 5.0
"""From look to look: while something is awaited, and while nothing is."""
CANNOT_RUN = 127


def due(
    processes: Sequence[Mapping[str, Any]], *, alive: Collection[str], ready: Collection[str], held: Collection[str]
) -> list[str]:
    """The processes that may start now: not running, not held down, all that they wait for ready."""
    return [
        one["name"]
        for one in processes
        if one["name"] not in alive and one["name"] not in held and set(one["after"]) <= set(ready)
    ]


class Node:
    """The whole node."""

    def __init__(self, config: Mapping[str, Any], incarnation: str) -> None:
        self._config = config
        self._incarnation = incarnation
        self._held_dir = f"{config['run_dir']}/held"
        self._processes = {one["name"]: Process(one, config["address"]) for one in config["processes"]}
        self._once = Once(config)
        self._stopping = False
        self._code = 0
        self._selector = selectors.DefaultSelector()

    def run(self) -> int:
        """Until the node ends; its exit code, or the negative number of the signal that ended it."""
        self._listen()
        while True:
            ended = [one for one in self._processes.values() if one.reap()]
            for one in ended:
                if not one.asked and not self._stopping:
                    return self._fail(one)
                self._code = self._code or (one.code or 0)
            if self._stopping:
                if not any(one.alive for one in self._processes.values()):
                    return self._code
            else:
                self._advance()
            for key, _ in self._selector.select(self._patience()):
                key.data()

    def _patience(self) -> float | None:
        awaited = not self._once.done or not all(one.ready or self._down(one.name) for one in self._processes.values())
        return TURN_S if awaited or self._stopping else CALM_S

    def _listen(self) -> None:
        os.makedirs(self._held_dir, exist_ok=True)  # noqa: PTH103
        path = f"{self._config['run_dir']}/processes.sock"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(4)
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._answer(listener))
        heard, hear = socket.socketpair()
        for end in (heard, hear):
            end.setblocking(False)
        self._hear = hear  # kept open: a closed one could not be written to
        signal.set_wakeup_fd(hear.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        self._selector.register(heard, selectors.EVENT_READ, lambda: heard.recv(SHOWN_MAX))

    def _stop(self) -> None:
        """The whole group was signalled; only what is frozen cannot obey yet."""
        self._stopping = True
        for one in self._processes.values():
            send(one.frozen, signal.SIGCONT)

    def _advance(self) -> None:
        processes = self._processes
        for one in processes.values():
            if one.look():
                tell(f"{one.name} is ready")
        ready = {name for name, one in processes.items() if one.ready}
        self._once.note()
        self._once.go_on(ready, all_ready=len(ready) == len(processes))
        if not self._once.may_start:
            return
        alive = {name for name, one in processes.items() if one.alive}
        held = {name for name in processes if self._down(name)}
        for name in due(self._config["processes"], alive=alive, ready=ready - self._once.awaited, held=held):
            processes[name].start(self._incarnation)
            if "SIGSTOP" in self._held(name):
                processes[name].hold(frozen=True)

    def _held(self, name: str) -> set[str]:
        """The signals by which it is held."""
        found = set()
        for entry in os.listdir(self._held_dir):  # noqa: PTH208
            if entry.startswith(f"{name}."):
                with contextlib.suppress(OSError), open(f"{self._held_dir}/{entry}", encoding="ascii") as file:  # noqa: PTH123
                    found.add(file.read(SHOWN_MAX))
        return found

    def _down(self, name: str) -> int | None:
        """The signal that ends it; None: it is not held down."""
        ends = [number for number in (signal.SIGKILL, signal.SIGTERM) if number.name in self._held(name)]
        return ends[0] if ends else None

    def _answer(self, listener: socket.socket) -> None:
        """Do what the files say, and say what came of it."""
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                for name, one in self._processes.items():
                    number = self._down(name)
                    if number is not None:
                        one.end(number)
                    else:
                        one.hold(frozen="SIGSTOP" in self._held(name))
                connection.settimeout(ANSWER_LIMIT_S)
                connection.sendall(json.dumps({name: one.said() for name, one in self._processes.items()}).encode())

    def _fail(self, ended: Process) -> int:
        """One process ended by itself: so does the node."""
        code = ended.code or 0
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        tell(f"the process {ended.name} ended by itself: {how}; its last lines:")
        for line in ended.last_lines() if ended.log != self._config["log"] else ():
            tell(f"{ended.name}| {line}")
        self.end_all()
        return code

    def end_all(self) -> None:
        """Kill everything of this process group but this process."""
        own, group = os.getpid(), os.getpgrp()

        def others() -> list[int]:
            return [pid for pid, stat in living().items() if stat[2] == group and pid != own]

        def gone() -> bool:
            rest = others()
            send(rest, signal.SIGKILL)
            return not rest

        await_that(gone, SIGNAL_LIMIT_S)


def leave(code: int) -> None:
    """End as the process did: by the same signal, or with the same exit code."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # of SIGKILL
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def main(arguments: list[str]) -> None:
    """Read the configuration, and be the node."""
    path, incarnation = arguments
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        node = Node(json.load(file), incarnation)
    if why := stay_together():
        tell(f"a process that leaves this process group is missed by faults of its node, and can: {why}")
    try:
        code = node.run()
    except CannotStart as error:
        tell(str(error))
        node.end_all()
        code = CANNOT_RUN
    leave(code)


if __name__ == "__main__":
    main(sys.argv[1:])
