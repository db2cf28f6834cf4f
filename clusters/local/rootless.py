"""Hosts without root: the whole command continues inside a user namespace of its own, where it may make namespaces.

    python -I -S rootless.py WORD …        run WORD … in there: for commands other than dethrone's own, as pytest's

Guarantees: ``enter`` either returns (already inside), or this process becomes the same command inside: same process id,
terminal and files; the user there is ``root`` of nothing but what is made there. The network there has nothing but
hosts: nothing else is reached. Out of scope: mapping further users.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":  # run by its path, without the project's packages
    sys.path.insert(0, str(Path(__file__).parents[3]))

from dethrone.clusters.local import box

INSIDE = "DETHRONE_LOCAL_INSIDE"
"""Set in the environment of a command that has entered."""

REMEDY = (
    "allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns), run as root, or use --on docker"
)


def is_inside() -> bool:
    """Whether this process has entered: then it is root of a user namespace of ours only."""
    return bool(os.environ.get(INSIDE))


def enter() -> None:
    """Continue in a user namespace. Raises MissingCapability where the kernel does not let this user have one."""
    from dethrone.harness.core.errors import MissingCapability

    if is_inside():
        return
    why = why_not()
    if why:
        raise MissingCapability(
            "this user may not make namespaces",
            where="backend local",
            cause=why,
            next_step=REMEDY,
        )
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-I", "-S", __file__, *sys.orig_argv])  # noqa: S606 - ourselves


def become(argv: Sequence[str]) -> None:
    """Run ``argv`` in a new user namespace, instead of this program. CannotError or OSError if it cannot be."""
    uid, gid = os.geteuid(), os.getegid()
    box.unshare(box.CLONE_NEWUSER | box.CLONE_NEWNET | box.CLONE_NEWNS)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="ascii")
    box.run_tool(["ip", "link", "set", "lo", "up"], "")
    os.environ[INSIDE] = "1"
    os.execvp(argv[0], list(argv))  # noqa: S606 - the user's own command


def why_not() -> str:
    """Why no user namespace can be had, found out by a child that tries; nothing where it can."""
    reader, writer = os.pipe()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", __file__, "/bin/true"],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, writer, 2), (os.POSIX_SPAWN_CLOSE, writer)],
    )
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        words = said.read(4096).decode(errors="replace").strip()
    _, status = os.waitpid(child, 0)
    return "" if os.waitstatus_to_exitcode(status) == 0 else words or "it ended without a word"


def main() -> int:
    """See the top of this file."""
    try:
        become(sys.argv[1:])
    except (box.CannotError, OSError, IndexError) as error:
        sys.stderr.write(f"dethrone: no user namespace: {error}\n")
    return 3


if __name__ == "__main__":
    sys.exit(main())
