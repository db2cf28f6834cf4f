"""Machines over SSH as a run's hosts: agents put on them, effects that the hosts file allows, agents taken away.

Guarantees: only hosts that the file calls expendable are ever connected to; a deployment that fails takes away what it
put there; no more than a quorum's minority of a run's hosts is made to lose node or data at once, unless the file
allows it; no effect cuts a machine off from the harness; ``destroy`` looks at every machine, and names each one that it
could not clean. Of a system's program it brings along only our own nodes' code: others must be on the machines.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dethrone.clusters.agent import confirm
from dethrone.clusters.agent.agent_host import AgentHost
from dethrone.clusters.agent.confirm import CLIENT
from dethrone.clusters.agent.host.firewall import chain_name
from dethrone.clusters.agent.host.probes import PROBE_PORT
from dethrone.clusters.deploying import all_or_nothing, together
from dethrone.clusters.ssh.code import bundle, python_of
from dethrone.clusters.ssh.connection import Connection
from dethrone.clusters.ssh.hosts import HostsFile, SshHost, hosts_of_flags, parse_hosts
from dethrone.clusters.ssh.needs import programs, refuse_machines, ships_code
from dethrone.clusters.ssh.node_host import SshNodeHost, places_in
from dethrone.clusters.ssh.permissions import chosen, is_lost, not_allowed, over_the_minority, refuse_run
from dethrone.clusters.ssh.processes import answer, question
from dethrone.clusters.ssh.shipping import (
    MachineTakenError,
    examine,
    list_agents,
    relay_command,
    start_agent,
    stop_agent,
)
from dethrone.clusters.unseen import from_outside
from dethrone.harness.core.clock import SECOND, Ns, Span
from dethrone.harness.core.errors import ConfigError, HarnessError, NotHealed
from dethrone.harness.core.files import read_text
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import (
    USUAL_CAPABILITIES,
    Available,
    BackendTraits,
    DeploySpec,
    Evidence,
    Host,
    HostNews,
    Lending,
    No,
    Owned,
    Yes,
)
from dethrone.harness.core.plan import Plan

GIVE_UP_LEAST_S = 15.0
GIVE_UP_DEAD_MEN = 3
"""After this many times of its dead man's switch a machine out of reach is lost: it has healed itself by then."""
MEET_LIMIT_S = 30.0
ASK_LIMIT_S = 20.0
SPOKEN_WITHIN_S = 10.0
"""An agent that heard its harness so lately is in use: heartbeats come once a second."""
RELAY_LIMIT_S = 15

OF_STARTS = frozenset({"versions", "faketime"})
"""What takes that an agent of ours starts the node."""

NOBODY = HostsFile(source="--hosts", hosts={})
"""No machines: what the backend is before a user lends it some."""


class SshBackend(confirm.AgentBackend):
    """See ``dethrone.harness.core.interfaces.Backend``. Thread-safe.

    Keeps one connection a machine while a run uses it.
    """

    name = "ssh"

    def __init__(self, file: HostsFile = NOBODY, *, patience_s: float = 30.0, probe_port: int = PROBE_PORT) -> None:
        self._file = file
        self._patience_s = patience_s
        self._probe_port = probe_port
        self._lock = threading.Lock()
        self._connections: dict[str, dict[str, Connection]] = {}
        self._proved: dict[str, HostState] = {}
        self._voters: dict[str, tuple[str, ...]] = {}

    @property
    def traits(self) -> BackendTraits:
        """Machines of the user's, on which less is allowed, and less can be seen of a target of theirs."""
        zones = {name: host.zone for name, host in self._file.hosts.items() if host.zone}
        lending = Lending(lent=self.lent, usable=self.usable, zones=zones)
        able = USUAL_CAPABILITIES - (OF_STARTS if self._adopts() else frozenset())
        return BackendTraits(lending=lending, refuse=self.refuse, shows=self.shows, capabilities=able)

    def _adopts(self) -> bool:
        """Whether another user started the node on some host."""
        return any(self._file.hosts[name].target is not None for name in self.usable())

    def lent(self, file: Path | None, words: Sequence[str]) -> SshBackend:
        """These machines; nothing is connected."""
        base = None if file is None else _read(file)
        return SshBackend(
            hosts_of_flags(words, file=base) if words or base is None else base,
            patience_s=self._patience_s,
            probe_port=self._probe_port,
        )

    def usable(self) -> tuple[str, ...]:
        """The machines that the file calls expendable."""
        return tuple(name for name in self._file.hosts if name in self._file.expendable)

    def refuse(self, plan: Plan) -> None:
        """Raise ConfigError for a run that the file does not allow."""
        if self._file is NOBODY:
            raise ConfigError(
                "no machines were named",
                where="--on ssh",
                cause="a run over SSH breaks lent machines, and guesses none",
                next_step="give --hosts hosts.toml; docs/ssh.md shows one",
            )
        refuse_run(self._file, plan)

    def shows(self, observable: tuple[str, ...]) -> tuple[str, ...]:
        """Of all hosts what can be seen of each, so less than all if one has a target."""
        return from_outside(observable) if self._adopts() else observable

    def available(self) -> Available:
        """Whether the file has hosts that may be used; nothing is connected for it."""
        if self._file.expendable & set(self._file.hosts):
            return Yes()
        if not self._file.hosts:
            return No(why="no machines were named", what_to_do="give --hosts hosts.toml (docs/ssh.md)")
        return No(why=f"{self._file.source} lists no host as expendable", what_to_do='write expendable = ["n1", …]')

    def deploy(
        self,
        spec: DeploySpec,
        *,
        origin_ns: Ns,
        news: Callable[[HostNews], None],
        progress: Callable[[str], None],
    ) -> Mapping[str, Host]:
        """Agents on all machines, connected; no node started. ConfigError before anything is touched."""
        machines = chosen(self._file, spec.nodes)
        addresses = {node: _inside(host, self._file.source) for node, host in machines.items()}
        links = {node: self._connection(host) for node, host in machines.items()}
        hosts: dict[str, AgentHost] = {}
        placing: set[str] = set()

        def undo() -> None:
            for node in placing:
                with contextlib.suppress(HarnessError):
                    stop_agent(links[node], state_dir=links[node].host.state_dir, run_id=spec.run_id)
            _close(links)

        with all_or_nothing(hosts.values(), undo):
            progress(f"connecting to {len(machines)} machines")
            seen = dict(together(lambda node: (node, _meet_machine(links[node], addresses, node)), links))
            progress("looking at what they have")
            wanted = tuple(programs(spec.image))
            facts = dict(together(lambda node: (node, examine(links[node], files=wanted)), links))
            refuse_machines(spec, machines, facts)
            together(lambda node: _find_target(links[node]), links)
            progress("putting agents there")
            pythons = {node: python_of(facts[node]) for node in links if ships_code(spec, machines[node])}
            first = {python: node for node, python in pythons.items() if python is not None}
            codes = {python: bundle(python, node) for python, node in first.items()}  # before anything is put there

            def bring_up(node: str) -> None:
                link = links[node]
                python = pythons.get(node)
                code = b"" if python is None else codes[python]
                placing.add(node)
                try:
                    placed = start_agent(
                        link,
                        state_dir=link.host.state_dir,
                        run_id=spec.run_id,
                        node=node,
                        owner=spec.state_dir,
                        dead_man_ns=self._file.dead_man_ns,
                        probe_port=self._probe_port,
                        code=code,
                        python="" if python is None else python.path,
                        flags=flags(link.host, seen[node]),
                    )
                except MachineTakenError:
                    placing.discard(node)  # what is there is another run's, or an earlier one's of the same name
                    raise
                relay = relay_command(placed, wait_s=RELAY_LIMIT_S)
                hosts[node] = SshNodeHost(
                    node,
                    addresses[node],
                    lambda: link.relay(relay),
                    lent=link.host,
                    places=places_in(f"{link.host.state_dir}/{spec.run_id}", "" if python is None else python.path),
                    dead_man_ns=self._file.dead_man_ns,
                    origin_ns=origin_ns,
                    news=news,
                    run=spec.run_id,
                    client=seen[node] or None,
                    meet_s=MEET_LIMIT_S,
                    give_up_s=max(GIVE_UP_LEAST_S, GIVE_UP_DEAD_MEN * self._file.dead_man_ns / SECOND),
                )

            together(bring_up, links)
        with self._lock:
            self._connections[spec.run_id] = links
            self._voters |= dict.fromkeys(spec.nodes, spec.voters or spec.nodes)
            for node in spec.nodes:  # a machine belongs to one run at a time: its name is enough
                self._proved.pop(node, None)
        return {node: hosts[node] for node in spec.nodes}

    def converge_all(self, hosts: Mapping[str, Host], wants: Mapping[str, HostState]) -> Mapping[str, Evidence]:
        """See ``dethrone.harness.core.interfaces.Backend``. What the file forbids is not done, and says why."""
        with self._lock:
            voters = next((self._voters[node] for node in hosts if node in self._voters), tuple(hosts))
            refused = over_the_minority(self._file, voters=voters, now=self._proved, wants=wants)
            for node, want in wants.items():
                why_not = not_allowed(self._file, want)
                if why_not:
                    refused.setdefault(node, why_not)
                if CLIENT in want.suffered.cuts and self._file.hosts[node].bastion is not None:
                    refused.setdefault(node, "behind a bastion no node sees clients come from the harness' address")
            admitted = {node: want for node, want in wants.items() if node not in refused}
            # From now on they count: what was asked for may take effect even if no answer arrives.
            self._proved |= {node: want for node, want in admitted.items() if is_lost(want)}
        evidence = dict(confirm.converge_all(hosts, admitted)) if admitted else {}
        with self._lock:
            self._proved |= {node: one.state for node, one in evidence.items() if one.confirmed}
        for node, why in refused.items():
            moment = time.monotonic_ns() - _origin(hosts[node])
            evidence[node] = Evidence(
                host=node, span=Span(moment, moment), state=wants[node], confirmed=False, why=f"refused: {why}"
            )
        return evidence

    def destroy(self, run_id: str) -> None:
        """Heal and clean every expendable machine of that run's agent. Idempotent; for runs of other processes, too.

        Raises NotHealed that names each machine where something may be left, after all others are clean.
        """
        with self._lock:
            links = self._connections.pop(run_id, None)
        if links is None:
            links = self._all()
        left: dict[str, HarnessError] = {}

        def clean(node: str) -> None:
            try:
                stop_agent(links[node], state_dir=links[node].host.state_dir, run_id=run_id)
            except HarnessError as error:
                left[node] = error

        try:
            together(clean, links)
        finally:
            _close(links)
        if left:
            heal_s = self._file.dead_man_ns / 1e9
            raise NotHealed(
                f"{len(left)} of {len(links)} machines could not be cleaned of run {run_id}",
                where="; ".join(f"{error.where or node}: {error.what}" for node, error in sorted(left.items())),
                cause=f"an agent that still lives heals its machine after {heal_s:g} s without us; left there may be "
                + "; ".join(self._may_be_left(node, run_id) for node in sorted(left)),
                next_step="\n        ".join(self._remedies(left, run_id)),
            )

    def _may_be_left(self, node: str, run_id: str) -> str:
        """What a machine has of a run, if it was not removed."""
        with self._lock:
            state = self._proved.get(node, HEALTHY)
        broken = [f"packets of {', '.join(state.cuts)} dropped by"] if state.cuts else []
        broken += [f"{trouble.kind} ({trouble.says})," for trouble in state.troubles or ()]
        process = ", frozen" if state.frozen else ", ended" if state.down else ""
        directory = f"{self._file.hosts[node].state_dir}/{run_id}"
        return " ".join([f"{node}:", *broken, f"the chain {chain_name(run_id)}, agent and node{process}, {directory}"])

    def _remedies(self, left: Mapping[str, HarnessError], run_id: str) -> list[str]:
        """How to take away what is left, a line a machine at first; "for good" last."""
        first = next((error.next_step for error in left.values() if isinstance(error, NotHealed)), "")
        node = min(left)
        directory = f"{self._file.hosts[node].state_dir}/{run_id}"
        by_hand = f"python3 {directory}/agent.py heal --socket {directory}/s --run {run_id} --stop && rm -r {directory}"
        return [
            first or f"`dethrone heal` when it is back, or as root on it: `{by_hand}`",
            f"a machine that is gone for good: take it out of expendable in {self._file.source}, then `dethrone heal`",
        ]

    def leftovers(self) -> Sequence[Owned]:
        """Agents and their directories on every expendable machine. Raises ClusterError for one out of reach."""
        links = self._all()

        def listed(node: str) -> list[Owned]:
            state_dir = links[node].host.state_dir
            return [
                Owned(
                    backend=self.name,
                    kind="agent" if note.get("lives") else "directory",
                    id=f"{node}:{state_dir}/{note['run']}",
                    name=node,
                    run_id=str(note["run"]),
                    state_dir=str(note.get("owner", "")),
                )
                for note in list_agents(links[node], state_dir=state_dir)
                if not _in_use_elsewhere(note)
            ]

        try:
            return [owned for found in together(listed, links) for owned in found]
        finally:
            _close(links)

    def doctor(self) -> Sequence[tuple[str, Available]]:
        """One row a machine: whether it lets us in, and whether a run could have everything it may want there."""
        if not self._file.hosts:
            return [("machines", No(why="none were named", what_to_do="dethrone doctor --hosts hosts.toml"))]
        links = self._all(patience_s=0.0)

        def row(node: str) -> tuple[str, Available]:
            title = f"ssh: {node}"
            try:
                facts = examine(links[node])
            except HarnessError as error:
                return title, No(why=error.what, what_to_do=error.next_step)
            if facts["uid"] != 0:
                return title, No(
                    why="not root there: no iptables, and nodes share the agent's user",
                    what_to_do='user = "root", or sudo = true',
                )
            if not facts["tools"]["iptables-save"]:
                return title, No(why="no iptables", what_to_do=f"on {node}: `apt-get install iptables`")
            if python_of(facts) is None:
                version = ".".join(map(str, facts["version"]))
                return title, No(why=f"Python {version}: nodes of ours need 3.11", what_to_do="install a newer python3")
            return title, Yes()

        try:
            return together(row, links)
        finally:
            _close(links)

    def _connection(self, host: SshHost, *, patience_s: float | None = None) -> Connection:
        patience_s = self._patience_s if patience_s is None else patience_s
        return Connection(host, known_hosts=self._file.known_hosts, patience_s=patience_s)

    def _all(self, *, patience_s: float | None = None) -> dict[str, Connection]:
        """New connections to all machines that may be touched at all."""
        expendable = [host for name, host in self._file.hosts.items() if name in self._file.expendable]
        return {host.name: self._connection(host, patience_s=patience_s) for host in expendable}


def _meet_machine(link: Connection, addresses: Mapping[str, str], node: str) -> str:
    """Connect; the address that we come from. ConfigError if a cut between two hosts would cut us off as well."""
    link.connect()
    seen = link.seen_from()
    for other, address in addresses.items():
        if other != node and seen == address:
            raise ConfigError(
                f"the way to {node} comes from {other}'s address, {address}",
                where=node,
                cause="the harness or the bastion is one of the run's machines: a partition would lock us out",
                next_step="run Dethrone on, or reach the hosts through, a machine that is not in the run",
            )
    return seen


def _read(path: Path) -> HostsFile:
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the hosts file cannot be read: {getattr(error, 'strerror', None) or error}",
            where=str(path),
            next_step="name it with --hosts; docs/ssh.md shows one",
        ) from error
    return parse_hosts(text, source=str(path))


def _find_target(link: Connection) -> None:
    """That the process of another user, which the file names, is there. Raises ClusterError: it is not."""
    target = link.host.target
    if target is not None:
        code, out, err = link.run(question(target), limit_s=ASK_LIMIT_S)
        answer(target, code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), where=link.name)


def flags(host: SshHost, seen: str) -> list[str]:
    """What the agent learns of its machine: whom no rule may lock out, whether the clock may be set."""
    flags = ["--settimeofday"] if host.settimeofday else []
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(seen).version == 4:
            flags += ["--spare", f"{seen}:{host.port}"]
    return flags


def _in_use_elsewhere(note: Mapping[str, Any]) -> bool:
    """Whether a harness on another machine speaks with this agent: its lock cannot be seen from here."""
    silent_s = note.get("silent_s")
    return note.get("machine") != socket.gethostname() and silent_s is not None and silent_s < SPOKEN_WITHIN_S


def _inside(host: SshHost, source: str) -> str:
    address = host.inside or host.address
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(address).version == 4:
            return address
    raise ConfigError(
        f"{address} is no IPv4 address",
        where=f"{source}: [hosts.{host.name}]",
        cause="packets between hosts are dropped by their IPv4 address",
        next_step=f'write inside = "…" in [hosts.{host.name}], the address that the other hosts see',
    )


def _origin(host: Host) -> Ns:
    return host.origin_ns if isinstance(host, confirm.ProbingHost) else 0


def _close(links: Mapping[str, Connection]) -> None:
    for link in links.values():
        link.close()


BACKEND = SshBackend()
