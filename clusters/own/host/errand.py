"""A program that runs next to a node on its host and carries out there what clients ask for by a command.

    ``python3 errand.py CONFIG COMMAND ...``

It starts itself once more as a child that answers, and becomes the node: process id, signals and exit code are the
node's own. The child dies with the node, and is frozen with it; so are the commands, for all of them share a process
group and a user. A question is a length (4 bytes, big-endian) and JSON, ``{"do", "words", "limit_ms"}``; so is the
answer: ``{"code", "out"}``, ``{"unstarted"}`` (certainly nothing was done) or ``{"late"}``.

Guarantees: only the standard library, for it travels to hosts alone; only commands of the configuration are run, with
no shell; a command that outlives its time is killed; what is read, kept and open at once has a limit. Out of scope:
what an output means.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import json
import os
import re
import signal
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1
QUESTION_MAX = 1 << 20
OUTPUT_MAX = 64 << 10
LIMIT_MAX_S = 600.0
AT_ONCE_MAX = 64
BLOCK = 1 << 16
TAKEN_LIMIT_S, TAKEN_PAUSE_S = 5.0, 0.02
_WORD = re.compile(r"\{([a-z][a-z0-9_]*)\}")

Answer = dict[str, Any]


def filled(argv: list[str], words: dict[str, str]) -> list[str]:
    """The command with the words of the operation."""
    return [_WORD.sub(lambda match: words.get(match[1], match[0]), word) for word in argv]


async def carry_out(argv: list[str], limit_s: float) -> Answer:
    """Run it once."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except (OSError, ValueError) as error:
        return {"unstarted": f"{argv[0]} cannot be started: {getattr(error, 'strerror', None) or error}"}
    try:
        out = await asyncio.wait_for(_output(process), limit_s)
    except asyncio.TimeoutError:  # noqa: UP041 - Python 3.9
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return {"late": True}
    return {"code": process.returncode, "out": out.decode("utf-8", "replace")}


async def _output(process: asyncio.subprocess.Process) -> bytes:
    """The first bytes of what it prints, once it has ended."""
    out = bytearray()
    while process.stdout is not None and (data := await process.stdout.read(BLOCK)):
        out += data[: OUTPUT_MAX - len(out)]
    await process.wait()
    return bytes(out)


class Errands:
    """Answers questions."""

    def __init__(self, commands: dict[str, list[str]]) -> None:
        self._commands = commands
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one question after another."""
        self._open += 1
        try:
            while self._open <= AT_ONCE_MAX:
                size = int.from_bytes(await reader.readexactly(4), "big")
                if size > QUESTION_MAX:
                    break
                body = json.dumps(await self.answer(json.loads(await reader.readexactly(size)))).encode()
                writer.write(len(body).to_bytes(4, "big") + body)
                await writer.drain()
        except (OSError, ValueError, KeyError, TypeError, asyncio.IncompleteReadError):
            pass  # a connection that ends, or what is no question, is not answered
        finally:
            self._open -= 1
            writer.close()

    async def answer(self, question: dict[str, Any]) -> Answer:
        """How the command ended that the question names."""
        argv = self._commands.get(question["do"])
        if argv is None:
            return {"unstarted": f"no command is called {question['do']!r}"}
        words = {name: str(word) for name, word in question["words"].items()}
        return await carry_out(filled(argv, words), min(float(question["limit_ms"]) / 1000, LIMIT_MAX_S))


async def listen(config: dict[str, Any]) -> None:
    """Answer for ever. An earlier process of the node may be about to end, and hold the port until then."""
    errands, deadline = Errands(config["commands"]), time.monotonic() + TAKEN_LIMIT_S
    while True:
        try:
            server = await asyncio.start_server(errands.serve, config["address"], config["port"])
            break
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
        await asyncio.sleep(TAKEN_PAUSE_S)
    async with server:
        await server.serve_forever()


def stay_beside(parent: int, config: dict[str, Any]) -> None:
    """The child's whole life."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:
        asyncio.run(listen(config))


def main(arguments: list[str]) -> None:
    """Fork, then become the node."""
    path, *command = arguments
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        config = json.load(file)
    parent = os.getpid()
    if os.fork() == 0:
        try:
            stay_beside(parent, config)
        except OSError as error:
            sys.stderr.write(f"errand: {error}\n")
        finally:
            os._exit(1)
    os.execvp(command[0], command)  # noqa: S606 - the node's own command, split into words


if __name__ == "__main__":
    main(sys.argv[1:])
