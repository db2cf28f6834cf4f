"""Operations by a client class of the user's own, or ``sql_client``, in a process of its own (``client_program``).

    client = "client.py:Client"
    serves = ["append", "read"]       # in [ops]

Guarantees: a question is asked once; a process that does not answer in time is killed with its group, and the next
operation has a new one, so that no answer comes late; any exception of a method leaves a changing operation ``info``,
unless the class lists the exception in ``not_done``. Out of scope: what the class imports, and whether its values are
true.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from dethrone.clusters.systems.operations import unanswered, unsent
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.interfaces import OpOutcome

PROGRAM = Path(__file__).with_name("client_program.py")
ANSWER_MAX = 4 << 20
SHOWN = 300


class ClientProcess:
    """One process, started when it is needed. ``client``: ``FILE:CLASS``, the file relative to ``folder``.

    ``given``: what the class is made with; of a user's class the nodes. ``path``: further places of Python packages.
    """

    def __init__(self, client: str, folder: Path, given: Mapping[str, Any], *, path: Sequence[str] = ()) -> None:
        file, _, self._name = client.rpartition(":")
        self._file = folder / file
        self._given = given
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._errors: IO[bytes] | None = None

    def ask(self, f: str, node: str, arguments: Sequence[Any], deadline: Ns) -> tuple[Any] | OpOutcome:
        """The value that the method returned, alone in a tuple; or how the operation ended otherwise."""
        try:
            process = self._running()
            if not self._ready:
                _line(process, deadline)  # the class is made
                self._ready = True
        except TimeoutError:
            return unsent(f"{self._file.name} is still starting")
        except OSError as error:
            why = f"{self._file.name} cannot be started: {self._last_words(error) or error}"
            self.close()
            return unsent(why[:SHOWN])
        question = json.dumps({"f": f, "node": node, "arguments": list(arguments)}).encode() + b"\n"
        try:
            _send(process, question)
            said = json.loads(_line(process, deadline))
        except (OSError, ValueError) as error:
            why = f"{self._file.name}: {self._last_words(error) or error}"
            self.close()
            return unanswered(f, why[:SHOWN], node=node)
        if "value" in said:
            return (said["value"],)
        if said.get("certain"):
            return OpOutcome(status="fail", error=str(said.get("error"))[:SHOWN], node=node)
        return unanswered(f, str(said.get("error"))[:SHOWN], node=node)

    def close(self) -> None:
        """Kill the process and what it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with process, contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
        if self._errors is not None:
            self._errors.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._ready = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        known = [word for word in (*self._path, os.environ.get("PYTHONPATH", "")) if word]
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), str(self._file), self._name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(known), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        _send(self._process, json.dumps(self._given).encode() + b"\n")
        return self._process

    def _last_words(self, error: Exception) -> str:
        """The last line of what a process printed before it closed its end: by then a traceback is written."""
        if not isinstance(error, ConnectionError) or self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read(1 << 20).decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _send(process: subprocess.Popen[bytes], line: bytes) -> None:
    if process.stdin is None:
        raise ConnectionError("the client has no input")
    process.stdin.write(line)


def _line(process: subprocess.Popen[bytes], deadline: Ns) -> bytes:
    """Wait for a line. OSError, also a TimeoutError at the deadline."""
    answers = process.stdout
    if answers is None:
        raise ConnectionError("the client has no output")
    out = b""
    with selectors.DefaultSelector() as selector:
        selector.register(answers, selectors.EVENT_READ)
        while not out.endswith(b"\n"):
            left = (deadline - time.monotonic_ns()) / SECOND
            if len(out) > ANSWER_MAX or not selector.select(max(0.0, left)):
                raise TimeoutError("no answer in time")
            data = os.read(answers.fileno(), 1 << 16)
            if not data:
                raise ConnectionError("the client ended")
            out += data
    return out
