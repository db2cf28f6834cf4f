"""The vDSO of a process, and what its bytes become while the clocks of that process are skewed. Pure.

Programs read their clocks by functions of the vDSO, a page of code that the kernel maps into each process, with libc or
without. A process gets a private copy of the page when it is written. A *patch* is a stub in the zeros at
the end of the image, and a jump to it at the beginning of each function that reads a clock. The stub makes the real
system call and adds the skew, a function of the real clock alone, so that nothing has to be done while a skew lasts,
strobes and rates included. Source of the stub: ``clusters/agent/vdso_stub.s``.

Guarantees: every change is one of a few writes, each of which leaves a page that works, whichever were done; a page is
taken for patched only if it carries our label. Out of scope: programs that make the system call themselves, other
architectures than x86-64, and processor-time clocks.

Sources: vdso(7), elf(5), clock_gettime(2); System V ABI for AMD64; Linux ``arch/x86/entry/vdso``.
"""

from __future__ import annotations

import hashlib
import platform
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dethrone.clusters.agent.host.common import Refused

STUB = bytes.fromhex(
    "b8e40000000f0585c0752d83ff0c732889ff4c8d0d000100004c8d0520010000ba210900000fa3fa726c4983c028bad20200000f"
    "a3fa725ec34885f6740f4889fa31ffb8600000000f054889d731c04885ff74204889fe31ffb8e40000000f0585c075104c8d0db1"
    "0000004c8d05ce000000eb22c348897c24e031ff488d7424e8b8e40000000f054c8d0da10000004c8d05aa0000004c691600ca9a"
    "3b4c0356084d89d3488d0de50000004c2b1cf94c89d849f76808b940420f0048f7f9498b48204885c974114839c8480f4fc148f7"
    "d94839c8480f4cc14901c24d0310498b48184885c974104c89d8489948f7f9a80174044d0350104c89d04899b900ca9a3b48f7f9"
    "4885d279064801ca48ffc84889064889560841ffe131c0c34889d031d2b9e803000048f7f14889460831c0c3488b4c24e04885c9"
    "7403488901c36690"
)
"""The code of ``vdso_stub.s``; its data follow: two records (wall, monotonic) and ``since`` of each clock."""
STUB_FUNCTIONS = {"__vdso_clock_gettime": 0x00, "__vdso_gettimeofday": 0x39, "__vdso_time": 0x75}
"""Where in the stub the function begins that stands in for one of the vDSO's."""
WALL_CLOCKS, MONO_CLOCKS = (0, 5, 8, 11), (1, 4, 6, 7, 9)
"""Clock ids: REALTIME, _COARSE, _ALARM, TAI; MONOTONIC, _RAW, _COARSE, BOOTTIME, BOOTTIME_ALARM (linux/time.h)."""
CLOCKS = 12
"""How many clock ids the stub knows."""
MARK = b"dethrone"
LABEL_SIZE = 16
ALIGNED = 16


class VdsoSkew(NamedTuple):
    """What is added to the clocks of one kind: see ``vdso_stub.s``. Times in ns."""

    offset_ns: int = 0
    rate_ppm: int = 0
    amplitude_ns: int = 0
    period_ns: int = 0
    limit_ns: int = 0

    def at(self, elapsed_ns: int) -> int:
        """The skew (ns) after this time, computed as the stub does."""
        gained = abs(elapsed_ns * self.rate_ppm) // 1_000_000
        gained = gained if elapsed_ns * self.rate_ppm >= 0 else -gained
        if self.limit_ns:
            gained = max(-self.limit_ns, min(self.limit_ns, gained))
        high = self.period_ns and abs(elapsed_ns) // self.period_ns % 2
        return self.offset_ns + gained + (self.amplitude_ns if high else 0)


NO_SKEW = VdsoSkew()
SETTLE_PPM, SETTLE_PPM_MAX, SETTLE_NS = 250_000, 900_000, 4_000_000_000


def settling(gained_ns: int) -> VdsoSkew:
    """How monotonic time that has gained this much becomes right again, without going back: it runs slower, or faster.

    It takes ``SETTLE_NS`` at most, unless it would have to run faster or slower than ``SETTLE_PPM_MAX`` for that.
    """
    rate = min(SETTLE_PPM_MAX, max(SETTLE_PPM, abs(gained_ns) * 1_000_000 // SETTLE_NS))
    return VdsoSkew(gained_ns, -rate if gained_ns > 0 else rate, limit_ns=abs(gained_ns)) if gained_ns else NO_SKEW


class Layout(NamedTuple):
    """Where a patch goes: offsets in the image. ``entries``: of the functions; ``room``: of the label and the stub."""

    image: bytes
    entries: Mapping[str, int]
    room: int


def run_label(run: str) -> bytes:
    """What marks the patches of a run: sixteen bytes."""
    return MARK + hashlib.sha256(run.encode()).digest()[: LABEL_SIZE - len(MARK)]


def layout_of(image: bytes) -> Layout:
    """Where a patch goes in this vDSO. Raises Refused if it has no place for one."""
    if platform.machine() != "x86_64":
        raise Refused(f"clocks are skewed in the vDSO on x86-64 only, and this is {platform.machine()}")
    if image[:6] != b"\x7fELF\x02\x01":
        raise Refused("its vDSO is not of 64 bits")
    symbols = _symbols(image)
    entries = {name: symbols[name] for name in STUB_FUNCTIONS if name in symbols}
    if "__vdso_clock_gettime" not in entries:
        raise Refused("its vDSO has no clock_gettime")
    used = len(image.rstrip(b"\0"))
    room = (used + 1 + ALIGNED) // ALIGNED * ALIGNED
    if room + LABEL_SIZE + len(patch_body(b"", NO_SKEW, NO_SKEW, [0] * CLOCKS)) > len(image):
        raise Refused(f"its vDSO has only {len(image) - used} unused bytes, too few for ours")
    return Layout(image, entries, room)


def _symbols(image: bytes) -> dict[str, int]:
    """Name → offset of the functions that the image defines (its only segment is loaded as it is)."""
    try:
        headers, size, count = (
            struct.unpack_from("<Q", image, 32)[0],
            *struct.unpack_from("<HH", image, 54),
        )
        dynamic = next(
            struct.unpack_from("<QQQQ", image, headers + number * size + 8)
            for number in range(count)
            if struct.unpack_from("<I", image, headers + number * size)[0] == 2
        )
        tags = dict(struct.unpack_from("<QQ", image, place) for place in range(dynamic[0], dynamic[0] + dynamic[3], 16))
        texts, table, hashed = tags[5], tags[6], tags[4]  # DT_STRTAB, DT_SYMTAB, DT_HASH
        out = {}
        for number in range(struct.unpack_from("<I", image, hashed + 4)[0]):
            name, kind, _, section, value, _ = struct.unpack_from("<IBBHQQ", image, table + 24 * number)
            if section and kind & 15 == 2:
                out[image[texts + name : image.index(b"\0", texts + name)].decode("ascii", "replace")] = value
        return out
    except (struct.error, StopIteration, KeyError, ValueError):
        raise Refused("its vDSO is none that we can read") from None


def _jump(place: int, target: int) -> bytes:
    """A jump at offset ``place`` to offset ``target``."""
    return b"\xe9" + struct.pack("<i", target - place - 5)


def patch_body(label: bytes, wall: VdsoSkew, mono: VdsoSkew, since: Sequence[int]) -> bytes:
    """The label, the stub and its data. ``since``: a reading (ns) of each clock from which its skew counts."""
    return label + STUB + struct.pack(f"<10q{CLOCKS}q", *wall, *mono, *since)


def patch_jumps(layout: Layout) -> list[tuple[int, bytes]]:
    """The writes (offset, bytes) that put the stub into use: one a function."""
    code = layout.room + LABEL_SIZE
    return [(entry, _jump(entry, code + STUB_FUNCTIONS[name])) for name, entry in layout.entries.items()]


def records_in(image: bytes, layout: Layout) -> tuple[VdsoSkew, VdsoSkew, tuple[int, ...]]:
    """Of a patched image: the skews of wall and of monotonic time, and since when."""
    found = struct.unpack_from(f"<10q{CLOCKS}q", image, layout.room + LABEL_SIZE + len(STUB))
    return VdsoSkew(*found[:5]), VdsoSkew(*found[5:10]), found[10:]


def is_inside(layout: Layout, offset: int) -> bool:
    """Whether a thread that continues at this offset would meet bytes that a patch, or its undoing, changes.

    At the beginning of a function it would not: there, either version begins.
    """
    body = range(layout.room, len(layout.image))
    return offset in body or any(entry < offset < entry + 5 for entry in layout.entries.values())


def label_in(image: bytes, layout: Layout) -> bytes:
    """The label of the patch in this image; b"": it is as the kernel made it. Raises Refused if others changed it.

    All code in an image with a label is the kernel's or ours.
    """
    if image == layout.image:
        return b""
    label, code = image[layout.room : layout.room + LABEL_SIZE], image[layout.room + LABEL_SIZE :]
    jumps = dict(patch_jumps(layout))
    rest = bytearray(image)
    rest[layout.room :] = layout.image[layout.room :]
    for entry, jump in jumps.items():
        if rest[entry : entry + len(jump)] == jump:
            rest[entry : entry + len(jump)] = layout.image[entry : entry + len(jump)]
    if rest != layout.image or not label.startswith(MARK) or not code.startswith(STUB):
        raise Refused("another program has changed its vDSO, which is left alone")
    return label
