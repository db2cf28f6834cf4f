"""What of ours is on this machine, whoever made it, and taking it away.

Promises: only what carries our marks (``clusters.local.labels``) is found and touched; a process is ended through a
descriptor that names it, never a number that may be another's by then; taking away twice is fine. Leaves out things in
network namespaces: they go with the processes that hold them.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from clusters.local.labels import HOSTS, of_alias, of_environment
from harness.core.errors import ClusterError

END_LIMIT_S = 10.0
TOOL_LIMIT_S = 10.0


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A process of ours: its id and start time (ticks since boot) name it."""

    pid: int
    start_ticks: int
    run_id: str
    state_dir: str
    node: str


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A network device of ours in this process' network namespace."""

    name: str
    run_id: str
    state_dir: str


def processes(proc: Path = Path("/proc")) -> list[Running]:
    """All processes with our marks that this user may look at, less those that have ended."""
    found = []
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            marks = of_environment((entry / "environ").read_bytes())
            if marks is None:
                continue
            ticks = start_ticks(int(entry.name), proc)
            if ticks:
                run_id, state_dir, node = marks
                found.append(
                    Running(pid=int(entry.name), start_ticks=ticks, run_id=run_id, state_dir=state_dir, node=node)
                )
    return found


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int:
    """When a process began, in ticks since boot; 0 if it has ended."""
    try:
        raw = (proc / str(pid) / "stat").read_bytes()
        fields = raw[raw.rindex(b")") + 2 :].split()
        return 0 if fields[0] in {b"Z", b"X"} else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0


def devices() -> list[Device]:
    """All devices with our marks in this network namespace; none where there is no ``ip``."""
    try:
        done = subprocess.run(
            ["ip", "-j", "link", "show", "type", "veth"],
            capture_output=True,
            timeout=TOOL_LIMIT_S,
            check=False,
        )
        listed = json.loads(done.stdout or b"[]")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    found = []
    for link in listed:
        marks = of_alias(str(link.get("ifalias", "")))
        if marks is not None:
            found.append(Device(name=str(link["ifname"]), run_id=marks[0], state_dir=marks[1]))
    return found


def directories(root: Path) -> list[Path]:
    """Directories with hosts' files below the ledgers in this state directory."""
    return sorted((root / "runs").glob(f"*/{HOSTS}"))


def end_processes(run_id: str, *, limit_s: float = END_LIMIT_S) -> None:
    """Kill that run's processes and wait until they are gone: with a host's first process goes all that is in it.

    Raises ClusterError that names what does not end, or what this user may not end.
    """
    deadline = time.monotonic() + limit_s
    while True:  # one that was about to start another may have done so meanwhile
        found = [running for running in processes() if running.run_id == run_id]
        if not found:
            return
        if time.monotonic() > deadline:
            raise ClusterError(
                "processes of a local run do not end",
                where=", ".join(f"{running.node} ({running.pid})" for running in found[:5]),
                cause="they hang in the kernel, on a disk or network file system that does not answer",
                next_step="`dethrone heal` once that is over",
            )
        _kill(found, deadline)


def _kill(found: Sequence[Running], deadline: float) -> None:
    descriptors = []
    try:
        for running in found:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(running.pid)
                descriptors.append(descriptor)
                if start_ticks(running.pid) == running.start_ticks:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        waiting = set(descriptors)
        while waiting and (left := deadline - time.monotonic()) > 0:
            ended, _, _ = select.select(list(waiting), [], [], left)
            waiting -= set(ended)
    except PermissionError as error:
        raise ClusterError(
            "processes of a local run belong to somebody else",
            where=", ".join(f"{running.node} ({running.pid})" for running in found[:5]),
            cause="the run was started by another user",
            next_step="run `dethrone heal` as that user, or as root",
        ) from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def remove_devices(run_id: str) -> None:
    """Take that run's devices out of this network namespace; one that is gone already is none."""
    for device in devices():
        if device.run_id == run_id:
            done = subprocess.run(
                ["ip", "link", "del", device.name], capture_output=True, text=True, timeout=TOOL_LIMIT_S, check=False
            )
            if done.returncode != 0 and any(other.name == device.name for other in devices()):
                raise ClusterError(
                    "a network device of a local run cannot be removed",
                    where=device.name,
                    cause=done.stderr.strip()[-200:],
                    next_step=f"`ip link del {device.name}` as root",
                )


def remove_directory(state_dir: Path) -> None:
    """Remove the hosts' files below a ledger directory. Raises ClusterError if something of them stays."""
    place = state_dir / HOSTS
    shutil.rmtree(place, ignore_errors=True)
    if place.exists():
        raise ClusterError(
            "files of a local run's hosts cannot be removed",
            where=str(place),
            cause="they belong to another user, or something is mounted there",
            next_step="run `dethrone heal` as the user who ran it",
        )
