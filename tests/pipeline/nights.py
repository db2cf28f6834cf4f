"""Runs for tests of the corpus: simulated ones and histories told by hand, as run directories."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dethrone.harness.core import store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.events import End
from dethrone.harness.core.history_files import seal
from dethrone.harness.core.history_writer import HistoryWriter
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.rehearsal import Rehearsed, rehearse

TESTS = Path(__file__).parents[1]


def simulated(
    seed: int, *, system: str = "raft", seconds: int = 30, variant: str | None = None, **options
) -> Rehearsed:
    """A run in memory, judged by nobody."""
    wanted = RunOptions(
        system=system,
        backend="sim",
        nodes=options.pop("nodes", 3),
        seed=seed,
        time_limit_ns=seconds * SECOND,
        nemesis_interval_ns=2 * SECOND,
        variant=variant,
        **options,
    )
    return rehearse(wanted, {}, seed=seed)


def store_run(
    directory: Path, events, plan, *, run: str, started_at: str = "2026-11-20T23:30:00Z", end: bool = True, columns=True
) -> Path:
    """A run directory of these events (without their end record)."""
    directory.mkdir(parents=True)
    writer = HistoryWriter(directory / store.HISTORY, sync=False)
    body = [event for event in events if type(event) is not End]
    writer.write(body)
    if end:
        writer.end(t=body[-1].t, reason="complete")
    writer.close()
    store.write_json(directory / store.PLAN, plan)
    record = {"schema": 1, "run_id": run, "started_at": started_at, "versions": {"dethrone": "0.1.0"}, "figures": {}}
    store.write_json(directory / store.RUN, record)
    if columns:
        seal(directory / store.HISTORY, ended=True)
    return directory


def change(path: Path, **fields) -> None:
    """Other values in a JSON file."""
    value = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({**value, **fields}))
