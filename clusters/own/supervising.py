"""What a node gets that is several processes, or has commands that run once: the supervisor and its configuration.

Guarantees: pure but for reading our own modules; a description with one process and nothing around it gets nothing. Out
of scope: carrying it out (``host``).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dethrone.clusters.agent.bundle import bundled_package
from dethrone.clusters.own.processes import NODE_LOG, ProcessTable, ReadyTable, check_members, nodes_of, waits_for
from dethrone.clusters.own.spec import Description
from dethrone.clusters.own.table import Words, split
from dethrone.clusters.own.voting import voters_of
from dethrone.clusters.own.words import fill
from dethrone.harness.core.interfaces import NodeSpec

ORDER = ("family", "once", "process", "supervisor")
PROGRAM, CONFIG = "supervisor.py", "supervisor.json"


@functools.cache
def program() -> bytes:
    """The supervisor as the one file that runs on hosts."""
    return bundled_package("dethrone.clusters.own.host", ORDER)


def room(description: Description, node: NodeSpec) -> str:
    """Where on a host the files are that we make for a node: each of several versions has a place of its own."""
    return f"{node.run_dir}/{description.version}" if description.version else node.run_dir


def supervised(description: Description, node: NodeSpec, words: Mapping[str, str]) -> dict[str, bytes]:
    """Files for a node that is supervised: absolute path → content. ConfigError: a node that this cluster lacks."""
    if description.starting.plain:
        return {}
    check_members(description.starting, *_members(description, node), path=description.path)
    content = json.dumps(configuration(description, node, words)).encode()
    return {f"{node.run_dir}/{PROGRAM}": program(), f"{room(description, node)}/{CONFIG}": content}


def command_of(description: Description, node: NodeSpec, words: Mapping[str, str]) -> tuple[str, ...]:
    """What is started: the one process, or the supervisor. ``{incarnation}`` stays for the agent."""
    starts = description.starting
    if starts.plain:
        return tuple(fill(word, words) for word in split(starts.processes[0].command, where=description.path))
    return (node.python, "-SE", f"{node.run_dir}/{PROGRAM}", f"{room(description, node)}/{CONFIG}", "{incarnation}")


def configuration(description: Description, node: NodeSpec, words: Mapping[str, str]) -> dict[str, Any]:
    """The supervisor's for this node: processes in starting order, commands that come before them first."""
    starts, (members, voters) = description.starting, _members(description, node)

    def argv(command: Words) -> list[str]:
        return [fill(word, words) for word in split(command, where=description.path)]

    first = [one for one in starts.first if node.name in nodes_of(one, members, voters)]
    setup = starts.setup
    if setup is not None and setup.on != node.name:
        setup = None
    return {
        "address": node.address,
        "run_dir": node.run_dir,
        "data_dir": node.data_dir,
        "log": fill(NODE_LOG, words),
        "processes": [
            {
                "name": process.name,
                "argv": argv(process.command),
                "after": list(waits_for(process)),
                "output": fill(output_of(process), words) if starts.several else None,
                "log": fill(process.log or (output_of(process) if starts.several else NODE_LOG), words),
                "ready": None if process.ready is None else _ready(process.ready, description, argv),
            }
            for process in starts.processes
        ],
        "first": [
            {"argv": argv(one.command), "after": one.after}
            for one in sorted(first, key=lambda one: one.after is not None)
        ],
        "setup": None
        if setup is None
        else {
            "argv": argv(setup.command),
            "until": None if setup.until is None else argv(setup.until),
            "pattern": setup.pattern,
        },
    }


def _members(description: Description, node: NodeSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """All members, and those that vote."""
    members = tuple(node.members)
    return members, voters_of(description.membership.voting, members, node.knobs, path=description.path)


def output_of(process: ProcessTable) -> str:
    """Where what one of several processes prints is kept."""
    return f"{{log_dir}}/{process.name}.log"


def commands_in(description: Description) -> Iterator[tuple[str, tuple[str, ...]]]:
    """All that hosts execute: the key of the file, and the words of the command as they stand there."""
    starts = description.starting
    for process in starts.processes:
        key = f"[[process]] {process.name}" if starts.several else "[node]"
        yield f"{key} command", split(process.command, where=key)
        if process.ready is not None and process.ready.command is not None:
            yield f"{key} ready", split(process.ready.command, where=key)
    for one in starts.first:
        yield "[node.first] command", split(one.command, where="[node.first]")
    if starts.setup is not None:
        yield "[setup] command", split(starts.setup.command, where="[setup]")
        if starts.setup.until is not None:
            yield "[setup] until", split(starts.setup.until, where="[setup]")
    if description.probe.command is not None:
        yield "[probe] command", split(description.probe.command, where="[probe]")
    asked, changes = description.membership.asked, description.membership.changes
    for table, ops in (("ops", description.ops), ("membership", asked), ("membership", changes)):
        for name, op in ops.items():
            if op.command is not None and (op.at == "host" or ops is changes):
                yield f"[{table}] {name}", split(op.command, where=f"[{table}]")
    if description.clock is not None:
        yield "[clock] command", split(description.clock.command, where="[clock]")


def understood(description: Description) -> tuple[str, ...]:
    """How a node starts, in words, one line a step; nothing for a single process with nothing around it."""
    starts = description.starting
    if starts.plain:
        return ()
    before = [one for one in starts.first if one.after is None]
    out = [_first_line(one.command, one.on, "before anything starts") for one in before]
    for process in starts.processes:
        name = process.name if starts.several else "the process"
        waits = waits_for(process)
        when = f", once {' and '.join(waits)} {'are' if len(waits) > 1 else 'is'} ready" if waits else ""
        out.append(f"{name} starts{when}; ready {_shown(process.ready)}")
        out += [
            _first_line(one.command, one.on, f"once {one.after} is ready")
            for one in starts.first
            if one.after == process.name
        ]
    if starts.setup is not None:
        until = "" if starts.setup.until is None else f", until {_line(starts.setup.until)} succeeds"
        out.append(f"setup, once for the cluster, on {starts.setup.on}: {_line(starts.setup.command)}{until}")
    return tuple(out)


def _first_line(command: Words, on: str | tuple[str, ...], when: str) -> str:
    who = "each node" if not on else on if isinstance(on, str) else ", ".join(on)
    return f"first start of {who}, {when}: {_line(command)}"


def _line(command: Words) -> str:
    return command if isinstance(command, str) else " ".join(command)


def _shown(ready: ReadyTable | None) -> str:
    if ready is None:
        return "as soon as it runs"
    if ready.command is not None:
        return f"when {_line(ready.command)} exits with 0"
    if ready.log is not None:
        return f"when a line of its log matches {ready.log!r}"
    return (
        f"when it listens on {ready.port}" if ready.http is None else f"when {ready.http} at {ready.port} answers 200"
    )


def _ready(ready: ReadyTable, description: Description, argv: Callable[[Words], list[str]]) -> dict[str, Any]:
    if ready.command is not None:
        return {"command": argv(ready.command)}
    if ready.log is not None:
        return {"log": ready.log}
    place: dict[str, Any] = {"port": description.node.ports[ready.port or ""]}
    return place if ready.http is None else {**place, "http": ready.http}
