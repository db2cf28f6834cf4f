"""The common part of the adapters of our own protocol targets: real processes of ``dethrone.clusters.node`` around a
core.

A protocol's adapter defines what differs: profiles, knobs in words, what its channels show, what it promises.
Guarantees: stateless; a wrong knob, profile or variant is a ConfigError before anything starts. Processes are out of
scope.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from dethrone.clusters.node.config import NodeConfig, load_target
from dethrone.clusters.node.journal import AS_IT_RAN, contrast, replay
from dethrone.clusters.systems.examined import planted_from
from dethrone.clusters.systems.operations import OPERATIONS
from dethrone.clusters.systems.records import STATUS_REQUEST, read_line, read_status
from dethrone.clusters.systems.target_client import TargetClient
from dethrone.clusters.targets.kit.knobs import KnobTable
from dethrone.clusters.targets.kit.mutants import Mutant
from dethrone.clusters.targets.plugged import is_outside, shipped_file
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import (
    CLOCK_SOCKET,
    Available,
    Client,
    Command,
    Contrast,
    NodeSpec,
    Reading,
    RunDefaults,
    StatusCall,
    TraceLine,
    Yes,
)
from dethrone.harness.core.machine import Target
from dethrone.harness.core.planted import ExamPlan, Planted
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.registry import unknown_name

PEER_PORT = 7001
CLIENT_PORT = 7002
CONFIG = "node.json"
VARIANT = "variant.py"
"""Files in the node's run directory."""

TIME_FACTOR = "time_factor"
"""The knob by which every target of ours scales all its timers."""

ANY_NUMBER: Mapping[str, int | None] = dict.fromkeys(
    ("partition", "kill", "stop", "restart", "pause", "clock", "powerloss", "disk", "link", "hold", "drift")
)
"""Fault kinds that a target of ours bears in any number: they may cost liveness, never safety."""

OF_TERMS = (
    *("one-leader-per-term", "one-vote-per-term", "term-never-decreases", "leader-completeness"),
    *("leader-has-majority", "vote-is-durable", "members-only", "no-livelock"),
)
"""What no protocol without terms can promise."""

AT_ONCE: Mapping[str, str] = {"sim.command_us": "0..300", "sim.trace_us": "0", "sim.sync_us": "200..2000"}
"""A nemesis that needs no agent is as quick as the event that it waits for: quicker than a disk."""

SIMULATED = ("powerloss", "disk", "link", "hold")
"""Fault kinds of simulated hosts that every target bears and is examined under."""


class TargetSystem:
    """See ``dethrone.harness.core.interfaces.System``. A subclass gives the methods that raise here."""

    name: str
    knob_table: KnobTable[Any]
    tells_log: bool = True
    """Log end and commit are positions in a log, comparable between nodes."""
    tells_vote: bool = True
    """What a status calls the vote is one."""
    tells_disk: bool = False
    """The witness reports what a new incarnation finds stored."""
    served: frozenset[str] = OPERATIONS
    enabled_by: Mapping[str, Mapping[str, str]] = {}
    """Operation → the knobs without which it is refused, as they must be."""

    # --- what differs -----------------------------------------------------------------------------------------

    def profiles(self) -> Mapping[str, str]:
        """Profile name → one line; the first is the default."""
        raise NotImplementedError

    def defaults(self) -> RunDefaults:
        """The default run."""
        raise NotImplementedError

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """What it claims under these knobs."""
        raise NotImplementedError

    def rpc_timeout_ns(self, typed: Any) -> Ns:
        """How long one call between nodes may take; a connect is given up after it."""
        raise NotImplementedError

    def variant_table(self) -> Mapping[str, Mutant]:
        """The bugs planted in the protocol, for the exam."""
        target: Any = self.target()
        planted: Mapping[str, Mutant] = target.planted
        return planted

    def exam(self) -> ExamPlan:
        """How it is examined in simulation: its default run's faults and those that only simulated hosts can suffer.

        At a hasty pace, and at one that leaves room for liveness.
        """
        defaults = self.defaults()
        promise = self.promise(
            self.knobs(defaults.settings, profile=None, variant=None), profile=self._profile(None), voters=5
        )
        return ExamPlan(
            workloads=(defaults.workload,),
            faults=tuple(dict.fromkeys((*defaults.faults, *SIMULATED))),
            intervals_ns=(2 * SECOND, promise.leader_bound_ns * 5 // 4),
            settings=AT_ONCE,
        )

    # --- what is common ---------------------------------------------------------------------------------------

    def planted(self) -> Mapping[str, Planted]:
        """See ``dethrone.harness.core.planted.Examinable``."""
        return planted_from(self.variant_table())

    def knobs(self, settings: Mapping[str, str], *, profile: str | None, variant: str | None) -> Mapping[str, str]:
        """All knobs with defaults filled in, as words. Raises ConfigError."""
        name = self._profile(profile)
        target = self.target()
        typed = target.knobs(settings, profile=name)
        if variant is not None:
            if variant not in target.variants() and not is_outside(variant):
                raise unknown_name(f"variant of {self.name}:", variant, target.variants())
            target.core(node="n1", members=("n1", "n2", "n3"), knobs=typed, variant=variant)  # it may need knobs
        return self.knob_table.words(settings, profile=name)

    def typed(self, knobs: Mapping[str, str], *, profile: str) -> Any:
        """The target's own knobs from words that ``knobs`` gave."""
        return self.target().knobs(self._different(knobs, profile), profile=self._profile(profile))

    def at_scale(self, knobs: Mapping[str, str], scale: float) -> Mapping[str, str]:
        """See ``dethrone.harness.core.interfaces.Scalable``: every timer of a target of ours hangs on
        ``time_factor``."""
        return {**knobs, TIME_FACTOR: _number_word(Fraction(knobs[TIME_FACTOR]) * Fraction(scale))}

    def variants(self) -> Mapping[str, str]:
        """Planted bugs: name → one sentence."""
        return self.target().variants()

    def image(self) -> str:
        """The plain image of nodes."""
        return "node"

    def files(self, node: NodeSpec) -> Mapping[str, bytes]:
        """The node's configuration."""
        typed = self.typed(node.knobs, profile=node.profile)
        config = NodeConfig(
            target=self.target_name(),
            node=node.name,
            members=dict(node.members),
            bind=node.address,
            peer_port=PEER_PORT,
            client_port=CLIENT_PORT,
            data_dir=node.data_dir,
            trace_path=self.trace_path(node),
            journal_path=f"{node.log_dir}/journal.jsonl",
            knobs=self._different(node.knobs, node.profile),
            profile=self._profile(node.profile),
            variant=node.variant,
            seed=node.seed,
            rpc_timeout_ms=max(1, self.rpc_timeout_ns(typed) // MS),
            clock_socket=f"{node.run_dir}/{CLOCK_SOCKET}",
            link_socket=self.link_socket(node),
            noise_max_ns=node.noise_max_ns,
        )
        shipped = shipped_file(node.variant)
        config_path, variant_path = f"{node.run_dir}/{CONFIG}", f"{node.run_dir}/{VARIANT}"
        if shipped is None:
            return {config_path: msgspec.json.encode(config)}
        content, name = shipped
        config = msgspec.structs.replace(config, variant=f"{variant_path}:{name}")
        return {config_path: msgspec.json.encode(config), variant_path: content}

    def command(self, node: NodeSpec) -> Command:
        """The host's Python for nodes with the project's code."""
        config = f"{node.run_dir}/{CONFIG}"
        return Command(
            argv=(
                node.python,
                "-m",
                "dethrone.clusters.node.main",
                "--config",
                config,
                "--incarnation",
                "{incarnation}",
            ),
            env={"PYTHONPATH": node.lib, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
        )

    def status_call(self, node: NodeSpec) -> StatusCall:
        """A frame on the client port."""
        del node
        return StatusCall(port=CLIENT_PORT, request=STATUS_REQUEST, framing="u32")

    def reading(self, node: NodeSpec, body: bytes) -> Reading | None:
        """What the answer says; None if it is no proper answer of that node."""
        found = read_status(body, node=node.name, tells_log=self.tells_log, tells_vote=self.tells_vote)
        return None if found is None else self.interpreted(found, node.knobs)

    def interpreted(self, found: Reading, knobs: Mapping[str, str]) -> Reading:
        """What the common record means in this protocol; a simulated node is read by this alone, without bytes."""
        del knobs
        return found

    def several_groups(self, knobs: Mapping[str, str]) -> bool:
        """Whether a node is in several groups under these knobs, and reports each of them in its status."""
        del knobs
        return False

    def link_socket(self, node: NodeSpec) -> str:
        """See ``Shaping``."""
        return f"{node.run_dir}/links.sock"

    def trace_path(self, node: NodeSpec) -> str:
        """The trace log on the host."""
        return f"{node.log_dir}/trace.jsonl"

    def trace(self, line: bytes) -> TraceLine | None:
        """One line of it; None for a line that is none of ours."""
        return read_line(line)

    def client(self, nodes: Mapping[str, NodeSpec]) -> Client:
        """A new client."""
        return TargetClient(nodes, port=CLIENT_PORT)

    def operations(self) -> frozenset[str]:
        """The op names that its clients serve."""
        return self.served

    def enabling(self, operation: str) -> Mapping[str, str]:
        """See ``dethrone.harness.core.interfaces.Enabling``."""
        return self.enabled_by.get(operation, {})

    def observable(self) -> tuple[str, ...]:
        """Everything that its channels show."""
        log = ("log_end", "commit") if self.tells_log else ()
        vote = ("voted_for",) if self.tells_vote else ()
        disk = ("found",) if self.tells_disk else ()
        return ("traced", "witness", "shell", "observed", "ops", "atomic", *log, *vote, *disk)

    def fault_support(self, kind: str) -> Available:
        """All kinds: Python is a libc program."""
        del kind
        return Yes()

    def rerun(
        self, journal: Path, *, incarnation: int | None, variant: str | None
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """See ``dethrone.harness.core.interfaces.Rerunnable``."""
        _known(variant)
        for event, effects in replay(journal, self.target(), incarnation=incarnation, variant=variant):
            yield type(event).__name__, tuple(type(effect).__name__ for effect in effects)

    def contrast(self, journal: Path, *, incarnation: int | None, variant: str | None) -> Contrast | None:
        """See ``dethrone.harness.core.interfaces.Rerunnable``."""
        _known(variant)
        found = contrast(journal, self.target(), incarnation=incarnation, variant=variant)
        if found is None:
            return None
        step, event, did, would = found
        return Contrast(step=step, event=repr(event), did=tuple(map(repr, did)), would=tuple(map(repr, would)))

    def target_name(self) -> str:
        """The protocol target that the node process loads."""
        return self.name.replace("-", "_")

    def target(self) -> Target:
        """The protocol target."""
        return load_target(self.target_name())

    def _profile(self, profile: str | None) -> str:
        known = self.profiles()
        if profile is None:
            return next(iter(known))
        if profile not in known:
            raise unknown_name(f"profile of {self.name}:", profile, known)
        return profile

    def _different(self, knobs: Mapping[str, str], profile: str) -> dict[str, str]:
        """The words that differ from the profile's: a knob that is spelled out counts as asked for."""
        base = self.knob_table.words({}, profile=self._profile(profile))
        return {name: word for name, word in knobs.items() if base.get(name) != word}


def in_proportion(usual_ns: Ns, *, timer_ns: Ns, usual_timer_ns: Ns, least_ns: Ns = 0) -> Ns:
    """An allowance (a delay, a stall) that grows and shrinks with a timer; not below ``least_ns``."""
    return max(least_ns, usual_ns * timer_ns // usual_timer_ns)


def _number_word(number: Fraction) -> str:
    """A decimal if it is exact, as every target reads those; else a fraction."""
    rest = number.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return str(number)
    return format((Decimal(number.numerator) / Decimal(number.denominator)).normalize(), "f")


def check_voters(system: str, voters: int) -> None:
    """Raise ConfigError if there is no voter."""
    if voters < 1:
        raise ConfigError(f"{system} needs at least one voter, {voters} given", next_step="give more --nodes")


def _known(variant: str | None) -> None:
    """The journal's own choice of a build is not for a stored plan to ask for: it may name any file."""
    if variant == AS_IT_RAN:
        raise ConfigError(f"there is no variant {variant!r}", next_step="replay the whole run, without --node")
