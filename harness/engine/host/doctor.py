"""What this machine can do, row by row, with the reason and the remedy where it cannot. It repairs nothing."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from dethrone.harness.core import registry
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.interfaces import (
    Available,
    Backend,
    No,
    Yes,
)
from dethrone.harness.core.ledger import stale_runs, state_dir

MIN_DISK_BYTES = 2 * 1024**3


def rows(*, hosts: Path | None = None, host: tuple[str, ...] = ()) -> list[tuple[str, str, Available]]:
    """(section, name, answer) for the machine, each backend, plug-ins and leftovers.

    ``hosts``, ``host``: lent hosts, by a file and one by one.
    """
    out: list[tuple[str, str, Available]] = list(_machine())
    why: list[tuple[str, str, Available]] = []
    accepted = False
    for name in registry.names(registry.BACKENDS):
        try:
            backend = registry.load(registry.BACKENDS, name)
            if backend.traits.lending is not None and (hosts is not None or host):
                backend, refused = _lent(backend, hosts, host)
                why.extend(refused)
                accepted = accepted or not refused
            out += [(f"backend {name}", row, answer) for row, answer in backend.doctor()]
        except HarnessError as error:
            out.append((f"backend {name}", "probe", No(why=error.what, what_to_do=error.next_step)))
    out += [] if accepted else why  # the words are meant for one kind of hosts, whichever it is
    out += _plugins()
    stale = stale_runs(state_dir())
    out.append(
        (
            "leftovers",
            "of killed runs",
            No(why=", ".join(run.run_id for run in stale), what_to_do="dethrone heal") if stale else Yes(),
        )
    )
    return out


def _lent(backend: Any, hosts: Path | None, host: tuple[str, ...]) -> tuple[Backend, list[tuple[str, str, Available]]]:
    """The backend of the lent hosts, or as it was and why it refuses them."""
    try:
        return backend.lent(hosts, host), []
    except HarnessError as error:
        return backend, [(f"backend {backend.name}", "hosts", No(why=error.what, what_to_do=error.next_step))]


def _machine() -> list[tuple[str, str, Available]]:
    linux = sys.platform == "linux"
    free = os.statvfs(".").f_bavail * os.statvfs(".").f_frsize
    cores = len(os.sched_getaffinity(0)) if linux else os.cpu_count() or 1
    return [
        ("machine", "Linux", Yes() if linux else No(why=platform.system(), what_to_do="run on a Linux machine or VM")),
        ("machine", "Python ≥ 3.11", Yes() if sys.version_info >= (3, 11) else No(why=platform.python_version())),
        (
            "machine",
            "two cores",
            Yes() if cores >= 2 else No(why=f"{cores} core", what_to_do="expect more verdicts `unknown: noisy host`"),
        ),
        (
            "machine",
            "2 GiB free disk here",
            Yes() if free >= MIN_DISK_BYTES else No(why=f"{free // 1024**2} MiB", what_to_do="free space or use --out"),
        ),
    ]


def _plugins() -> list[tuple[str, str, Available]]:
    out: list[tuple[str, str, Available]] = []
    groups = (registry.SYSTEMS, registry.FAULTS, registry.CHECKERS, registry.WORKLOADS, registry.STRATEGIES)
    for group in groups:
        short = group.rsplit(".", 1)[-1]
        try:
            loaded = registry.load_all(group)
            out.append(("plug-ins", f"{len(loaded)} {short}", Yes()))
        except HarnessError as error:
            out.append(("plug-ins", short, No(why=error.what, what_to_do=error.next_step)))
    return out
