"""As whom the hosts of a run live on this machine when root makes them: users that nothing else here has.

Two users a run, out of a range that no distribution gives to anything: root of its hosts, and their nodes'. What such a
user may is what any stranger may, so nothing that is not open to everyone on this machine is open to a node.

Guarantees: pure given what is known of accounts; the same run has the same users. Out of scope: mapping them (``box``).
"""

from __future__ import annotations

import grp
import hashlib
import pwd
from collections.abc import Callable

import msgspec

from dethrone.harness.core.errors import ClusterError

FIRST, PAIRS = 1_900_000_000, 1_000_000
"""The range. Containers of systemd end below it, and a user has 32 bits."""

NODE = 7003
"""The nodes' user inside a host; root inside is 0."""

ACCOUNT = f"dethrone:x:{NODE}:{NODE}:a tested node:/nonexistent:/bin/sh"
GROUP = f"dethrone:x:{NODE}:"

_TRIES = 100


class Users(msgspec.Struct, frozen=True):
    """Users of this machine: who is root of the hosts, and as whom their nodes run."""

    root: int
    node: int

    @property
    def maps(self) -> dict[str, int]:
        """User inside of a host → user of this machine."""
        return {"0": self.root, str(NODE): self.node}


def is_taken(number: int) -> bool:
    """Whether this machine knows an account or a group of that number."""
    for known in (pwd.getpwuid, grp.getgrgid):
        try:
            known(number)
        except KeyError:
            continue
        return True
    return False


def of_run(run_id: str, *, taken: Callable[[int], bool] = is_taken) -> Users:
    """The users of that run's hosts. Raises ClusterError where whole ranges are taken."""
    first = int.from_bytes(hashlib.blake2b(run_id.encode(), digest_size=8).digest(), "big")
    for attempt in range(_TRIES):
        root = FIRST + 2 * ((first + attempt) % PAIRS)
        if not taken(root) and not taken(root + 1):
            return Users(root, root + 1)
    raise ClusterError(
        "there is no user that local hosts could live as",
        where=f"users {FIRST} to {FIRST + 2 * PAIRS}",
        cause="this machine's accounts take all that were tried",
        next_step="run with `--on docker`",
    )
