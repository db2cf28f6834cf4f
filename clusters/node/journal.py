"""The journal: every input of a live core and every random draw, so that it can be re-executed step by step.

Format, JSON lines: ``head`` (target, knobs, seed, the disk at the start), ``boot``, ``step`` …, ``end``. A step
holds the event, both clocks, the draws it made and a digest of the effects it produced. One file may hold several
incarnations, one behind the other. Guarantees: what was flushed survives ``kill -9``; replay either reproduces every
effect or raises HistoryError at the first step that differs. Stops at a cap and says so (an ``end`` with reason
``cap``). Out of scope: time and disk of the replayer: nothing is sent, slept or written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core.clock import Clocks
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.files import open_regular
from dethrone.harness.core.machine import (
    Await,
    Core,
    CoreEvent,
    Disk,
    DiskDone,
    DiskImage,
    Effect,
    Fired,
    Fsync,
    Halt,
    Message,
    Note,
    Rename,
    Reply,
    Request,
    Send,
    SendFailed,
    SetTimer,
    Target,
    Unlink,
    Unreadable,
    Write,
)
from dethrone.harness.core.rng import Rng

VERSION = 1
_KINDS: dict[type, str] = {
    Send: "send",
    Reply: "reply",
    Disk: "disk",
    Await: "await",
    SetTimer: "timer",
    Note: "note",
    Halt: "halt",
    Write: "write",
    Fsync: "fsync",
    Rename: "rename",
    Unlink: "unlink",
}


class Head(msgspec.Struct, frozen=True, kw_only=True, tag="head", tag_field="k"):
    """Everything that a core needs to be born again."""

    version: int
    target: str
    node: str
    incarnation: int
    members: tuple[str, ...]
    knobs: Mapping[str, str]
    profile: str | None
    variant: str | None
    seed: int
    stream: str
    disk: Mapping[str, bytes]
    unreadable: tuple[str, ...] = ()


class BootStep(msgspec.Struct, frozen=True, gc=False, tag="boot", tag_field="k", omit_defaults=True):
    """The core's ``boot``."""

    m: int
    w: int
    d: str
    r: tuple[int, ...] = ()


class CoreStep(msgspec.Struct, frozen=True, gc=False, tag="step", tag_field="k", omit_defaults=True):
    """One ``handle``: event kind and fields, clocks (ns), digest of its effects, draws."""

    e: str
    a: msgspec.Raw
    m: int
    w: int
    d: str
    r: tuple[int, ...] = ()


class End(msgspec.Struct, frozen=True, tag="end", tag_field="k"):
    """The journal ends here on purpose; one without it was killed."""

    steps: int
    reason: str


Line = Head | BootStep | CoreStep | End


class Booted(msgspec.Struct, frozen=True):
    """Stands for the core's ``boot`` where replay yields events."""

    disk: Mapping[str, bytes | Unreadable]


class RecordingRng(Rng):
    """A generator that also keeps what it drew since ``take``."""

    __slots__ = ("_drawn",)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._drawn: list[int] = []

    def next64(self) -> int:
        """Draw and remember."""
        draw = super().next64()
        self._drawn.append(draw)
        return draw

    def take(self) -> tuple[int, ...]:
        """The draws since the last call."""
        if not self._drawn:
            return ()
        drawn = tuple(self._drawn)
        self._drawn.clear()
        return drawn


class RecordedRng(Rng):
    """A generator that gives the recorded draws of one step, and refuses to give more."""

    __slots__ = ("_draws",)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._draws: list[int] = []

    def load(self, draws: Sequence[int]) -> None:
        """Start a step that made these draws."""
        self._draws = list(reversed(draws))

    @property
    def left(self) -> int:
        """Recorded draws that the step did not ask for."""
        return len(self._draws)

    def next64(self) -> int:
        """The next recorded draw. Raises HistoryError when the step asks for more than it did."""
        if not self._draws:
            raise HistoryError("the replayed core draws more random numbers than the live one did")
        return self._draws.pop()


class Digester:
    """Digest of a list of effects: equal effects give equal digests on any machine."""

    __slots__ = ("_encoder",)

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder(order="deterministic", enc_hook=repr)

    def __call__(self, effects: Sequence[Effect]) -> str:
        """16 hex digits."""
        if not effects:
            return ""
        tagged: list[Any] = []
        for effect in effects:
            if isinstance(effect, Disk):
                tagged.append(("disk", effect.token, [(_KINDS[type(op)], op) for op in effect.ops]))
            else:
                tagged.append((_KINDS[type(effect)], effect))
        return hashlib.blake2b(self._encoder.encode(tagged), digest_size=8).hexdigest()


def stream_name(node: str, incarnation: int) -> str:
    """Name of the stream of draws of one start of one node."""
    return f"node/{node}/{incarnation}"


class Journal:
    """Writes one incarnation's journal behind what ``path`` already holds. ``stopped`` says that the cap was reached.

    An OSError (a full disk) stops the journal, never the node: a journal is a help, not evidence.
    """

    def __init__(self, path: str, head: Head, *, bytes_max: int) -> None:
        self._encoder = msgspec.json.Encoder(enc_hook=repr)
        self._digest = Digester()
        self._buffer = bytearray()
        self._room = bytes_max
        self._steps = 0
        self.stopped: str | None = None
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            self._buffer += b"\n"
        self._line(head)

    def boot(self, now: Clocks, draws: tuple[int, ...], effects: Sequence[Effect]) -> None:
        """Record the core's boot."""
        if self.stopped is None:
            self._line(BootStep(now.mono, now.wall, self._digest(effects), draws))

    def step(self, event: CoreEvent, now: Clocks, draws: tuple[int, ...], effects: Sequence[Effect]) -> None:
        """Record one handled event."""
        if self.stopped is not None:
            return
        raw = msgspec.Raw(self._encoder.encode(_fields(event)))
        self._line(CoreStep(_EVENT_KINDS[type(event)], raw, now.mono, now.wall, self._digest(effects), draws))
        self._steps += 1

    def flush(self) -> None:
        """Hand what was recorded to the operating system."""
        if not self._buffer or self._fd < 0:
            return
        data = bytes(self._buffer)
        self._buffer.clear()
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self.stopped = f"write error: {error.strerror}"

    def close(self, reason: str) -> None:
        """End the journal on purpose."""
        if self._fd < 0:
            return
        if self.stopped is None:
            self._room = 1 << 20
            self._line(End(self._steps, reason))
            self.stopped = reason
        self.flush()
        os.close(self._fd)
        self._fd = -1

    def _line(self, line: Line) -> None:
        data = self._encoder.encode(line)
        self._room -= len(data) + 1
        if self._room < 0:
            self.stopped = "cap"
            data = self._encoder.encode(End(self._steps, "cap"))
        self._buffer += data
        self._buffer += b"\n"


_EVENT_KINDS: dict[type, str] = {
    Message: "message",
    Fired: "fired",
    Request: "request",
    DiskDone: "disk_done",
    SendFailed: "send_failed",
}


def _fields(event: CoreEvent) -> tuple[Any, ...]:
    if isinstance(event, Message):
        return (event.src, event.body, event.id)
    if isinstance(event, Fired):
        return (event.timer,)
    if isinstance(event, Request):
        return (event.id, event.body)
    if isinstance(event, DiskDone):
        return (event.token, event.error)
    return (event.to, event.body, event.error)


class _Events:
    """Typed decoders for the events of one target."""

    def __init__(self, target: Target) -> None:
        message: Any = target.message_type
        request: Any = target.request_type
        shapes: dict[type[CoreEvent], Any] = {
            Message: tuple.__class_getitem__((str, message, int | None)),
            Fired: tuple[str],
            Request: tuple.__class_getitem__((int, request)),
            DiskDone: tuple[int, str | None],
            SendFailed: tuple.__class_getitem__((str, message, str)),
        }
        self._decoders = {_EVENT_KINDS[kind]: (kind, msgspec.json.Decoder(shape)) for kind, shape in shapes.items()}

    def __call__(self, step: CoreStep) -> CoreEvent:
        kind, decoder = self._decoders[step.e]
        return kind(*decoder.decode(step.a))


def read_lines(path: Path) -> Iterator[Line]:
    """All lines of a journal, without a line that was torn by a crash at the end of an incarnation."""
    decoder = msgspec.json.Decoder(Line)
    torn: tuple[int, ValueError] | None = None
    with open_regular(path) as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                line = decoder.decode(text)
            except ValueError as error:
                if torn is not None:
                    break
                torn = (number, error)
                continue
            if torn is not None and not isinstance(line, Head):
                break
            torn = None
            yield line
        else:
            return
    raise HistoryError(f"line {torn[0]} is damaged: {torn[1]}", where=str(path), cause="not a torn end")


AS_IT_RAN = "as it ran"


def replay(
    path: Path, target: Target, *, incarnation: int | None = None, variant: str | None = AS_IT_RAN
) -> Iterator[tuple[Booted | CoreEvent, list[Effect]]]:
    """Re-execute one incarnation (None: the last in the file) and yield each event with the effects it gives.

    ``variant``: where the one that ran is found here, if not under the name it had on its host. The first pair is
    ``Booted``. Raises HistoryError if a step gives other effects or draws than it did live, or if the file holds no
    such incarnation.
    """
    run: _Replay | None = None
    for line in _section(path, incarnation):
        if isinstance(line, Head):
            run = _Replay(line, target, variant, where=str(path))
        elif run is not None and not isinstance(line, End):
            yield run.execute(line)


def contrast(
    path: Path, target: Target, *, incarnation: int | None = None, variant: str | None = AS_IT_RAN
) -> tuple[int, Booted | CoreEvent, list[Effect], list[Effect]] | None:
    """The first step at which the build without any variant does otherwise on the same inputs and draws.

    Its number (0: the boot), its event, what was done live, what that build does. None: it does the same to the end.
    Raises as ``replay`` does.
    """
    ran: _Replay | None = None
    honest: _Replay | None = None
    for number, line in enumerate(_section(path, incarnation), start=-1):
        if isinstance(line, Head):
            ran = _Replay(line, target, variant, where=str(path))
            honest = _Replay(line, target, None, where=str(path))
        elif ran is not None and honest is not None and not isinstance(line, End):
            event, did = ran.execute(line)
            would, same = honest.attempt(line)
            if not same:
                return number, event, did, would
    return None


def _section(path: Path, incarnation: int | None) -> Iterator[Line]:
    """The lines of one incarnation."""
    heads = [line.incarnation for line in read_lines(path) if isinstance(line, Head)]
    wanted = heads[-1] if heads and incarnation is None else incarnation
    if wanted not in heads:
        raise HistoryError(f"no incarnation {wanted} in this journal; it holds {heads}", where=str(path))
    # The last section of that number: a harness that forgot to count must not get two runs for one.
    section = len(heads) - 1 - heads[::-1].index(wanted)
    seen = -1
    for line in read_lines(path):
        seen += isinstance(line, Head)
        if seen == section:
            yield line


class _Replay:
    """One incarnation being re-executed."""

    def __init__(self, head: Head, target: Target, variant: str | None, *, where: str) -> None:
        if head.version != VERSION:
            raise HistoryError(f"journal version {head.version}; this reads {VERSION}", where=where)
        knobs = target.knobs(head.knobs, profile=head.profile)
        build = head.variant if variant == AS_IT_RAN else variant
        self._core: Core = target.core(node=head.node, members=head.members, knobs=knobs, variant=build)
        self._rng = RecordedRng(Rng(head.seed).stream(head.stream).seed)
        self._disk: DiskImage = {**head.disk, **dict.fromkeys(head.unreadable, "unreadable")}
        self._events = _Events(target)
        self._digest = Digester()
        self._where = where
        self._number = 0

    def execute(self, line: BootStep | CoreStep) -> tuple[Booted | CoreEvent, list[Effect]]:
        """One step, which must be what it was."""
        event, out = self._step(line)
        if self._rng.left or self._digest(out) != line.d:
            raise HistoryError(
                f"step {self._number} ({type(event).__name__}) gives other effects than it gave live",
                where=self._where,
                cause="another version of the core, or a core that is not deterministic",
            )
        self._number += 1
        return event, out

    def attempt(self, line: BootStep | CoreStep) -> tuple[list[Effect], bool]:
        """One step, and whether it was what it was. One that fails, or wants more draws, was not."""
        out: list[Effect] = []
        try:
            self._step(line, out)
        except Exception:  # noqa: BLE001 - another build on this one's inputs may do anything
            return out, False
        return out, not self._rng.left and self._digest(out) == line.d

    def _step(
        self, line: BootStep | CoreStep, into: list[Effect] | None = None
    ) -> tuple[Booted | CoreEvent, list[Effect]]:
        out: list[Effect] = [] if into is None else into
        now = Clocks(line.m, line.w)
        self._rng.load(line.r)
        event: Booted | CoreEvent
        if isinstance(line, BootStep):
            event = Booted(self._disk)
            self._core.boot(self._disk, now, self._rng, out)
        else:
            event = self._events(line)
            self._core.handle(event, now, self._rng, out)
        return event, out
