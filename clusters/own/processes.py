"""The processes of a node as its description names them: their order, and the commands that run once.

    [[process]]
    name = "redis"
    command = "redis-server {run_dir}/redis.conf"
    ready = { port = "redis" }

Guarantees: pure; a process comes after those that it waits for, and otherwise in the order of the file; a mistake is a
ConfigError that names its key. Out of scope: starting them (``supervisor``, on the host).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from dethrone.clusters.own.table import Table, Words, placed, read_table, split
from dethrone.clusters.own.voting import OBSERVERS, VOTERS
from dethrone.clusters.own.words import check_words
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name

PROCESSES_MAX = 16
ONLY = "node"
"""The name of the process that ``[node] command`` starts; no ``[[process]]`` has it, for its log is everybody's."""
OTHERS = "others"
"""``on`` of commands that run on every node but the first."""
SOME = (OTHERS, VOTERS, OBSERVERS)
"""Words for some of the nodes, in place of their names."""
NODE_LOG = "{log_dir}/node.log"
"""What a node prints: its process, or the supervisor of several."""
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_NODE = re.compile(r"n[1-9]\d{0,3}")
_PLACES = ("{run_dir}", "{data_dir}", "{log_dir}", "/")


class ReadyTable(Table, frozen=True, kw_only=True):
    """``ready`` of a process. One of ``port`` (it listens), ``http`` (a GET is answered with 200), ``log`` (a line
    matches) and ``command`` (exits with 0).

    ``port`` is a name of ``[node] ports``, and with ``http`` says where to ask.
    """

    port: str | None = None
    http: str | None = None
    log: str | None = None
    command: Words | None = None


class ProcessTable(Table, frozen=True, kw_only=True):
    """``[[process]]``: one process of each node. ``after``: those that must be ready before it starts.

    ``ready``: what shows that it is; without it, that it runs. ``log``: a file that it writes itself, in which
    ``ready`` looks for its line and whose end is shown if it ends; without it, its output.
    """

    name: str
    command: Words
    after: str | tuple[str, ...] = ()
    ready: ReadyTable | None = None
    log: str | None = None


class FirstTable(Table, frozen=True, kw_only=True):
    """``[node.first]``: a command that runs at a node's first start, until it exits with 0.

    ``on``: the nodes that run it, or ``others``, ``voters``, ``observers``; empty: all. ``after``: the process that
    must be ready; without it, the command runs before any process starts.
    """

    command: Words
    on: str | tuple[str, ...] = ()
    after: str | None = None


class SetupTable(Table, frozen=True, kw_only=True):
    """``[setup]``: a command that one node runs once for the cluster, as soon as its processes are ready.

    It is repeated until it exits with 0; then ``until`` is, which shows that it is done. ``pattern``: what the output
    of the last of them must match besides.
    """

    on: str = "n1"
    command: Words
    until: Words | None = None
    pattern: str | None = None


class Starting(msgspec.Struct, frozen=True, kw_only=True):
    """How a node starts. ``processes``: in the order in which they start."""

    processes: tuple[ProcessTable, ...]
    first: tuple[FirstTable, ...] = ()
    setup: SetupTable | None = None

    @property
    def plain(self) -> bool:
        """Whether a node is one process that starts by itself, with nothing around it."""
        return not self.several and not self.first and self.setup is None and self.processes[0].ready is None

    @property
    def several(self) -> bool:
        """Whether a node has more than one process."""
        return len(self.processes) > 1

    @property
    def names(self) -> tuple[str, ...]:
        """Of the processes that can be hit by themselves: none, where there is only one."""
        return tuple(process.name for process in self.processes) if self.several else ()


def starting(
    tables: Mapping[str, Any], command: Words, *, ports: Collection[str], known: Collection[str], path: str
) -> Starting:
    """What the file says of it. ``command``: of ``[node]``; ``known``: the words of commands. ConfigError."""
    where = f"{path}: [[process]]"
    given = tables.get("process", [])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise ConfigError("processes are a list of tables", where=where, next_step="write [[process]], then its keys")
    if bool(given) == bool(command):
        raise ConfigError(
            "both [node] command and [[process]]" if given else "it is not said what a node runs",
            where=f"{path}: [node]",
            next_step="write command in [node], or a [[process]] with name and command for each process",
        )
    if given:
        for one in given:
            if isinstance(one.get("ready"), dict):  # so that the nearest key of it is named
                read_table(ReadyTable, one["ready"], where=f"{where} {one.get('name', '')} ready")
        read = [read_table(ProcessTable, one, where=where) for one in given]
        processes = in_order([_process(one, ports, known, where=f"{where} {one.name}") for one in read], where=where)
    else:
        processes = (ProcessTable(name=ONLY, command=command),)
    names = tuple(process.name for process in processes)
    return Starting(
        processes=processes,
        first=_first(tables["node"].get("first", []), names, known, where=f"{path}: [node.first]"),
        setup=_setup(tables.get("setup"), known, where=f"{path}: [setup]"),
    )


def in_order(processes: Sequence[ProcessTable], *, where: str) -> tuple[ProcessTable, ...]:
    """Each after those that it waits for, otherwise as given. ConfigError: a name twice, an unknown one, a circle."""
    names = [process.name for process in processes]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two processes are called {name!r}", where=where, next_step="rename one of them")
    if len(names) > PROCESSES_MAX:
        raise ConfigError(f"{len(names)} processes are too many", where=where, next_step=f"at most {PROCESSES_MAX}")
    for process in processes:
        for name in waits_for(process):
            if name not in names:
                raise placed(unknown_name("process", name, names), f"{where} {process.name} after")
    out: list[ProcessTable] = []
    left = list(processes)
    while left:
        begun = {process.name for process in out}
        free = next((process for process in left if begun.issuperset(waits_for(process))), None)
        if free is None:
            circle = ", ".join(process.name for process in left)
            raise ConfigError(
                f"none of these processes can start first: {circle}",
                where=f"{where} after",
                cause="each waits for another one of them",
                next_step="remove one `after`",
            )
        out.append(free)
        left.remove(free)
    return tuple(out)


def waits_for(process: ProcessTable) -> tuple[str, ...]:
    """The names in ``after``."""
    return (process.after,) if isinstance(process.after, str) else process.after


def nodes_of(table: FirstTable, members: Sequence[str], voters: Sequence[str]) -> tuple[str, ...]:
    """The nodes that run this command, of all ``members`` in their order; ``voters``: those of them that vote."""
    if not table.on:
        return tuple(members)
    if table.on == OTHERS:
        return tuple(members[1:])
    if table.on in (VOTERS, OBSERVERS):
        return tuple(name for name in members if (name in voters) == (table.on == VOTERS))
    return (table.on,) if isinstance(table.on, str) else table.on


def check_members(starts: Starting, members: Sequence[str], voters: Sequence[str], *, path: str) -> None:
    """Raise ConfigError for a command on a node that this cluster does not have."""
    asked = [(node, "[node.first] on") for table in starts.first for node in nodes_of(table, members, voters)]
    asked += [] if starts.setup is None else [(starts.setup.on, "[setup] on")]
    for node, key in asked:
        if node not in members:
            raise placed(unknown_name("node", node, members), f"{path}: {key}")


def check_logs(starts: Starting, files: Mapping[str, str | None], *, path: str) -> None:
    """Raise ConfigError where one of several processes must be chosen. ``files``: key → path that it names."""
    for key, file in files.items() if starts.several else ():
        if file in {None, NODE_LOG}:
            logs = ", ".join(f"{{log_dir}}/{process.name}.log" for process in starts.processes)
            raise ConfigError(
                f"each of several processes has a log of its own, and {key} does not say which",
                where=f"{path}: {key}",
                next_step=f"name a file: what they print is in {logs}",
            )


def _process(table: ProcessTable, ports: Collection[str], known: Collection[str], *, where: str) -> ProcessTable:
    if not _NAME.fullmatch(table.name) or table.name == ONLY:
        raise ConfigError(
            f"{table.name!r} is no name of a process",
            where=f"{where} name",
            next_step=f"use a small letter, then small letters, digits and '-', at most 31; not {ONLY!r}",
        )
    check_words(split(table.command, where=f"{where} command"), known, where=f"{where} command")
    if table.log is not None:
        check_words([table.log], known, where=f"{where} log")
        if not table.log.startswith(_PLACES):
            raise ConfigError(
                f"{table.log!r} is no absolute path on the host",
                where=f"{where} log",
                next_step="begin it with {log_dir}/ or with /",
            )
    if table.ready is not None:
        _ready(table.ready, ports, known, where=f"{where} ready")
    return table


def _ready(ready: ReadyTable, ports: Collection[str], known: Collection[str], *, where: str) -> None:
    given = [name for name in ReadyTable.__struct_fields__ if getattr(ready, name) is not None]
    ways = [name for name in given if name != "port"] or ["port"]
    if len(ways) > 1 or (ready.port is None) != (ways[0] in {"log", "command"}):
        raise ConfigError(
            "readiness is shown by one of port, http with port, log, and command",
            where=where,
            cause=f"given: {', '.join(given) or 'none'}",
            next_step='write for example ready = { port = "peer" }',
        )
    if ready.port is not None and ready.port not in ports:
        raise placed(unknown_name("port", ready.port, ports), f"{where} port")
    if ready.http is not None and (not ready.http.startswith("/") or " " in ready.http):
        raise ConfigError(
            f"{ready.http!r} is no path of a URL", where=f"{where} http", next_step="write it like /ready"
        )
    if ready.command is not None:
        check_words(split(ready.command, where=f"{where} command"), known, where=f"{where} command")
    if ready.log is not None:
        _pattern(ready.log, where=f"{where} log")


def _first(given: Any, names: Collection[str], known: Collection[str], *, where: str) -> tuple[FirstTable, ...]:
    raw = [given] if isinstance(given, dict) else given
    if not isinstance(raw, list) or not all(isinstance(one, dict) for one in raw):
        raise ConfigError("it must be a table", where=where, next_step="write [node.first], or [[node.first]] for each")
    out = tuple(read_table(FirstTable, one, where=where) for one in raw)
    for table in out:
        check_words(split(table.command, where=f"{where} command"), known, where=f"{where} command")
        if table.after is not None and table.after not in names:
            raise placed(unknown_name("process", table.after, names), f"{where} after")
        if table.on not in SOME:
            for node in nodes_of(table, (), ()):
                _check_node(node, where=f"{where} on", besides="".join(f"{word!r}, " for word in SOME))
    return out


def _setup(given: Any, known: Collection[str], *, where: str) -> SetupTable | None:
    if given is None:
        return None
    table = read_table(SetupTable, given, where=where)
    _check_node(table.on, where=f"{where} on", besides="")
    check_words(split(table.command, where=f"{where} command"), known, where=f"{where} command")
    if table.until is not None:
        check_words(split(table.until, where=f"{where} until"), known, where=f"{where} until")
    if table.pattern is not None:
        _pattern(table.pattern, where=f"{where} pattern")
    return table


def _check_node(name: str, *, where: str, besides: str) -> None:
    if not _NODE.fullmatch(name):
        raise ConfigError(f"{name!r} is no node", where=where, next_step=f"known: {besides}n1, n2 …")


def _pattern(pattern: str, *, where: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"{pattern!r} is no pattern: {error}", where=where) from error
