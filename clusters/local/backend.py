"""The ``local`` backend: a run's hosts are namespaces of this machine (network, mount, PID, host name, IPC).

Guarantees: hosts that are deployed have fixed addresses, an agent that answered, and no node running; a deployment that
fails or is interrupted takes away what it made; two runs at once get different networks; ``destroy`` and ``leftovers``
look at our marks only, for runs of killed harnesses, too. Root makes them in user namespaces whose root is a user of
this machine that nothing else has (``dethrone.clusters.local.users``), and not at all where the kernel refuses that,
unless asked to (``unsafe``); other users make them inside a user namespace of their own
(``dethrone.clusters.local.rootless``). Out of scope: everything that happens on a host, which is the agent's, and
images: a system's program is the one installed on this machine.
"""

from __future__ import annotations

import compileall
import contextlib
import functools
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dethrone.clusters.agent import bundle, confirm
from dethrone.clusters.agent.agent_host import AgentHost
from dethrone.clusters.agent.host.clocks import find_faketime
from dethrone.clusters.agent.host.hand import why_no_vdso
from dethrone.clusters.agent.host.nfqueue import QUEUES
from dethrone.clusters.agent.streams import SocketStream
from dethrone.clusters.deploying import check_names
from dethrone.clusters.docker.labels import LIB, MEMORY
from dethrone.clusters.local import groups, labels, network, owned, rootless, users
from dethrone.clusters.local.probing import probe
from dethrone.clusters.local.room import AGENT_DIR, Machine, accounts, programs_of, steps, this_machine
from dethrone.clusters.local.spawning import Becoming
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ClusterError, ConfigError, HarnessError, MissingCapability
from dethrone.harness.core.interfaces import (
    OF_GROUPS,
    OF_MOUNTS,
    Available,
    BackendTraits,
    DeploySpec,
    Host,
    HostNews,
    No,
    Owned,
    Yes,
)
from dethrone.harness.core.ledger import state_dir

MEET_LIMIT_S = 20.0
"""How long a host that has just come up may take to answer."""

FUSE = Path("/dev/fuse")

_AGENT = "dethrone.clusters.agent"
"""The package that hosts see as the agent alone."""
_SOCKET = "agent.sock"
_LOG = "agent.log"
_THREADS = 32


class LocalBackend(confirm.AgentBackend):
    """See ``dethrone.harness.core.interfaces.Backend``. Thread-safe; keeps nothing: what is there is found by its
    marks.

    ``apart``: False, root of hosts that root makes is root of this machine, as far as its capabilities go.
    """

    name = "local"

    def __init__(self, *, apart: bool = True) -> None:
        self._apart = apart

    @property
    def traits(self) -> BackendTraits:
        """Hosts out of this machine: what its tools can do; made by root, or in a user namespace of our own."""
        return BackendTraits(
            capabilities=_capabilities(),
            enter=_enter,
            unsafe=lambda: LocalBackend(apart=False),
            memory_dir=f"{MEMORY}/data",
        )

    def available(self) -> Available:
        """Whether this user can make namespaces here, found out by making them once."""
        if sys.platform != "linux":
            return No(why="namespaces are Linux'", what_to_do="run on a Linux machine or VM, or use --on docker")
        for tool in ("ip", "iptables"):
            if shutil.which(tool, path=_path()) is None:
                return No(why=f"{tool} is not installed", what_to_do="install iproute2 and iptables")
        if os.geteuid() != 0:
            return _enterable()
        return _tried(apart=self._apart and not rootless.is_inside())

    def deploy(
        self,
        spec: DeploySpec,
        *,
        origin_ns: Ns,
        news: Callable[[HostNews], None],
        progress: Callable[[str], None],
    ) -> Mapping[str, Host]:
        """Hosts up, agents connected, no node started."""
        _check(spec)
        if os.geteuid() != 0:
            raise MissingCapability(
                "this process is not where local hosts can be made",
                where="backend local",
                cause="only root can make them from here; a test runner or a script does not enter a user namespace",
                next_step=f"put before the command: {sys.executable} -I -S {rootless.__file__}",
            )
        apart = users.of_run(spec.run_id) if not rootless.is_inside() else None
        ids = apart.maps if apart is not None and self._apart else {}
        programs = programs_of(spec.image)
        alias = labels.alias(run_id=spec.run_id, state_dir=spec.state_dir)
        progress(f"making {len(spec.nodes)} hosts out of namespaces")
        _compile(tuple(this_machine().packages.values()))
        place = Path(spec.state_dir) / labels.HOSTS
        begun: list[Becoming] = []
        hosts: dict[str, AgentHost] = {}
        try:
            owner = ids.get("0", os.geteuid())
            boxes = {node: _directories(place, node, owner=owner) for node in (labels.SWITCH, *spec.nodes)}
            _put_agent(boxes[labels.SWITCH] / "code")
            for name, line in (("passwd", users.ACCOUNT), ("group", users.GROUP)):
                (place / name).write_text(accounts(_text(Path("/etc", name)), line), encoding="utf-8")
            limits = sorted(spec.needs & OF_GROUPS)
            lent = groups.make(limits, spec.nodes, run_id=spec.run_id, place=place, owner=owner)
            machine = this_machine()
            node_user = apart.node if apart is not None and not ids else users.NODE
            becoming = {}
            for node, box in boxes.items():
                plan = _plan(
                    spec,
                    node,
                    box,
                    machine=machine,
                    programs=programs,
                    ids=ids,
                    node_user=node_user,
                    lent=groups.shown(lent.get(node, {})),
                )
                becoming[node] = Becoming(node, plan, env=_environment(spec, node))
                begun.append(becoming[node])
            switch = becoming.pop(labels.SWITCH)
            pids = {node: one.begun() for node, one in becoming.items()}
            for node, pid in pids.items():
                groups.join(lent[node], pid)
            for one in becoming.values():
                one.made()  # a network of its own, too
            net = network.claim(run_id=spec.run_id, alias=alias, switch_pid=switch.begun(), nodes=len(spec.nodes))
            names = {node: net.address(index) for index, node in enumerate(spec.nodes)}
            (place / "hosts").write_text(network.hosts_file(names), encoding="ascii")
            switch.connect(network.of_the_switch(pids, net), settings=network.SETTINGS, filter=network.ONE_WAY)
            switch.made()

            def bring_up(node: str) -> None:
                one = becoming[node]
                one.connect(network.of_a_host(names[node]))
                one.left()
                hosts[node] = AgentHost(
                    node,
                    names[node],
                    lambda: _connection(boxes[node] / "agent", pid=one.pid),
                    origin_ns=origin_ns,
                    news=news,
                    run=spec.run_id,
                    client=net.gateway,
                    meet_s=MEET_LIMIT_S,
                )

            with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="local") as pool:
                made = [pool.submit(bring_up, node) for node in spec.nodes]
            for node, future in zip(spec.nodes, made, strict=True):
                with _last_words(node, boxes[node]):
                    future.result()
        except BaseException:
            for host in hosts.values():
                host.close()
            with contextlib.suppress(HarnessError):
                _remove(spec.run_id, [Path(spec.state_dir)])
            raise
        finally:
            for one in begun:
                one.close()
        return {node: hosts[node] for node in spec.nodes}

    def destroy(self, run_id: str) -> None:
        """End that run's processes, take its device out, remove its hosts' files. Idempotent, for any harness' run."""
        places = {Path(one.state_dir) for one in owned.processes() if one.run_id == run_id}
        places |= {Path(one.state_dir) for one in owned.devices() if one.run_id == run_id}
        places.add(state_dir() / "runs" / run_id)
        _remove(run_id, sorted(places))

    def leftovers(self) -> Sequence[Owned]:
        """Processes and devices with our marks, of any run; directories of this user's state directory."""

        def ours(kind: str, identity: str, name: str, run_id: str, place: str) -> Owned:
            return Owned(backend=self.name, kind=kind, id=identity, name=name, run_id=run_id, state_dir=place)

        return [
            *(
                ours("process", f"{one.pid}:{one.start_ticks}", f"{one.node} ({one.pid})", one.run_id, one.state_dir)
                for one in owned.processes()
            ),
            *(ours("network device", one.name, one.name, one.run_id, one.state_dir) for one in owned.devices()),
            *(
                ours("directory", str(path), str(path), path.parent.name, str(path.parent))
                for path in owned.directories(state_dir())
            ),
        ]

    def probe(self) -> Mapping[str, Available]:
        """See ``dethrone.harness.core.interfaces.Probing``: tried in a host that lives for a second."""
        from dethrone.clusters.local import doctor

        return doctor.capabilities(self)

    def doctor(self) -> Sequence[tuple[str, Available]]:
        """What hosts can do here; see ``dethrone.clusters.local.doctor``."""
        from dethrone.clusters.local import doctor

        return doctor.rows(self)


def _check(spec: DeploySpec) -> None:
    if spec.base is not None:
        raise ConfigError(
            "local hosts have no image",
            where=f"--base {spec.base}",
            cause="they see this machine's own files",
            next_step="omit --base, or run with `--on docker`",
        )
    check_names(spec, reserved={".", "..", labels.SWITCH, "hosts"})


def _path() -> str:
    return os.environ.get("PATH", os.defpath) + labels.SYSTEM_PATH


def _environment(spec: DeploySpec, node: str) -> dict[str, str]:
    return labels.environment(os.environ, run_id=spec.run_id, state_dir=spec.state_dir, node=node)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _directories(place: Path, node: str, *, owner: int) -> Path:
    box = place / node
    for part in ("root", "agent", "run", "data", "log", "programs"):
        (box / part).mkdir(parents=True)
        if part in {"agent", "run", "data", "log"}:
            os.chown(box / part, owner, owner)
    return box


def _put_agent(place: Path) -> None:
    """A package that is the agent as one file: compiled once for all hosts, readable by their root."""
    place.mkdir()
    (place / "__init__.py").touch()
    bundle.put(place)
    compileall.compile_dir(place, quiet=2)
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _plan(
    spec: DeploySpec,
    node: str,
    box: Path,
    *,
    machine: Machine,
    programs: Mapping[str, str],
    ids: Mapping[str, int],
    node_user: int,
    lent: Sequence[Sequence[object]],
) -> dict[str, object]:
    if node == labels.SWITCH:
        return {"kind": "switch"}
    place = box.parent
    (place / "hosts").touch()
    files = {f"/etc/{name}": str(place / name) for name in ("hosts", "passwd", "group") if Path("/etc", name).exists()}
    files[f"{LIB}/{_AGENT.replace('.', '/')}"] = str(place / labels.SWITCH / "code")
    for path in programs:
        (box / "programs" / Path(path).name).touch()
    mounts = bool(spec.needs & OF_MOUNTS)
    agent = [sys.executable, "-S", "-m", f"{_AGENT}.agent", "serve", "--socket", f"{AGENT_DIR}/{_SOCKET}"]
    return {
        "kind": "host",
        "name": node,
        "root": str(box / "root"),
        "log": str(box / _LOG),
        "steps": [
            *steps(machine, box=str(box), programs=programs, files=files, shown=spec.shown, mounts=mounts),
            *lent,
        ],
        "mounts": mounts,
        "ids": ids,
        "argv": [*agent, "--run", spec.run_id, "--node-user", str(node_user)],
        "env": {**_environment(spec, node), "PYTHONPATH": LIB},
    }


def _connection(directory: Path, *, pid: int) -> SocketStream:
    """A connection to the agent's socket in there, whose path may be longer than a socket's may be."""
    deadline = time.monotonic() + MEET_LIMIT_S
    handle = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connected.connect(f"/proc/self/fd/{handle}/{_SOCKET}")
            except OSError:
                connected.close()
                if time.monotonic() > deadline or not owned.start_ticks(pid):
                    raise
                time.sleep(0.002)
            else:
                return SocketStream(connected)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _last_words(node: str, box: Path) -> Iterator[None]:
    """The agent's last words are the cause if it does not answer."""
    try:
        yield
    except (HarnessError, OSError) as error:
        said = ""
        with contextlib.suppress(OSError):
            said = (box / _LOG).read_text(encoding="utf-8", errors="replace").strip()[-400:]
        raise ClusterError(
            "a local host came up but its agent does not answer",
            where=node,
            cause=said or str(error),
            next_step="run `dethrone doctor`, then repeat the run",
        ) from error


def _remove(run_id: str, places: Sequence[Path]) -> None:
    owned.end_processes(run_id)
    for place in places:
        groups.remove(place, run_id)
    owned.remove_devices(run_id)
    for place in places:
        owned.remove_directory(place, run_id)


@functools.cache
def _compile(packages: tuple[str, ...]) -> None:
    """Compile the project's code once, as the first import would: nodes may not write next to it."""
    for package in packages:
        compileall.compile_dir(package, quiet=2)


@functools.cache
def _tried(*, apart: bool) -> Available:
    """Whether a host can be made from here; asked once a process."""
    try:
        probe(users.of_run("probe").maps if apart else {})
    except HarnessError as error:
        if apart and isinstance(_tried(apart=False), Yes):
            return No(
                why=f"user namespaces cannot be made here, so that root of a host would be root here: {error.cause}",
                what_to_do="allow them (sysctl user.max_user_namespaces), use --on docker, or, on a machine that may "
                "be lost and for a system that you trust, give --unsafe-root",
            )
        return No(
            why=f"namespaces cannot be made here: {error.cause}",
            what_to_do="use a machine or a container that lets root make them (SYS_ADMIN), or --on docker",
        )
    return Yes()


def _enter() -> None:
    """As any user but root: continue in a user namespace of our own."""
    if os.geteuid() != 0:
        rootless.enter()


def _capabilities() -> frozenset[str]:
    """What the faults need that this machine's tools can do."""
    able = {"signals", "files", "commands", "descriptors", "logs", "frames", "pages", "versions", "members"}
    if _queues():
        able.add("links")
    if shutil.which("iptables-save", path=_path()) is not None:
        able.add("iptables")
    if find_faketime() is not None:
        able.add("faketime")
    if not why_no_vdso():
        able.add("vdso")
    if FUSE.exists() and os.geteuid() == 0 and not rootless.is_inside():
        able |= OF_MOUNTS
    if os.geteuid() == 0 and not rootless.is_inside():
        able |= {controller for controller in OF_GROUPS if not groups.why_not(controller)}
    return frozenset(able)


def _queues() -> bool:
    """Whether this kernel has, or can load, the queue that links are shaped by; each host tries it before a run."""
    modules = Path("/lib/modules", os.uname().release, "modules.dep")
    return Path(QUEUES).exists() or "/nfnetlink_queue.ko" in _text(modules)


@functools.cache
def _enterable() -> Available:
    """Whether a user who is not root can have a user namespace; asked once a process."""
    why = rootless.why_not()
    if not why:
        return Yes()
    return No(why=f"this user may not make namespaces: {why}", what_to_do=rootless.REMEDY)


BACKEND = LocalBackend()
