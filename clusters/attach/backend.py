"""The ``attach`` backend: a run's hosts are containers that another user started, and that stay.

    dethrone run SYSTEM --on attach --project NAME      a docker compose project
    dethrone run SYSTEM --on attach --label KEY=VALUE   containers with that label; several: with all

Guarantees: of the containers only their network rules, their run and pause, and the clocks of their processes are
changed, as faults ask for it, and all of it is undone by ``destroy``, for runs of killed harnesses, too: sidecars of
ours name their targets, the ledger which of them we ended or paused. Nothing of another user's is made, removed or
renamed. Out of scope: starting or configuring the system: the settings of its adapter (``--set``) must match how it
runs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import docker

from dethrone.clusters.agent import confirm
from dethrone.clusters.agent.host.hand import why_no_vdso
from dethrone.clusters.attach import sidecar
from dethrone.clusters.attach.host import AttachedHost
from dethrone.clusters.attach.sidecar import Sidecar
from dethrone.clusters.attach.targets import AttachTarget, find_targets, list_matching, parse_words
from dethrone.clusters.deploying import all_or_nothing, together
from dethrone.clusters.docker import client as engine
from dethrone.clusters.docker.client import ENGINE_ERRORS, connect, explained
from dethrone.clusters.docker.image import ensure_image
from dethrone.clusters.docker.ship import ship
from dethrone.clusters.unseen import from_outside
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ClusterError, ConfigError, HarnessError, NotHealed
from dethrone.harness.core.hoststate import HostState
from dethrone.harness.core.interfaces import (
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
from dethrone.harness.core.ledger import read_ledger
from dethrone.harness.core.plan import Plan

_CONNECTIONS = 64


class AttachBackend(confirm.AgentBackend):
    """See ``dethrone.harness.core.interfaces.Backend``. Thread-safe."""

    name = "attach"

    def __init__(self, labels: tuple[str, ...] = ()) -> None:
        self._labels = labels
        self._lock = threading.Lock()
        self._watchers: dict[str, _Watcher] = {}

    @property
    def traits(self) -> BackendTraits:
        """Containers of the user's: their disks are their own, their files are not read, and nothing is preloaded."""
        return BackendTraits(
            capabilities=frozenset({"iptables", "signals", "links", *(() if why_no_vdso() else ("vdso",))}),
            lending=Lending(lent=self.lent, usable=self.usable),
            refuse=self.refuse,
            shows=self.shows,
        )

    def lent(self, file: Path | None, words: Sequence[str]) -> AttachBackend:
        """The containers that these words name: ``project=NAME``, ``label=KEY=VALUE``."""
        if file is not None:
            raise ConfigError(
                "attach knows no hosts file", where=str(file), next_step="give --project NAME or --label KEY=VALUE"
            )
        return AttachBackend(parse_words(words))

    def usable(self) -> tuple[str, ...]:
        """As many nodes as containers match now."""
        with contextlib.closing(connect()) as client:
            return tuple(f"n{number}" for number, _ in enumerate(list_matching(client, self._labels), start=1))

    def refuse(self, plan: Plan) -> None:
        """Raise ConfigError for a run that names no containers, or a planted bug."""
        if not self._labels:
            raise ConfigError(
                "no containers were named",
                where="--on attach",
                cause="a run that attaches breaks what another user started, and guesses nothing",
                next_step="give --project NAME (of docker compose) or --label KEY=VALUE",
            )
        if plan.variant is not None:
            raise ConfigError(
                f"the planted bug {plan.variant!r} cannot be put into containers that run already",
                next_step="leave --variant out, or run with --on docker",
            )

    def shows(self, observable: tuple[str, ...]) -> tuple[str, ...]:
        """Polls and clients, not what nodes write into files."""
        return from_outside(observable)

    def available(self) -> Available:
        """Whether an engine answers this user."""
        return engine.available()

    def deploy(
        self,
        spec: DeploySpec,
        *,
        origin_ns: Ns,
        news: Callable[[HostNews], None],
        progress: Callable[[str], None],
    ) -> Mapping[str, Host]:
        """A sidecar next to each container, its agent connected. Nothing of the containers is changed by it."""
        client = connect(connections=_CONNECTIONS)
        hosts: dict[str, AttachedHost] = {}

        def undo() -> None:
            with contextlib.closing(client):
                _leave(client, spec.run_id)

        with all_or_nothing(hosts.values(), undo):
            targets = find_targets(client, self._labels, spec.nodes)
            _refuse_shared(client, targets, spec.run_id)
            image = ship(client, ensure_image(client, base=spec.base, progress=progress), progress=progress)
            for target in targets:
                progress(f"{target.node} is {target.name} ({target.address})")

            def bring_up(target: AttachTarget) -> None:
                traces = "vdso" in spec.needs
                beside = sidecar.make(
                    client, target, image=image, run_id=spec.run_id, state_dir=spec.state_dir, traces=traces
                )
                hosts[target.node] = AttachedHost(
                    client, target, beside, run_id=spec.run_id, origin_ns=origin_ns, news=news
                )

            together(bring_up, targets)
            watcher = _Watcher(client, {host.target.id: host for host in hosts.values()})
        with self._lock:
            self._watchers[spec.run_id] = watcher
        return {node: hosts[node] for node in spec.nodes}

    def converge_all(self, hosts: Mapping[str, Host], wants: Mapping[str, HostState]) -> Mapping[str, Evidence]:
        """See ``Backend``. Where a process is to be down nothing can arrive: there are no links to prove."""
        down: dict[str, Future[Evidence]] = {}
        for node, want in wants.items():
            host = hosts[node]
            if want.down and isinstance(host, AttachedHost):
                down[node] = host.converge_async(want)
        up = {node: want for node, want in wants.items() if node not in down}
        living = {node: host for node, host in hosts.items() if node in up or not _is_down(host)}
        evidence = dict(confirm.converge_all(living, up)) if up else {}
        return {**evidence, **{node: future.result() for node, future in down.items()}}

    def destroy(self, run_id: str) -> None:
        """Heal that run's targets and take its sidecars away; the targets stay. Idempotent; for any harness' run."""
        with self._lock:
            watcher = self._watchers.pop(run_id, None)
        if watcher is not None:
            watcher.close()
        with contextlib.closing(connect(connections=_CONNECTIONS)) as client:
            _leave(client, run_id)

    def leftovers(self) -> Sequence[Owned]:
        """Sidecars of any run."""
        with contextlib.closing(connect()) as client:
            return [
                Owned(
                    backend=self.name,
                    kind="sidecar",
                    id=one.id,
                    name=one.name,
                    run_id=one.run_id,
                    state_dir=one.state_dir,
                )
                for one in sidecar.list_sidecars(client)
            ]

    def doctor(self) -> Sequence[tuple[str, Available]]:
        """Whether an engine answers; and whether what was named can be broken, where something was."""
        able = self.available()
        rows: list[tuple[str, Available]] = [("attach: engine", able)]
        if isinstance(able, Yes) and self._labels:
            try:
                with contextlib.closing(connect()) as client:
                    found = find_targets(client, self._labels, self.usable())
            except HarnessError as error:
                why = f"{error.what} {error.where}"
                return [*rows, ("attach: containers", No(why=why, what_to_do=error.next_step))]
            rows += [(f"attach: {target.node} is {target.name}", Yes()) for target in found]
            step = "nothing, unless one has NET_ADMIN in its own network: give it none"
            rows.append(("attach: users of their own", No(why="nodes keep the users that they have", what_to_do=step)))
        return rows


class _Watcher:
    """Reports to hosts the ends and starts of their containers, as the engine says them."""

    def __init__(self, client: docker.DockerClient, hosts: Mapping[str, AttachedHost]) -> None:
        self._hosts = hosts
        self._closed = False
        self._streaming = connect(limit_s=24 * 3600)  # events come when they come
        self._events: Any = self._streaming.api.events(
            decode=True,
            filters={"type": "container", "event": ["die", "start", "kill", "oom"], "container": list(hosts)},
        )
        self._client = client
        threading.Thread(target=self._watch, name="attached-events", daemon=True).start()

    def close(self) -> None:
        """Hear no more, and let go of the connections."""
        self._closed = True
        with contextlib.suppress(*ENGINE_ERRORS, ValueError, AttributeError):
            self._events.close()
        self._streaming.close()
        self._client.close()

    def _watch(self) -> None:
        with contextlib.suppress(*ENGINE_ERRORS, ValueError, AttributeError):
            for event in self._events:
                host = self._hosts.get(str(event.get("id")))
                if host is None or self._closed:
                    continue
                said = (event.get("Actor") or {}).get("Attributes", {})
                match event.get("Action", event.get("status")):
                    case "die":
                        code = int(str(said.get("exitCode", "-1")))
                        host.died(code, at_wall_ns=int(event.get("timeNano", 0)))
                    case "kill":
                        host.signalled(str(said.get("signal", "")))
                    case "oom":
                        host.ran_out_of_memory()
                    case _:
                        host.came_back()


def _is_down(host: Host) -> bool:
    return isinstance(host, AttachedHost) and host.state.down is not None


def _refuse_shared(client: docker.DockerClient, targets: Sequence[AttachTarget], run_id: str) -> None:
    """ConfigError for a container that another run is attached to, or was when it was killed."""
    taken = {one.target: one for one in sidecar.list_sidecars(client) if one.run_id != run_id}
    for target in targets:
        other = taken.get(target.id)
        if other is not None:
            raise ConfigError(
                "another run is attached to this container",
                where=f"{target.name}, run {other.run_id}",
                next_step="wait for its end; if its harness was killed, `dethrone heal`",
            )


def _leave(client: docker.DockerClient, run_id: str) -> None:
    """Undo what is left of that run on its targets, then remove its sidecars. NotHealed names what could not be."""
    beside = sidecar.list_sidecars(client, run_id)
    left: list[str] = []

    def heal(one: Sidecar) -> None:
        try:
            _heal(client, one, _owed(one))
            sidecar.remove(client, one.id)
        except HarnessError as error:
            left.append(f"{one.node}: {error.what} {error.cause}".strip())

    together(heal, beside)
    if left:
        raise NotHealed(
            f"{len(left)} of {len(beside)} containers could not be healed of run {run_id}",
            where="; ".join(left),
            cause="the engine is in trouble, or another user changed them meanwhile",
            next_step="`dethrone heal`; by hand: docker unpause, docker start",
        )


def _owed(one: Sidecar) -> HostState:
    """What that run last asked of the target, from its ledger: only what we ended or paused is ours to undo."""
    last = HostState()
    for line in read_ledger(Path(one.state_dir)):
        hosts = line.data.get("hosts")
        if line.transition == "converging" and isinstance(hosts, dict) and one.node in hosts:
            asked = hosts[one.node]
            last = HostState(down=asked.get("down"), frozen=bool(asked.get("frozen")))
    return last


def _heal(client: docker.DockerClient, one: Sidecar, owed: HostState) -> None:
    try:
        details = client.api.inspect_container(one.target)
    except docker.errors.NotFound:
        return  # another user removed it
    except ENGINE_ERRORS as error:
        raise ClusterError("the engine does not answer", cause=str(error)) from error
    state = details["State"]
    with explained("healing a container", where=one.node):
        if state["Paused"] and owed.frozen:
            client.api.unpause(one.target)
        if not state["Running"]:
            if owed.down is None:
                return  # it ended by itself, or another user ended it: with it went its network and our rules
            client.api.start(one.target)
            return  # in a new network
    sidecar.heal_target(client, one)


BACKEND = AttachBackend()
