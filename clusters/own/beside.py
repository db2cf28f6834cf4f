"""A program that runs next to a node on its host and answers for it: by a command's output, or by the node's log.

    ``python3 beside.py CONFIG INCARNATION COMMAND ...``

The command is run for each question, or runs on and is sent an empty line for each.

It starts itself once more as a child that answers, and becomes the node: process id, signals and exit code are the
node's own. The child dies with the node (a parent's death kills it), and a frozen node's child is frozen with it, for
they share a process group. One request is four zero bytes; one answer is a length (4 bytes, big-endian) and JSON.

The patterns of a description are matched here and nowhere else, by one thread under a limit of processor time: a
pattern that runs away costs this process one line and the harness nothing. Guarantees: only the standard library, for
it travels to hosts alone; what is read, printed, waited for and connected has a limit; of a log only what the present
process wrote counts, and a log that grows faster than it is read is no answer. Out of scope: what an answer means.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1
COMMAND_LIMIT_S = 0.45
OUTPUT_MAX = 1 << 20
SHOWN_MAX = 4096
LINE_MAX = 64 << 10
BLOCK = 1 << 20
READ_LIMIT_S = 0.3
"""How long one question may read on in the log."""
MATCH_LIMIT_S = 0.05
"""Of processor time: for one pattern on one line, or on the output of one command."""
CONNECTIONS_MAX = 16
SEND_LIMIT_S = 1.0


class TooSlow(Exception):  # noqa: N818 - names the thing found
    """A pattern needed more than its time."""


def _too_slow(*_: object) -> None:
    raise TooSlow


def search(pattern: re.Pattern[Any], text: Any) -> re.Match[Any] | None:
    """``pattern.search`` in the main thread, with a limit. Raises TooSlow."""
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, MATCH_LIMIT_S)
        return pattern.search(text)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class Log:
    """The newest role that the log reports of this process."""

    def __init__(self, path: str, became: dict[str, str], incarnation: int) -> None:
        self._path = path
        self._patterns = [(role, re.compile(pattern.encode())) for role, pattern in became.items()]
        self._rest = b""
        self._incarnation = incarnation
        self._said: dict[str, Any] = {"incarnation": incarnation}
        try:
            self._offset = os.stat(path).st_size  # noqa: PTH116 - existing lines are an earlier process'
        except OSError:
            self._offset = 0

    def answer(self) -> dict[str, Any]:
        """What is known now. A role whose line has no term keeps the last term that was reported."""
        deadline = time.monotonic() + READ_LIMIT_S
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123
                file.seek(self._offset)
                while data := file.read(BLOCK):
                    self._take(data)
                    if len(data) == BLOCK and time.monotonic() > deadline:
                        return {"incarnation": self._incarnation, "behind": True}
        except OSError:
            pass
        return self._said

    def _take(self, data: bytes) -> None:
        self._offset += len(data)
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:LINE_MAX]  # of a longer line its beginning counts, as below
        for line in lines:
            try:
                self._read(line[:LINE_MAX])
            except TooSlow:  # it may have reported a new role: until the next one nothing is known
                self._said = {"incarnation": self._incarnation, "slow": line[:SHOWN_MAX].decode("utf-8", "replace")}

    def _read(self, line: bytes) -> None:
        for role, pattern in self._patterns:
            match = search(pattern, line)
            if match is not None:
                groups = {name: value.decode("utf-8", "replace") for name, value in match.groupdict().items() if value}
                kept = {name: value for name, value in self._said.items() if name in {"incarnation", "term"}}
                self._said = {**kept, "leader": None, "role": role, **groups}
                return


class Command:
    """Runs a command at each question. ``pattern``: what its output is to be taken apart by."""

    def __init__(self, argv: list[str], incarnation: int, pattern: str | None = None) -> None:
        self._argv = argv
        self._incarnation = incarnation
        self._pattern = None if pattern is None else re.compile(pattern, re.MULTILINE)

    def answer(self) -> dict[str, Any]:
        """Exit code and output; code 124: it took too long, 127: it cannot be run."""
        try:
            code, raw = bounded_run(self._argv)
        except OSError as error:
            code, raw = 127, str(error).encode()
        out = raw.decode("utf-8", "replace")
        if self._pattern is None or code != 0:
            return {"code": code, "out": out, "incarnation": self._incarnation}
        said: dict[str, Any] = {"code": 0, "out": out[:SHOWN_MAX], "incarnation": self._incarnation, "groups": None}
        try:
            match = search(self._pattern, out)
        except TooSlow:
            return {**said, "slow": True}
        return said if match is None else {**said, "groups": match.groupdict()}


class Lasting:
    """A command that runs on: it is sent an empty line for each question, and prints its answer as one line.

    It starts at the first question. One that ends, or does not answer in time, is started again at the next question,
    so that no answer comes late.
    """

    def __init__(self, argv: list[str], incarnation: int) -> None:
        self._argv = argv
        self._incarnation = incarnation
        self._process: subprocess.Popen[bytes] | None = None

    def answer(self) -> dict[str, Any]:
        """As ``Command``'s; ``out`` is the line, and ``code`` that of a command that ended."""
        try:
            code, raw = self._ask()
        except OSError as error:
            code, raw = self._end(127), str(error).encode()
        return {"code": code, "out": raw.decode("utf-8", "replace"), "incarnation": self._incarnation}

    def _ask(self) -> tuple[int, bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - there are no threads here
            )
        asks, answers = self._process.stdin, self._process.stdout
        if asks is None or answers is None:
            return self._end(127), b""
        deadline = time.monotonic() + COMMAND_LIMIT_S
        asks.write(b"\n")
        out = b""
        with selectors.DefaultSelector() as selector:
            selector.register(answers, selectors.EVENT_READ)
            while not out.endswith(b"\n"):
                if len(out) > OUTPUT_MAX or not selector.select(max(0.0, deadline - time.monotonic())):
                    return self._end(124), b""
                data = answers.read(BLOCK)
                if not data:
                    return self._end(0), out
                out += data
        return 0, out

    def _end(self, code: int) -> int:
        """End it; its own exit code if it has ended already with another one than 0."""
        process, self._process = self._process, None
        if process is None:
            return code
        with process:
            try:
                code = process.wait(0.05) or code or 1
            except subprocess.TimeoutExpired:
                process.kill()
        return code or 1


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def bounded_run(argv: list[str]) -> tuple[int, bytes]:
    """Exit code and the first ``OUTPUT_MAX`` bytes of output; in time, even if the output stays open. OSError."""
    deadline = time.monotonic() + COMMAND_LIMIT_S
    out = bytearray()
    with (
        subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        stream = process.stdout
        if stream is None:
            return 127, b""
        selector.register(stream, selectors.EVENT_READ)
        while len(out) < OUTPUT_MAX:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                break
            data = stream.read(BLOCK)
            if not data:
                break
            out += data
        stream.close()  # who prints still gets a broken pipe
        try:
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return 124, b""
    return code, bytes(out[:OUTPUT_MAX])


Answerer = Log | Command | Lasting


def serve(listener: socket.socket, answerer: Answerer) -> None:
    """Answer for ever, one question after another: a client waits at most as long as an answer to another takes."""
    asked: dict[socket.socket, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    if len(asked) >= CONNECTIONS_MAX:
                        connection.close()
                        continue
                    connection.settimeout(SEND_LIMIT_S)
                    asked[connection] = 0
                    selector.register(connection, selectors.EVENT_READ)
                    continue
                connection = key.fileobj  # type: ignore[assignment]
                if not converse(connection, asked, answerer):
                    selector.unregister(connection)
                    del asked[connection]
                    connection.close()


def converse(connection: socket.socket, asked: dict[socket.socket, int], answerer: Answerer) -> bool:
    """Take some bytes of a question, and answer it once it is whole. False: the other side hung up."""
    try:
        more = connection.recv(4 - asked[connection])
        if not more:
            return False
        asked[connection] += len(more)
        if asked[connection] == 4:
            asked[connection] = 0
            body = json.dumps(answerer.answer()).encode()
            connection.sendall(len(body).to_bytes(4, "big") + body)
    except OSError:
        return False
    return True


def stay_beside(parent: int, config: dict[str, Any], answerer: Answerer) -> None:
    """The child's whole life. It keeps nothing open that is the node's."""
    _die_with_parent()
    if os.getppid() != parent:
        return
    signal.signal(signal.SIGVTALRM, _too_slow)
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
    answerer: Answerer
    if "log" in config:
        answerer = Log(config["log"], config["became"], int(incarnation))  # before the node writes its first line
    elif config.get("lasting"):
        answerer = Lasting(config["command"], int(incarnation))
    else:
        answerer = Command(config["command"], int(incarnation), config.get("pattern"))
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
