"""Runs whose history is too long for memory, in virtual time."""

from __future__ import annotations

from pathlib import Path

from dethrone.harness.core import store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.history_files import seal
from dethrone.harness.core.plan import Plan
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.virtual_run import VirtualRun


def simulated(place: Path, *, variant: str | None = None) -> tuple[Path, Plan]:
    """A run directory with a history of more than a block, as a run leaves it."""
    options = RunOptions(
        system="raft",
        backend="sim",
        seed=3,
        time_limit_ns=75 * SECOND,
        rate_per_s=60,
        variant=variant,
        faults=("partition", "kill", "pause", "clock"),
        stop_at_first_failure=False,
    )
    drafted = draft(options, seed=3)
    place.mkdir()
    run = VirtualRun(options, drafted, place, Silence(), run_id="long", checkers={})
    run.direct()
    seal(place / store.HISTORY, ended=True)
    return place / store.HISTORY, drafted.plan
