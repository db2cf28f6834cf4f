"""A program that runs beside a node on its host and answers for it: by a command's output, or by the node's log.

    python3 beside.py CONFIG INCARNATION COMMAND ...

It starts itself once more as a child that answers, and becomes the node: process id, signals and exit code are the
node's own. The child dies with the node (a parent's death kills it), and a frozen node's child is frozen with it, for
they share a process group. One request is four zero bytes; one answer is a length (4 bytes, big-endian) and JSON.

Promises: only the standard library, for it travels to hosts alone; a command has its own time limit; of a log only
what the present process wrote counts. Leaves out what an answer means.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

PR_SET_PDEATHSIG = 1
COMMAND_LIMIT_S = 0.45
OUTPUT_MAX = 1 << 20
LINE_MAX = 1 << 20


class Log:
    """The newest role that the log tells of this process."""

    def __init__(self, path: str, became: dict[str, str], incarnation: int) -> None:
        self._path = path
        self._patterns = [(role, re.compile(pattern.encode())) for role, pattern in became.items()]
        self._rest = b""
        self._lock = threading.Lock()
        self._said: dict[str, Any] = {"incarnation": incarnation}
        try:
            self._offset = os.stat(path).st_size  # noqa: PTH116 - whatever stands there is an earlier process'
        except OSError:
            self._offset = 0

    def answer(self) -> dict[str, Any]:
        """What is known now. A role whose line tells no term keeps the last one that was told."""
        with self._lock:
            try:
                with open(self._path, "rb") as file:  # noqa: PTH123
                    file.seek(self._offset)
                    data = file.read()
            except OSError:
                return self._said
            self._offset += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._rest = self._rest[-LINE_MAX:]
            for line in lines:
                self._read(line)
            return self._said

    def _read(self, line: bytes) -> None:
        for role, pattern in self._patterns:
            match = pattern.search(line)
            if match is not None:
                groups = {name: value.decode("utf-8", "replace") for name, value in match.groupdict().items() if value}
                kept = {name: value for name, value in self._said.items() if name in {"incarnation", "term"}}
                self._said = {**kept, "leader": None, "role": role, **groups}
                return


class Command:
    """Runs a command at each question."""

    def __init__(self, argv: list[str], incarnation: int) -> None:
        self._argv = argv
        self._incarnation = incarnation

    def answer(self) -> dict[str, Any]:
        """Exit code and output; code 124: it took too long, 127: it cannot be run."""
        try:
            done = subprocess.run(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=COMMAND_LIMIT_S,
                check=False,
            )
            code, out = done.returncode, done.stdout[:OUTPUT_MAX]
        except subprocess.TimeoutExpired:
            code, out = 124, b""
        except OSError as error:
            code, out = 127, str(error).encode()
        return {"code": code, "out": out.decode("utf-8", "replace"), "incarnation": self._incarnation}


def serve(listener: socket.socket, answerer: Log | Command) -> None:
    """Answer for ever, each connection in a thread of its own."""
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=converse, args=(connection, answerer), daemon=True).start()


def converse(connection: socket.socket, answerer: Log | Command) -> None:
    """One question after another, until the other side hangs up."""
    with connection:
        try:
            while True:
                asked = b""
                while len(asked) < 4:
                    more = connection.recv(4 - len(asked))
                    if not more:
                        return
                    asked += more
                body = json.dumps(answerer.answer()).encode()
                connection.sendall(len(body).to_bytes(4, "big") + body)
        except OSError:
            return


def stay_beside(parent: int, config: dict[str, Any], answerer: Log | Command) -> None:
    """The child's whole life. It keeps nothing open that is the node's."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config["address"], config["port"]))
        listener.listen(16)
        serve(listener, answerer)


def main(arguments: list[str]) -> None:
    """Fork, then become the node."""
    path, incarnation, *command = arguments
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        config = json.load(file)
    answerer: Log | Command
    if "log" in config:
        answerer = Log(config["log"], config["became"], int(incarnation))  # before the node writes its first line
    else:
        answerer = Command(config["command"], int(incarnation))
    parent = os.getpid()
    if os.fork() == 0:
        try:
            stay_beside(parent, config, answerer)
        except OSError as error:
            sys.stderr.write(f"beside: {error}\n")
        finally:
            os._exit(1)
    os.execvp(command[0], command)  # noqa: S606 - the node's own command, split into words


if __name__ == "__main__":
    main(sys.argv[1:])
