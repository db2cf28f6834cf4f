"""What of this user's runs is on this machine, and taking it away.

Any process can carry any mark (``dethrone.clusters.local.labels``) in its environment, so marks alone prove nothing.
They count of processes of this very user, or of the user that is root of that run's hosts and of no others; and a
directory is removed only if it is a run's below a state directory, ours, and reached without links.

Guarantees: only what carries marks that count is found and touched; a process is ended through a
descriptor that names it, never a number that may be another's by then; taking away twice is fine. Out of scope: things
in network namespaces, and nodes' processes: they go with the first process of their host.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from dethrone.clusters.local import users
from dethrone.clusters.local.labels import HOSTS, of_alias, of_environment
from dethrone.harness.core.errors import ClusterError

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
    """All processes with marks that count, less those that have ended."""
    found = []
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            marks = of_environment((entry / "environ").read_bytes())
            if marks is None:
                continue
            run_id, state_dir, node = marks
            if not counts(user_of((entry / "status").read_bytes()), run_id=run_id, state_dir=Path(state_dir)):
                continue
            ticks = start_ticks(int(entry.name), proc)
            if ticks:
                found.append(
                    Running(pid=int(entry.name), start_ticks=ticks, run_id=run_id, state_dir=state_dir, node=node)
                )
    return found


def user_of(status: bytes) -> int:
    """The user of a process out of ``/proc/PID/status``; -1 if it has several, or shows none."""
    for line in status.splitlines():
        if line.startswith(b"Uid:"):
            found = {int(word) for word in line.split()[1:]}
            return found.pop() if len(found) == 1 else -1
    return -1


def counts(user: int, *, run_id: str, state_dir: Path) -> bool:
    """Whether a process of that user may say that it is of that run, and where the run's ledger is."""
    if not _is_a_runs(state_dir, run_id):
        return False
    if user != os.geteuid() and not (os.geteuid() == 0 and user == users.of_run(run_id).root):
        return False
    try:
        return state_dir.lstat().st_uid == os.geteuid()
    except FileNotFoundError:
        return True  # the ledger is gone, its processes are not
    except OSError:
        return False


def _is_a_runs(state_dir: Path, run_id: str) -> bool:
    parts = state_dir.parts
    return state_dir.is_absolute() and ".." not in parts and len(parts) > 2 and parts[-2:] == ("runs", run_id)


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
            "processes of a local run cannot be ended",
            where=", ".join(f"{running.node} ({running.pid})" for running in found[:5]),
            cause="they run with more rights than this process has",
            next_step="run `dethrone heal` as the user who started the run",
        ) from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextlib.contextmanager
def _opened(state_dir: Path) -> Iterator[int | None]:
    """A descriptor of a run's directory; None where it, or what it lies in, is a link or another user's."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptors = [os.open(state_dir.parent.parent, flags)]
    try:
        for name in (state_dir.parent.name, state_dir.name):
            try:
                descriptors.append(os.open(name, flags | os.O_NOFOLLOW, dir_fd=descriptors[-1]))
            except OSError as error:
                if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                    yield None
                    return
                raise
            if os.fstat(descriptors[-1]).st_uid != os.geteuid():
                yield None
                return
        yield descriptors[-1]
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


def remove_directory(state_dir: Path, run_id: str, *, limit_s: float = END_LIMIT_S) -> None:
    """Remove the hosts' files below a run's ledger directory, if it is ours. Raises ClusterError if some stay.

    A process that was killed has no environment any more, so no marks, while the kernel still ends what else is in
    its namespace: that may write for as long as the disk is slow. What comes back is removed until the limit.
    """
    if not _is_a_runs(state_dir, run_id):
        return
    deadline = time.monotonic() + limit_s
    with contextlib.suppress(FileNotFoundError), _opened(state_dir) as directory:
        if directory is None:
            return
        while True:
            shutil.rmtree(HOSTS, ignore_errors=True, dir_fd=directory)
            left = os.stat(HOSTS, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISDIR(left.st_mode):
                return
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            raise ClusterError(
                "files of a local run's hosts cannot be removed",
                where=str(state_dir / HOSTS),
                cause="they belong to another user, or something is mounted there",
                next_step="run `dethrone heal` as the user who ran it",
            )
