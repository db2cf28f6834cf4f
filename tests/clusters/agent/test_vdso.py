"""Where a patch of a vDSO goes and what it consists of; the stub is the one of the source file."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dethrone.clusters.agent.host import vdso
from dethrone.clusters.agent.host.common import Refused
from dethrone.clusters.agent.host.hand import own_vdso
from dethrone.clusters.agent.host.waits import Until, refusal, waits_until

from .conftest import RUN

SOURCE = Path(vdso.__file__).parent.parent / "vdso_stub.s"
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="clocks are skewed in the vDSO on x86-64 only")


@pytest.fixture(scope="module")
def layout():
    return vdso.layout_of(own_vdso())


LABEL = vdso.run_label(RUN)


def patched(layout, label=LABEL):
    image = bytearray(layout.image)
    body = vdso.patch_body(label, vdso.VdsoSkew(5), vdso.NO_SKEW, [0] * vdso.CLOCKS)
    for place, data in ((layout.room, body), *vdso.patch_jumps(layout)):
        image[place : place + len(data)] = data
    return bytes(image)


@pytest.mark.skipif(shutil.which("as") is None, reason="no assembler is installed")
def test_the_stub_is_made_of_its_source(tmp_path):
    made, raw = tmp_path / "stub.o", tmp_path / "stub.bin"
    subprocess.run(["as", str(SOURCE), "-o", str(made)], check=True, timeout=30)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", str(made), str(raw)], check=True, timeout=30)
    symbols = subprocess.run(["nm", str(made)], check=True, timeout=30, capture_output=True, text=True).stdout
    places = {name: int(place, 16) for place, name in re.findall(r"(\w+) t (\w+)", symbols)}
    assert raw.read_bytes()[: len(vdso.STUB)] == vdso.STUB
    assert places["wall"] == len(vdso.STUB)
    assert [places[name] for name in ("gettime", "timeofday", "seconds")] == list(vdso.STUB_FUNCTIONS.values())
    assert (places["mono"], places["since"]) == (places["wall"] + 40, places["wall"] + 80)


def test_a_patch_lies_in_unused_bytes(layout):
    assert set(layout.entries) == set(vdso.STUB_FUNCTIONS)
    assert not any(layout.image[layout.room :])
    image = patched(layout)
    assert len(image) == len(layout.image)
    assert vdso.label_in(image, layout) == LABEL
    assert vdso.label_in(layout.image, layout) == b""


@pytest.mark.parametrize("kept", range(4))
def test_a_patch_that_was_written_in_part_is_known_by_its_label(layout, kept):
    image = bytearray(patched(layout))
    for place, jump in vdso.patch_jumps(layout)[kept:]:
        image[place : place + len(jump)] = layout.image[place : place + len(jump)]
    assert vdso.label_in(bytes(image), layout) == LABEL


@pytest.mark.parametrize("place", [0x40, -1])
def test_what_others_changed_is_refused(layout, place):
    for image in (layout.image, patched(layout)):
        foreign = bytearray(image)
        foreign[place] ^= 1
        if place == -1 and image is not layout.image:
            assert vdso.label_in(bytes(foreign), layout)  # behind our stub: ours to restore
        else:
            with pytest.raises(Refused, match="another program has changed"):
                vdso.label_in(bytes(foreign), layout)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda image: b"\x7fELF\x01" + image[5:], "not of 64 bits"),
        (lambda image: image.replace(b"__vdso_clock_gettime", b"__vdso_clock_gettimf"), "no clock_gettime"),
        (lambda image: image.rstrip(b"\0") + b"\0" * 100, "only 100 unused bytes"),
        (lambda image: image[:64], "none that we can read"),
    ],
)
def test_a_vdso_without_room_or_functions_is_refused(change, why):
    with pytest.raises(Refused, match=why):
        vdso.layout_of(change(own_vdso()))


def test_another_architecture_is_refused(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(Refused, match="on x86-64 only, and this is aarch64"):
        vdso.layout_of(own_vdso())


@pytest.mark.parametrize(
    ("skew", "elapsed", "at"),
    [
        (vdso.VdsoSkew(7), 10**9, 7),
        (vdso.VdsoSkew(0, 100_000), 10**9, 10**8),
        (vdso.VdsoSkew(0, -100_000), 10**9 + 5, -(10**8)),
        (vdso.VdsoSkew(5, 0, 100, 10), 25, 5),
        (vdso.VdsoSkew(5, 0, 100, 10), 35, 105),
        (vdso.VdsoSkew(500, -1_000_000, 0, 0, 500), 400, 100),
        (vdso.VdsoSkew(500, -1_000_000, 0, 0, 500), 4000, 0),
    ],
)
def test_a_skew_after_a_time(skew, elapsed, at):
    assert skew.at(elapsed) == at


@pytest.mark.parametrize("gained", [10**9, -(10**9), 10**10, 5])
def test_monotonic_time_settles_in_bounded_time_without_going_back(gained):
    skew = vdso.settling(gained)
    assert abs(skew.rate_ppm) <= vdso.SETTLE_PPM_MAX < 10**6
    assert skew.at(0) == gained
    assert skew.at(max(vdso.SETTLE_NS, 2 * abs(gained))) == 0
    assert vdso.settling(0) == vdso.NO_SKEW


def test_the_records_of_a_patch_are_read_back(layout):
    wall, mono, since = vdso.records_in(patched(layout), layout)
    assert (wall, mono, since) == (vdso.VdsoSkew(5), vdso.NO_SKEW, (0,) * vdso.CLOCKS)


ADDRESS = 0x7F0000001000


@pytest.mark.parametrize(
    ("number", "arguments", "clock"),
    [
        (202, (ADDRESS, 0x189, 0, ADDRESS, 0, 0xFFFFFFFF), "wall"),
        (202, (ADDRESS, 0x89, 0, ADDRESS, 0, 0xFFFFFFFF), "mono"),
        (219, (ADDRESS, 0x189, 0, ADDRESS, 0, 0xFFFFFFFF), "wall"),
        (202, (ADDRESS, 0x89, 0, 0, 0, 0), None),
        (202, (ADDRESS, 0x80, 0, ADDRESS, 0, 0), None),
        (202, (ADDRESS, 6, 0, ADDRESS, 0, 0), "wall"),
        (230, (0, 1, ADDRESS, 0, 0, 0), "wall"),
        (230, (1, 1, ADDRESS, 0, 0, 0), "mono"),
        (230, (0, 0, ADDRESS, 0, 0, 0), None),
        (243, (3, ADDRESS, 8, 0, ADDRESS, 0), "wall"),
        (7, (ADDRESS, 1, 200, 0, 0, 0), None),
    ],
)
def test_a_call_that_waits_until_a_time_is_told_from_one_that_waits_for_a_span(number, arguments, clock):
    found = waits_until(5, number, arguments)
    assert (None if found is None else found.clock) == clock


def test_a_refusal_names_the_thread_and_the_call():
    said = refusal("libc", [Until(5, "wall", "futex_waitv")], wall=True, mono_rate=False, mono_step=False)
    assert said.startswith("thread 5 of a program that uses libc waits until a wall time (futex_waitv)")
    assert refusal("libc", [Until(5, "mono", "futex_waitv")], wall=True, mono_rate=False, mono_step=False) == ""
    assert refusal("go", [], wall=True, mono_rate=True, mono_step=False) == ""
