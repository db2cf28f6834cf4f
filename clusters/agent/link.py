"""The harness' end of an agent: one connection, requests in flight, news, and a clock that both ends agree on.

Guarantees: thread-safe; every call is bounded; requests are pipelined (``*_async`` verbs return futures, so that all
hosts are asked at once); a connection that breaks is made again and nothing is lost or done twice, until ``GIVE_UP_S``
is over: then the agent is ``lost``, which is said once as news, and every call raises ClusterError. All spans are on
the harness' clock. Out of scope: where connections come from: a backend hands in a function that makes them.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import tenacity

from dethrone.harness.core.clock import SECOND, Ns, Span
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.events import AGENT_LOST
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import Available, Evidence, HostNews, No, NodeStart, Yes

PROTOCOL = 2
"""Version of the agent's protocol that this link speaks."""

CHUNK = 1 << 20
FILE_MAX = 64 << 20
OUTPUT_MAX = 1 << 20
CALL_LIMIT_S = 30.0
"""Longest wait for an answer, where a verb has no bound of its own."""
GIVE_UP_S = 5.0
"""For so long a broken connection is tried again before the agent is declared lost."""
MEASURE_LIMIT_S = 60.0
"""How much longer than its window a measurement may take: on a machine where a sync hangs for so long, none runs."""
HEARTBEAT_S = 1.0
SILENT_NS = 2 * SECOND
"""An agent that gives no sign of life for longer is silent; two heartbeats fit in."""
CLOCK_SAMPLES = 16
DRIFT_PPM = 200
"""Two machines' monotonic clocks drift apart by at most so much; old clock samples are widened by it."""
BYE_LIMIT_S = 1.0
"""How long ``close`` waits for the agent: one that is gone needs no goodbye."""
NEWS_LIMIT_S = 5.0
"""How long ``stop_node`` waits for the last news, which follow its answer."""
ACK_EVERY = 64
"""News are acknowledged after so many, and with every heartbeat."""


T = TypeVar("T")


class Stream(Protocol):
    """A duplex stream of bytes to the agent. ``read`` and ``write`` may be in use by two threads at once."""

    def read(self) -> bytes:
        """Some bytes, as soon as there are any; b"" when the other side is gone. May raise OSError."""

    def write(self, data: bytes) -> None:
        """Send all of it. Raises OSError when the other side is gone."""

    def close(self) -> None:
        """End both directions, and a ``read`` that is waiting. Idempotent."""


class SocketStream:
    """A connected stream socket."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def read(self) -> bytes:
        """See ``Stream``."""
        return self._socket.recv(256 << 10)

    def write(self, data: bytes) -> None:
        """See ``Stream``."""
        self._socket.sendall(data)

    def close(self) -> None:
        """See ``Stream``."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class ProcessStream:
    """The pipes of a relay command: ``docker exec -i HOST … relay``, ``ssh HOST … relay``."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )

    @property
    def pid(self) -> int:
        """The relay command's process."""
        return self._process.pid

    def read(self) -> bytes:
        """See ``Stream``; the relay's complaint, if it ends with one, is the error."""
        if self._process.stdout is None:
            return b""
        data = os.read(self._process.stdout.fileno(), 256 << 10)
        if not data and self._process.stderr is not None:
            complaint = os.read(self._process.stderr.fileno(), 4096)
            if complaint:
                raise OSError(complaint.decode("utf-8", "replace").strip()[-400:])
        return data

    def write(self, data: bytes) -> None:
        """See ``Stream``."""
        if self._process.stdin is None:
            raise BrokenPipeError
        view = memoryview(data)
        while view:
            view = view[os.write(self._process.stdin.fileno(), view) :]

    def close(self) -> None:
        """See ``Stream``."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Offset:
    """Where the agent's clock lies against the harness': harness − agent is within ``bounds``, ns.

    Each exchange (asked, agent's time, answered) bounds it; exchanges are intersected, older ones widened by drift.
    On one kernel both clocks are the same, and the bounds are exact.
    """

    def __init__(self) -> None:
        self._samples: list[tuple[int, int, int]] = []
        self._same = False

    def same_kernel(self) -> None:
        """Both ends were started by one boot of one kernel: the clock is shared unless a sample speaks against it."""
        self._same = True

    def add(self, asked: Ns, said: Ns, answered: Ns) -> None:
        """One exchange."""
        self._samples = [*self._samples[1 - CLOCK_SAMPLES :], (asked - said, answered - said, answered)]

    @property
    def bounds(self) -> tuple[Ns, Ns]:
        """Lower and upper bound; (0, 0) before the first exchange."""
        samples = self._samples  # the reader's thread may replace the list meanwhile
        if not samples:
            return 0, 0
        newest = samples[-1][2]
        wide = [(newest - at) * DRIFT_PPM // 1_000_000 for _, _, at in samples]
        lo = max(sample[0] - slack for sample, slack in zip(samples, wide, strict=True))
        hi = min(sample[1] + slack for sample, slack in zip(samples, wide, strict=True))
        if lo > hi:  # the clock was stepped or the machine slept: only the newest exchange counts
            lo, hi = samples[-1][:2]
        return (0, 0) if self._same and lo <= 0 <= hi else (lo, hi)


class Silence:
    """How long an agent gives no sign of life, and when that is to be reported: at first, then at doubling lengths.

    One heartbeat is in flight at a time. An agent is silent once ``look`` finds the same one unanswered for the second
    time: a harness that was stalled itself looks once, late, and the answer is there by the next time. A silence of
    ``SILENT_NS`` or less is none.
    """

    def __init__(self, now: Ns) -> None:
        self.life: Ns = now
        """The last moment at which the agent certainly lived."""
        self._looks = 0
        self._next: Ns = 0
        self._number = 0
        self._broken = False

    def broke(self) -> None:
        """The connection is gone: until the agent lives again nothing is heard of it, for certain."""
        self._broken = True

    def look(self, now: Ns) -> tuple[Ns, Ns, int] | None:
        """A heartbeat is unanswered: the silence so far and its number, if it is to be reported."""
        self._looks += 1
        if self._looks < 2 or now - self.life <= SILENT_NS or now < self._next:
            return None
        self._number += not self._next
        self._next = now + (now - self.life)
        return self.life, now, self._number

    def lived(self, at: Ns, now: Ns) -> tuple[Ns, Ns, int] | None:
        """The agent lived at that moment, as is known ``now``: the silence that is over, and its number, if any."""
        since, self.life = self.life, max(self.life, at)
        was_silent = bool(self._next) or (self._broken and now - since > SILENT_NS)
        self._number += was_silent and not self._next
        self._looks, self._next, self._broken = 0, 0, False
        return (since, now, self._number) if was_silent else None


class _Waiting:
    """A request that has not been answered: its line, what makes a result of the answer, who waits."""

    __slots__ = ("asked_ns", "future", "line", "parse", "verb")

    def __init__(self, verb: str, line: bytes, parse: Callable[[Mapping[str, Any]], Any]) -> None:
        self.verb = verb
        self.line = line
        self.parse = parse
        self.future: Future[Any] = Future()
        self.asked_ns = time.monotonic_ns()


class _UnusableAgentError(ClusterError):
    """The agent answers, but not as the one we knew or can use: trying again is no use."""


class AgentHost:
    """One host through its agent: implements ``dethrone.harness.core.interfaces.Host``, and ``ProbingHost`` of
    ``confirm``.

    ``connect`` makes a connection (a relay); it is called again when one breaks, and may raise OSError or
    ClusterError. ``client``: the addresses the harness' packets come from as that host sees them, which a cut of
    ``client`` drops; None: the host's default gateway. ``run``: refused by an agent of another run. ``origin_ns``:
    the monotonic ns of the history's 0. ``meet_s``: how long the first meeting may take, ``give_up_s`` a later one; a
    host that has just come up, on a busy machine, is slower than one that lives.
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
    ) -> None:
        self.name = name
        self.address = address
        self.client_addresses = (client,) if isinstance(client, str) else tuple(client or ())
        self.met: Mapping[str, Sequence[str]] = {}
        """The addresses of all peers that its agent was told last, beside those of ``prepare``."""
        self.state: HostState = HEALTHY
        """The state last asked for."""
        self._connect = connect
        self.origin_ns = origin_ns
        self._news = news
        self._run = run
        self._give_up_s = give_up_s
        self._session = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._write_lock = threading.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._stream: Stream | None = None
        self._seen_news = 0
        self._acked_news = 0
        self._offset = Offset()
        self._closed = threading.Event()
        self._beat_now = threading.Event()
        self._lost: ClusterError | None = None
        self._greeting: Mapping[str, Any] = {}
        self._addresses: tuple[str, ...] = ()
        self._capabilities: Mapping[str, str] | None = None
        self._runs_as: Mapping[str, Any] | None = None
        self._heartbeat_s = HEARTBEAT_S
        self._silence = Silence(time.monotonic_ns())
        self._silence_lock = threading.Lock()
        self._rest = self._open(give_up_s if meet_s is None else meet_s)
        self._reader = threading.Thread(target=self._read, name=f"agent-{name}", daemon=True)
        self._reader.start()
        for _ in range(3):
            self._call("now")
        threading.Thread(target=self._beat, name=f"agent-{name}-heartbeat", daemon=True).start()

    # --- Host ---------------------------------------------------------------------------------------------------

    def prepare(
        self, start: NodeStart, peers: Mapping[str, str], *, dead_man_ns: Ns, process: int | None = None
    ) -> None:
        """See ``Host``. Arms the dead man's switch if ``dead_man_ns`` is not 0.

        ``process``: the node process as the agent sees it, where something else than the agent starts it.
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
        self._runs_as = said["runs_as"]
        self._beat_now.set()

    def meet_async(self, peers: Mapping[str, Sequence[str]]) -> Future[str]:
        """Tell the agent every address of its peers; the answer: why it cannot cut those of IPv6 ("": it can)."""
        known = {**peers, "client": self.client_addresses} if self.client_addresses else dict(peers)

        def uncut(said: Mapping[str, Any]) -> str:
            self._addresses = tuple(said["addresses"])
            self.met = dict(peers)
            return str(said["uncut"])

        return self._ask(uncut, "meet", peers=known)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every address of the host that others may send to, as its agent said last; ``address`` comes first."""
        return tuple(dict.fromkeys((self.address, *self._addresses)))

    def start_node(self) -> None:
        """See ``Host``. Raises ClusterError if it runs already or cannot be started."""
        self._call("start_node")

    def converge(self, want: HostState) -> Evidence:
        """See ``Host``. The network part is what the agent reads back; ``confirm.converge_all`` proves it by probes."""
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

    def send_probes(self, nonce: int) -> None:
        """See ``Host``."""
        self._result(self.send_probes_async(nonce))

    def send_probes_async(self, nonce: int, *, order: Sequence[str] = ()) -> Future[Mapping[str, Any]]:
        """Send one probe to each peer, those of ``order`` first; ``failed`` says to whom it could not be sent."""
        return self._ask(self._relative, "send_probes", nonce=nonce, order=list(order))

    def probe_links(self, nonce: int, *, expect: Sequence[str], timeout_ns: Ns) -> Mapping[str, Any]:
        """See ``Host``. ``arrived``: names; ``dropped``: name → packets since converging; ``in_force``: rules hold."""
        return self._result(self.probe_links_async(nonce, expect=expect, timeout_ns=timeout_ns))

    def probe_links_async(self, nonce: int, *, expect: Sequence[str], timeout_ns: Ns) -> Future[Mapping[str, Any]]:
        """``probe_links`` without waiting."""

        def found(said: Mapping[str, Any]) -> Mapping[str, Any]:
            self._addresses = tuple(said["addresses"])
            return self._relative({key: value for key, value in said.items() if key != "addresses"})

        return self._ask(found, "probe_links", nonce=nonce, expect=list(expect), timeout_ns=timeout_ns)

    def client_probe(self, nonce: int) -> tuple[bytes, tuple[str, int]]:
        """The probe that the harness itself would send as ``client``, and where to."""
        payload = f"dethrone-probe {self._greeting['run']} {nonce} client {self.address}".encode()
        return payload, (self.address, int(self._greeting["probe_port"]))

    sets_timers = True

    def measure(
        self, directory: str, peers: Mapping[str, str], *, window_ns: Ns, writes_per_s: int
    ) -> Mapping[str, Any]:
        """See ``dethrone.harness.core.interfaces.Measuring``."""
        return self._call(
            "measure",
            limit_s=window_ns / SECOND + MEASURE_LIMIT_S,
            directory=directory,
            peers=dict(peers),
            window_ns=window_ns,
            writes_per_s=writes_per_s,
        )

    def reset_flows(self, peers: Sequence[str]) -> Mapping[str, Any]:
        """See ``Host``. ``worked``, ``before``, ``after`` (flows) and ``why`` where it did not work."""
        return self._relative(self._call("reset_flows", peers=list(peers)))

    def run(self, argv: Sequence[str], *, timeout_ns: Ns) -> tuple[int, bytes, bytes]:
        """See ``Host``. Exit code 124: it did not end in time and was killed; 127: it could not be started."""
        said = self._call("run", limit_s=timeout_ns / SECOND + 10, argv=list(argv), timeout_ns=timeout_ns)
        return said["code"], base64.b64decode(said["out"]), base64.b64decode(said["err"])

    def read_file(self, path: str, *, most: int | None = None) -> bytes:
        """See ``Host``. Raises ClusterError if it cannot be read, or is longer than 64 MiB and ``most`` is None."""
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

    def write_file(self, path: str, content: bytes) -> None:
        """See ``Host``. Directories above it are made."""
        token = secrets.token_hex(8)
        for offset in range(0, len(content) or 1, CHUNK):
            data = base64.b64encode(content[offset : offset + CHUNK]).decode()
            last = offset + CHUNK >= len(content)
            self._call("write_file", path=path, token=token, offset=offset, data=data, last=last)

    def stop_node(self) -> None:
        """See ``Host``. Before it returns the last trace lines and a ``summary`` of the host's noise are news."""
        said = self._call("stop_node")
        deadline = time.monotonic() + NEWS_LIMIT_S
        while self._seen_news < said["news"] and self._lost is None and time.monotonic() < deadline:
            time.sleep(0.001)
        if not said["gone"]:
            raise ClusterError("the node process does not end", where=self.name, cause="it hangs in the kernel")

    def close(self) -> None:
        """See ``Host``. The dead man's switch is disarmed and our chain is taken out; nobody is told ``lost``."""
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

    # --- more than a Host ---------------------------------------------------------------------------------------

    def capabilities(self) -> Mapping[str, Available]:
        """What this host can do: ``iptables``, ``signals``, ``faketime``, ``probes``, ``ss``, ``netem``."""
        if self._capabilities is None:
            self._capabilities = {key: str(value) for key, value in self._call("capabilities").items()}
        return {
            name: No(why=said[4:]) if said.startswith("no: ") else Yes() for name, said in self._capabilities.items()
        }

    @property
    def shares_user(self) -> str:
        """See ``dethrone.harness.core.interfaces.Confining``."""
        return "" if self._runs_as is None or self._runs_as["own"] else str(self._runs_as["why"])

    def noise_summary(self) -> Mapping[str, Any]:
        """Figures of the host's noise since the agent began (ns)."""
        return self._call("noise")

    def heal(self) -> Evidence:
        """Converge to healthy and take our chain and hook out."""
        said = self._call("heal")
        self.state = HEALTHY
        return Evidence(
            host=self.name,
            span=self.span(said["lo"], said["hi"]),
            state=HEALTHY,
            confirmed=said["confirmed"],
            why=said["why"],
        )

    def span(self, lo: Ns, hi: Ns) -> Span:
        """A span of the host's monotonic clock as one of the history: ns since the run began."""
        below, above = self._offset.bounds
        return Span(lo + below - self.origin_ns, hi + above - self.origin_ns)

    @property
    def offset(self) -> tuple[Ns, Ns]:
        """Bounds of history time − host's monotonic clock, ns: to convert the times in trace lines."""
        below, above = self._offset.bounds
        return below - self.origin_ns, above - self.origin_ns

    @property
    def agent(self) -> Mapping[str, Any]:
        """What the agent said of itself when it was met, such as ``incarnation``, ``running``, ``found``."""
        return self._greeting

    # --- requests -----------------------------------------------------------------------------------------------

    def _call(self, verb: str, *, limit_s: float = CALL_LIMIT_S, **fields: Any) -> Mapping[str, Any]:
        return self._result(self._ask(lambda said: said, verb, **fields), limit_s=limit_s)

    def _result(self, future: Future[T], *, limit_s: float = CALL_LIMIT_S) -> T:
        try:
            return future.result(timeout=limit_s)
        except FutureTimeout:
            raise ClusterError(
                f"the agent did not answer within {limit_s:g} s",
                where=self.name,
                cause="the host is overloaded or its agent hangs",
                next_step="look at the log of the host's first process",
            ) from None

    def _ask(self, parse: Callable[[Mapping[str, Any]], T], verb: str, **fields: Any) -> Future[T]:
        number = next(self._numbers)
        line = json.dumps({"id": number, "do": verb, **fields}).encode() + b"\n"
        waiting = _Waiting(verb, line, parse)
        with self._write_lock:
            if self._lost is not None:
                raise self._lost
            if self._closed.is_set():
                raise ClusterError("the connection was closed", where=self.name)
            # Registered before it is sent: if the connection breaks now, the next one asks again.
            self._waiting[number] = waiting
            self._send(line)
        return waiting.future

    def _send(self, line: bytes) -> None:
        """Write to the connection, if there is one. Whoever calls holds the write lock."""
        stream = self._stream
        if stream is None:
            return
        try:
            stream.write(line)
        except (OSError, ValueError):
            stream.close()  # the reader notices, and connects again

    def _relative(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """``said`` with its span on the history's clock."""
        if "lo" not in said:
            return dict(said)
        span = self.span(said["lo"], said["hi"])
        return {**said, "lo": span.lo, "hi": span.hi}

    # --- the connection -----------------------------------------------------------------------------------------

    def _open(self, limit_s: float) -> bytes:
        """Connect and say hello, again and again for a while; what was read behind the greeting is returned."""
        attempts = tenacity.Retrying(
            stop=tenacity.stop_any(tenacity.stop_after_delay(limit_s), tenacity.stop_when_event_set(self._closed)),
            wait=tenacity.wait_exponential(multiplier=0.02, max=0.5),
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, OSError | ClusterError) and not isinstance(error, _UnusableAgentError)
            ),
            sleep=self._pause,
            reraise=True,
        )
        try:
            return attempts(self._greet, limit_s)
        except OSError as error:
            raise ClusterError(
                f"no agent can be reached: {error}",
                where=self.name,
                cause="the host is gone, or its first process ended",
                next_step="look at the log of the host's first process",
            ) from error

    def _pause(self, seconds: float) -> None:
        self._closed.wait(seconds)

    def _greet(self, limit_s: float) -> bytes:
        stream = self._connect()
        watchdog = threading.Timer(limit_s, stream.close)
        watchdog.daemon = True
        watchdog.start()
        try:
            hello = {"id": 0, "do": "hello", "session": self._session, "after": self._seen_news, "run": self._run}
            stream.write(json.dumps(hello).encode() + b"\n")
            data = b""
            while b"\n" not in data:
                more = stream.read()
                if not more:
                    raise ConnectionResetError("the connection ended before the agent said hello")
                data += more
        except BaseException:
            stream.close()
            raise
        finally:
            watchdog.cancel()
        line, _, rest = data.partition(b"\n")
        try:
            said = json.loads(line)
            self._check(said)
        except (ValueError, TypeError) as error:
            stream.close()
            raise _UnusableAgentError("what answers is no agent", where=self.name, cause=repr(line[:200])) from error
        except _UnusableAgentError:
            stream.close()
            raise
        with self._write_lock:
            self._greeting = said["ok"]
            self._addresses = tuple(said["ok"]["addresses"])
            self._stream = stream
            for waiting in list(self._waiting.values()):
                self._send(waiting.line)
        return rest

    def _check(self, said: Mapping[str, Any]) -> None:
        if "error" in said:
            raise _UnusableAgentError("the agent refuses us", where=self.name, cause=str(said["error"]))
        greeting = said["ok"]
        if greeting["version"] != PROTOCOL:
            raise _UnusableAgentError(
                f"the agent speaks version {greeting['version']} of the protocol, we speak {PROTOCOL}",
                where=self.name,
                cause="the host was made by another version of Dethrone",
                next_step="`dethrone heal` takes it away, then repeat the run",
            )
        if self._greeting and greeting["epoch"] != self._greeting["epoch"]:
            raise _UnusableAgentError(
                "the agent was replaced while the run lasted",
                where=self.name,
                cause="the agent was killed and another one started; what it knew of the node is gone",
            )
        if greeting["boot"] and greeting["boot"] == boot_id():
            self._offset.same_kernel()

    def _read(self) -> None:
        why = ""
        lost: Exception | None = None
        while lost is None and not self._closed.is_set():
            try:
                self._consume()
            except (OSError, ValueError) as error:
                why = str(error)
            except Exception as error:  # noqa: BLE001 - a receiver of news that fails must not fail in silence
                lost = error
                break
            if self._closed.is_set():
                break
            stream, self._stream = self._stream, None
            if stream is not None:
                stream.close()
            self._silence.broke()
            try:
                self._rest = self._open(self._give_up_s)
                self._lives(time.monotonic_ns())
            except (ClusterError, ValueError) as error:
                lost = error
        if self._closed.is_set():
            self._fail(ClusterError("the connection was closed", where=self.name))
        elif lost is not None:
            self._declare_lost(lost, why)

    def _consume(self) -> None:
        """Read lines until the connection ends."""
        stream = self._stream
        buffer = bytearray(self._rest)
        while stream is not None:
            if b"\n" in buffer:
                *lines, rest = bytes(buffer).split(b"\n")
                buffer = bytearray(rest)
                for line in lines:
                    self._take(json.loads(line))
            data = stream.read()
            if not data:
                return
            buffer += data

    def _take(self, said: Mapping[str, Any]) -> None:
        answered = time.monotonic_ns()
        if "news" in said:
            self._tell(said)
            return
        waiting = self._waiting.pop(said["id"] if said.get("id") is not None else -1, None)
        if waiting is None:
            return
        if "error" in said:
            waiting.future.set_exception(
                ClusterError(f"the agent refused {waiting.verb}: {said['error']}", where=self.name)
            )
            return
        self._lives(waiting.asked_ns)  # it answered after it was asked
        if waiting.verb == "now":
            self._offset.add(waiting.asked_ns, said["ok"]["mono_ns"], answered)
        try:
            waiting.future.set_result(waiting.parse(said["ok"]))
        except (KeyError, TypeError, ValueError) as error:
            waiting.future.set_exception(
                ClusterError(f"the agent's answer to {waiting.verb} is damaged: {error!r}", where=self.name)
            )

    def _tell(self, said: Mapping[str, Any]) -> None:
        number, kind, data = said["news"], said["kind"], dict(said["data"])
        if number <= self._seen_news:
            return  # told before the connection broke
        self._seen_news = number
        if kind == "trace":
            lines = data.pop("text").encode("utf-8", "surrogateescape").split(b"\n")
            data["lines"] = lines
            data["offset"] = self.offset
        self._news(HostNews(host=self.name, kind=kind, span=self.span(said["lo"], said["hi"]), data=data))
        if number - self._acked_news >= ACK_EVERY:
            self._acknowledge()

    def _acknowledge(self) -> None:
        number = self._seen_news
        if number > self._acked_news:
            self._ask(lambda said: said, "ack", news=number)
            self._acked_news = number

    def _beat(self) -> None:
        """Keep the dead man's switch open, the clock bounds fresh and the agent's memory of news short."""
        last: Future[Any] | None = None
        while not self._closed.is_set() and self._lost is None:
            self._beat_now.wait(self._heartbeat_s)
            self._beat_now.clear()
            if last is not None and not last.done():
                self._is_silent()
                continue
            try:
                last = self._ask(lambda said: said, "now")
                self._acknowledge()
            except ClusterError:
                return

    def _lives(self, at: Ns) -> None:
        """The agent certainly lived at this moment."""
        with self._silence_lock:
            over = self._silence.lived(at, time.monotonic_ns())
        if over is not None:
            self._report_silence(over, back=True)

    def _is_silent(self) -> None:
        with self._silence_lock:
            so_far = self._silence.look(time.monotonic_ns())
        if so_far is not None:
            self._report_silence(so_far, back=False)

    def _report_silence(self, found: tuple[Ns, Ns, int], *, back: bool) -> None:
        """Of the time in between it is not known what happened on the host, until it is ``back`` and reports it."""
        lo, hi, number = found
        if self._closed.is_set():
            return
        data = {"kind": AGENT_LOST, "value_ns": hi - lo, "id": number, "back": back}
        span = Span(lo - self.origin_ns, hi - self.origin_ns)
        self._news(HostNews(host=self.name, kind="noise", span=span, data=data))

    def _declare_lost(self, error: Exception, why: str) -> None:
        lost = ClusterError(
            "the agent is lost" + (f" ({why})" if why else ""),
            where=self.name,
            cause=error.what if isinstance(error, ClusterError) else repr(error),
            next_step="`dethrone heal` undoes what is left on the host",
        )
        self._fail(lost)
        moment = time.monotonic_ns()
        span = Span(self._silence.life - self.origin_ns, moment - self.origin_ns)
        with contextlib.suppress(Exception):
            self._news(HostNews(host=self.name, kind="lost", span=span, data={"why": str(lost)}))

    def _fail(self, error: ClusterError) -> None:
        with self._write_lock:
            self._lost = self._lost or error
            waiting, self._waiting = list(self._waiting.values()), {}
        for one in waiting:
            if not one.future.done():
                one.future.set_exception(error)


def boot_id() -> str:
    """Which boot of which kernel this is; "" where that is not told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
