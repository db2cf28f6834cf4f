"""Things of other programs, of each kind that faults of ours work on: a soak must leave them as they are.

A process, a network namespace with a rule, a chain of rules, a mount, a control group, a container and a network of the
engine. None carries a mark of ours. What cannot be made here (no root, no engine) is not watched, and ``watched`` says
what is. Out of scope: objects of a kind that no fault touches.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

LIMIT_S = 60.0
GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
"""Where groups are, in the first and in the second version of control groups."""


class Strangers:
    """Made at the beginning, removed at the end. ``place``: an empty directory; ``image``: of the container, or ""."""

    def __init__(self, place: Path, *, image: str = "") -> None:
        self._place, self._image = place, image
        self.name = f"stranger-{os.getpid()}"
        self._sleeper: subprocess.Popen[bytes] | None = None
        self._before: dict[str, str] = {}
        self._reads: dict[str, Callable[[], str]] = {}
        self._ends: list[tuple[str, ...]] = []

    @property
    def watched(self) -> list[str]:
        """Which things there are."""
        return sorted(self._before)

    def __enter__(self) -> Self:
        self._place.mkdir(parents=True, exist_ok=True)
        self._sleeper = subprocess.Popen(["sleep", "86400"], start_new_session=True)
        self._reads["process"] = lambda: _state(self._sleeper.pid if self._sleeper else 0)
        name, chain, mount = self.name, self.name.upper(), str(self._place)
        rule = ("-d", "127.255.255.254", "-j", "RETURN")
        if self._made(("ip", "netns", "add", name), undo=("ip", "netns", "delete", name)):
            inside = ("ip", "netns", "exec", name, "iptables")
            self._watch("namespace", (*inside, "-A", "INPUT", *rule), read=(*inside, "-S"))
        if self._made(("iptables", "-N", chain), undo=("iptables", "-X", chain)):
            self._ends.append(("iptables", "-F", chain))
            self._watch("chain", ("iptables", "-A", chain, *rule), read=("iptables", "-S", chain))
        self._watch(
            "mount",
            ("mount", "-t", "tmpfs", "-o", "size=4k", name, mount),
            read=("findmnt", "-no", "SOURCE,FSTYPE,OPTIONS", mount),
            undo=("umount", mount),
        )
        group = next((root for root in GROUPS if (root / "cgroup.procs").exists()), None)
        if group is not None:
            ours = str(group / name)
            self._watch("group", ("mkdir", ours), read=("ls", ours), undo=("rmdir", ours))
        if self._image and shutil.which("docker"):
            self._watch(
                "network",
                ("docker", "network", "create", "--internal", name),
                read=("docker", "network", "inspect", "-f", "{{.Id}} {{.Created}}", name),
                undo=("docker", "network", "rm", name),
            )
            self._watch(
                "container",
                ("docker", "run", "-d", "--name", name, "--network", name, self._image, "sleep", "86400"),
                read=("docker", "inspect", "-f", "{{.Id}} {{.State.StartedAt}} {{.State.Status}}", name),
                undo=("docker", "rm", "-f", name),
            )
        self._before = {what: read() for what, read in self._reads.items()}
        return self

    def __exit__(self, *_: object) -> None:
        if self._sleeper is not None:
            self._sleeper.kill()
            self._sleeper.wait()
        for argv in reversed(self._ends):
            _run(argv)

    def touched(self) -> tuple[str, ...]:
        """What is not as it was."""
        return tuple(
            f"{what} of another program: {self._before[what]!r} became {now!r}"
            for what, read in self._reads.items()
            if (now := read()) != self._before[what]
        )

    def _watch(self, what: str, make: tuple[str, ...], *, read: tuple[str, ...], undo: tuple[str, ...] = ()) -> None:
        if self._made(make, undo=undo):
            self._reads[what] = lambda: _run(read)[1]

    def _made(self, argv: tuple[str, ...], *, undo: tuple[str, ...]) -> bool:
        made = _run(argv)[0]
        if made and undo:
            self._ends.append(undo)
        return made


def _run(argv: tuple[str, ...]) -> tuple[bool, str]:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return done.returncode == 0, done.stdout.strip() if done.returncode == 0 else done.stderr.strip()


def _state(pid: int) -> str:
    """Whether it runs, and since when; a process that was stopped or replaced is not the same."""
    with contextlib.suppress(OSError, IndexError):
        for _ in range(20):  # a process that is just scheduled is not asleep
            words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            if words[0] == "S":
                break
            time.sleep(0.05)
        return f"{words[0]} since {words[19]}"
    return "gone"
