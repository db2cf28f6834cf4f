"""The process that skews clocks: holds processes, changes their vDSO, and reads clocks through it (``agent.py hand``).

One question per line of standard input, one answer per line of standard output; it ends with its input. It is apart
from the agent because the holder of a process must be the only one to wait for it, and the agent reaps everything.

Guarantees: idempotent; if it is killed, every process continues at once, with a vDSO that works. Out of scope: which
skew, of which processes, and the record of what is to be undone (``vdso_clock``).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dethrone.clusters.agent.host.common import Refused, now_ns
from dethrone.clusters.agent.host.processes import process_stat
from dethrone.clusters.agent.host.tracing import (
    ARGUMENTS,
    HeldProcess,
    Stuck,
    held,
    memory_of,
    patch_at_exec,
    refuse_traced,
)
from dethrone.clusters.agent.host.vdso import (
    CLOCKS,
    LABEL_SIZE,
    MONO_CLOCKS,
    NO_SKEW,
    WALL_CLOCKS,
    Layout,
    VdsoSkew,
    is_inside,
    label_in,
    layout_of,
    patch_body,
    patch_jumps,
    records_in,
    settling,
)
from dethrone.clusters.agent.host.waits import refusal, runtime_of, timers_until, waits_seen, waits_until

AT_SYSINFO_EHDR = 33
STEP_NS = 50_000_000
"""A jump of monotonic time below this is no step: it is what a question takes, at the rates that there are."""
SETTLED_NS = 100_000
"""Monotonic time that is wrong by less is set right at once."""
TRIES = 20
"""How often a process is held again because a thread stood where bytes are to change."""
READS = 20
EXACT_NS = 20_000
"""A clock is read this often, until one reading is as exact as this; the one that took the shortest counts."""


def own_vdso() -> bytes:
    """The vDSO of this process, which is as the kernel made it. Raises Refused if there is none."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            place = next(line.split()[0] for line in file if line.rstrip().endswith("[vdso]"))
    except (OSError, StopIteration):
        raise Refused("processes have no vDSO here") from None
    low, high = (int(word, 16) for word in place.split("-"))
    return ctypes.string_at(low, high - low)


def why_no_vdso() -> str:
    """Why no vDSO is patched on this machine; "": they can be."""
    try:
        layout_of(own_vdso())
    except Refused as refused:
        return str(refused)
    return ""


def vdso_base(pid: int) -> int:
    """Where the vDSO of a process is. Raises Refused."""
    try:
        with open(f"/proc/{pid}/auxv", "rb") as file:  # noqa: PTH123
            raw = file.read()
        pairs = dict(struct.unpack_from("<QQ", raw, place) for place in range(0, len(raw) // 16 * 16, 16))
    except OSError as error:
        what = "is gone" if isinstance(error, FileNotFoundError) else f"cannot be looked at: {error.strerror}"
        raise Refused(f"process {pid} {what}") from None
    if not pairs.get(AT_SYSINFO_EHDR):
        raise Refused(f"process {pid} has no vDSO")
    return int(pairs[AT_SYSINFO_EHDR])


def clocks_now() -> list[int]:
    """A reading (ns) of each clock that a patch knows; 0 for one that this machine does not have."""
    out = [0] * CLOCKS
    for clock in (*WALL_CLOCKS, *MONO_CLOCKS):
        with contextlib.suppress(OSError):
            out[clock] = time.clock_gettime_ns(clock)
    return out


class Hand:
    """Answers questions; ``do`` is the question's name."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._verbs: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
            "skew": self._skew,
            "begin": self._begin,
            "settle": self._settle,
            "restore": self._restore,
            "read": self._read,
            "patched": self._patched,
            "may": self._may,
            "waits": lambda question: {"waits": [one for pid in question["pids"] for one in waits_seen(int(pid))]},
            "probe": self._probe,
        }

    @property
    def layout(self) -> Layout:
        """Of the vDSO, which is the same in all processes of this kernel."""
        if self._layout is None:
            self._layout = layout_of(own_vdso())
        return self._layout

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer; ``why``: it could not be done."""
        try:
            return self._verbs[question["do"]](question)
        except Stuck:
            raise
        except (Refused, OSError) as error:
            return {"why": str(error)}

    def _image(self, pid: int, base: int) -> bytes:
        try:
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:  # noqa: PTH123
                return os.pread(file.fileno(), len(self.layout.image), base)
        except PermissionError as error:
            raise Refused(f"the memory of process {pid} may not be read here: {error.strerror}") from None

    def _still(self, pid: int, then: Callable[[HeldProcess, int, bytes], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Hold a process with no thread where bytes may change, and call ``then`` with its vDSO's place and label."""
        layout = self.layout
        for _ in range(TRIES):
            began = now_ns()
            with held(pid) as process:
                base = vdso_base(pid)
                label = label_in(process.read(base, len(layout.image)), layout)
                if process.leave(lambda place, base=base: is_inside(layout, place - base)):
                    found = then(process, base, label)
                    return {**found, "held_ns": now_ns() - began}
            time.sleep(0.0005)
        raise Refused(f"a thread of process {pid} stands in its vDSO all the time")

    def _skew(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Patch a process, or change the skew of one that is; ``check``: refuse what would falsify its waits."""
        pid, label = int(question["pid"]), bytes.fromhex(question["label"])
        wall, mono = VdsoSkew(*question["wall"]), VdsoSkew(*question["mono"])
        body = patch_body(label, wall, mono, question["since"])
        runtime, timers = runtime_of(pid), timers_until(pid)
        if self._is_in_use(self._image(pid, vdso_base(pid)), body):
            return {"runtime": runtime, "held_ns": 0}

        def change(process: HeldProcess, base: int, found: bytes) -> Mapping[str, Any]:
            if found not in {b"", label}:
                raise Refused(f"another run has skewed the clocks of process {pid}")
            waits = [*timers, *self._waits(process)]
            why = refusal(
                runtime,
                waits,
                wall=wall != VdsoSkew(),
                mono_rate=bool(mono.rate_ppm),
                mono_step=bool(mono.period_ns)
                or self._mono_step(process, base, found, mono, question["since"]) > STEP_NS,
            )
            if why and question.get("check", True):
                raise Refused(why)
            self._write(process, base, body)
            return {"runtime": runtime}

        return self._still(pid, change)

    def _is_in_use(self, image: bytes, body: bytes) -> bool:
        """Whether exactly this patch is in that image, and nothing has to be done."""
        writes = [(self.layout.room, body), *patch_jumps(self.layout)]
        return all(image[place : place + len(data)] == data for place, data in writes)

    def _may(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Whether these processes may be changed at all. Raises Refused: one may not. They are not held for it."""
        for pid in map(int, question["pids"]):
            label_in(self._image(pid, vdso_base(pid)), self.layout)
            os.close(memory_of(pid))
            refuse_traced(pid)
        return {}

    def _mono_step(self, process: HeldProcess, base: int, label: bytes, mono: VdsoSkew, since: Sequence[int]) -> int:
        """By how much (ns) monotonic time would jump now."""
        old, began = NO_SKEW, since
        if label:
            _, old, began = records_in(process.read(base, len(self.layout.image)), self.layout)
        moment = now_ns()
        return abs(mono.at(moment - since[1]) - old.at(moment - began[1]))

    def _settle(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Wall time is right at once; monotonic time settles: how long that takes (ns)."""
        pid, label = int(question["pid"]), question["label"]
        found = self._read({"pid": pid, "clocks": [1]})
        if found["label"] != label:
            return {"settles_ns": 0}
        reading = found["clocks"]["1"]
        gained = reading["read_ns"] - reading["real_ns"]
        if abs(gained) <= SETTLED_NS + reading["within_ns"]:
            return {"settles_ns": 0}
        mono = settling(gained)
        self._skew({**question, "wall": NO_SKEW, "mono": mono, "since": clocks_now(), "check": False})
        return {"settles_ns": abs(gained) * 1_000_000 // abs(mono.rate_ppm)}

    def _write(self, process: HeldProcess, base: int, body: bytes) -> None:
        """The stub first, then the jumps to it: whichever are there, the vDSO works."""
        process.write(base + self.layout.room, body)
        for place, jump in patch_jumps(self.layout):
            process.write(base + place, jump)

    def _begin(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Patch a process that stopped itself before it executes its program, once that is there."""
        pid, label = int(question["pid"]), bytes.fromhex(question["label"])
        body = patch_body(label, VdsoSkew(*question["wall"]), VdsoSkew(*question["mono"]), question["since"])
        return {"programs": patch_at_exec(pid, lambda process: self._write(process, vdso_base(pid), body))}

    @staticmethod
    def _waits(process: HeldProcess) -> list[Any]:
        found = [
            waits_until(thread, one.orig_rax, tuple(getattr(one, name) for name in ARGUMENTS))
            for thread, one in process.registers.items()
            if one.orig_rax >> 63 == 0
        ]
        return [one for one in found if one is not None]

    def _restore(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Write the old bytes back; ``label``: only of this run. Nothing to be done is done, too."""
        pid, mine = int(question["pid"]), question.get("label")
        layout = self.layout
        base = vdso_base(pid)
        if self._image(pid, base) == layout.image:
            return {"restored": False}

        def restore(process: HeldProcess, base: int, found: bytes) -> Mapping[str, Any]:
            if mine is not None and found not in {b"", bytes.fromhex(mine)}:
                return {"restored": False}
            for place, jump in patch_jumps(layout):
                process.write(base + place, layout.image[place : place + len(jump)])
            process.write(base + layout.room, layout.image[layout.room :])
            if process.read(base, len(layout.image)) != layout.image:
                raise Refused(f"the vDSO of process {pid} is not as it was, although it was written back")
            return {"restored": True}

        return self._still(pid, restore)

    def _read(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Read clocks by the vDSO of a process, which is not held: this process runs what is in the target's memory.

        For each clock id: its reading, and the real one at that time (ns), give or take ``within``. Of a vDSO that is
        as the kernel made it only that is said (``label`` ""): a copy of it has no data of the kernel next to it.
        """
        pid = int(question["pid"])
        layout, image = self.layout, self._image(pid, vdso_base(pid))
        label = label_in(image, layout)
        entry = layout.entries["__vdso_clock_gettime"]
        if not label or image[entry : entry + 5] == layout.image[entry : entry + 5]:
            return {"label": "", "clocks": {}}
        with mmap.mmap(-1, len(image), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as copy:
            copy.write(image)
            place = ctypes.c_char.from_buffer(copy)
            function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(ctypes.addressof(place) + entry)
            clocks = {str(clock): self._reading(function, clock) for clock in question["clocks"]}
            del place, function
        return {"label": label.hex(), "clocks": clocks}

    @staticmethod
    def _reading(function: Callable[[int, Any], int], clock: int) -> dict[str, int]:
        best, result = (0, 0, 1 << 62), (ctypes.c_int64 * 2)()
        for _ in range(READS):
            before = time.clock_gettime_ns(clock)
            code = function(clock, ctypes.addressof(result))
            after = time.clock_gettime_ns(clock)
            if code:
                raise Refused(f"clock_gettime fails there with {code}")
            if after - before < best[2]:
                best = result[0] * 1_000_000_000 + result[1], (before + after) // 2, after - before
            if best[2] <= EXACT_NS:
                break
        return {"read_ns": best[0], "real_ns": best[1], "within_ns": best[2] // 2 + 1}

    def _patched(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """All processes with a patch of ours: pid, start time, label; ``label``: of this run alone."""
        mine = question.get("label")
        found = []
        for entry in os.listdir("/proc"):  # noqa: PTH208
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            with contextlib.suppress(Refused, OSError):
                stat = process_stat(int(entry))
                label = label_in(self._image(int(entry), vdso_base(int(entry))), self.layout)
                if stat is not None and label and (mine is None or label.hex() == mine):
                    found.append({"pid": int(entry), "start": stat.start, "label": label.hex()})
        return {"patched": found}

    def _probe(self, _question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Try all of it on a process of our own; ``old``: what a patch changes (offset → bytes)."""
        layout = self.layout
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                signal.pause()
            os._exit(0)
        try:
            no = list(VdsoSkew())
            ask = {"pid": child, "label": "00" * LABEL_SIZE, "since": [0] * CLOCKS}
            ask["label"] = (b"dethrone" + bytes(LABEL_SIZE - 8)).hex()
            hour = 3_600_000_000_000
            self._skew({**ask, "wall": [hour, 0, 0, 0, 0], "mono": no})
            found = self._read({"pid": child, "clocks": [0, 1]})["clocks"]
            self._restore({"pid": child, "label": ask["label"]})
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for clock, skew in (("0", hour), ("1", 0)):
            off = found[clock]["read_ns"] - found[clock]["real_ns"] - skew
            if abs(off) > 50_000_000:
                raise Refused(f"a skew of the vDSO does not show here: clock {clock} is off by {off} ns")
        old = {str(place): layout.image[place : place + len(jump)].hex() for place, jump in patch_jumps(layout)}
        return {"old": {**old, str(layout.room): layout.image[layout.room :].hex()}}


def hand() -> int:
    """Answer questions until the input ends."""
    gc.disable()
    one = Hand()
    for line in sys.stdin.buffer:
        try:
            answer = one.answer(json.loads(line))
        except Stuck as error:
            sys.stdout.write(json.dumps({"why": str(error)}) + "\n")
            return 3
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0
