"""One container of another user as a run's host: its network through a sidecar's agent, its processes by the engine.

A signal from within a PID namespace never reaches its first process, so the engine sends them; pausing is the engine's
freezer, which stops every process of the target and not the sidecar's. Killing ends the container, and healing starts
the same container again.

Guarantees: the container is started, killed or paused only as a fault asks for it, never removed or changed; every end
and start of it, by any user, is reported as news; one that comes back under another address is said not to be healed;
one that was started under a skew of its clocks, which it had not from its first instruction, lets the fault lapse. Out
of scope: disks, what nodes write into files of their own, and reading such files.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import docker
import docker.errors
import msgspec

from dethrone.clusters.agent.agent_host import AgentHost
from dethrone.clusters.attach import sidecar
from dethrone.clusters.attach.fatal import FATAL_EVERY_NS, FatalSearch
from dethrone.clusters.attach.targets import AttachTarget
from dethrone.clusters.docker.client import ENGINE_ERRORS, explained
from dethrone.clusters.docker.meeting import meet
from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.deaths import LINES_MAX, last_lines
from dethrone.harness.core.errors import ClusterError, HarnessError
from dethrone.harness.core.events import LOG_SKIPPED
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState
from dethrone.harness.core.interfaces import IN_A_CONTAINER, Evidence, HostNews, NodeStart

KILL_LIMIT_S = 5.0
TERM_LIMIT_S = 10.0
START_LIMIT_S = 20.0
LOG_LINES_MAX = 100_000
LOG_BYTES_MAX = 64 << 20
FIRST_PROCESS = 1
"""The target's main process, as its sidecar sees it: they share a PID namespace."""

_AGENTS_DATA = "/var/lib/dethrone/data"
_NODE_LOG = "node.log"


class AttachedHost:
    """See ``dethrone.harness.core.interfaces.Host``, and ``ProbingHost`` of ``dethrone.clusters.agent.confirm``.
    Thread-safe."""

    def __init__(
        self,
        client: docker.DockerClient,
        target: AttachTarget,
        beside: str,
        *,
        run_id: str,
        origin_ns: Ns,
        news: Callable[[HostNews], None],
    ) -> None:
        self.name = target.node
        self.address = target.address
        self.target = target
        self.origin_ns = origin_ns
        self.state: HostState = HEALTHY
        self._client = client
        self._sidecar = beside
        self._run_id = run_id
        self._news = news
        self._prepared: tuple[NodeStart, Mapping[str, str], Ns] | None = None
        self._incarnation = 0
        self._pid = 0
        self._alive_ns = time.monotonic_ns()
        self._asked = False
        self._started_wall_ns = time.time_ns()
        self._began = int(time.time())
        self._closed = False
        self._signalled = ""
        """The last signal that another user had the engine send to the running container; "" : none."""
        self._oom_kills = 0
        self._clock: ClockSkew | None = None
        """The skew that its processes have."""
        self._lapses: list[str] = []
        """Why faults were not in force all the time, since that was last reported."""
        self._searched: FatalSearch | None = None
        self._lock = threading.RLock()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"attached-{target.node}")
        self._addresses: tuple[str, ...] = (target.address,)
        self._agent: AgentHost | None = self._met()

    # --- Host ---------------------------------------------------------------------------------------------------

    sets_timers = False
    shapes_messages = False

    places = IN_A_CONTAINER

    def measure(
        self, directory: str, peers: Mapping[str, str], *, window_ns: Ns, writes_per_s: int
    ) -> Mapping[str, Any]:
        """Never asked: see ``sets_timers``."""
        del directory, peers, window_ns, writes_per_s
        raise ClusterError("nothing is measured next to an adopted node", where=self.name)

    @property
    def shares_user(self) -> str:
        """See ``dethrone.harness.core.interfaces.Host``."""
        return "it was adopted, and keeps the user and capabilities that it had"

    def prepare(self, start: NodeStart, peers: Mapping[str, str], *, dead_man_ns: Ns) -> None:
        """See ``Host``. How a node would be started is not used: it runs already, and the engine knows how."""
        self._prepared = (
            msgspec.structs.replace(
                start,
                trace_path=None,
                clock_socket=None,
                clock_command=None,  # the sidecar has none of the node's programs
                link_socket=None,
                faketime=False,
                data_dir=_AGENTS_DATA,
            ),
            peers,
            dead_man_ns,
        )
        self._prepare(self._living())
        if start.fatal and self._searched is None:
            self._searched = FatalSearch(self._client, self.target, start.fatal, self._say_fatal)

    def start_node(self) -> None:
        """See ``Host``: the node runs already; it is reported as if it had been started."""
        found = self._inspect()
        if not found["Running"]:
            raise ClusterError("the container does not run any more", where=self.target.name)
        self._told_started(int(found["Pid"]), self._alive_ns, asked=True)

    def converge(self, want: HostState) -> Evidence:
        """See ``Host``."""
        return self.converge_async(want).result()

    def converge_async(self, want: HostState, *, verify: bool = True) -> Future[Evidence]:
        """``converge`` without waiting; see ``AgentHost.converge_async``."""
        self.state = want
        return self._worker.submit(self._converge, want, verify=verify)

    @property
    def met(self) -> Mapping[str, Sequence[str]]:
        """See ``AgentHost``: an agent that came with a new start knows nothing yet."""
        agent = self._agent
        return {} if agent is None else agent.met

    @property
    def addresses(self) -> tuple[str, ...]:
        """See ``AgentHost``; of one that is down, those that it had."""
        agent = self._agent
        if agent is not None:
            self._addresses = agent.addresses
        return self._addresses

    def meet_async(self, peers: Mapping[str, Sequence[str]]) -> Future[str]:
        """See ``AgentHost``."""
        return self._living().meet_async(peers)

    def send_probes_async(self, nonce: int, *, order: Sequence[str] = ()) -> Future[Mapping[str, Any]]:
        """See ``AgentHost``."""
        return self._living().send_probes_async(nonce, order=order)

    def probe_links_async(self, nonce: int, *, expect: Sequence[str], timeout_ns: Ns) -> Future[Mapping[str, Any]]:
        """See ``AgentHost``."""
        return self._living().probe_links_async(nonce, expect=expect, timeout_ns=timeout_ns)

    def unshaped(self) -> str:
        """See ``AgentHost``."""
        return self._living().unshaped()

    def unskewed(self) -> str:
        """See ``AgentHost``."""
        return self._living().unskewed()

    def send_burst_async(self, nonce: int, plan: Mapping[str, tuple[int, int]]) -> Future[Mapping[str, str]]:
        """See ``AgentHost``."""
        return self._living().send_burst_async(nonce, plan)

    def knock_async(self, peers: list[str], *, timeout_ns: Ns) -> Future[Mapping[str, str]]:
        """See ``KnockingHost``."""
        return self._living().knock_async(peers, timeout_ns=timeout_ns)

    def read_burst_async(self, nonce: int, expect: Mapping[str, int], *, timeout_ns: Ns) -> Future[Mapping[str, Any]]:
        """See ``AgentHost``."""
        return self._living().read_burst_async(nonce, expect, timeout_ns=timeout_ns)

    def offset(self) -> tuple[Ns, Ns]:
        """See ``Link``."""
        return self._living().offset()

    def client_burst(self, nonce: int, number: int, size: int) -> tuple[bytes, tuple[str, int]]:
        """See ``AgentHost``."""
        return self._living().client_burst(nonce, number, size)

    def client_probe(self, nonce: int) -> tuple[bytes, tuple[str, int]]:
        """See ``AgentHost``."""
        return self._living().client_probe(nonce)

    def reset_flows(self, peers: Sequence[str]) -> Mapping[str, Any]:
        """See ``Host``."""
        agent = self._agent
        if agent is None:
            return {"worked": True, "before": 0, "after": 0, "why": "the container does not run: it has no flows"}
        return agent.reset_flows(peers)

    def run(self, argv: Sequence[str], *, timeout_ns: Ns) -> tuple[int, bytes, bytes]:
        """See ``Host``: in the sidecar, with the target's network and processes, and our files."""
        return self._living().run(argv, timeout_ns=timeout_ns)

    def read_file(self, path: str, *, most: int | None = None) -> bytes:
        """The node's log is what the container has printed since the run began; other files are the sidecar's."""
        if path.rpartition("/")[2] == _NODE_LOG:
            room = LOG_BYTES_MAX if most is None else min(most, LOG_BYTES_MAX)
            log = bytearray()
            with explained("reading a container's log", where=self.target.name):
                pieces = self._client.api.logs(  # streamed alone it would follow the log, and never end
                    self.target.id, since=self._began, tail=LOG_LINES_MAX, stream=True, follow=False
                )
                for piece in pieces:
                    log += piece
                    if len(log) > 2 * room:
                        del log[:-room]
            return bytes(log[-room:])
        return self._living().read_file(path, most=most)

    def write_file(self, path: str, content: bytes, *, private: bool = False) -> None:
        """See ``Host``: into the sidecar. The target's files are not touched."""
        self._living().write_file(path, content, private=private)

    def stop_node(self) -> None:
        """The end of the run: the container is left running. The last of the host's noise is reported."""
        agent = self._agent
        if agent is not None:
            agent.stop_node()

    def close(self) -> None:
        """See ``Host``. Rules of ours are taken out."""
        self._closed = True
        if self._searched is not None:
            self._searched.close()
        self._worker.shutdown(wait=True)
        with self._lock:
            agent, self._agent = self._agent, None
        if agent is not None:
            agent.close()

    # --- what the engine reports ----------------------------------------------------------------------------------

    def died(self, code: int, *, at_wall_ns: int) -> None:
        """The container's process ended at that moment of the engine's clock, by anyone's doing."""
        with self._lock:
            if self._closed or self._agent is None or at_wall_ns < self._started_wall_ns:
                return  # reported already, or news of an earlier life
            agent, self._agent = self._agent, None
            asked, lo = self._asked, self._alive_ns
            detail = {"oom_kills": self._oom_kills, "signalled": self._signalled}
        threading.Thread(target=agent.close, name=f"forget-{self.name}", daemon=True).start()
        data: dict[str, Any] = {"pid": self._pid, "incarnation": self._incarnation, "code": code, "asked": asked}
        if not asked:
            data["lines"], data["detail"] = self._last_lines(), {key: value for key, value in detail.items() if value}
        self._tell("exited", lo, data)

    def signalled(self, number: str) -> None:
        """The engine sent this signal to the container. One that we did not ask for is another user's."""
        with self._lock:
            if not self._asked:
                self._signalled = f"signal {number}"

    def ran_out_of_memory(self) -> None:
        """The kernel killed a process of the container for lack of memory."""
        with self._lock:
            self._oom_kills += 1

    def came_back(self) -> None:
        """The container was started, and not by us (its restart policy, another user): know it again."""
        if self._closed or self._asked:
            return
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            self._worker.submit(self._known_again)

    # --- parts --------------------------------------------------------------------------------------------------

    def _converge(self, want: HostState, *, verify: bool) -> Evidence:
        lo = time.monotonic_ns()
        whys: list[str] = []
        detail: dict[str, Any] = {}
        try:
            found = self._inspect()
            if want.down:
                if found["Running"]:
                    self._end(want.down, paused=bool(found["Paused"]))
                if want.down == "SIGTERM" and self._inspect()["Running"]:  # as supervisors do
                    self._end("SIGKILL", paused=False)
                    detail["SIGTERM"] = {"killed": True, "limit_s": TERM_LIMIT_S}
                detail["process"] = {"running": bool(self._inspect()["Running"])}
                if detail["process"]["running"]:
                    whys.append(f"the container did not end of {want.down}")
            else:
                if not found["Running"]:
                    whys += self._start_again()
                    found = self._inspect()
                paused = bool(found["Paused"])
                if paused and want.frozen and want.clock != self._clock:  # the freezer lets no one hold its threads
                    self._lapses.append("it ran for a moment although it was to be paused, since its clocks changed")
                    paused = False
                if not paused or not want.frozen:
                    whys += self._freeze(found, wanted=False)
                inner = self._within(want, verify=verify)
                whys += [inner.why] if not inner.confirmed else []
                detail |= inner.detail
                if want.frozen:
                    whys += self._freeze(self._inspect(), wanted=True)
                detail["process"] = {"running": True, "paused": bool(self._inspect()["Paused"]), "pid": self._pid}
                lapses, self._lapses = self._lapses, []
                if lapses:
                    before = detail.get("before") or {}
                    whys_before = [*filter(None, [before.get("why")]), *lapses]
                    detail["before"] = {"held": False, "told": False, "why": "; ".join(whys_before)}
            unable = [what for what in ("disk", "cpu_percent") if getattr(want, what) is not None]
            unable += [trouble.kind for trouble in want.troubles or ()]
            whys += [f"{what}: not available on a container of another user" for what in unable]
        except (HarnessError, *ENGINE_ERRORS) as error:
            whys.append(f"{error.what}: {error.cause}" if isinstance(error, HarnessError) else str(error))
            with contextlib.suppress(HarnessError, *ENGINE_ERRORS):
                if not self._inspect()["Running"]:  # rules and pauses went with its network and processes
                    detail["process"] = {"running": False}
        hi = time.monotonic_ns()
        return Evidence(
            host=self.name,
            span=Span(lo - self.origin_ns, hi - self.origin_ns),
            state=want,
            confirmed=not whys,
            why="; ".join(whys),
            detail=detail,
        )

    def _within(self, want: HostState, *, verify: bool) -> Evidence:
        """What the agent does: the network and the clocks."""
        asked = HostState(cuts=want.cuts, links=want.links, resets=want.resets, refuses=want.refuses, clock=want.clock)
        found = self._living().converge_async(asked, verify=verify).result()
        if found.confirmed:
            self._clock = want.clock
        return found

    def _end(self, signal: str, *, paused: bool) -> None:
        """Kill the container's first process, and with it all others, and wait until the engine says that it ended."""
        if paused:
            self._client.api.unpause(self.target.id)
        with self._lock:
            self._asked, self._alive_ns = True, time.monotonic_ns()
        with explained(f"sending {signal}", where=self.target.name):
            self._client.api.kill(self.target.id, signal)
        limit_s = KILL_LIMIT_S if signal == "SIGKILL" else TERM_LIMIT_S
        found = self._wait(lambda now: not now["Running"], limit_s)
        if not found["Running"]:
            self.died(int(found["ExitCode"]), at_wall_ns=time.time_ns())

    def _start_again(self) -> list[str]:
        """Start the same container, its sidecar and a new connection: what is wrong with it, if anything."""
        begin = time.monotonic_ns()
        with self._lock:
            self._asked, self._started_wall_ns = True, time.time_ns()
        with explained("starting a container again", where=self.target.name):
            self._client.api.start(self.target.id)
        return self._know(begin, asked=True)

    def _known_again(self) -> None:
        if self._agent is None and self._inspect()["Running"]:
            with contextlib.suppress(
                HarnessError, *ENGINE_ERRORS
            ):  # what does not work now, the next converging reports
                self._know(self._alive_ns, asked=False)

    def _know(self, begin: Ns, *, asked: bool) -> list[str]:
        found = self._wait(lambda now: bool(now["Running"]), START_LIMIT_S)
        if not found["Running"]:
            return ["the container does not run after its start"]
        with explained("starting a sidecar again", where=self.target.name):
            self._client.api.start(self._sidecar)
        with self._lock:
            self._asked, self._alive_ns = False, begin
            self._signalled, self._oom_kills = "", 0
            self._clock = None
            if self.state.clock is not None:
                self._lapses.append("the engine started it under a skew, and it had the right clock at first")
        self._told_started(int(found["Pid"]), begin, asked=asked)
        agent = self._met()
        self._prepare(agent)
        with self._lock:
            self._agent = agent
        networks = self._client.api.inspect_container(self.target.id)["NetworkSettings"]["Networks"]
        address = (networks.get(self.target.network) or {}).get("IPAddress")
        if address != self.address:
            moved = f"its address was {self.address} and is {address or 'none'}"
            return [f"{moved}: give the containers fixed addresses (ipv4_address)"]
        return []

    def _freeze(self, found: Mapping[str, Any], *, wanted: bool) -> list[str]:
        if bool(found["Paused"]) != wanted:
            with explained("pausing" if wanted else "waking", where=self.target.name):
                (self._client.api.pause if wanted else self._client.api.unpause)(self.target.id)
        if not wanted:
            return ["the container is still paused"] if self._inspect()["Paused"] else []
        if not self._inspect()["Paused"]:
            return ["the engine does not say that the container is paused"]
        before, after = self._ticks(), self._ticks()
        if not before:
            return ["its first process cannot be looked at"]
        return ["its first process still ran after the pause"] if before != after else []

    def _ticks(self) -> bytes:
        """How often the threads of the target's first process have been scheduled, seen from the sidecar."""
        words = ["/bin/sh", "-c", "sleep 0.03; cat /proc/1/task/*/status | grep ctxt_switches"]
        return self._living().run(words, timeout_ns=5_000_000_000)[1]

    def _last_lines(self) -> tuple[str, ...]:
        """The end of what the container printed; nothing where the engine does not say it."""
        with contextlib.suppress(HarnessError, *ENGINE_ERRORS), explained("reading a log", where=self.target.name):
            return last_lines(self._client.api.logs(self.target.id, since=self._began, tail=LINES_MAX))
        return ()

    def _say_fatal(self, pattern: str, line: str) -> None:
        """A fatal line was found; pattern "" : a part of the log was not searched."""
        begin = time.monotonic_ns() - FATAL_EVERY_NS
        if pattern:
            self._tell("fatal", begin, {"pattern": pattern, "line": line, "incarnation": self._incarnation})
        else:
            self._tell("noise", begin, {"kind": LOG_SKIPPED, "value_ns": 0})

    def _wait(self, ready: Callable[[Mapping[str, Any]], bool], limit_s: float) -> Mapping[str, Any]:
        deadline = time.monotonic() + limit_s
        while True:
            found = self._inspect()
            if ready(found) or time.monotonic() > deadline:
                return found
            time.sleep(0.005)

    def _inspect(self) -> Mapping[str, Any]:
        with explained("looking at a container", where=self.target.name):
            state: Mapping[str, Any] = self._client.api.inspect_container(self.target.id)["State"]
            return state

    def _met(self) -> AgentHost:
        target = self.target
        return meet(
            self._client,
            self._sidecar,
            node=target.node,
            address=target.address,
            gateway=target.gateway,
            socket=sidecar.SOCKET,
            run_id=self._run_id,
            origin_ns=self.origin_ns,
            news=self._from_agent,
            failure=lambda cause: ClusterError(
                "a sidecar came up but its agent does not answer",
                where=target.name,
                cause=cause,
                next_step="run `dethrone doctor`, then `dethrone heal`",
            ),
        )

    def _prepare(self, agent: AgentHost) -> None:
        if self._prepared is not None:
            start, peers, dead_man_ns = self._prepared
            agent.prepare(start, peers, dead_man_ns=dead_man_ns, process=FIRST_PROCESS)

    def _living(self) -> AgentHost:
        agent = self._agent
        if agent is None:
            raise ClusterError("the container does not run", where=self.target.name, cause="its sidecar went with it")
        return agent

    def _from_agent(self, news: HostNews) -> None:
        if news.kind != "lost":
            self._news(news)
            return
        with contextlib.suppress(HarnessError):
            if not self._inspect()["Running"]:
                return  # it went with its target, which is reported separately
        if self._agent is not None:
            self._news(news)

    def _told_started(self, pid: int, begin: Ns, *, asked: bool) -> None:
        self._incarnation += 1
        self._pid = pid
        self._tell("started", begin, {"pid": pid, "incarnation": self._incarnation, "asked": asked})

    def _tell(self, kind: str, begin: Ns, data: Mapping[str, Any]) -> None:
        span = Span(begin - self.origin_ns, time.monotonic_ns() - self.origin_ns)
        self._news(HostNews(host=self.name, kind=kind, span=span, data=data))
