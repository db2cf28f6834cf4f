"""A system as its description says: the adapter between a TOML file and a run.

    dethrone run my.toml --on docker

Guarantees: nothing is assumed that the file does not say; files of nodes are read once, with the description; the node
process keeps its own process id, signals and exit code even behind a wrapper. Out of scope: what a file
cannot say (docs/own-system.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from dethrone.clusters.own.answers import explain, reading
from dethrone.clusters.own.asked_over_tls import encrypted, over_tls
from dethrone.clusters.own.changes import files_for_changes, private_files
from dethrone.clusters.own.client import Divided
from dethrone.clusters.own.client_process import ClientProgram
from dethrone.clusters.own.clients import client_of
from dethrone.clusters.own.clock import clock_command
from dethrone.clusters.own.errands import errand_files, with_errands
from dethrone.clusters.own.headers import Carrying, check_values
from dethrone.clusters.own.moments import doubts
from dethrone.clusters.own.node_words import ids_of, member_words, places_of, words_of
from dethrone.clusters.own.operations import replicas
from dethrone.clusters.own.parse import memory_bytes, parse
from dethrone.clusters.own.promise import check_faults, exempt, is_durable, observable, promise_of, told_events
from dethrone.clusters.own.requests import sequences
from dethrone.clusters.own.spec import Description
from dethrone.clusters.own.status import beside_files, status_call, with_beside
from dethrone.clusters.own.supervising import command_of, commands_in, output_of, supervised, understood
from dethrone.clusters.own.tls import check_files
from dethrone.clusters.own.trace import event_of, read_lines
from dethrone.clusters.own.unpacking import brought, contents_of, large_files, needed, programs_of, unpacked, unpacking
from dethrone.clusters.own.version import version_of
from dethrone.clusters.own.voting import voters_of
from dethrone.clusters.own.words import fill
from dethrone.clusters.own.workloads import WORKLOADS, unasked
from dethrone.clusters.systems import rolling
from dethrone.clusters.systems.membership import looking
from dethrone.clusters.systems.target import check_voters
from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import read_text
from dethrone.harness.core.interfaces import (
    Available,
    Client,
    ClockCommand,
    Command,
    Malformed,
    Needed,
    No,
    NodeSpec,
    Reading,
    RunDefaults,
    StatusCall,
    TraceLine,
    Yes,
)
from dethrone.harness.core.promise import Promise

PROFILE = "own"
NEAR_ROOT = 2
"""``/home`` in a command does not show every home to the nodes."""

_RUNNABLE = 'n=$1; shift; while [ "$n" -gt 0 ]; do chmod 755 "$1"; shift; n=$((n-1)); done; exec "$@"'
"""Files come to hosts without a right to run them."""

GAP_NS_MAX = 6 * SECOND
"""By default a fault begins at most this long after health is back, however slow the system's elections are."""
USUAL_FAULTS = ("partition", "kill", "pause", "stop", "restart")


class OwnSystem:
    """See ``dethrone.harness.core.interfaces.System``; also ``Telling``, ``Paced`` and ``Described``."""

    def __init__(self, description: Description) -> None:
        self._description = description
        self._programs: dict[str, ClientProgram] = {}
        self.name = description.system.name
        self.path = Path(description.path)

    # --- names ------------------------------------------------------------------------------------------------

    def knobs(self, settings: Mapping[str, str], *, profile: str | None, variant: str | None) -> Mapping[str, str]:
        """The knobs of the description, with these settings over them. Raises ConfigError."""
        if profile is not None and profile != PROFILE:
            raise registry.unknown_name(f"profile of {self.name}:", profile, self.profiles())
        if variant is not None:
            raise ConfigError(
                f"{self.name} has no variant {variant!r}",
                next_step="a description has none; a knob that its nodes understand does the same",
            )
        known = self._description.knobs
        for name in settings:
            if name not in known:
                raise registry.unknown_name(f"knob of {self.name}:", name, known)
        chosen = {**known, **settings}
        if self.versions():
            chosen[rolling.KNOB] = rolling.chosen(chosen[rolling.KNOB], self.versions())
        told = self._description
        asking: tuple[Carrying, ...] = (told.probe, *told.ops.values(), *told.membership.all.values())
        check_values(asking, chosen, where=f"the knobs of {self.name}")
        for name, op in told.ops.items():
            replicas(op, chosen, where=f"{told.path}: [ops] {name}")
        is_durable(self._description, chosen)
        return chosen

    def secret_knobs(self) -> tuple[str, ...]:
        """Those that the description marks."""
        return self._description.node.secrets

    def private_files(self, node: NodeSpec) -> frozenset[str]:
        """See ``dethrone.harness.core.interfaces.Guarding``: what changes of members are asked for with."""
        return private_files(self._description, node)

    def profiles(self) -> Mapping[str, str]:
        """One."""
        return {PROFILE: "as its description says"}

    def variants(self) -> Mapping[str, str]:
        """None."""
        return {}

    def defaults(self) -> RunDefaults:
        """Faults that are promised to be borne; between them a stretch long enough that liveness is exercised."""
        bound = promise_of(self._description, {}, profile=PROFILE).leader_bound_ns
        borne = self._description.promise.tolerates
        workload = next((name for name, needs in WORKLOADS.items() if needs <= self.operations()), "election")
        interval = bound + 2 * SECOND
        memory = self._description.node.memory
        return RunDefaults(
            faults=tuple(kind for kind in USUAL_FAULTS if kind in borne),
            workload=workload,
            nemesis_interval_ns=interval,
            gap_ns_max=GAP_NS_MAX,
            time_limit_ns=max(60 * SECOND, 8 * interval),
            base=self._description.system.image,
            memory_bytes=None if memory is None else memory_bytes(memory, where=self._description.path),
            pids=self._description.node.pids,
        )

    def version(self) -> str:
        """See ``dethrone.harness.core.interfaces.Versioned``."""
        return version_of(self._description)

    def versions(self) -> tuple[str, ...]:
        """See ``dethrone.harness.core.interfaces.Upgradable``."""
        return tuple(self._description.versions)

    def begins_with(self, knobs: Mapping[str, str]) -> str:
        """See ``dethrone.harness.core.interfaces.Upgradable``."""
        return knobs[rolling.KNOB] if self.versions() else ""

    def commands(self, node: NodeSpec) -> Mapping[str, Command]:
        """See ``dethrone.harness.core.interfaces.Upgradable``."""
        return {name: self._command(one, node) for name, one in self._description.versions.items()}

    def beginning_with(self, version: str) -> OwnSystem:
        """The same system under a name of its own; its nodes begin with this version."""
        whole, one = self._description, self._description.versions[version]
        table = msgspec.structs.replace(one.system, name=f"{self.name}-{version}")
        return OwnSystem(msgspec.structs.replace(one, system=table, versions=whole.versions, reports=whole.reports))

    def _each(self) -> tuple[Description, ...]:
        """The description of each version."""
        return tuple(self._description.versions.values()) or (self._description,)

    def changes_members(self) -> Available:
        """See ``dethrone.harness.core.interfaces.Remaking``."""
        return Yes() if self._description.membership.changes else No("its description does not say how")

    def image(self) -> str:
        """The plain image of nodes, with the packages that are asked for."""
        return self._description.system.recipe

    def shown(self) -> tuple[str, ...]:
        """See ``dethrone.harness.core.interfaces.OfThisMachine``: what its file names, and whole paths in its
        command."""
        table = self._description.node
        words = [word for one in self._each() for _, words in commands_in(one) for word in words]
        named = [word for word in words if word.startswith("/") and len(Path(word).parts) > NEAR_ROOT]
        return tuple(dict.fromkeys(path for path in (*table.shows, *named) if Path(path).exists()))

    def large_files(self) -> tuple[bytes, ...]:
        """See ``dethrone.harness.core.interfaces.Bringing``."""
        return tuple(content for one in self._each() for content in large_files(one))

    # --- the node ---------------------------------------------------------------------------------------------

    def files(self, node: NodeSpec) -> Mapping[str, bytes]:
        """What the description gives nodes, and what answers for them where they cannot."""
        return {place: content for one in self._each() for place, content in self._files(one, node).items()}

    def _files(self, description: Description, node: NodeSpec) -> Mapping[str, bytes]:
        places, words = places_of(node), words_of(self._description, node)
        out = files_for_changes(description, node, partial(member_words, self._description, node=node))
        out |= {fill(place, places): content for place, content in description.contents.items()}
        out |= {fill(place, places): fill(text, words).encode() for place, text in description.node.texts.items()}
        out |= beside_files(description, node, words)
        out |= errand_files(description, node, words)
        out |= unpacked(description, node, places)
        return {**out, **supervised(description, node, words)}

    def command(self, node: NodeSpec) -> Command:
        """The command with its words; ``{incarnation}`` stays for the agent."""
        begins_with = self.begins_with(node.knobs)
        return self._command(self._description.versions[begins_with] if begins_with else self._description, node)

    def _command(self, description: Description, node: NodeSpec) -> Command:
        table, words = description.node, words_of(self._description, node)
        argv = command_of(description, node, words)
        argv = with_errands(description, node, with_beside(description, node, argv))
        argv = unpacking(description, node, argv)
        programs = tuple(fill(program, places_of(node)) for program in description.executables)
        if programs:
            argv = ("/bin/sh", "-c", _RUNNABLE, "sh", str(len(programs)), *programs, *argv)
        env = {"DETHRONE_NODE": node.name, "DETHRONE_INCARNATION": "{incarnation}"}
        env |= {name: fill(value, words) for name, value in table.env.items()}
        return Command(
            argv=argv,
            env=env,
            cwd=fill(table.cwd, places_of(node)),
            user=table.user,
            capabilities=tuple(name.upper().removeprefix("CAP_") for name in table.capabilities),
        )

    # --- what it says -----------------------------------------------------------------------------------------

    def status_call(self, node: NodeSpec) -> StatusCall:
        """See ``status``."""
        return status_call(self._description, node, words_of(self._description, node))

    def reading(self, node: NodeSpec, body: bytes) -> Reading | None:
        """What the answer says; None if it is nonsense."""
        ids, words = ids_of(self._description, node), member_words(self._description, node.name, node)
        found = reading(self._description.probe, ids, body, own=node.name, words=words)
        if found is None or found.version is None:
            return found
        return msgspec.structs.replace(found, version=self._description.reports.get(found.version, found.version))

    def zones(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """As the description says; from its beginning again where there are more nodes."""
        return dict(zip(nodes, itertools.cycle(self._description.system.zones), strict=False))

    def observe_interval_ns(self) -> Ns:
        """As the probe says."""
        return parse_duration(self._description.probe.every)

    def trace_path(self, node: NodeSpec) -> str | None:
        """Where the nodes print their trace lines: their output by default."""
        trace = self._description.trace
        if trace is None:
            return None
        return fill(trace.file, places_of(node))

    def fatal(self, node: NodeSpec) -> tuple[tuple[str, ...], str | None]:
        """See ``dethrone.harness.core.interfaces.Logged``."""
        log = self._description.log
        return log.fatal, None if log.file is None else fill(log.file, places_of(node))

    def processes(self) -> tuple[str, ...]:
        """See ``dethrone.harness.core.interfaces.Composed``."""
        return self._description.starting.names

    def logs(self, node: NodeSpec) -> tuple[str, ...]:
        """See ``dethrone.harness.core.interfaces.Composed``."""
        starts = self._description.starting
        return tuple(fill(output_of(one), places_of(node)) for one in starts.processes) if starts.several else ()

    def started(self) -> tuple[str, ...]:
        """See ``dethrone.harness.core.interfaces.Described``."""
        lines = (
            line
            for one in self._each()
            for line in (*contents_of(one), *understood(one), *sequences(one.ops), *over_tls(one))
        )
        names = f"versions, from the oldest: {', '.join(self.versions())}; --set version=NAME chooses the first"
        return (*([names] if self.versions() else []), *dict.fromkeys(lines))

    def needed(self) -> Needed:
        """See ``dethrone.harness.core.interfaces.Described``."""
        return needed(self._description)

    def programs(self, node: NodeSpec) -> Sequence[tuple[str, str]]:
        """See ``dethrone.harness.core.interfaces.Described``."""
        return list(dict.fromkeys(row for one in self._each() for row in programs_of(one, places_of(node))))

    def log_patterns(self) -> Mapping[str, str]:
        """See ``dethrone.harness.core.interfaces.Speaking``."""
        return self._description.log.patterns

    def trace(self, line: bytes) -> TraceLine | None:
        """The first trace line in it; see ``trace_lines``."""
        return next((one for one in read_lines(line) if isinstance(one, TraceLine)), None)

    def trace_lines(self, line: bytes) -> Sequence[TraceLine | Malformed]:
        """See ``dethrone.harness.core.interfaces.Telling``. A kind of line that the file does not name is not of the
        trace."""
        told = told_events(self._description)
        return [one for one in read_lines(line) if isinstance(one, Malformed) or event_of(one) in told]

    # --- clients ----------------------------------------------------------------------------------------------

    def client(self, nodes: Mapping[str, NodeSpec]) -> Client:
        """A new client."""
        told = self._description
        client, asked = client_of(told, told.ops, told.ops_port, nodes, self._programs), told.membership.asked
        if not asked:
            return client
        return Divided(client, client_of(told, asked, told.membership.port, nodes, self._programs), asked)

    def operations(self) -> frozenset[str]:
        """The op names that its clients serve."""
        return frozenset((*self._description.ops, *self._description.membership.asked))

    # --- what it claims ---------------------------------------------------------------------------------------

    def voters(self, nodes: tuple[str, ...], knobs: Mapping[str, str], *, profile: str) -> tuple[str, ...]:
        """See ``dethrone.harness.core.interfaces.Electorate``."""
        del profile  # there is one
        return voters_of(self._description.membership.voting, nodes, knobs, path=self._description.path)

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """What the description claims."""
        check_voters(self.name, voters)
        return promise_of(self._description, knobs, profile=profile)

    def observable(self) -> tuple[str, ...]:
        """What its probe, trace and operations show."""
        return observable(self._description)

    def fault_support(self, kind: str) -> Available:
        """All kinds but ``drift``, and of several processes those that reach them all, or name one."""
        _, named, process = kind.partition(":")
        if named and process not in self.processes():
            known = ", ".join(self.processes()) or "it has only one"
            return No(f"its nodes have no process {process!r}", f"known: {known}")
        if kind == "descriptors" and not self._description.starting.plain:
            return No("only a node of one process has one limit of descriptors", "remove descriptors from --faults")
        if kind == "drift":
            return No("only static Go programs bear a rate of monotonic time", "remove drift from --faults")
        return Yes()

    def unpreloaded(self) -> str:
        """See ``dethrone.harness.core.interfaces.Unpreloaded``."""
        return "it does not report its clocks, so a skew by a library preloaded into it could not be measured"

    def clock_command(self, node: NodeSpec) -> ClockCommand | None:
        """See ``dethrone.harness.core.interfaces.Timekeeping``."""
        table = self._description.clock
        return (
            None
            if table is None
            else clock_command(table, words_of(self._description, node), where=self._description.path)
        )

    # --- for doctor -------------------------------------------------------------------------------------------

    def ports(self, node: NodeSpec) -> Mapping[str, int]:
        """The ports of the description."""
        del node
        return self._description.node.ports

    def explain(self, node: NodeSpec, body: bytes) -> Sequence[tuple[str, Available]]:
        """A status answer, field by field."""
        ids, words = ids_of(self._description, node), member_words(self._description, node.name, node)
        return explain(self._description.probe, ids, body, words)

    def told(self) -> tuple[str, ...]:
        """The trace lines that the description names."""
        trace = self._description.trace
        return () if trace is None else trace.events

    def every_line(self, line: bytes) -> Sequence[TraceLine | Malformed]:
        """Also the lines that the description does not name."""
        return read_lines(line)

    def trace_name(self, line: TraceLine) -> str:
        """The format's name of a line."""
        return event_of(line)

    def look_at_members(self, node: NodeSpec) -> tuple[str, ...]:
        """See ``dethrone.harness.core.interfaces.Described``."""
        return looking(node) if self._description.membership.changes else ()

    def samples(self) -> Sequence[tuple[str, Any]]:
        """One of each operation, on a key of their own."""
        tries: tuple[tuple[str, Any], ...] = (
            ("put", ["doctor", 1]),
            ("get", "doctor"),
            ("cas", ["doctor", 1, 2]),
            ("append", ["doctor-list", 1]),
            ("add", ["doctor-list", 2]),
            ("read", "doctor-list"),
        )
        return [(f, value) for f, value in tries if f in self.operations()]

    def remarks(self) -> Sequence[tuple[str, Available]]:
        """Every property that will be n/a, and operations that no workload asks."""
        return [
            *unasked(self.operations()),
            *(
                (name, No(f"{why.kind}: {why.reason}", "docs/own-system.md says what shows it"))
                for name, why in sorted(exempt(self._description, {}).items())
            ),
        ]

    def doubts(self) -> Sequence[tuple[str, No]]:
        """See ``dethrone.harness.core.interfaces.Described``."""
        return doubts(self._description)


def load(path: Path) -> OwnSystem:
    """The system that a user's file describes. ConfigError, also where an installed system has that name."""
    system = described(path)
    taken = registry.load(registry.SYSTEMS, system.name) if system.name in registry.names(registry.SYSTEMS) else None
    if taken and not (isinstance(taken, OwnSystem) and taken.path.samefile(path)):  # else it is this file, installed
        raise ConfigError(
            f"there is a system called {system.name!r} already",
            where=f"{path}: [system]",
            next_step="choose another name, so that reports do not mix them up",
        )
    return system


def described(path: Path) -> OwnSystem:
    """The system that this file describes; its name may be taken. ConfigError."""
    try:
        text = read_text(path)
    except OSError as error:
        raise ConfigError(
            f"the description of a system cannot be read: {error.strerror}",
            where=str(path),
            next_step="`dethrone init FILE` writes one",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError("the description of a system is no UTF-8 text", where=str(path)) from error

    description = parse(text, path=str(path), read=partial(brought, path))
    is_durable(description, {})
    check_faults(description)
    for table, ops in (("ops", description.ops), ("membership", description.membership.all)):
        for file in {op.client.rpartition(":")[0] for op in ops.values() if op.client}:
            if not (path.parent / file).is_file():
                step = "paths are relative to the description"
                raise ConfigError(f"there is no file {file}", where=f"{path}: [{table}] client", next_step=step)
    check_files(encrypted(description), path.parent)
    return OwnSystem(description)
