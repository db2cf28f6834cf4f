"""What packages of Python and of npm have in common: each is named in one version, and may not be had.

Guarantees: pure. Out of scope: asking pip (``python_packages``) or npm (``npm_packages``), and the lock itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dethrone.clusters.own.lock import lock_file
from dethrone.harness.core.errors import ConfigError

CAUSES_MAX, CAUSE_WIDEST = 3, 300


def wanted(packages: Sequence[str]) -> str:
    """What the block of the lock for these packages is for."""
    return " ".join(sorted(packages))


def check_exact(packages: Sequence[str], form: re.Pattern[str], *, where: str, example: str) -> None:
    """Raise ConfigError for one that does not name its version."""
    for one in packages:
        if not form.fullmatch(one):
            raise ConfigError(
                f"{one!r} does not say which package in which version", where=where, next_step=f"write {example}"
            )


def unavailable(
    what: str, description: str, *, where: str, tool: str, index: str, said: Sequence[str], code: int | str
) -> ConfigError:
    """What ``tool`` could not do. ``said``: its lines about that; ``code``: how it ended, if it said nothing."""
    return ConfigError(
        what,
        where=where,
        cause="; ".join(line.strip()[:CAUSE_WIDEST] for line in said[:CAUSES_MAX]) or f"{tool}: {code}",
        next_step=f"check name and version, and {tool}'s own configuration; delete {lock_file(description).name} "
        f"to pin what the {index} has now",
    )
