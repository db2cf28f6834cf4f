"""From the text of a description to a ``Description``, everything checked.

Guarantees: pure except for ``read``, the function that fetches the files that nodes get; an unknown, missing,
contradictory or malformed key is a ConfigError that names the table and, for an unknown key, the nearest one. Out of
scope: names of faults, which the engine knows.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dethrone.clusters.agent.host.confinement import CAPABILITIES
from dethrone.clusters.own import npm_packages
from dethrone.clusters.own.changes import membership
from dethrone.clusters.own.clock import clock_table
from dethrone.clusters.own.go_programs import check_sources
from dethrone.clusters.own.maven_jars import check_coordinates, pins_for
from dethrone.clusters.own.operations import operations
from dethrone.clusters.own.package_index import wanted
from dethrone.clusters.own.probe import check_reported, checked_probe
from dethrone.clusters.own.processes import check_logs, starting
from dethrone.clusters.own.python_packages import check_requirements
from dethrone.clusters.own.spec import (
    Description,
    LogTable,
    NodeTable,
    ProbeTable,
    PromiseTable,
    SystemTable,
    TraceTable,
)
from dethrone.clusters.own.sql_table import check_driver
from dethrone.clusters.own.table import duration, placed, read_table, split
from dethrone.clusters.own.trace import EVENTS
from dethrone.clusters.own.versions import first_of, split_up
from dethrone.clusters.own.words import MEMBER_WORDS, NODE_WORDS, PLACES, check_words
from dethrone.clusters.recipe import is_release
from dethrone.clusters.systems.rolling import KNOB
from dethrone.harness.core.duration import parse_duration, show_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.promise import STRETCH_SHARE
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.watches import check_pattern
from dethrone.harness.core.zones import check_label

TABLES = (
    *("system", "node", "process", "setup", "probe", "log", "trace", "ops", "membership", "promise", "knobs"),
    *("clock", "versions"),
)
BESIDE_PORT = 7999
FATAL_MAX, FATAL_LONGEST = 50, 200
MEMORY_MIN, PIDS_MIN = 32 << 20, 32
_SIZE = re.compile(r"([0-9]{1,6})([mg])")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}|\d{1,9}(:\d{1,9})?")
_NAME = re.compile(r"[a-z](?:[a-z0-9-]|\.(?=[0-9])){0,30}")
_KEY = re.compile(r"[a-z][a-z0-9_]*")


class FileRead(msgspec.Struct, frozen=True):
    """A file that nodes get. ``folder``: it is an archive of a directory."""

    content: bytes
    executable: bool
    folder: bool = False


def parse(text: str, *, path: str, read: Callable[[str], FileRead]) -> Description:
    """The description. ``path``: for messages; ``read``: a file by its path relative to the description."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the description is not TOML: {error}", where=path) from error
    for name, table in tables.items():
        if name not in TABLES:
            raise placed(unknown_name("table", name, TABLES), path)
        if not isinstance(table, dict) and name != "process":
            raise ConfigError(f"[{name}] must be a table", where=path, next_step=f"write [{name}], then its keys")
    for name in ("system", "node", "probe", "promise"):
        if name not in tables:
            raise ConfigError(
                f"the description has no [{name}]",
                where=path,
                next_step="`dethrone init` writes a whole one; docs/own-system.md explains each key",
            )
    if "versions" not in tables:
        return _description(tables, path=path, read=read)
    parts = split_up(tables, path=path)
    versions = {name: _description(raw, path=path, read=read) for name, (_, raw) in parts.items()}
    check_reported(next(iter(versions.values())).probe, where=f"{path}: [probe]")
    pins = (
        want
        for one in versions.values()
        for want in (
            *one.node.go.values(),
            *map(pins_for, one.node.maven.values()),
            wanted(one.system.python),
            wanted(one.system.npm),
        )
    )
    pinned = tuple(dict.fromkeys(pins))
    versions = {
        name: msgspec.structs.replace(one, version=name, pinned=pinned, knobs={**one.knobs, KNOB: name})
        for name, one in versions.items()
    }
    reports = {said: name for name, (said, _) in parts.items()}
    return msgspec.structs.replace(versions[first_of(tables, tuple(versions))], versions=versions, reports=reports)


def _description(tables: Mapping[str, Any], *, path: str, read: Callable[[str], FileRead]) -> Description:
    """The description of one version."""
    system = read_table(SystemTable, tables["system"], where=f"{path}: [system]")
    if system.version is not None and system.version_command is not None:
        raise ConfigError("both version and version_command", where=f"{path}: [system]", next_step="keep one of them")
    if system.debian is not None:
        _check_release(system, where=f"{path}: [system]")
    if not _NAME.fullmatch(system.name):
        raise ConfigError(
            f"{system.name!r} is no name of a system",
            where=f"{path}: [system]",
            next_step="use a small letter, then small letters, digits and '-', or '.' before a digit, at most 31",
        )
    check_requirements(system.python, where=f"{path}: [system] python")
    npm_packages.check_packages(system.npm, where=f"{path}: [system] npm")
    for label in system.zones:
        check_label(label, where=f"{path}: [system] zones")
    knobs = _knobs(tables.get("knobs", {}), where=f"{path}: [knobs]")
    said = read_table(NodeTable, tables["node"], where=f"{path}: [node]", besides=("first",))
    node = _node(said, knobs, where=f"{path}: [node]")
    words = (*NODE_WORDS, *node.ports, *knobs)
    starts = starting(tables, node.command, ports=node.ports, known=words, path=path)
    promise = read_table(PromiseTable, tables["promise"], where=f"{path}: [promise]")
    _durations(promise, where=f"{path}: [promise]")
    asked = read_table(ProbeTable, tables["probe"], where=f"{path}: [probe]")
    probe = checked_probe(asked, node, knobs, bound=promise.leader_bound_to_term, where=f"{path}: [probe]")
    trace = None
    if "trace" in tables:
        trace = _trace(read_table(TraceTable, tables["trace"], where=f"{path}: [trace]"), where=f"{path}: [trace]")
    log = _log(read_table(LogTable, tables.get("log", {}), where=f"{path}: [log]"), where=f"{path}: [log]")
    named: dict[str, str | None] = {} if trace is None else {"[trace] file": trace.file}
    named |= {} if probe.log is None else {"[probe] log": probe.log}
    check_logs(starts, named | ({"[log] file": log.file} if log.patterns else {}), path=path)
    ops, port = operations(tables.get("ops", {}), node, knobs, where=f"{path}: [ops]")
    check_driver(ops, system.python, where=f"{path}: [ops] driver")
    asked_of_it = membership(tables.get("membership", {}), node, knobs, where=f"{path}: [membership]")
    clock = None
    if "clock" in tables:
        clock = clock_table(tables["clock"], words, where=f"{path}: [clock]")
    files = {place: read(name) for place, name in node.files.items()}
    for place in (place for place, file in files.items() if file.folder and place.startswith("/")):
        raise ConfigError(
            f"a directory cannot be put at {place}",
            where=f"{path}: [node] files",
            cause="nodes unpack it, and write to their own directories only",
            next_step="begin its path with {run_dir}/, {data_dir}/ or {log_dir}/",
        )
    return Description(
        path=path,
        system=system,
        node=node,
        starting=starts,
        probe=probe,
        trace=trace,
        ops=ops,
        ops_port=port,
        membership=asked_of_it,
        clock=clock,
        promise=promise,
        knobs=knobs,
        log=log,
        contents={place: file.content for place, file in files.items() if not file.folder},
        folders={place: file.content for place, file in files.items() if file.folder},
        executables=(*node.go, *(place for place, file in files.items() if file.executable)),
    )


# --- tables -----------------------------------------------------------------------------------------------------


def _check_release(system: SystemTable, *, where: str) -> None:
    """Raise ConfigError unless hosts' image can be made of that release."""
    if system.image is not None:
        raise ConfigError("both image and debian", where=where, next_step="keep one: an image has its own release")
    if not is_release(system.debian or ""):
        step = 'write its code name, as in debian = "sid"'
        raise ConfigError(f"{system.debian!r} is no release of Debian", where=where, next_step=step)


def _knobs(raw: Mapping[str, Any], *, where: str) -> dict[str, str]:
    out = {}
    for name, value in raw.items():
        if not _KEY.fullmatch(name) or name in NODE_WORDS:
            raise ConfigError(
                f"{name!r} is no name of a knob", where=where, next_step="use small letters, digits and '_'"
            )
        if not isinstance(value, str | int | float):
            raise ConfigError(f"the knob {name} is no word or number", where=where)
        out[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def _node(node: NodeTable, knobs: Mapping[str, str], *, where: str) -> NodeTable:
    if node.user is not None and not _USER.fullmatch(node.user):
        raise ConfigError(f"{node.user!r} is no user", where=where, next_step='write a name as "root", or a number')
    for path in node.shows:
        if not path.startswith("/") or ".." in path.split("/") or path.strip("/") == "":
            raise ConfigError(f"{path!r} cannot be shown", where=f"{where} shows", next_step="write an absolute path")
    for word in node.capabilities:
        if word.upper().removeprefix("CAP_") not in CAPABILITIES:
            raise placed(unknown_name("capability", word, CAPABILITIES), where)
    for name, port in node.ports.items():
        if not _KEY.fullmatch(name) or name in NODE_WORDS or name in knobs:
            raise ConfigError(f"{name!r} is no name of a port, or is one of something else", where=f"{where} ports")
        if not 1 <= port <= 65535 or port == BESIDE_PORT:
            raise ConfigError(f"{port} is no port for {name}", where=f"{where} ports", next_step="1 to 65535, not 7999")
    for name in node.secrets:
        if name not in knobs:
            raise placed(unknown_name("knob", name, knobs), f"{where} secrets")
    if node.memory is not None:
        memory_bytes(node.memory, where=f"{where} memory")
    if node.pids is not None and not PIDS_MIN <= node.pids <= 1 << 22:
        raise ConfigError(f"pids = {node.pids} is out of range", where=where, next_step=f"{PIDS_MIN} or more")
    known = (*NODE_WORDS, *node.ports, *knobs)
    if node.command:
        check_words(split(node.command, where=where), known, where=f"{where} command")
    check_words(node.env.values(), known, where=f"{where} env")
    check_words(node.texts.values(), known, where=f"{where} texts")
    check_words([node.member, node.observer_member or ""], (*MEMBER_WORDS, *node.ports), where=f"{where} member")
    check_sources(node.go, where=f"{where} go")
    check_coordinates(node.maven, where=f"{where} maven")
    places = (*node.files, *node.texts, *node.go, *node.maven, *node.java)
    for place in (one for one in places if places.count(one) > 1):
        raise ConfigError(f"{place} is two things", where=where, next_step="keep one of them")
    for place in (*places, node.cwd):
        check_words([place], PLACES, where=where)
        if not place.startswith(("/", *(f"{{{name}}}" for name in PLACES))):
            raise ConfigError(
                f"{place!r} is no absolute path on the host",
                where=where,
                next_step="begin it with {run_dir}/ (a directory of the node's own), or with /",
            )
    return node


def memory_bytes(text: str, *, where: str) -> int:
    """``512m`` or ``4g`` as bytes. ConfigError."""
    match = _SIZE.fullmatch(text)
    size = int(match[1]) << (30 if match[2] == "g" else 20) if match else 0
    if not MEMORY_MIN <= size <= 1 << 44:
        raise ConfigError(f"{text!r} is no size of memory", where=where, next_step='write it like "512m" or "4g"')
    return size


def _durations(promise: PromiseTable, *, where: str) -> None:
    bounds = ("election_timeout", "heartbeat", "leader_within", "step_down_within", "converge_within", "stall_max")
    for name in bounds:
        text = getattr(promise, name)
        if text is not None and duration(text, where=f"{where} {name}") == 0:
            raise ConfigError(f"{name} must be longer than nothing", where=where)
    stall_max, election = promise.stall_max, parse_duration(promise.election_timeout)
    if stall_max is not None and parse_duration(stall_max) * STRETCH_SHARE > election:
        raise ConfigError(
            f"stall_max = {stall_max!r} is too long for election_timeout = {promise.election_timeout!r}",
            where=where,
            cause="longer stalls are no noise of the machine, so what they did would be held against the system",
            next_step=f"write at most {show_duration(election // STRETCH_SHARE)}, or leave it out",
        )


def _log(log: LogTable, *, where: str) -> LogTable:
    if len(log.fatal) > FATAL_MAX:
        raise ConfigError(f"{len(log.fatal)} fatal texts are too many", where=where, next_step=f"at most {FATAL_MAX}")
    for text in log.fatal:
        if not 3 <= len(text) <= FATAL_LONGEST or "\n" in text or "\0" in text:
            raise ConfigError(
                f"{text[:80]!r} is no fatal text",
                where=f"{where} fatal",
                cause="it is looked for as it stands, in single lines",
                next_step=f"write 3 to {FATAL_LONGEST} characters that stand in no line of a healthy node",
            )
    for name, pattern in log.patterns.items():
        check_pattern(pattern, where=f"{where} patterns {name}")
    for code in log.exits_ok:
        if not -64 <= code <= 255:
            raise ConfigError(
                f"{code} is no exit code",
                where=f"{where} exits_ok",
                next_step="write 0 to 255, or the negative number of a signal",
            )
    if log.file is not None:
        check_words([log.file], PLACES, where=f"{where} file")
        if not log.file.startswith(("/", *(f"{{{name}}}" for name in PLACES))):
            raise ConfigError(
                f"{log.file!r} is no absolute path on the host",
                where=f"{where} file",
                next_step="begin it with {log_dir}/ or with /",
            )
    return log


_SOMETIMES = 'add "sometimes" to events, or remove the key'


def _trace(trace: TraceTable, *, where: str) -> TraceTable:
    for event in trace.events:
        if event not in EVENTS:
            raise placed(unknown_name("trace line", event, EVENTS), where)
    if not trace.events:
        raise ConfigError("no trace line is named", where=where, next_step=f"known: {', '.join(EVENTS)}")
    if trace.voters and "elected" not in trace.events:
        raise ConfigError("voters come from `elected` lines, which are not among the events", where=where)
    if trace.sometimes and "sometimes" not in trace.events:
        raise ConfigError("sometimes names assertions of lines that are not printed", where=where, next_step=_SOMETIMES)
    check_words([trace.file], PLACES, where=f"{where} file")
    return trace
