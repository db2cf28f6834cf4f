"""Becomes one host: namespaces of its own, a root directory made of the machine's, then the agent as first process.

    python -I -S box.py        what to be on standard input, a line of JSON; a second line when its network is there

Started by ``dethrone.clusters.local.spawning``; standard library only. Answers on standard output: ``{"pid": …}``, then
nothing but the end of the stream when the agent took over, or ``{"error": …}``. ``kind`` is ``host``, ``switch`` (a
network namespace that waits to be killed) or ``probe`` (try everything, be nothing).

A host that root makes is of a user namespace of its own whose root is an unprivileged user of the machine (``ids``):
what is mounted is mounted before by root of the machine, whose mount namespace stays out of reach.

Guarantees: all of it happens in namespaces of this process, so that nothing has to be undone but the process; the
machine's files are there to read only; a host has no IPv6, a container's capabilities at most and can gain none; the
death of the process that started it is noticed (the end of standard input) before the agent begins. Out of scope: the
plan of what is mounted where (``dethrone.clusters.local.room``).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import platform
import signal
import socket
import stat
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
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38

KEPT = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 12, 13, 18})
"""Capabilities of a host: chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service,
net_admin, net_raw and sys_chroot (linux/capability.h)."""
MOUNTING = frozenset({21, 23})
"""sys_admin and sys_nice, for a host whose agent serves its node's data directory."""
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


def drop_capabilities(more: frozenset[int] = frozenset()) -> None:
    """All that is executed from now on has at most ``KEPT`` and ``more``."""
    for number in range(CAPABILITIES_MAX):
        if number not in KEPT | more and _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) != 0:
            if ctypes.get_errno() == errno.EINVAL:  # the kernel knows no more of them
                return
            raise CannotError(f"dropping capability {number}: {os.strerror(ctypes.get_errno())}")


def gain_nothing() -> None:
    """What is executed from now on gains no privilege by it: set-user-id programs are programs like others."""
    _call("no_new_privs", _libc.prctl, *map(ctypes.c_ulong, (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))


def write_maps(process: int, ids: Mapping[str, int]) -> None:
    """Which user of the machine each user of the new user namespace is. ``process``: a descriptor of its directory."""
    lines = "".join(f"{inside} {outside} 1\n" for inside, outside in ids.items()).encode()
    for name in ("gid_map", "uid_map"):
        file = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=process)
        try:
            os.write(file, lines)
        finally:
            os.close(file)


def become_root(ask: Callable[[], None]) -> None:
    """Continue as root of a user namespace of our own, with a network. ``ask``: have its maps written from outside."""
    unshare(CLONE_NEWUSER | CLONE_NEWNET)
    ask()
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def make_root(root: str, steps: Sequence[Sequence[Any]], owner: int = 0) -> int:
    """Put the new root directory together at ``root``, which is empty, and make it ours: ``owner``'s.

    A descriptor of its ``/proc/sys``, through which it can be written although nothing else there can.
    """
    mount("", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,uid={owner},gid={owner}")
    settings = -1
    for step in steps:
        _carry_out(root, step, owner)
        if step[0] == "proc":
            settings = os.open(f"{root}{step[1]}/sys", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    old = f"{root}/.old"
    Path(old).mkdir()
    _call("changing the root directory", _libc.pivot_root, os.fsencode(root), os.fsencode(old))
    os.chdir("/")
    _call("leaving the old root directory", _libc.umount2, b"/.old", ctypes.c_int(MNT_DETACH))
    Path("/.old").rmdir()
    return settings


def set_up(settings: int, values: Mapping[str, str]) -> None:
    """Write settings of this host's own namespaces: path below ``/proc/sys`` → value."""
    for name, value in values.items():
        try:
            file = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=settings)
            try:
                os.write(file, value.encode())
            finally:
                os.close(file)
        except OSError as error:
            raise CannotError(f"setting {name}: {error.strerror}") from error


def _directory(path: Path, owner: int) -> None:
    """Make the directory and those above it that are not there, all of them ``owner``'s."""
    if not os.path.lexists(path):
        _directory(path.parent, owner)
        path.mkdir()
        os.chown(path, owner, owner)


def _carry_out(root: str, step: Sequence[Any], owner: int) -> None:
    what, path = str(step[0]), f"{root}{step[1]}"
    if what in {"dir", "tmpfs", "proc"}:
        _directory(Path(path), owner)
    elif what in {"link", "file"}:
        _directory(Path(path).parent, owner)
    if what == "link":
        Path(path).symlink_to(str(step[2]))
    elif what == "file":
        Path(path).write_text(str(step[2]), encoding="utf-8")
    elif what == "tmpfs":
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,uid={owner},gid={owner}")
    elif what == "proc":
        mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    elif what == "overlay":  # read-only: there is no upper directory
        mount("overlay", path, "overlay", MS_RDONLY, "lowerdir=" + ":".join(step[2]))
    elif what in {"show", "lend"}:  # read-only, writable
        _bind(str(step[2]), path, read_only=what == "show", owner=owner)
    elif what == "guard":  # as it is, read-only
        if os.path.lexists(path):
            _bind(path, path, read_only=True, owner=owner)
    elif what == "hide":
        _hide(path)
    elif what == "fuse":
        _make_fuse(Path(path))
    elif what != "dir":
        raise CannotError(f"no such step: {what}")


def _make_fuse(path: Path) -> None:
    """A device of FUSE that the host may open, even if the one of the machine is for its root alone."""
    place = path.with_name(".fuse")
    place.mkdir()
    mount("tmpfs", str(place), "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=4k")
    device = place / "fuse"
    os.mknod(device, 0o666 | stat.S_IFCHR, Path("/dev/fuse").stat().st_rdev)
    device.chmod(0o666)
    path.symlink_to(".fuse/fuse")


def _hide(path: str) -> None:
    """A file becomes empty, a directory too; what is not there stays so."""
    if Path(path).is_symlink() or not Path(path).exists():
        return
    if Path(path).is_dir():
        mount("tmpfs", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "mode=555,size=4k")
    else:
        mount(os.devnull, path, "", MS_BIND)


def _bind(source: str, path: str, *, read_only: bool, owner: int) -> None:
    if not os.path.lexists(path):
        if Path(source).is_dir():
            _directory(Path(path), owner)
        else:
            _directory(Path(path).parent, owner)
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


OF_ITS_NETWORK = {"net/ipv4/ip_unprivileged_port_start": "0"}
"""A node without capabilities may listen where it likes, as in a container."""
WITHOUT_IPV6 = {f"net/ipv6/conf/{which}/disable_ipv6": "1" for which in ("all", "default")}
"""No device gets an address of IPv6, now or later: to each peer there is one way, which faults cut."""


def be_host(plan: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], ask: Callable[[], None]) -> NoReturn:
    """In the new namespaces: the root directory, the name, the network once it is there, the agent."""
    log = os.open(plan["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    settings = make_root(plan["root"], plan["steps"], _owner(plan))
    _call("setting the host's name", _libc.sethostname, os.fsencode(plan["name"]), len(os.fsencode(plan["name"])))
    if plan.get("ids"):
        become_root(ask)
    set_up(settings, OF_ITS_NETWORK)
    with contextlib.suppress(FileNotFoundError):  # of a kernel without IPv6
        os.stat("net/ipv6", dir_fd=settings)
        set_up(settings, WITHOUT_IPV6)
    say({"made": True})
    ready = _line()
    run_tool(["ip", "-batch", "-"], "\n".join([*ready["ip"], ""]))
    if plan.get("mounts"):
        unshare(CLONE_NEWNS)  # mounts are the host's own from now on, as its users are
    drop_capabilities(MOUNTING if plan.get("mounts") else frozenset())
    gain_nothing()
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.execve(plan["argv"][0], list(plan["argv"]), dict(plan["env"]))  # noqa: S606 - the agent, no shell


def be_switch(say: Callable[[Mapping[str, Any]], None]) -> NoReturn:
    """A network namespace: its links are made as requested, then it is there until it is killed."""
    ready = _line()
    run_tool(["ip", "-batch", "-"], "\n".join([*ready["ip"], ""]))
    settings = os.open("/proc/sys", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    set_up(settings, ready["settings"])
    filter_with(ready["filter"])
    say({"made": True})
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        signal.pause()


def filter_with(rules: str) -> None:
    """Put rules into this network namespace, with whichever iptables works here. CannotError if none does."""
    whys = []
    for tool in ("iptables-restore", "iptables-nft-restore", "iptables-legacy-restore"):
        try:
            run_tool([tool, "-w", "5"], rules)
        except CannotError as error:
            whys.append(str(error))
        else:
            return
    raise CannotError("; ".join(whys))


def be_probe(plan: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None], ask: Callable[[], None]) -> NoReturn:
    """Try what a host needs; ``{"made": true}`` if all of it works."""
    settings = make_root(plan["root"], plan["steps"], _owner(plan))
    if plan.get("ids"):
        become_root(ask)
    set_up(settings, OF_ITS_NETWORK)
    run_tool(
        ["ip", "-batch", "-"],
        "link set dev lo up\nlink add name eth0 type veth peer name eth1\nlink add name switch0 type bridge\n",
    )
    drop_capabilities()
    gain_nothing()
    say({"made": True})
    os._exit(0)


def _owner(plan: Mapping[str, Any]) -> int:
    """The user of the machine that is root of the host."""
    return int((plan.get("ids") or {}).get("0", os.geteuid()))


def _line() -> dict[str, Any]:
    line = sys.stdin.readline(LINE_MAX)
    if not line:
        raise CannotError("the process that started this host is gone")
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
        ids = plan.get("ids") or {}
        # With a user namespace of its own, its network must be made in there.
        unshare(CLONE_NEWNET if plan["kind"] == "switch" else OF_A_HOST & ~(CLONE_NEWNET if ids else 0))
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid:
            process = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # it will change what is there
            theirs.close()
            say({"pid": pid})
            ours.send(b"\n")
            if ids and ours.recv(1):
                write_maps(process, ids)
                ours.send(b"\n")
            return 0
        ours.close()
        if not theirs.recv(1):  # nothing of ours may be read before the number is
            raise CannotError("its number could not be sent")

        def ask() -> None:
            theirs.send(b"\n")
            if not theirs.recv(1):
                raise CannotError("the users of its namespace could not be written")

        if plan["kind"] == "host":
            be_host(plan, say, ask)
        if plan["kind"] == "switch":
            be_switch(say)
        be_probe(plan, say, ask)
    except (CannotError, OSError, ValueError, KeyError) as error:
        said = str(error) if isinstance(error, CannotError) else f"{type(error).__name__}: {error}"
        say({"error": f"{said} (Linux {platform.release()})"})
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
