"""Confinement of a node: a user of its own, few capabilities, and no way to gain more.

Guarantees: a node gets exactly the user and capabilities that it asks for, or is refused; its files become its own
without following links. Out of scope: starting it (``processes``), and limits on memory or processor time.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import pwd
import re
import stat
from collections.abc import Sequence
from typing import Any, NamedTuple

from dethrone.clusters.agent.host.common import Refused

CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
"""A capability's number is its index here (linux/capability.h)."""
OF_ROOT = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "NET_BIND_SERVICE", "SYS_CHROOT")
"""Capabilities of a node that asks to be root: for files, signals and other users, not for the host's network."""
PR_CAPBSET_DROP, PR_GET_SECUREBITS, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 24, 27, 28, 38, 47
PR_CAP_AMBIENT_RAISE = 2
PR_SET_DUMPABLE, PR_SET_PTRACER, PR_SET_PTRACER_ANY = 4, 0x59616D61, (1 << 64) - 1
SECBIT_NO_SETUID_FIXUP = 4
CAPABILITY_VERSION_3 = 0x20080522


class Confined(NamedTuple):
    """User and capabilities of a node. ``own``: no process of ours on the host has its user; ``why``: why not."""

    uid: int
    gid: int
    capabilities: tuple[str, ...]
    own: bool
    why: str

    def said(self) -> dict[str, Any]:
        """As JSON."""
        return {"uid": self.uid, "own": self.own, "why": self.why, "capabilities": list(self.capabilities)}

    def enter(self) -> None:
        """Confine the calling thread: programs that it executes gain no privilege and have at most these capabilities.

        Raises OSError if the kernel refuses and a node would keep a forbidden capability.
        """
        libc = ctypes.CDLL(None, use_errno=True)

        def prctl(*arguments: int) -> int:
            return int(libc.prctl(*map(ctypes.c_ulong, (*arguments, 0, 0, 0)[:5])))

        def must(doing: str, code: int) -> None:
            if code < 0:
                number = ctypes.get_errno()
                raise OSError(number, f"{doing}: {os.strerror(number)}")

        must("no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 1))
        if os.geteuid() != 0:
            return
        kept = [CAPABILITIES.index(name) for name in self.capabilities]
        for number in range(64):
            if number not in kept and prctl(PR_CAPBSET_DROP, number) < 0:
                if ctypes.get_errno() == errno.EINVAL:  # the kernel's last capability was the one before
                    break
                if self.uid == os.geteuid():  # otherwise the change of user drops them all
                    must(f"dropping capability {number}", -1)
        if self.uid == 0 or not kept:
            must("capset", set_inheritable(libc, 0))
            return
        must("securebits", prctl(PR_SET_SECUREBITS, prctl(PR_GET_SECUREBITS) | SECBIT_NO_SETUID_FIXUP))
        must("capset", set_inheritable(libc, sum(1 << number for number in kept)))
        for number in kept:
            must(f"ambient capability {number}", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number))


def set_inheritable(libc: Any, inheritable: int) -> int:
    """Change only the calling thread's inheritable capabilities; negative: errno says why not."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: low words, then high words
    if libc.capget(header, data) < 0:
        return -1
    data[2], data[5] = inheritable & 0xFFFFFFFF, inheritable >> 32
    return int(libc.capset(header, data))


def allow_tracing() -> None:
    """Let other processes of this process' user trace it, until it executes a program and beyond.

    The change of user made it untraceable, and left it capabilities that its program will not have. Failures are
    ignored: a process that cannot be traced is reported where it is to be.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((PR_SET_DUMPABLE, 1), (PR_SET_PTRACER, PR_SET_PTRACER_ANY)):
        libc.prctl(*map(ctypes.c_ulong, (option, value, 0, 0, 0)))
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    if os.geteuid() != 0 and libc.capget(header, data) == 0:
        for word in (0, 3):
            data[word], data[word + 1] = data[word] & data[word + 2], data[word + 1] & data[word + 2]
        libc.capset(header, data)


def tracing_is_restricted() -> bool:
    """Whether this kernel lets processes trace only what they started (Yama), unless they are allowed to."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip() != "0"
    except OSError:
        return False


def permitted(pid: int | str = "self") -> int | None:
    """The permitted capabilities of a process, as bits; None if they cannot be read."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            found = re.search(r"^CapPrm:\s*([0-9a-f]+)$", file.read(), re.MULTILINE)
    except OSError:
        return None
    return int(found.group(1), 16) if found else None


def is_mapped(number: int, file: str) -> bool:
    """Whether our user namespace has that user (``uid_map``) or group (``gid_map``)."""
    try:
        with open(f"/proc/self/{file}", encoding="ascii") as lines:  # noqa: PTH123
            ranges = [[int(word) for word in line.split()] for line in lines]
    except (OSError, ValueError):
        return True  # a kernel without user namespaces
    return any(first <= number < first + count for first, _, count in ranges)


def user_of(words: str) -> tuple[int, int]:
    """User and group that ``NAME``, ``UID`` or ``UID:GID`` means here. Raises Refused if no user has that name."""
    first, _, second = words.partition(":")
    if first.isdigit() and (not second or second.isdigit()):
        return int(first), int(second or first)
    try:
        found = pwd.getpwnam(words)
    except KeyError:
        raise Refused(f"there is no user {words!r:.80} on this host") from None
    return found.pw_uid, found.pw_gid


def confined(asked: str | None, capabilities: Sequence[str], *, default: str | None) -> Confined:
    """The confinement of a node that asks for this user and these capabilities. Raises Refused if it cannot have them.

    ``default``: the user of nodes that ask for none; None: they run as the agent's user.
    """
    unknown = [name for name in capabilities if name not in CAPABILITIES]
    if unknown:
        raise Refused(f"no capability is called {unknown[0]!r:.80}")
    me = os.geteuid()
    if me != 0:
        if capabilities or (asked is not None and user_of(asked)[0] != me):
            raise Refused(f"the node asks for a user or capabilities, which only root can give; the agent has uid {me}")
        return Confined(me, os.getegid(), (), own=False, why=f"the agent is not root: nodes have its user, uid {me}")
    ours = permitted()
    lacking = [name for name in capabilities if ours is not None and not ours >> CAPABILITIES.index(name) & 1]
    if lacking:
        raise Refused(f"the node asks for the capability {lacking[0]}, which this host does not have")
    words = default if asked is None else asked
    if words is None:
        why = "no user was set apart for nodes here: they have the agent's, uid 0, without capabilities"
        return Confined(0, 0, tuple(capabilities), own=False, why=why)
    uid, gid = user_of(words)
    if uid == 0:
        kept = [name for name in OF_ROOT if ours is None or ours >> CAPABILITIES.index(name) & 1]
        return Confined(0, 0, tuple(dict.fromkeys([*kept, *capabilities])), own=False, why="the node asks to be root")
    if not is_mapped(uid, "uid_map") or not is_mapped(gid, "gid_map"):
        if asked is not None:
            raise Refused(f"the node asks for uid {uid}, and this host's user namespace has no such user")
        why = "this host's user namespace has one user only: nodes have the agent's, without capabilities"
        return Confined(0, 0, tuple(capabilities), own=False, why=why)
    return Confined(uid, gid, tuple(capabilities), own=True, why="")


def give(path: str, to: Confined) -> None:
    """Make a directory and its content a node's own, without following links or entering other devices."""
    if os.geteuid() != 0:
        return
    os.chown(path, to.uid, to.gid)
    device = os.stat(path).st_dev  # noqa: PTH116
    for place, directories, files, handle in os.fwalk(path, follow_symlinks=False):
        del place
        for name in list(directories):
            if os.stat(name, dir_fd=handle, follow_symlinks=False).st_dev != device:
                directories.remove(name)
        for name in (*directories, *files):
            with contextlib.suppress(FileNotFoundError):
                os.chown(name, to.uid, to.gid, dir_fd=handle, follow_symlinks=False)


def open_log(path: str, node: Confined) -> int:
    """Open the node's log to append. Raises Refused if the node replaced it, such as by a link to a file of ours."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    log = os.open(path, flags, 0o644)
    seen = os.fstat(log)
    if not stat.S_ISREG(seen.st_mode) or seen.st_nlink > 1 or seen.st_uid not in {node.uid, os.geteuid()}:
        os.close(log)
        raise Refused(f"{path} is not a log of the node's own: it is no regular file, or another user's")
    os.set_blocking(log, True)
    if os.geteuid() == 0:
        os.fchown(log, node.uid, node.gid)
    return log
