"""A tiny protocol for tests of the node process: pings, echoes, one durable value, and ways to misbehave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.machine import (
    SHUTDOWN,
    Await,
    CoreEvent,
    CoreStatus,
    Disk,
    DiskDone,
    DiskImage,
    DiskOp,
    Effect,
    Fired,
    Fsync,
    Halt,
    LogEnd,
    Message,
    Note,
    Rename,
    Reply,
    Request,
    Send,
    SendFailed,
    SetTimer,
    Witnessed,
    Write,
)
from dethrone.harness.core.rng import Rng


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    n: int
    pad: str = ""


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    n: int


class Echo(msgspec.Struct, frozen=True, tag="echo"):
    value: Any


class Store(msgspec.Struct, frozen=True, tag="store"):
    value: int
    path: str = "value"


class Flood(msgspec.Struct, frozen=True, tag="flood"):
    """Keep ``window`` pings under way until ``count`` were answered, then reply with the time it took (ns)."""

    to: str
    count: int
    window: int = 64


class Misbehave(msgspec.Struct, frozen=True, tag="misbehave"):
    how: str


class Told(msgspec.Struct, frozen=True, tag="told"):
    value: Any = None


class ToyCore:
    def __init__(self, *, node: str, members: tuple[str, ...], transport: str) -> None:
        self.node = node
        self.others = tuple(name for name in members if name != node)
        self.http = transport == "http"
        self.value = 0
        self.token = 0
        self.ticks = 0
        self.heard: dict[str, int] = {}
        self.failures = 0
        self.late_ms = 0
        self.waiting: dict[int, int] = {}
        self.flood: tuple[int, str, int, int] | None = None
        self.sent = self.answered = 0
        self.due = 0

    def boot(self, disk: DiskImage, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        image = disk.get("value", b"0")
        if isinstance(image, str):
            out.append(Halt("value is unreadable"))
            return
        self.value = int(image)
        if "synced_at_start" in disk:
            self.token += 1
            out.extend((Disk(self.token, (Fsync("synced_at_start"),)), Await(self.token)))
        out.append(Note("start", self.value, "TOY", {"draw": rng.below(1000)}))
        self._arm(now, out)

    def handle(self, event: CoreEvent, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        if isinstance(event, Fired):
            self.ticks += 1
            self.late_ms = max(self.late_ms, (now.mono - self.due) // MS)
            out.append(Note("tick", self.value, "TOY", {"n": self.ticks, "heard": dict(self.heard)}))
            out.extend(Send(name, Ping(-rng.below(1000) - 1)) for name in self.others)
            self._arm(now, out)
        elif isinstance(event, Message):
            self._message(event, now, out)
        elif isinstance(event, Request):
            self._request(event, now, out)
        elif isinstance(event, DiskDone):
            request = self.waiting.pop(event.token, None)
            if event.error is not None:
                out.append(Halt(event.error) if request is None else Reply(request, Told(event.error)))
        elif isinstance(event, SendFailed):
            self.failures += 1

    def status(self, now: Clocks) -> CoreStatus:
        return CoreStatus(
            role="TOY",
            term=self.value,
            leader=None,
            voted_for=None,
            log_end=LogEnd(),
            commit=0,
            timers={"tick": (self.due - now.mono) // MS},
            counters={"ticks": self.ticks},
            extra={"heard": dict(self.heard), "failures": self.failures, "late_ms": self.late_ms},
        )

    def _arm(self, now: Clocks, out: list[Effect]) -> None:
        self.due = now.mono + 50 * MS
        out.append(SetTimer("tick", self.due))

    def _message(self, event: Message, now: Clocks, out: list[Effect]) -> None:
        body = event.body
        self.heard[event.src] = self.heard.get(event.src, 0) + 1
        if isinstance(body, Ping):
            out.append(Send(event.src, Pong(body.n), answers=event.id))
        elif body.n > 0 and self.flood is not None:
            request, to, count, began = self.flood
            self.answered += 1
            if self.sent < count:
                self.sent += 1
                out.append(Send(to, Ping(self.sent)))
            if self.answered == count:
                out.append(Reply(request, Told(now.mono - began)))
                self.flood = None

    def _request(self, event: Request, now: Clocks, out: list[Effect]) -> None:
        body = event.body
        if isinstance(body, Echo):
            out.append(Reply(event.id, Told(body.value)))
        elif isinstance(body, Store):
            self.token += 1
            self.value = body.value
            self.waiting[self.token] = event.id
            data = str(body.value).encode()
            out.append(
                Disk(
                    self.token,
                    (
                        Write(body.path + ".tmp", data, offset=0, truncate=True),
                        Fsync(body.path + ".tmp"),
                        Rename(body.path + ".tmp", body.path),
                        Fsync(body.path),
                    ),
                )
            )
            out.append(Await(self.token))
            out.append(Note("stored", body.value, "TOY", {}))
            out.append(Reply(event.id, Told(body.value)))
        elif isinstance(body, Flood):
            self.flood = (event.id, body.to, body.count, now.mono)
            self.sent, self.answered = min(body.window, body.count), 0
            out.extend(Send(body.to, Ping(n + 1)) for n in range(self.sent))
        elif body.how == "raise":
            out.append(Note("never", self.value, "TOY", {}))
            raise RuntimeError("told to raise")
        elif body.how == "value_error":
            raise ValueError("told to raise what decoders raise")
        elif body.how == "halt":
            out.append(Note("last", self.value, "TOY", {}))
            out.append(Halt("told to halt"))
        elif body.how == "wall":
            out.append(SetTimer("wall", now.wall + 30 * MS, "wall"))
            out.append(Reply(event.id, Told()))


class PoliteCore(ToyCore):
    """Stores that it was told of its end, and then tells the others."""

    graceful = True
    farewell = Ping(-5000)

    def handle(self, event: CoreEvent, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        if event != Fired(SHUTDOWN):
            super().handle(event, now, rng, out)
            return
        self.token += 1
        out.extend((Disk(self.token, (Write("goodbye", b"1"), Fsync("goodbye"))), Await(self.token)))
        out.extend(Send(name, self.farewell) for name in self.others)
        out.append(Note("goodbye", self.value, "TOY", {}))


class ToyWitness:
    def __init__(self) -> None:
        self.pongs = 0

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        image = disk.get("value", b"0")
        return [Witnessed("persisted", int(image), {"voted_for": "n1"})] if isinstance(image, bytes) else []

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        return [Witnessed("acked", 0, {"to": to, "n": body.n})] if isinstance(body, Pong) and body.n < 0 else []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        return []

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        return [
            Witnessed("persisted", int(op.data), {"voted_for": "n1"})
            for op in ops
            if isinstance(op, Write) and op.path == "value.tmp"
        ]


class ToyTarget:
    name = "toy"
    message_type = Ping | Pong
    request_type = Echo | Store | Flood | Misbehave
    reply_type = Told

    def __init__(self, transport: str, kind: type[ToyCore] = ToyCore) -> None:
        self.transport = transport
        self.kind = kind

    def knobs(self, settings: Mapping[str, str], *, profile: str | None = None) -> Any:
        if settings:
            raise ConfigError(f"no such knob: {sorted(settings)}")
        return None

    def core(self, *, node: str, members: tuple[str, ...], knobs: Any, variant: str | None) -> ToyCore:
        return self.kind(node=node, members=members, transport=self.transport)

    def witness(self, *, node: str, members: tuple[str, ...]) -> ToyWitness:
        return ToyWitness()

    def variants(self) -> Mapping[str, str]:
        return {}


TARGET = ToyTarget("tcp")
POLITE = ToyTarget("tcp", PoliteCore)
