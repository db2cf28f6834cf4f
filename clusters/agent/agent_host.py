"""A host as the harness uses it: each verb of ``Host`` is a request to the agent there.

Guarantees: thread-safe; every call is bounded; ``*_async`` verbs return futures, so requests to all hosts run at once;
an agent that is lost or does not answer raises ClusterError. Out of scope: connections, clocks and news (``link``), and
proof across hosts (``confirm``).
"""

from __future__ import annotations

import base64
import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from dethrone.clusters.agent.large_files import LARGE, digest_of
from dethrone.clusters.agent.link import HEARTBEAT_S, Link
from dethrone.clusters.agent.streams import Stream
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import IN_A_CONTAINER, Evidence, HostNews, NodeStart, Places

CHUNK = 1 << 20
FILE_MAX = 64 << 20
GIVE_UP_S = 5.0
"""How long a broken connection is retried before the agent is declared lost."""
MEASURE_LIMIT_S = 60.0
"""How much longer than its window a measurement may take; no run works where one sync hangs for longer."""
BYE_LIMIT_S = 1.0
"""How long ``close`` waits for the agent's answer, which a dead agent never sends."""
NEWS_LIMIT_S = 5.0
"""How long ``stop_node`` waits for the last news, which follow its answer."""


class AgentHost(Link):
    """One host through its agent: implements ``dethrone.harness.core.interfaces.Host``, and ``ProbingHost`` of
    ``confirm``.

    ``connect`` opens a connection (a relay); it is called again when one breaks, and may raise OSError or
    ClusterError. ``client``: the source addresses of the harness' packets as that host sees them, which a cut of
    ``client`` drops; None: the host's default gateway. ``run``: an agent of another run refuses it. ``origin_ns``:
    the monotonic ns of the history's 0. ``meet_s``: the limit of the first connection, ``give_up_s`` that of later
    ones; on a busy machine, a host that has just started takes longer. ``large_files``: a directory there that may hold
    large files, each under its digest; "": none.
    """

    def __init__(
        self,
        name: str,
        address: str,
        connect: Callable[[], Stream],
        *,
        origin_ns: Ns,
        news: Callable[[HostNews], None],
        run: str | None = None,
        client: str | Sequence[str] | None = None,
        give_up_s: float = GIVE_UP_S,
        meet_s: float | None = None,
        large_files: str = "",
    ) -> None:
        self.address = address
        self._large_files = large_files
        self.client_addresses = (client,) if isinstance(client, str) else tuple(client or ())
        self.met: Mapping[str, Sequence[str]] = {}
        self.shapes_messages = False
        """Whether the node doubles, reorders and holds back messages itself."""
        """The addresses of all peers that its agent received last, in addition to those of ``prepare``."""
        self.state: HostState = HEALTHY
        """The state that was requested last."""
        self._runs_as: Mapping[str, Any] | None = None
        super().__init__(name, connect, origin_ns=origin_ns, news=news, run=run, give_up_s=give_up_s, meet_s=meet_s)

    # --- Host -----------------------------------------------------------------------------------------------------

    def prepare(
        self, start: NodeStart, peers: Mapping[str, str], *, dead_man_ns: Ns, process: int | None = None
    ) -> None:
        """See ``Host``. Arms the dead man's switch if ``dead_man_ns`` is not 0.

        ``process``: the id of the node process in the agent's view, if something other than the agent starts it.
        """
        if dead_man_ns:
            self._heartbeat_s = min(HEARTBEAT_S, max(0.02, dead_man_ns / 4 / SECOND))
        known: dict[str, Sequence[str]] = {name: [address] for name, address in peers.items()}
        if self.client_addresses:
            known["client"] = self.client_addresses
        said = self._call(
            "prepare",
            start=msgspec.to_builtins(start),
            peers=known,
            name=self.name,
            dead_man_ns=dead_man_ns,
            process=process or 0,
        )
        self.client_addresses = tuple(said["client"])
        self.met = {}
        self.shapes_messages = start.link_socket is not None
        self._runs_as = said["runs_as"]
        self._beat_now.set()

    def meet_async(self, peers: Mapping[str, Sequence[str]]) -> Future[str]:
        """Send the agent every address of its peers; the result: why it cannot cut IPv6 ones ("": it can)."""
        known = {**peers, "client": self.client_addresses} if self.client_addresses else dict(peers)

        def uncut(said: Mapping[str, Any]) -> str:
            self._addresses = tuple(said["addresses"])
            self.met = dict(peers)
            return str(said["uncut"])

        return self._ask(uncut, "meet", peers=known)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every address of the host that others may send to, as last reported; ``address`` comes first."""
        return tuple(dict.fromkeys((self.address, *self._addresses)))

    def start_node(self) -> None:
        """See ``Host``. Raises ClusterError if the node already runs or cannot be started."""
        self._call("start_node")

    def converge(self, want: HostState) -> Evidence:
        """See ``Host``. The agent reads the network part back; ``confirm.converge_all`` proves it by probes."""
        return self._result(self.converge_async(want))

    def converge_async(self, want: HostState, *, verify: bool = True) -> Future[Evidence]:
        """``converge`` without waiting. ``verify`` False: the caller probes, so the agent need not read rules back."""
        self.state = want

        def evidence(said: Mapping[str, Any]) -> Evidence:
            return Evidence(
                host=self.name,
                span=self.span(said["lo"], said["hi"]),
                state=want,
                confirmed=said["confirmed"],
                why=said["why"],
                detail={name: self._relative(part) for name, part in said["detail"].items()},
            )

        return self._ask(evidence, "converge", want=msgspec.to_builtins(want), verify=verify)

    def send_probes_async(self, nonce: int, *, order: Sequence[str] = ()) -> Future[Mapping[str, Any]]:
        """Send one probe to each peer, those of ``order`` first; ``failed`` names the peers that got none, and why."""
        return self._ask(self._relative, "send_probes", nonce=nonce, order=list(order))

    def probe_links_async(self, nonce: int, *, expect: Sequence[str], timeout_ns: Ns) -> Future[Mapping[str, Any]]:
        """Wait for probes there. ``arrived``: names; ``dropped``: name → packets since converging; ``in_force``: rules
        hold."""

        def found(said: Mapping[str, Any]) -> Mapping[str, Any]:
            self._addresses = tuple(said["addresses"])
            return self._relative({key: value for key, value in said.items() if key != "addresses"})

        return self._ask(found, "probe_links", nonce=nonce, expect=list(expect), timeout_ns=timeout_ns)

    def unshaped(self) -> str:
        """Why the quality of its links cannot be changed, found out by trying it; "" if it can."""
        return str(self._call("unshaped")["why"])

    def unskewed(self) -> str:
        """Why the clocks of its node cannot be skewed, found out by trying what does no harm; "" if they can."""
        return str(self._call("unskewed")["why"])

    def ask_clock(self) -> Mapping[str, Any]:
        """See ``dethrone.harness.core.interfaces.ClockAsked``."""
        return self._call("ask_clock")

    def send_burst_async(self, nonce: int, plan: Mapping[str, tuple[int, int]]) -> Future[Mapping[str, str]]:
        """Send each peer in ``plan`` a burst (datagrams, bytes of each); the result: peer → why it got none."""
        asked = {peer: {"count": count, "size": size} for peer, (count, size) in plan.items()}
        return self._ask(lambda said: said["failed"], "send_burst", nonce=nonce, plan=asked)

    def read_burst_async(self, nonce: int, expect: Mapping[str, int], *, timeout_ns: Ns) -> Future[Mapping[str, Any]]:
        """Wait for this number of datagrams of each sender; ``bursts``: what arrived of each (``bursts.summary``)."""
        return self._ask(lambda said: said, "read_burst", nonce=nonce, expect=dict(expect), timeout_ns=timeout_ns)

    def knock_async(self, peers: list[str], *, timeout_ns: Ns) -> Future[Mapping[str, str]]:
        """Begin to try to connect to these peers; see ``knock_proof.KnockingHost``."""
        return self._ask(lambda said: said["answers"], "knock", peers=peers, timeout_ns=timeout_ns)

    def client_probe(self, nonce: int) -> tuple[bytes, tuple[str, int]]:
        """The probe that the harness itself sends as ``client``, and its target."""
        payload = f"dethrone-probe {self._greeting['run']} {nonce} client {self.address}".encode()
        return payload, (self.address, int(self._greeting["probe_port"]))

    def client_burst(self, nonce: int, number: int, size: int) -> tuple[bytes, tuple[str, int]]:
        """One datagram of the harness' own burst to the host, and its target."""
        head = f"dethrone-burst {self._greeting['run']} {nonce} client {number} {time.monotonic_ns()} "
        return head.encode().ljust(size, b"."), (self.address, int(self._greeting["probe_port"]))

    sets_timers = True

    places: Places = IN_A_CONTAINER
    """Those of a container, unless the backend put them elsewhere."""

    def measure(
        self, directory: str, peers: Mapping[str, str], *, window_ns: Ns, writes_per_s: int
    ) -> Mapping[str, Any]:
        """See ``dethrone.harness.core.interfaces.Host``."""
        return self._call(
            "measure",
            limit_s=window_ns / SECOND + MEASURE_LIMIT_S,
            directory=directory,
            peers=dict(peers),
            window_ns=window_ns,
            writes_per_s=writes_per_s,
        )

    def reset_flows(self, peers: Sequence[str]) -> Mapping[str, Any]:
        """See ``Host``. ``worked``, ``before``, ``after`` (flows), and ``why`` if it did not work."""
        return self._relative(self._call("reset_flows", peers=list(peers)))

    def run(self, argv: Sequence[str], *, timeout_ns: Ns) -> tuple[int, bytes, bytes]:
        """See ``Host``. Exit code 124: the command ran out of time and was killed; 127: it could not be started."""
        said = self._call("run", limit_s=timeout_ns / SECOND + 10, argv=list(argv), timeout_ns=timeout_ns)
        return said["code"], base64.b64decode(said["out"]), base64.b64decode(said["err"])

    def read_file(self, path: str, *, most: int | None = None) -> bytes:
        """See ``Host``. Raises ClusterError if the file cannot be read, or exceeds 64 MiB and ``most`` is None."""
        content = bytearray()
        start = 0
        while True:
            said = self._call("read_file", path=path, offset=start + len(content))
            data = base64.b64decode(said["data"])
            if most is not None and not content and start == 0 and int(said.get("size", 0)) > most:
                start = int(said["size"]) - most
                continue
            content += data
            if most is not None and len(content) >= most:
                return bytes(content[:most])
            if not said["more"]:
                return bytes(content)
            if len(content) >= FILE_MAX:
                raise ClusterError(f"a file is longer than {FILE_MAX >> 20} MiB", where=f"{path} on {self.name}")

    def write_file(self, path: str, content: bytes, *, private: bool = False) -> None:
        """See ``Host``. Parent directories are created. A large file is sent only if the host lacks it."""
        token = secrets.token_hex(8)
        if self._large_files and len(content) >= LARGE and not private:
            source = f"{self._large_files}/{digest_of(content)}"
            if self._call("copy_file", source=source, path=path, token=token)["there"]:
                return
        for offset in range(0, len(content) or 1, CHUNK):
            data = base64.b64encode(content[offset : offset + CHUNK]).decode()
            last = offset + CHUNK >= len(content)
            part: dict[str, Any] = {"path": path, "token": token, "offset": offset, "data": data, "last": last}
            self._call("write_file", **part, private=private)

    def stop_node(self) -> None:
        """See ``Host``. Before it returns, the last trace lines and a ``summary`` of the noise arrive as news."""
        said = self._call("stop_node")
        deadline = time.monotonic() + NEWS_LIMIT_S
        while self._seen_news < said["news"] and self._lost is None and time.monotonic() < deadline:
            time.sleep(0.001)
        if not said["gone"]:
            raise ClusterError("the node process does not end", where=self.name, cause="it hangs in the kernel")

    def close(self) -> None:
        """See ``Host``. Disarms the dead man's switch and removes our chain; reports no ``lost``."""
        if self._lost is None and not self._closed.is_set():
            with contextlib.suppress(ClusterError):
                self._call("bye", limit_s=BYE_LIMIT_S)
        self._closed.set()
        self._beat_now.set()
        stream = self._stream
        if stream is not None:
            stream.close()
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout=5)

    @property
    def shares_user(self) -> str:
        """See ``dethrone.harness.core.interfaces.Host``."""
        return "" if self._runs_as is None or self._runs_as["own"] else str(self._runs_as["why"])
