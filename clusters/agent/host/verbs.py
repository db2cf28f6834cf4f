"""The agent's view of its host, and the verbs that act on it.

Guarantees: each verb first checks its request, and returns JSON; faults that an earlier agent left behind are healed
first. Out of scope: sockets, sessions and the order of requests (``server``), and faults that another program undoes
(``lost_rules``).
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dethrone.clusters.agent.host.addresses import default_gateway, is_v6, own_addresses
from dethrone.clusters.agent.host.adopted import AdoptedNode, BesideNode
from dethrone.clusters.agent.host.bursts import BURST_BYTES_MAX, BURST_MAX
from dethrone.clusters.agent.host.clocks import FakeClock, HostClock
from dethrone.clusters.agent.host.commands import Commands
from dethrone.clusters.agent.host.common import MS, SECOND, Refused, boot_id, now_ns
from dethrone.clusters.agent.host.confinement import Confined, confined, give
from dethrone.clusters.agent.host.connections import DeadMan, Verb
from dethrone.clusters.agent.host.convergence import HostKeeper
from dethrone.clusters.agent.host.damage import DataFiles
from dethrone.clusters.agent.host.disks import NodeDisk, helper_argv
from dethrone.clusters.agent.host.firewall import Firewall, Spared
from dethrone.clusters.agent.host.gauge import Gauge
from dethrone.clusters.agent.host.healing import heal_alone
from dethrone.clusters.agent.host.knocks import knock
from dethrone.clusters.agent.host.news import News
from dethrone.clusters.agent.host.node import NodeProcess
from dethrone.clusters.agent.host.node_clocks import NodeClocks
from dethrone.clusters.agent.host.noise import Canary, Totals
from dethrone.clusters.agent.host.placing import copy_whole, read_part, write_part
from dethrone.clusters.agent.host.probes import Probes, reset_flows
from dethrone.clusters.agent.host.processes import SIGNAL_LIMIT_S, Processes
from dethrone.clusters.agent.host.qualities import Qualities
from dethrone.clusters.agent.host.requests import (
    HEALTHY,
    clean_peers,
    clean_start,
    clean_state,
    integer_of,
    object_of,
    text_of,
    texts_of,
)
from dethrone.clusters.agent.host.sightings import Lookout
from dethrone.clusters.agent.host.tails import FatalSearch, Tails
from dethrone.clusters.agent.host.threads import NodeWatch
from dethrone.clusters.agent.host.vdso_clock import VdsoClock, hand_as

PLACED_MAX = 1000
"""Limit on the files that are given to the node's user."""
FIRST_SYNC_LIMIT_S = 1.0
"""How long ``prepare`` waits to learn whether the disk can be probed."""


class Settings(NamedTuple):
    """How an agent serves; see the command line."""

    dead_man_ns: int
    probe_port: int
    tool: str
    term_limit_s: float
    spared: Sequence[Spared] = ()
    sets_clock: bool = False
    node_user: str | None = None


class Host:
    """The agent's tools on its host, and the verbs that use them."""

    def __init__(
        self, path: str, run: str, settings: Settings, *, processes: Processes, wake: Callable[[], None]
    ) -> None:
        self._path = path
        self._node_user = settings.node_user
        self._placed: list[str] = []
        """Files that were written for a node that starts later."""
        self._state_path = f"{path}.state"
        self.processes = processes
        self.found = heal_alone(self.processes, run, self._state_path) if os.path.exists(self._state_path) else {}  # noqa: PTH110
        self.news = News(wake)
        self.rules = Firewall(run, self.processes, tool=settings.tool, spared=settings.spared)
        links = Firewall(run, self.processes, tool=settings.tool, spared=settings.spared, table="mangle")
        self.qualities = Qualities(links, settings.probe_port, lambda: self.node.remember())  # noqa: PLW0108 - adopted later
        self.probes = Probes(run, settings.probe_port)
        self.gauge = Gauge(run, settings.probe_port)
        self.clock = FakeClock(f"{path}.faketime")
        self.tails = Tails(self.news)
        self.canary = Canary(self.news)
        self.fatal = FatalSearch(self.news)
        self.lookout = Lookout(self.processes, self.news)
        self.node = NodeProcess(self.processes, self.clock, self.news, self.tails, self._state_path)
        self.vdso = self.node.vdso = VdsoClock(self.processes, run)
        self.vdso.remember = lambda: self.node.remember()  # noqa: PLW0108 - adopted later
        self.vdso.members = lambda: self.node.members_now()  # noqa: PLW0108
        self.vdso.confined = lambda: hand_as(self.node.confined)
        self.commands = self.node.commands = Commands(self.processes, lambda: self.node.remember())  # noqa: PLW0108 - adopted later
        self.node.shaper = lambda: self.qualities.process
        self.node.files = DataFiles(f"{path}.older", lambda: self.node.remember())  # noqa: PLW0108 - as above
        self.node.disk = NodeDisk(self.processes, run, helper_argv(), lambda: self.node.remember())  # noqa: PLW0108 - as above
        self.node_watch = NodeWatch(self.news, lambda: self.node.members_now())  # noqa: PLW0108 - adopted later
        self.totals = Totals(self.news)
        self._prepared = False
        self._below: int | None = None
        """The data directory itself, where a helper serves it: what is measured there makes nothing durable."""
        self._alone: tuple[int, int, dict[str, Any]] | None = None
        """When this host healed itself, unknown to the harness; how long the harness had been silent; details."""
        self.canary.changed = self.node_watch.changed = self._declare_sources
        if settings.sets_clock:
            clock = self.node.host_clock = HostClock(self.node.remember)
            self.canary.shifted = lambda: clock.shifted_ns
        self._run_name, self._term_limit_s = run, settings.term_limit_s
        self.keeper = self._new_keeper()
        self.dead_man = DeadMan()
        self._dead_man_ns = settings.dead_man_ns
        self.verbs: dict[str, tuple[str, Verb]] = {
            "now": ("", lambda _: {"mono_ns": now_ns()}),
            "silence": ("", lambda _: {"silence_ns": self.dead_man.silence_ns}),
            "ack": ("", self._ack),
            "bye": ("state", self._bye),
            "send_probes": ("", self._send_probes),
            "probe_links": ("probe", self._probe_links),
            "unshaped": ("state", lambda _: {"why": self.qualities.unavailable()}),
            "unskewed": ("state", lambda _: {"why": self.node.unskewed()}),
            "ask_clock": ("state", lambda _: self.keeper.clocks.ask_command()),
            "send_burst": ("probe", self._send_burst),
            "read_burst": ("probe", self._read_burst),
            "knock": ("measure", lambda request: knock(self.probes, request)),
            "measure": ("measure", self._measure),
            "adopt": ("state", self._adopt),
            "prepare": ("state", self._prepare),
            "meet": ("state", self._meet),
            "start_node": ("state", self._start_node),
            "stop_node": ("state", self._stop_node),
            "converge": ("state", self._converge),
            "heal": ("state", self._heal),
            "reset_flows": ("state", self._reset_flows),
            "run": ("files", self._run),
            "read_file": ("files", read_part),
            "write_file": ("files", self._write_file),
            "copy_file": ("files", self._copy_file),
        }

    def _new_keeper(self) -> HostKeeper:
        return HostKeeper(
            self.rules,
            self.qualities,
            self.probes,
            NodeClocks(self.clock, self.node, self.processes),
            self.node,
            term_limit_s=self._term_limit_s,
            commands=self.commands,
            run=self._run_name,
            directory=os.path.dirname(self._path) or "/",  # noqa: PTH120
        )

    def _ack(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.news.acknowledge(integer_of(request, "news", low=0, high=2**62))
        return {}

    def _bye(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.dead_man.arm(0)
        why = self.rules.remove() if self.rules.used else ""
        left = self.commands.apply([])[0] if self.commands.held else ""
        self.vdso.set(None)
        whys = [self.qualities.remove(), why, left, self.vdso.apply(None)[0]]
        self.vdso.close()  # who outlives its agent next to another user's process would be left for that to reap
        return {"why": "; ".join(filter(None, whys))}

    def _send_probes(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        nonce = integer_of(request, "nonce", low=0, high=2**63)
        lo = now_ns()
        failed = self.probes.send(nonce, texts_of(request.get("order") or [], "order"))
        return {"lo": lo, "hi": now_ns(), "failed": failed}

    def _probe_links(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        nonce = integer_of(request, "nonce", low=0, high=2**63)
        expect = texts_of(request.get("expect") or [], "expect")
        lo = now_ns()
        answer = self.probes.wait(nonce, expect, integer_of(request, "timeout_ns", low=0, high=30 * SECOND))
        answer.update(self._dropped())
        return {**answer, "addresses": own_addresses(), "lo": lo, "hi": now_ns()}

    def _send_burst(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        plan = {}
        for peer, given in object_of(request.get("plan"), "plan").items():
            burst = object_of(given, "a burst")
            count = integer_of(burst, "count", low=0, high=BURST_MAX)
            plan[peer] = (count, integer_of(burst, "size", low=0, high=BURST_BYTES_MAX))
        return {"failed": self.probes.send_burst(integer_of(request, "nonce", low=0, high=2**63), plan)}

    def _read_burst(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        expect = object_of(request.get("expect"), "expect")
        wanted = {src: integer_of(expect, src, low=0, high=BURST_MAX) for src in expect}
        timeout_ns = integer_of(request, "timeout_ns", low=0, high=30 * SECOND)
        return self.probes.bursts.wait(integer_of(request, "nonce", low=0, high=2**63), wanted, timeout_ns)

    def _dropped(self) -> dict[str, Any]:
        """Dropped packets per peer; ``passed``: addresses that a peer has used but no packet was dropped from."""
        why, by_address = self.rules.counters()
        dropped: dict[str, int] = {}
        passed: dict[str, list[str]] = {}
        for name, addresses in self.probes.ways.items():
            counted = [by_address[address] for address in addresses if address in by_address]
            if counted:
                dropped[name] = sum(counted)
                used = sorted(set(self.probes.known(name).values()))
                passed[name] = [address for address in used if by_address.get(address, 0) < 1]
        found = {"in_force": not why, "dropped": dropped, "passed": {k: v for k, v in passed.items() if v}}
        return {**found, "why": why} if why else found

    def _meet(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Learn all addresses of the peers; ``uncut``: why IPv6 ones cannot be cut here.

        A peer that is missing is down: it keeps its known addresses, unless other peers have them now.
        """
        peers = clean_peers(request.get("peers"))
        taken = {address for addresses in peers.values() for address in addresses}
        for name, known in self.probes.peers.items():
            peers.setdefault(name, tuple(address for address in known if address not in taken))
        self.probes.meet(self.probes.name, peers)
        own = own_addresses()
        uncut = ""
        if any(is_v6(address) for address in own) and any(is_v6(one) for ways in peers.values() for one in ways):
            able, why = self.rules.six.available()
            uncut = "" if able else why
        return {"addresses": own, "uncut": uncut}

    def _measure(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        peers = dict(object_of(request.get("peers"), "peers"))
        texts_of(list(peers.values()), "peers")
        window_ns = integer_of(request, "window_ns", low=1, high=Gauge.WINDOW_MAX_NS)
        writes_per_s = integer_of(request, "writes_per_s", low=1, high=10**6)
        return self.gauge.measure(text_of(request, "directory"), peers, window_ns, writes_per_s)

    def _prepare(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        spec = clean_start(request.get("start"))
        peers = clean_peers(request.get("peers"))
        name = text_of(request, "name")
        dead_man_ns = integer_of(request, "dead_man_ns", low=0, high=86400 * SECOND) or self._dead_man_ns
        gateway = default_gateway()
        if "client" not in peers and gateway is not None:
            peers["client"] = (gateway,)
        process = integer_of(request, "process", low=0, high=1 << 30)
        if process:
            self._take(BesideNode(self.node, process, processes=self.processes, news=self.news))
        adopted = not self.node.ours
        command = spec["command"]
        if adopted:
            node = Confined(-1, -1, (), own=False, why="it was adopted, and keeps the user that it had")
        else:
            node = confined(command["user"], command["capabilities"], default=self._node_user)
        for place in filter(None, (os.path.dirname(spec["log_path"]), spec["data_dir"], spec["run_dir"])):  # noqa: PTH120
            os.makedirs(place, exist_ok=True)  # noqa: PTH103
            if not adopted and not self._is_ours(place):
                give(place, node)
        for path in () if adopted else self._placed:
            with contextlib.suppress(OSError):
                os.chown(path, node.uid, node.gid, follow_symlinks=False)
        self.node.confined = node
        if spec["fails"]:
            if self.node.disk is None:
                raise Refused("the disk of a process that another user started cannot be made to fail")
            if not self.node.disk.served:
                below = os.open(spec["data_dir"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    self.node.disk.mount(spec["data_dir"], spec["disk_model"])
                except BaseException:
                    os.close(below)
                    raise
                self._below = below
        if spec["limits"]:
            self.node.limit(spec["limits"])
        self.probes.meet(name, peers)
        self.node.spec = spec
        if not adopted:  # an adopted node writes its logs elsewhere
            self.tails.follow(spec["trace_path"])
        self.canary.limit_ns = self.node_watch.limit_ns = spec["noise_max_ns"]
        self.canary.watch_disk(spec["data_dir"] if self._below is None else f"/proc/self/fd/{self._below}")
        self.node.fatal = self.fatal
        self.fatal.incarnation = lambda: self.node.incarnation
        self.fatal.follow([spec["fatal_path"] or spec["log_path"], *spec["fatal_more"]], spec["fatal"])
        self.lookout.incarnation = lambda: self.node.incarnation
        self.lookout.begin(spec, name, peers, self.probes.port)
        self.canary.disk_known.wait(FIRST_SYNC_LIMIT_S)
        self._prepared = True
        self._declare_sources()
        self.dead_man.arm(dead_man_ns)
        self.node.remember()
        return {"client": list(peers.get("client", ())), "runs_as": node.said()}

    def _is_ours(self, place: str) -> bool:
        """Whether the agent's own files are below this directory, which then must not become the node's."""
        return os.path.realpath(self._path).startswith(os.path.realpath(place).rstrip("/") + "/")

    def _declare_sources(self) -> None:
        """Report what is watched here, so that an unreadable source is not mistaken for a quiet one."""
        if self._prepared:
            moment = now_ns()
            sources = {**self.canary.sources(), **self.node_watch.sources(), **self.totals.sources()}
            self.news.noise("sources", moment, moment, 0, boot=boot_id(), sources=sources)

    def _adopt(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        given = object_of(request.get("target"), "target")
        target = {key: text_of(given, key) for key in ("by", "value")}
        if target["by"] not in {"pid_file", "unit", "pattern"}:
            raise Refused(f"a target is not found by {target['by'][:80]}")
        restart = texts_of(request.get("restart") or [], "restart")
        self._take(AdoptedNode(self.node, target, restart, processes=self.processes, news=self.news))
        return {}

    def _take(self, node: NodeProcess) -> None:
        """Have this node from now on."""
        self.node = node
        self.keeper = self._new_keeper()

    def _start_node(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.node.start()
        self.node_watch.look_now()
        return self.node.names()

    def _stop_node(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        limit_ns = integer_of(request, "limit_ns", low=0, high=60 * SECOND) or 3 * SECOND
        if isinstance(self.node, AdoptedNode):
            self.node.leave()
            return {"obeyed": True, "gone": True, "news": self.news.last, **self.node.names()}
        self.node.wanted = False
        obeyed = self.node.end(signal.SIGTERM, limit_ns / SECOND)
        gone = obeyed or self.node.end(signal.SIGKILL, SIGNAL_LIMIT_S)
        with contextlib.suppress(OSError):
            self.tails.pump()
        self._no_longer_alone()
        self.totals.report()
        summary = self.canary.summary()
        moment = now_ns()
        self.news.noise("summary", moment, moment, summary["stall_max_ns"], **summary)
        return {"obeyed": obeyed, "gone": gone, "news": self.news.last, **self.node.names()}

    def _converge(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        want = clean_state(request.get("want"))
        try:
            return self.keeper.converge(want, verify=request.get("verify") is not False)
        finally:
            self._no_longer_alone()
            self.node_watch.look_now()

    def _heal(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        evidence = self.keeper.converge(HEALTHY)
        whys = [self.qualities.remove(), self.rules.remove() if self.rules.used else ""]
        why = "; ".join(filter(None, whys))
        if why:
            evidence.update(confirmed=False, why="; ".join(filter(None, [evidence["why"], why])))
        if request.get("stop") is True:
            evidence["detail"]["stop"] = dict(self._stop_node({}))
        return evidence

    def abandoned(self, silence_ns: int) -> None:
        """The harness has been silent for too long: heal, and report it."""
        lo = now_ns()
        evidence = self._heal({})
        detail = {"id": lo, "confirmed": evidence["confirmed"], "why": evidence["why"]}
        self._alone = (lo, silence_ns, detail)
        self.news.noise("dead-man", lo, now_ns(), silence_ns, **detail)

    def _no_longer_alone(self) -> None:
        """The harness requests a state again: report that, until now, it did not know that the host had healed."""
        if self._alone is not None:
            (lo, silence_ns, detail), self._alone = self._alone, None
            self.news.noise("dead-man", lo, now_ns(), silence_ns, **detail)

    def _reset_flows(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        addresses: list[str] = []
        for peer in texts_of(request.get("peers"), "peers"):
            if peer not in self.probes.peers:
                raise Refused(f"not a known peer: {peer[:80]}")
            addresses += self.probes.peers[peer]
        lo = now_ns()
        return {"lo": lo, **reset_flows(self.processes, addresses), "hi": now_ns()}

    def _run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        argv = texts_of(request.get("argv"), "argv")
        if not argv:
            raise Refused("argv is empty")
        limit_ns = integer_of(request, "timeout_ns", low=MS, high=600 * SECOND)
        code, out, err = self.processes.tool(argv, limit_s=limit_ns / SECOND)
        return {"code": code, "out": base64.b64encode(out).decode(), "err": base64.b64encode(err).decode()}

    def _write_file(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._remember(write_part(request))
        return {}

    def _copy_file(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        path = copy_whole(request)
        self._remember(path)
        return {"there": bool(path)}

    def _remember(self, path: str) -> None:
        if path and len(self._placed) < PLACED_MAX:
            self._placed.append(path)

    def finish(self) -> None:
        """End the node, or leave an adopted one thawed; remove the rules, restore the clock, delete our files."""
        self.node.wanted = False
        if isinstance(self.node, AdoptedNode):
            self.node.leave()
        elif not self.node.end(signal.SIGTERM, 2.0):
            self.node.end(signal.SIGKILL, SIGNAL_LIMIT_S)
        with contextlib.suppress(Refused, OSError):
            self.commands.apply([])
        self.qualities.remove()
        self.vdso.close()
        if self.rules.used:
            self.rules.remove()
        if self.node.host_clock is not None:
            with contextlib.suppress(OSError):
                self.node.host_clock.set(None)
        if self.node.files is not None:
            with contextlib.suppress(OSError):
                self.node.files.forget()
        if self.node.disk is not None:
            with contextlib.suppress(OSError, Refused):
                self.node.disk.unmount()
        if self.node.groups is not None:
            self.node.groups.remove()
        for path in (self._path, self._state_path, self.clock.path):
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108
