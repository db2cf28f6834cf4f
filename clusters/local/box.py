"""Becomes one host: namespaces of its own, a root directory made of the machine's, then the agent as first process.

    python -I -S box.py        what to be on standard input, a line of JSON; a second line when its network is there

Started by ``clusters.local.spawning``; standard library only. Answers on standard output: ``{"pid": …}``, then nothing
but the end of the stream when the agent took over, or ``{"error": …}``. ``kind`` is ``host``, ``switch`` (a network
namespace that waits to be killed) or ``probe`` (try everything, be nothing).

Promises: all of it happens in namespaces of this process, so that nothing has to be undone but the process; the
machine's files are there to read only; a host that ``root`` makes has a container's capabilities, not root's; whoever
started it and died is noticed (the end of standard input) before the agent begins. Leaves out the plan of what is
mounted where (``clusters.local.room``).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
OF_A_HOST = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY, SYS_MOUNT_SETATTR = -100, 0x8000, 1, 442
PR_CAPBSET_DROP = 24

KEPT = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 12, 13, 18})
"""Capabilities of a host: chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service,
net_admin, net_raw and sys_chroot (linux/capability.h)."""
CAPABILITIES_MAX = 64

LINE_MAX = 1 << 20
TOOL_LIMIT_S = 10


class CannotError(Exception):
    """Something that this machine does not let us do; the text says what and why."""


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


_libc = ctypes.CDLL(None, use_errno=True)


def _call(doing: str, function: Callable[..., int], *arguments: object) -> None:
    if function(*arguments) != 0:
        raise CannotError(f"{doing}: {os.strerror(ctypes.get_errno())}")


def unshare(flags: int) -> None:
    """Leave the namespaces that ``flags`` names. CannotError if this user or kernel may not."""
    _call("new namespaces", _libc.unshare, ctypes.c_int(flags))


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    """The system call. CannotError says what could not be mounted where."""
    texts = [os.fsencode(text) or None for text in (source, target, kind, data)]
    _call(
        f"mounting {kind or source} at {target}",
        _libc.mount,
        *texts[:3],
        ctypes.c_ulong(flags),
        texts[3],
    )


def make_read_only(path: str) -> None:
    """Everything that is mounted at ``path`` and below it. CannotError on a kernel before 5.12."""
    attr = _MountAttr(attr_set=MOUNT_ATTR_RDONLY)
    _call(
        f"making {path} read-only (Linux 5.12 or newer can)",
        _libc.syscall,
        ctypes.c_long(SYS_MOUNT_SETATTR),
        ctypes.c_int(AT_FDCWD),
        ctypes.c_char_p(os.fsencode(path)),
        ctypes.c_uint(AT_RECURSIVE),
        ctypes.byref(attr),
        ctypes.c_size_t(ctypes.sizeof(attr)),
    )


def drop_capabilities() -> None:
    """Whatever is executed from now on has at most ``KEPT``."""
    for number in range(CAPABILITIES_MAX):
        if number not in KEPT and _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) != 0:
            if ctypes.get_errno() == errno.EINVAL:  # the kernel knows no more of them
                return
            raise CannotError(f"dropping capability {number}: {os.strerror(ctypes.get_errno())}")


def make_root(root: str, steps: Sequence[Sequence[Any]]) -> None:
    """Put the new root directory together at ``root``, which is empty, and make it ours."""
    mount("", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    for step in steps:
        _carry_out(root, step)
    old = f"{root}/.old"
    Path(old).mkdir()
    _call("changing the root directory", _libc.pivot_root, os.fsencode(root), os.fsencode(old))
    os.chdir("/")
    _call("leaving the old root directory", _libc.umount2, b"/.old", ctypes.c_int(MNT_DETACH))
    Path("/.old").rmdir()


def _carry_out(root: str, step: Sequence[Any]) -> None:
    what, path = str(step[0]), f"{root}{step[1]}"
    if what == "dir":
        Path(path).mkdir(parents=True, exist_ok=True)
    elif what == "link":
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).symlink_to(str(step[2]))
    elif what == "file":
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(str(step[2]), encoding="utf-8")
    elif what == "tmpfs":
        Path(path).mkdir(parents=True, exist_ok=True)
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    elif what == "proc":
        Path(path).mkdir(parents=True, exist_ok=True)
        mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    elif what == "overlay":  # read-only: there is no upper directory
        mount("overlay", path, "overlay", MS_RDONLY, "lowerdir=" + ":".join(step[2]))
    elif what in {"show", "lend"}:  # read-only, writable
        _bind(str(step[2]), path, read_only=what == "show")
    else:
        raise CannotError(f"no such step: {what}")


def _bind(source: str, path: str, *, read_only: bool) -> None:
    if not os.path.lexists(path):
        if Path(source).is_dir():
            Path(path).mkdir(parents=True, exist_ok=True)
        else:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).touch()
    mount(source, path, "", MS_BIND | MS_REC)
    if read_only:
        make_read_only(path)


def run_tool(argv: Sequence[str], given: str) -> None:
    """Run a command of the system with ``given`` on its standard input. CannotError with its complaint."""
    try:
        done = subprocess.run(argv, input=given, text=True, capture_output=True, timeout=TOOL_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotError(f"{argv[0]}: {error}") from error
    if done.returncode != 0:
        raise CannotError(f"{argv[0]}: {done.stderr.strip()[-300:]}")


def be_host(plan: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None]) -> NoReturn:
    """In the new namespaces: the root directory, the name, the network once it is there, the agent."""
    log = os.open(plan["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    make_root(plan["root"], plan["steps"])
    _call("setting the host's name", _libc.sethostname, os.fsencode(plan["name"]), len(os.fsencode(plan["name"])))
    say({"made": True})
    ready = _line()
    run_tool(["ip", "-batch", "-"], "\n".join([*ready["ip"], ""]))
    drop_capabilities()
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.execve(plan["argv"][0], list(plan["argv"]), dict(plan["env"]))  # noqa: S606 - the agent, no shell


def be_switch(say: Callable[[Mapping[str, Any]], None]) -> NoReturn:
    """A network namespace: its links are made as told, then it is there until it is killed."""
    ready = _line()
    run_tool(["ip", "-batch", "-"], "\n".join([*ready["ip"], ""]))
    say({"made": True})
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        signal.pause()


def be_probe(plan: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None]) -> NoReturn:
    """Try what a host needs; ``{"made": true}`` if all of it works."""
    make_root(plan["root"], plan["steps"])
    run_tool(
        ["ip", "-batch", "-"],
        "link set dev lo up\nlink add name eth0 type veth peer name eth1\nlink add name switch0 type bridge\n",
    )
    drop_capabilities()
    say({"made": True})
    os._exit(0)


def _line() -> dict[str, Any]:
    line = sys.stdin.readline(LINE_MAX)
    if not line:
        raise CannotError("whoever started this host is gone")
    found: dict[str, Any] = json.loads(line)
    return found


def main() -> int:
    """See the top of this file."""
    channel = os.dup(1)  # not inherited by what is executed: its end says that the agent took over
    os.set_inheritable(channel, False)

    def say(what: Mapping[str, Any]) -> None:
        os.write(channel, json.dumps(what).encode() + b"\n")

    os.dup2(2, 1)
    try:
        plan = _line()
        unshare(CLONE_NEWNET if plan["kind"] == "switch" else OF_A_HOST)
        told, tell = os.pipe()
        pid = os.fork()
        if pid:
            say({"pid": pid})
            os.write(tell, b"\n")
            return 0
        os.close(tell)
        if not os.read(told, 1):  # nothing of ours may be read before the number is
            raise CannotError("its number could not be told")
        if plan["kind"] == "host":
            be_host(plan, say)
        if plan["kind"] == "switch":
            be_switch(say)
        be_probe(plan, say)
    except (CannotError, OSError, ValueError, KeyError) as error:
        said = str(error) if isinstance(error, CannotError) else f"{type(error).__name__}: {error}"
        say({"error": f"{said} (Linux {platform.release()})"})
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
