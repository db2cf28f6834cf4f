"""The harness' side of an agent: one connection, requests in flight, news, and the offset between both clocks.

Guarantees: thread-safe; every call is bounded; requests are pipelined; a broken connection is opened again, and no
request is lost or done twice; if that fails until the limit, the agent is ``lost``, which is news once, and every call
raises ClusterError. All spans are on the harness' clock. Out of scope: opening connections, for which a backend passes
a function, and the verbs of the agent (``agent_host``).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

import tenacity

from dethrone.clusters.agent.host.common import boot_id
from dethrone.clusters.agent.offset import Offset
from dethrone.clusters.agent.silence import Silence
from dethrone.clusters.agent.streams import Stream
from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.events import AGENT_LOST
from dethrone.harness.core.interfaces import HostNews

PROTOCOL = 2
"""Version of the agent's protocol that this link speaks."""
CALL_LIMIT_S = 30.0
"""Longest wait for an answer, unless the verb has a bound of its own."""
HEARTBEAT_S = 1.0
ACK_EVERY = 64
"""How many news are acknowledged at once; a heartbeat acknowledges fewer."""
T = TypeVar("T")


class _Waiting:
    """A request without an answer yet: its line, the parser of the answer, and the future that waits for it."""

    __slots__ = ("asked_ns", "future", "line", "parse", "verb")

    def __init__(self, verb: str, line: bytes, parse: Callable[[Mapping[str, Any]], Any]) -> None:
        self.verb = verb
        self.line = line
        self.parse = parse
        self.future: Future[Any] = Future()
        self.asked_ns = time.monotonic_ns()


class _UnusableAgentError(ClusterError):
    """The agent answers, but is not the one we knew or cannot be used: a retry is useless."""


class Link:
    """One agent, over a connection that is opened again when it breaks. See ``AgentHost`` for the arguments."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Stream],
        *,
        origin_ns: Ns,
        news: Callable[[HostNews], None],
        run: str | None,
        give_up_s: float,
        meet_s: float | None,
    ) -> None:
        self.name = name
        self.origin_ns = origin_ns
        self._connect = connect
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
        self._heartbeat_s = HEARTBEAT_S
        self._silence = Silence(time.monotonic_ns())
        self._silence_lock = threading.Lock()
        self._rest = self._open(give_up_s if meet_s is None else meet_s)
        self._reader = threading.Thread(target=self._read, name=f"agent-{name}", daemon=True)
        self._reader.start()
        for _ in range(3):
            self._call("now")
        threading.Thread(target=self._beat, name=f"agent-{name}-heartbeat", daemon=True).start()

    def span(self, lo: Ns, hi: Ns) -> Span:
        """Converts a span of the host's monotonic clock to history time: ns since the run began."""
        below, above = self._offset.bounds
        return Span(lo + below - self.origin_ns, hi + above - self.origin_ns)

    def offset(self) -> tuple[Ns, Ns]:
        """Bounds of history time − host's monotonic clock (ns), to convert the times in trace lines."""
        below, above = self._offset.bounds
        return below - self.origin_ns, above - self.origin_ns

    @property
    def agent(self) -> Mapping[str, Any]:
        """The agent's greeting, with ``incarnation``, ``running``, ``found`` and others."""
        return self._greeting

    # --- requests -------------------------------------------------------------------------------------------------

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
            # Registered before it is sent: if the connection breaks now, the next one sends it again.
            self._waiting[number] = waiting
            self._send(line)
        return waiting.future

    def _send(self, line: bytes) -> None:
        """Write to the connection, if there is one. The caller holds the write lock."""
        stream = self._stream
        if stream is None:
            return
        try:
            stream.write(line)
        except (OSError, ValueError):
            stream.close()  # the reader notices and reconnects

    def _relative(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """``said`` with its span converted to history time."""
        if "lo" not in said:
            return dict(said)
        span = self.span(said["lo"], said["hi"])
        return {**said, "lo": span.lo, "hi": span.hi}

    # --- the connection -------------------------------------------------------------------------------------------

    def _open(self, limit_s: float) -> bytes:
        """Connect and greet, with retries until the limit; returns the bytes that followed the greeting."""
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
            stream.close()  # retried: an engine whose container is about to end says so in place of the agent
            raise ClusterError("the process there is no agent", where=self.name, cause=repr(line[:200])) from error
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
                "the agent was replaced during the run",
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
            except Exception as error:  # noqa: BLE001 - a receiver of news must not fail silently
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
        self._lives(waiting.asked_ns)  # it answered after the request was sent
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
            return  # delivered before the connection broke
        self._seen_news = number
        if kind == "trace":
            lines = data.pop("text").encode("utf-8", "surrogateescape").split(b"\n")
            data["lines"] = lines
            data["offset"] = self.offset()
        self._news(HostNews(host=self.name, kind=kind, span=self.span(said["lo"], said["hi"]), data=data))
        if number - self._acked_news >= ACK_EVERY:
            self._acknowledge()

    def _acknowledge(self) -> None:
        number = self._seen_news
        if number > self._acked_news:
            self._ask(lambda said: said, "ack", news=number)
            self._acked_news = number

    def _beat(self) -> None:
        """Keep the dead man's switch from firing, the clock bounds fresh, and the agent's queue of news short."""
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
        """The agent was certainly alive at this moment."""
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
        """What happened on the host in this span is unknown until the agent is ``back`` and reports it."""
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
