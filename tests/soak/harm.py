"""Harm done to the harness on purpose: to a process that this soak started, or to a host of a run that it started.

Promises: nothing is signalled but the given process, its own descendants, and processes whose command line names an
agent of one of the given runs, each through a pidfd that was opened before it was looked at, so that a reused process
id is never hit; limits are set on the one process. ``engine`` ends the Docker daemon, and only the one that
``.ci/engine.py`` started on this machine.
"""

from __future__ import annotations

import contextlib
import os
import resource
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dethrone.harness.core import store
from dethrone.harness.core.history_files import segments

ENGINE = str(Path(__file__).resolve().parents[2] / ".ci" / "engine.py")
FEW_DESCRIPTORS = 4
"""Fewer than a run has open already: the next one is refused."""


def strike(kind: str, pid: int, *, out: Path, state: Path) -> str:
    """Do it; what was done, or "" where nothing was there to be harmed."""
    try:
        return _WAYS[kind](pid, out, state)
    except (OSError, ValueError):
        return ""


def runs_of(state: Path) -> list[str]:
    """The runs that this trial's harness has begun and not cleaned up."""
    return [path.name for path in (state / "runs").glob("*")]


def agents_of(runs: Sequence[str]) -> list[int]:
    """Process ids of agents of these runs, in whichever namespace."""
    return [pid for pid in _all() if _is_agent(pid, runs)]


def left_on(runs: Sequence[str]) -> list[str]:
    """Processes that still carry the mark of one of these runs."""
    return [f"process {pid} of {run}" for pid in _all() for run in runs if run.encode() in _words(pid)]


def _kill_harness(pid: int, out: Path, state: Path) -> str:
    return _kill(pid, lambda: True)


def _kill_agent(pid: int, out: Path, state: Path) -> str:
    runs = runs_of(state)
    for agent in agents_of(runs):
        if _kill(agent, lambda agent=agent: _is_agent(agent, runs)):
            return f"agent {agent} killed"
    return ""


def _kill_worker(pid: int, out: Path, state: Path) -> str:
    """A worker of a campaign: one of the harness' own children, the last that it made."""
    for child in reversed(descendants(pid)):
        if _kill(child, lambda child=child: child in descendants(pid)):
            return f"worker {child} killed"
    return ""


def _full_disk(pid: int, out: Path, state: Path) -> str:
    """No file of the harness grows any more: what a full disk is to a process that appends."""
    place = out / store.HISTORY
    size = max((one.path.stat().st_size for one in segments(place)), default=0) if place.is_dir() else 0
    return _limit(pid, resource.RLIMIT_FSIZE, size + 1)


def _no_descriptors(pid: int, out: Path, state: Path) -> str:
    return _limit(pid, resource.RLIMIT_NOFILE, FEW_DESCRIPTORS)


def _no_memory(pid: int, out: Path, state: Path) -> str:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[0])
    return _limit(pid, resource.RLIMIT_AS, pages * resource.getpagesize() + (1 << 20))


def _engine(pid: int, out: Path, state: Path) -> str:
    """The daemon that is ours, and none other; it is started again by whoever asks for it next."""
    found = runpy.run_path(ENGINE)["own_daemon"]()
    if found is None:
        return ""
    done = _kill(found, lambda: b"dockerd" in _words(found))
    subprocess.run([sys.executable, ENGINE], capture_output=True, check=False)
    return done and f"engine {found} killed and started again"


_WAYS: dict[str, Callable[[int, Path, Path], str]] = {
    "kill-harness": _kill_harness,
    "kill-agent": _kill_agent,
    "kill-worker": _kill_worker,
    "spark": _kill_worker,
    "full-disk": _full_disk,
    "no-descriptors": _no_descriptors,
    "no-memory": _no_memory,
    "engine": _engine,
}


def descendants(pid: int) -> list[int]:
    """Children, and theirs, parents first."""
    out = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text(encoding="ascii").split()):
                out += [child, *descendants(child)]
    return out


def _kill(pid: int, still: Callable[[], bool]) -> str:
    handle = os.pidfd_open(pid)
    try:
        if not still():
            return ""
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return f"{pid} killed"
    finally:
        os.close(handle)


def _limit(pid: int, what: int, value: int) -> str:
    hard = resource.prlimit(pid, what)[1]
    resource.prlimit(pid, what, (value, hard))
    return f"limit {what} of {pid} is {value}"


def _all() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _is_agent(pid: int, runs: Sequence[str]) -> bool:
    words = _words(pid).split(b"\0")
    return b"serve" in words and any(run.encode() in words for run in runs)
