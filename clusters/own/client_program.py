"""The process that forks one for each client of a class, a user's or ours.

    python3 -P client_program.py FILE CLASS MODULE ...

It imports the file and the modules once. Its input is a socket of packets: ``fork N``, with two descriptors, makes
process N, which has the first as its channel and the second for what it prints; ``end N`` kills it with its group, and
is answered once it is gone. At the end of the input it kills all of them.

The first line of a channel is what the class is made with, as a JSON object; ``{}`` answers it once the class is made.
Each line after it is an operation, ``{"f", "node", "arguments"}``; one line answers it: ``{"value": …}``, or
``{"error": …, "certain": true or false}``.

Guarantees: only the standard library; what the class prints goes to standard error. Out of scope: time: who asks ends
a process if an answer is late; threads that the file starts as it is imported, which no fork has.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import signal
import socket
import sys
import traceback
from typing import Any

SHOWN = 200
PACKET_MAX = 64


def loaded(file: str, name: str) -> Any:
    """The class of that name in the file, whose directory is on the path. Raises what the file raises."""
    folder = os.path.dirname(os.path.realpath(file))  # noqa: PTH120 - pathlib would slow down each start
    if folder != os.path.dirname(os.path.realpath(__file__)):  # noqa: PTH120 - our own must not hide those of a driver
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("client_of_the_user", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def answer(client: Any, question: dict[str, Any]) -> dict[str, Any]:
    """What the method of the operation's name returns, or why it did not."""
    certain = (NotImplementedError, *getattr(client, "not_done", ()))
    try:
        return {"value": getattr(client, question["f"])(question["node"], *question["arguments"])}
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything, and is asked again
        text = f"{type(error).__name__}: {error}"[:SHOWN]
        return {"error": text, "certain": isinstance(error, certain)}


def serve(made: Any, channel: socket.socket) -> None:
    """Answer until the channel ends."""
    with channel.makefile("r", encoding="utf-8") as questions, channel.makefile("w", encoding="utf-8") as answers:
        client = made(json.loads(questions.readline()))
        answers.write("{}\n")
        answers.flush()
        for line in questions:
            found = answer(client, json.loads(line))
            try:
                text = json.dumps(found)
            except (TypeError, ValueError, RecursionError) as error:
                text = json.dumps({"error": f"the value is no JSON: {error}"[:SHOWN], "certain": False})
            answers.write(text + "\n")
            answers.flush()


def fork(made: Any, control: socket.socket, channel: int, printed: int) -> int:
    """The number of a process that serves this channel."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        control.close()
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.close(printed)
        serve(made, socket.socket(fileno=channel))
    except BaseException:  # noqa: BLE001 - a traceback has to be its last words
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(0)


def end(pid: int) -> None:
    """Kill a process with its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # it may not have a group of its own yet
    os.waitpid(pid, 0)


def main(file: str, name: str, *modules: str) -> None:
    """Fork and kill until the input ends."""
    control = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    made = loaded(file, name)
    for module in modules:
        with contextlib.suppress(Exception):  # the class imports it as well, and reports what is wrong
            importlib.import_module(module)
    running: dict[str, int] = {}
    while packet := socket.recv_fds(control, PACKET_MAX, 2):
        words, descriptors, _, _ = packet
        if not words:
            break
        verb, number = words.decode().split()
        if verb == "fork":
            running[number] = fork(made, control, *descriptors)
            for one in descriptors:
                os.close(one)
        else:
            if number in running:  # not if another process made it, which is gone
                end(running.pop(number))
            control.send(words)
    for pid in running.values():
        end(pid)


if __name__ == "__main__":
    main(*sys.argv[1:])
