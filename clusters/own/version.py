"""Which build of a described system is tested: as its description says, or as a command of this machine prints.

    version_command = "build/keep --version"        # or "git describe --always --dirty"

Guarantees: the command runs in the description's folder, without a shell, with the user's own rights, for a bounded
time; only its first line counts. A command that fails is a ConfigError: a run whose build is not known is not what was
asked for. Out of scope: what is installed on the hosts.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from dethrone.clusters.own.spec import Description
from dethrone.clusters.own.table import split
from dethrone.harness.core.clean import one_line
from dethrone.harness.core.errors import ConfigError

LIMIT_S = 20
CHARS_MAX = 120


def version_of(description: Description) -> str:
    """The version; "" where the description does not say it. ConfigError."""
    table = description.system
    if table.version_command is None:
        return table.version or ""
    argv = split(table.version_command, where=description.path)
    folder = Path(description.path).absolute().parent
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"no answer in {LIMIT_S} s" if isinstance(error, subprocess.TimeoutExpired) else str(error.strerror)
        raise _failed(description, why) from error
    lines = [line.strip() for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    if done.returncode or not lines:
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise _failed(description, f"exit code {done.returncode}{f': {said}' if said else ', and no output'}")
    return one_line(lines[0])[:CHARS_MAX]


def _failed(description: Description, why: str) -> ConfigError:
    return ConfigError(
        f"version_command does not say which build this is: {one_line(why)}",
        where=f"{description.path}: [system]",
        cause="it runs on this machine, in the folder of the description",
        next_step='try it there by hand, or write version = "…"',
    )
