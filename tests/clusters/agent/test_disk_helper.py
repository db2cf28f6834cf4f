"""A mounted data directory, through the kernel: power is lost, syncs hang, the helper dies. In mount namespaces."""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest

from dethrone.clusters.agent.host.mounts import mounted, unmount_ours
from dethrone.harness.core.rng import Rng
from tests.waiting import until

from .conftest import AGENT, PYTHON, RUN
from .test_volume import MODELS, image, play

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and /dev/fuse"),
]
NEW_MOUNTS, PRIVATE = 0x20000, 0x40000 | 0x4000
LIMIT_S = 60


@pytest.fixture
def apart():
    """Runs a function in a mount namespace of its own; its error is the test's."""

    def run(body):
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                libc = ctypes.CDLL(None, use_errno=True)
                assert libc.unshare(NEW_MOUNTS) == 0
                assert libc.mount(None, b"/", None, ctypes.c_ulong(PRIVATE), None) == 0
                body()
            except BaseException:  # noqa: BLE001 - whatever it is, the parent raises it
                os.write(send, traceback.format_exc().encode()[-60_000:])
            finally:
                os._exit(0)
        os.close(send)
        said = bytearray()
        try:
            while select.select([receive], [], [], LIMIT_S)[0]:
                data = os.read(receive, 1 << 16)
                if not data:
                    break
                said += data
            else:
                said += b"it did not end in time"
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(receive)
        assert not said, said.decode()

    return run


class Disk:
    """A mounted directory with its helper; the same steps as on a bare volume."""

    def __init__(self, place, model="journal"):
        self.place, self.model = place, model
        (place / "d").mkdir(parents=True, exist_ok=True)
        self.on()

    def on(self):
        argv = [PYTHON, "-S", str(AGENT), "disk", "--directory", str(self.place), "--run", RUN]
        argv += ["--model", self.model]
        self.helper = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert "ok" in json.loads(self.helper.stdout.readline())
        assert mounted(str(self.place))[-1].source == f"dethrone-{RUN}"

    def order(self, **order):
        self.helper.stdin.write(json.dumps(order) + "\n")
        self.helper.stdin.flush()
        return json.loads(self.helper.stdout.readline())["ok"]

    def woes(self, latency_ns=0, share_ppm=1_000_000, **fails):
        return self.order(do="woes", fails=fails, share_ppm=share_ppm, latency_ns=latency_ns)

    def off(self):
        """Unmount; the helper ends by itself."""
        assert unmount_ours(str(self.place), RUN)
        assert self.helper.wait(10) == 0
        self.helper.stdin.close()
        self.helper.stdout.close()

    def lose_power(self, torn=None):
        found = self.order(do="lose_power", torn=torn)
        self.off()
        self.on()
        return found

    def at(self, name):
        return self.place / os.fsdecode(name)

    def write(self, name, at, data):
        fd = os.open(self.at(name), os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(fd, data, at)
        os.close(fd)

    def cut(self, name, length):
        fd = os.open(self.at(name), os.O_WRONLY)
        os.ftruncate(fd, length)
        os.close(fd)

    def sync(self, name):
        fd = os.open(self.at(name), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def rename(self, old, new):
        self.at(old).rename(self.at(new))

    def link(self, old, new):
        os.link(self.at(old), self.at(new))

    def unlink(self, name):
        path = self.at(name)
        (path.rmdir if path.is_dir() else path.unlink)()

    def make(self, name):
        self.at(name).mkdir()

    sync_names = sync


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_random_sequences_lose_exactly_what_is_not_synced_through_the_kernel(apart, tmp_path, name):
    def body():
        for number in range(150 // MODELS[name].STEPS):
            disk = Disk(tmp_path / str(number), name)
            play(Rng(number), MODELS[name](), disk, disk.place)
            disk.off()

    apart(body)


def test_posix_keeps_no_name_whose_directory_was_not_synced_however_often_its_file_was(apart, tmp_path):
    def body():
        disk = Disk(tmp_path / "disk", "posix")
        disk.write("vote", 0, b"old")
        disk.sync("vote")
        disk.sync_names("")
        for synced in (False, True):
            disk.write("vote.new", 0, b"new")
            disk.sync("vote.new")
            disk.rename("vote.new", "vote")
            disk.sync("vote")
            if synced:
                disk.sync_names("")
            found = disk.lose_power()
            assert (found["model"], found["names"], found["files"]) == ("posix", 1 - synced, 1 - synced)
            assert image(disk.place) == {b"d": None, b"vote": b"new" if synced else b"old"}
        disk.off()

    apart(body)


def test_a_shared_mapping_is_unsynced_until_it_is_synced_and_a_synced_open_is_synced_at_each_write(apart, tmp_path):
    def body():
        disk = Disk(tmp_path / "disk")
        disk.write("mapped", 0, bytes(8192))
        disk.sync("mapped")
        fd = os.open(disk.at("mapped"), os.O_RDWR)
        mapped = mmap.mmap(fd, 8192)
        mapped[:4] = b"kept"
        mapped.flush()
        mapped[4096:4100] = b"lost"
        dsync = os.open(disk.at("dsync"), os.O_WRONLY | os.O_CREAT | os.O_DSYNC, 0o600)
        os.write(dsync, b"each write")
        disk.order(do="lose_power", torn=None)
        mapped.close()  # what is written back after the loss of power is dropped
        os.close(fd)
        os.close(dsync)
        disk.off()
        disk.on()
        assert disk.at("mapped").read_bytes() == b"kept" + bytes(8188)
        assert disk.at("dsync").read_bytes() == b"each write"
        disk.off()

    apart(body)


@pytest.mark.slow
def test_a_torn_write_survives_in_part_at_a_border_of_sectors(apart, tmp_path):
    def body():
        found = set()
        for seed in range(12):
            disk = Disk(tmp_path / str(seed))
            disk.write("f", 0, b"1")
            disk.sync("f")
            disk.write("f", 1, b"x" * 1200)
            disk.write("f", 1201, b"y" * 1200)
            disk.lose_power(torn=f"seed {seed}")
            left = disk.at("f").read_bytes()
            assert left == b"1" + b"x" * (len(left) - 1)
            found.add(len(left) - 1)
            disk.off()
        assert found == {0, 512, 1024}

    apart(body)


def test_a_disk_fails_as_asked_and_what_failed_to_sync_is_lost(apart, tmp_path):
    def body():
        disk = Disk(tmp_path / "disk")
        disk.write("f", 0, b"old")
        disk.sync("f")
        fd = os.open(disk.at("f"), os.O_RDWR)
        for what, code, call in (
            ("write", errno.ENOSPC, lambda: os.pwrite(fd, b"new", 0)),
            ("write", errno.EROFS, lambda: os.open(disk.at("g"), os.O_CREAT | os.O_WRONLY)),
            ("sync", errno.EIO, lambda: os.fsync(fd)),
        ):
            disk.woes(**{what: code})
            with pytest.raises(OSError) as caught:
                call()
            assert caught.value.errno == code
        assert disk.woes(share_ppm=250_000, sync=errno.EIO)["hit"] == {"sync": 1}
        failed = 0
        for _ in range(100):
            try:
                os.fsync(fd)
            except OSError:
                failed += 1
        assert failed == 25
        disk.woes(sync=errno.EIO)
        os.pwrite(fd, b"new", 0)
        with pytest.raises(OSError):
            os.fsync(fd)
        os.close(fd)
        disk.lose_power()
        assert disk.at("f").read_bytes() == b"old"
        disk.off()

    apart(body)


def test_a_slow_sync_takes_its_time_and_a_hung_one_holds_up_nothing_else_and_can_be_killed(apart, tmp_path):
    def body():
        disk = Disk(tmp_path / "disk")
        disk.write("f", 0, b"1")
        disk.woes(latency_ns=200_000_000)
        began = time.monotonic()
        disk.sync("f")
        assert 0.2 <= time.monotonic() - began < 1
        disk.woes(latency_ns=3600 * 10**9)
        script = "import os,sys; fd=os.open(sys.argv[1],os.O_RDWR|os.O_CREAT); print(flush=True); os.fsync(fd)"
        hung = [
            subprocess.Popen([sys.executable, "-S", "-c", script, f"{disk.place}/h{number}"], stdout=subprocess.PIPE)
            for number in range(5)
        ]
        for one in hung:
            one.stdout.readline()
        until(lambda: disk.order(do="hit")["hit"].get("slow", 0) >= 5)
        assert disk.at("f").read_bytes() == b"1"
        disk.write("g", 0, b"2")
        hung[0].kill()
        assert hung[0].wait(5) == -signal.SIGKILL
        disk.woes()  # the disk is well again: what hung goes through
        assert [one.wait(5) for one in hung[1:]] == [0] * 4
        disk.off()

    apart(body)


def test_a_helper_that_is_killed_loses_nothing_and_the_mount_is_removed_twice(apart, tmp_path):
    def body():
        disk = Disk(tmp_path / "disk")
        disk.write("f", 0, b"never synced")
        disk.write("gone", 0, b"x")
        disk.unlink("gone")
        disk.helper.kill()
        disk.helper.wait()
        with pytest.raises(OSError) as caught:
            disk.at("f").read_bytes()
        assert caught.value.errno in {errno.ENOTCONN, errno.ECONNABORTED}
        assert not unmount_ours(str(disk.place), "another run")
        assert unmount_ours(str(disk.place), RUN)
        assert not unmount_ours(str(disk.place), RUN)
        assert image(disk.place) == {b"d": None, b"f": b"never synced"}
        disk.on()
        assert disk.at("f").read_bytes() == b"never synced"
        assert sorted(path.name for path in disk.place.iterdir()) == ["d", "f"]
        disk.off()

    apart(body)


def test_a_helper_whose_agent_is_gone_serves_on_and_its_disk_is_well(apart, tmp_path):
    def body():
        disk = Disk(tmp_path / "disk")
        disk.woes(write=errno.EIO)
        disk.helper.stdin.close()
        until(lambda: disk.write("f", 0, b"1") is None)
        assert disk.at("f").read_bytes() == b"1"
        unmount_ours(str(disk.place), RUN)
        assert disk.helper.wait(10) == 0

    apart(body)
