"""A node whose disk an agent serves: it fails, loses power, and is left as it was, whoever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.agent.host.mounts import MOUNT_LABEL
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.hoststate import HEALTHY, DiskTrouble, HostState
from dethrone.harness.core.interfaces import Command
from tests.waiting import until

from .conftest import AGENT, PYTHON, RUN, Box

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and /dev/fuse"),
]

NODE = r"""
import os, sys, time
data, said = sys.argv[1] + "/data/log", open(sys.argv[1] + "/said", "ab", buffering=0)
fd = os.open(data, os.O_RDWR | os.O_CREAT, 0o600)
at = os.fstat(fd).st_size
trace = open(sys.argv[1] + "/trace.log", "ab", buffering=0)
trace.write(b"1 %d 0\n" % at)
while True:
    for synced in (True, False):
        os.pwrite(fd, b"%08d" % at, at)
        at += 8
        if synced:
            try:
                os.fsync(fd)
            except OSError as error:
                said.write(b"%s\n" % os.strerror(error.errno).encode())
            else:
                said.write(b"synced %d\n" % at)
    time.sleep(0.005)
"""
"""Logs what it synced; after each sync it writes a little that it does not."""


class Apart(Box):
    """A box in a mount namespace of its own."""

    def command(self, *argv):
        return ["unshare", "--mount", "--propagation", "private", *argv]

    def start(self, *more, faketime=False, model="journal"):
        command = Command(argv=(sys.executable, "-S", "-c", NODE, str(self.directory)))
        changes = {"command": command, "clock_socket": None, "fails": True, "disk_model": model}
        return msgspec.structs.replace(Box.start(self), **changes)

    def inside(self, script):
        """What a shell in there says."""
        argv = ["nsenter", "--mount", f"--target={self.agent.pid}", "/bin/sh", "-c", script]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30).stdout

    def synced(self):
        said = [line.split() for line in (self.directory / "said").read_text().splitlines()]
        return max((int(words[1]) for words in said if words[0] == "synced"), default=0)

    def helpers(self):
        """Process ids of the helpers that serve this box."""
        return [int(pid) for pid in self.inside(f"pgrep -f '[a]gent.py disk --directory {self.directory}'").split()]

    def ours(self):
        return [line for line in self.inside("cat /proc/self/mountinfo").splitlines() if f"fuse.{MOUNT_LABEL}" in line]


@pytest.fixture
def apart(tmp_path, request):
    one = Apart("n1", tmp_path / "n1")
    one.serve("--probe-port", "0")
    one.meet()
    one.host.prepare(one.start(model=getattr(request, "param", "journal")), {}, dead_man_ns=0)
    one.start_node()
    until(one.synced)
    yield one
    one.end()


@pytest.mark.parametrize("torn", [False, True])
def test_a_loss_of_power_takes_exactly_what_was_not_synced(apart, torn):
    for _ in range(2 - torn):
        before = apart.synced()
        until(lambda before=before: apart.synced() > before + 40)
        trouble = DiskTrouble(kind="torn") if torn else None
        lost = apart.host.converge(HostState(down="POWER", disk=trouble))
        assert lost.confirmed, lost.why
        size = int(apart.inside(f"wc -c < {apart.directory}/data/log"))
        least = apart.synced()
        # a sync that had returned when the process was killed may not have been logged
        known = range(least, least + 24) if torn else (least, least + 16)
        assert size in known, (size, least)
        text = apart.inside(f"cat {apart.directory}/data/log")
        assert text[: size // 8 * 8] == "".join(f"{at:08d}" for at in range(0, size // 8 * 8, 8))
        again = apart.host.converge(HostState(down="POWER", disk=trouble))
        assert again.confirmed, again.why
        assert again.detail["POWER"]["again"]
        healed = apart.host.converge(HEALTHY)
        assert healed.confirmed, healed.why
        until(lambda size=size: apart.synced() > size + 32)


BY_POSIX = HostState(down="POWER", disk=DiskTrouble(kind="unsynced", model="posix"))


@pytest.mark.parametrize("apart", ["posix"], indirect=True)
def test_a_loss_of_power_by_posix_takes_a_file_whose_directory_is_never_synced(apart):
    found = apart.host.converge(BY_POSIX)
    assert found.confirmed, found.why
    assert (found.detail["POWER"]["model"], found.detail["POWER"]["lost_names"]) == ("posix", 1)
    assert apart.inside(f"ls {apart.directory}/data").split() == []


def test_a_loss_of_power_by_another_model_than_that_of_the_mount_did_not_happen(apart):
    found = apart.host.converge(BY_POSIX)
    assert not found.confirmed
    assert "the disk was mounted to lose what journal allows, not posix" in found.why
    assert apart.inside(f"ls {apart.directory}/data").split() == ["log"]
    assert apart.host.converge(HostState(down="POWER")).detail["POWER"]["model"] == "journal"


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (DiskTrouble(kind="eio"), "EIO"),
        (DiskTrouble(kind="readonly"), "EROFS"),
        (DiskTrouble(kind="eio", of="syncs", percent=30), "EIO"),
        (DiskTrouble(kind="slow", latency_ns=100 * MS), ""),
        (DiskTrouble(kind="slow", latency_ns=60 * SECOND), ""),
    ],
)
def test_a_disk_fails_is_slow_or_hangs_and_is_well_again(apart, trouble, code):
    begun = apart.host.converge(HostState(disk=trouble))
    assert begun.confirmed, begun.why
    if trouble.kind == "slow":
        assert begun.detail["disk"]["sync_ns"] >= 100 * MS
        before = apart.synced()
        if trouble.latency_ns < SECOND:
            until(lambda: apart.synced() > before)
    else:
        assert begun.detail["disk"]["probe"] == code
        if trouble.of:  # some syncs fail, and the node goes on writing
            until(lambda: "Input/output error" in (apart.directory / "said").read_text())
            before = apart.synced()
            until(lambda: apart.synced() > before)
        else:
            until(lambda: apart.kinds("exited"))
    healed = apart.host.converge(HEALTHY)
    assert healed.confirmed, healed.why
    assert healed.detail["disk"]["hit"]
    assert "before" not in healed.detail
    before = apart.synced()
    until(lambda: apart.synced() > before + 100)


def test_a_full_disk_refuses_writes_and_a_hung_process_can_be_killed(apart):
    begun = apart.host.converge(HostState(disk=DiskTrouble(kind="full")))
    assert begun.confirmed, begun.why
    assert begun.detail["disk"]["probe"] == "ENOSPC"
    until(lambda: apart.kinds("exited"))
    assert apart.host.converge(HEALTHY).confirmed
    assert apart.host.converge(HostState(disk=DiskTrouble(kind="slow", latency_ns=600 * SECOND))).confirmed
    killed = apart.host.converge(HostState(down="SIGKILL", disk=DiskTrouble(kind="slow", latency_ns=600 * SECOND)))
    assert killed.confirmed, killed.why
    assert apart.host.converge(HEALTHY).confirmed


def test_a_helper_that_dies_takes_the_fault_with_it_but_no_data(apart):
    assert apart.host.converge(HostState(disk=DiskTrouble(kind="slow", latency_ns=SECOND))).confirmed
    (helper,) = apart.helpers()
    os.kill(helper, signal.SIGKILL)
    until(lambda: not apart.inside(f"ls {apart.directory}/data"))
    until(lambda: helper not in apart.helpers())  # the agent has reaped it
    healed = apart.host.converge(HEALTHY)
    assert "helper that serves the disk has ended" in healed.detail["before"]["why"]
    assert not healed.confirmed
    assert (apart.directory / "data" / "log").stat().st_size >= apart.synced()


def test_the_mount_is_removed_after_everything_was_killed_twice(apart):
    assert apart.host.converge(HostState(disk=DiskTrouble(kind="slow", latency_ns=60 * SECOND))).confirmed
    assert len(apart.ours()) == 1
    holder = subprocess.Popen(["nsenter", "--mount", f"--target={apart.agent.pid}", "sleep", "600"])
    try:
        until(lambda: b"sleep" in Path(f"/proc/{holder.pid}/cmdline").read_bytes()[:5])
        for pid in [*apart.helpers(), apart.agent.pid]:
            os.kill(pid, signal.SIGKILL)
        apart.agent.wait()
        for _ in range(2):
            argv = [PYTHON, "-S", str(AGENT), "heal", "--socket", apart.socket, "--run", RUN, "--stop"]
            done = subprocess.run(
                ["nsenter", "--mount", f"--target={holder.pid}", *argv], capture_output=True, text=True, check=False
            )
            answer = json.loads(done.stdout)
            assert answer["confirmed"], answer
        apart.agent = holder
        assert apart.ours() == []
        assert (apart.directory / "data" / "log").stat().st_size >= apart.synced()
    finally:
        holder.kill()
        holder.wait()


def test_a_mount_of_another_program_is_left_alone_and_the_node_refused(tmp_path):
    one = Apart("n1", tmp_path / "n1")
    (one.directory / "data").mkdir(parents=True)
    one.serve("--probe-port", "0")
    one.meet()
    try:
        theirs = [PYTHON, "-S", str(AGENT), "disk", "--directory", f"{one.directory}/data", "--run", "other"]
        argv = ["nsenter", "--mount", f"--target={one.agent.pid}", *theirs]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as helper:
            assert b"ok" in helper.stdout.readline()
            with pytest.raises(HarnessError, match=r"another run's \(dethrone-other\): it is left alone"):
                one.host.prepare(one.start(), {}, dead_man_ns=0)
            assert len(one.ours()) == 1
            one.inside(f"umount -l {one.directory}/data")
    finally:
        one.end()


def test_an_agent_that_ends_leaves_no_mount_and_all_data(apart):
    apart.host.stop_node()
    holder = subprocess.Popen(["nsenter", "--mount", f"--target={apart.agent.pid}", "sleep", "600"])
    try:
        until(lambda: b"sleep" in Path(f"/proc/{holder.pid}/cmdline").read_bytes()[:5])
        apart.host.close()
        apart.agent.terminate()
        apart.agent.wait(20)
        apart.agent = holder
        assert apart.ours() == []
        assert (apart.directory / "data" / "log").stat().st_size >= apart.synced()
    finally:
        holder.kill()
        holder.wait()
