"""Operations by a client class of the user's own, or ``sql_client``, in a process of its own.

    client = "client.py:Client"
    serves = ["append", "read"]       # in [ops]

Guarantees: a question is asked once; a process that does not answer in time is killed with its group, and the next
operation has a new one, so that no answer comes late; any exception of a method leaves a changing operation ``info``,
unless the class lists the exception in ``not_done``. Out of scope: what the class imports, and whether its values are
true.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from dethrone.clusters.systems.operations import unanswered, unsent
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.interfaces import OpOutcome

PROGRAM = Path(__file__).with_name("client_program.py")
ANSWER_MAX = 4 << 20
SHOWN = 300
LAST_MAX = 1 << 16
PACKET_MAX = 64
END_S = 10
"""How long the process that forks is waited for; then it is killed."""


class Fork(NamedTuple):
    """A process. ``channel``: to it; ``errors``: what it prints."""

    number: int
    channel: socket.socket
    errors: IO[bytes]


class ClientProgram:
    """Makes the processes of all clients of a class, which its own process has imported (``client_program``).

    ``client``: ``FILE:CLASS``, the file relative to ``folder``. ``given``: what the class is made with; of a user's
    class the nodes. ``path``: further places of Python packages. ``modules``: what the class will import as it is made.
    Clients in several threads may share it.
    """

    def __init__(
        self,
        client: str,
        folder: Path,
        given: Mapping[str, Any],
        *,
        path: Sequence[str] = (),
        modules: Sequence[str] = (),
    ) -> None:
        file, _, self._name = client.rpartition(":")
        self.file = folder / file
        self._given = json.dumps(given).encode() + b"\n"
        self._path = path
        self._modules = modules
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._users: set[object] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._errors: IO[bytes] | None = None

    def fork(self, user: object) -> Fork:
        """A new process. ``user``: for whom; see ``leave``. OSError: it cannot be started."""
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the fork
        ours, theirs = socket.socketpair()
        try:
            with self._lock, theirs:
                self._users.add(user)
                number = next(self._numbers)
                socket.send_fds(self._running(), [f"fork {number}".encode()], [theirs.fileno(), errors.fileno()])
            ours.sendall(self._given)
        except OSError:
            ours.close()
            errors.close()
            raise
        return Fork(number, ours, errors)

    def end(self, fork: Fork) -> None:
        """Kill the process and what it started."""
        fork.channel.close()
        fork.errors.close()
        said = f"end {fork.number}".encode()
        with self._lock:
            if self._control is None:
                return
            try:
                self._control.send(said)
                while self._control.recv(PACKET_MAX) not in (said, b""):
                    pass
            except OSError:
                self._close()

    def leave(self, user: object) -> None:
        """It forks for this user no more: without any user its own process ends."""
        with self._lock:
            self._users.discard(user)
            if not self._users:
                self._close()

    def last_words(self) -> str:
        """Of its own process, which ended."""
        with self._lock:
            return _last_line(self._errors)

    def _running(self) -> socket.socket:
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self._close()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        known = [word for word in (*self._path, os.environ.get("PYTHONPATH", "")) if word]
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(END_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(PROGRAM), str(self.file), self._name, *self._modules],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(known), "PYTHONDONTWRITEBYTECODE": "1"},
            )
        return self._control

    def _close(self) -> None:
        """End its process, which kills all others; if it has to be killed, they end with their channels."""
        process, self._process = self._process, None
        control, self._control = self._control, None
        errors, self._errors = self._errors, None
        if control is not None:
            control.close()
        if process is not None:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if errors is not None:
            errors.close()


class ClientProcess:
    """The process of one client, which ``program`` forks when it is needed."""

    def __init__(self, program: ClientProgram) -> None:
        self._program = program
        self._fork: Fork | None = None
        self._ready = False

    def ask(self, f: str, node: str, arguments: Sequence[Any], deadline: Ns) -> tuple[Any] | OpOutcome:
        """The value that the method returned, alone in a tuple; or how the operation ended otherwise."""
        file = self._program.file.name
        try:
            if self._fork is None:
                self._fork, self._ready = self._program.fork(self), False
            channel = self._fork.channel
            if not self._ready:
                _line(channel, deadline)  # the class is made
                self._ready = True
        except TimeoutError:
            return unsent(f"{file} is still starting")
        except OSError as error:
            why = f"{file} cannot be started: {self._last_words(error) or error}"
            self._end()
            return unsent(why[:SHOWN])
        question = json.dumps({"f": f, "node": node, "arguments": list(arguments)}).encode() + b"\n"
        try:
            channel.settimeout(_left_s(deadline))
            channel.sendall(question)
            said = json.loads(_line(channel, deadline))
        except (OSError, ValueError) as error:
            why = f"{file}: {self._last_words(error) or error}"
            self._end()
            return unanswered(f, why[:SHOWN], node=node)
        if "value" in said:
            return (said["value"],)
        if said.get("certain"):
            return OpOutcome(status="fail", error=str(said.get("error"))[:SHOWN], node=node)
        return unanswered(f, str(said.get("error"))[:SHOWN], node=node)

    def close(self) -> None:
        """Kill the process and what it started."""
        self._end()
        self._program.leave(self)

    def _end(self) -> None:
        fork, self._fork = self._fork, None
        if fork is not None:
            self._program.end(fork)

    def _last_words(self, error: Exception) -> str:
        """The last line of what was printed before the channel ended: by then a traceback is written."""
        if not isinstance(error, ConnectionError):
            return ""
        return _last_line(None if self._fork is None else self._fork.errors) or self._program.last_words()


def _last_line(printed: IO[bytes] | None) -> str:
    if printed is None:
        return ""
    length = os.fstat(printed.fileno()).st_size
    lines = os.pread(printed.fileno(), LAST_MAX, max(0, length - LAST_MAX)).decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _line(channel: socket.socket, deadline: Ns) -> bytes:
    """Wait for a line. OSError, also a TimeoutError at the deadline."""
    out = bytearray()
    while not out.endswith(b"\n"):
        if len(out) > ANSWER_MAX:
            raise ConnectionError("the answer is too long")
        channel.settimeout(_left_s(deadline))
        data = channel.recv(1 << 16)
        if not data:
            raise ConnectionError("the client ended")
        out += data
    return bytes(out)


def _left_s(deadline: Ns) -> float:
    left = (deadline - time.monotonic_ns()) / SECOND
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left
