"""Many runs: one seed each, resumable, one row each.

A campaign directory holds ``campaign.json`` (``options_record``), ``rows.jsonl`` and ``seed-<n>/`` for each kept run.
Guarantees: a seed that has a row is not run again; a campaign with other options is refused there; an unfinished run
(killed) is set aside and its seed runs again. On real hosts (``live_seeds``) all runs are kept; in virtual time a
``Source`` makes the rows, in processes of this machine (``virtual_seeds``) or in a layer above, only the first failing
runs are kept, and memory does not grow with the seeds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import msgspec

from dethrone.harness.core import registry, store
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.world import VirtualBackend
from dethrone.harness.engine.campaign.live_seeds import in_turn, side_by_side
from dethrone.harness.engine.campaign.options_record import begin
from dethrone.harness.engine.campaign.resumable_tasks import read_kept
from dethrone.harness.engine.campaign.row import CampaignRow, Progress
from dethrone.harness.engine.campaign.row_file import ROWS, SeedSet, Tally, writing
from dethrone.harness.engine.campaign.virtual_seeds import Meter, rows_of
from dethrone.harness.engine.run.exit_status import EXIT_TROUBLE
from dethrone.harness.engine.run.listener import Listener
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import run

KEEP_FAILING = 5


class Source(Protocol):
    """Simulates: a row for each seed, in the order of the seeds.

    ``count``: how many seeds there are. ``on_the_way`` is called now and then with the number of seeds that are
    simulated but have no row yet.
    """

    def __call__(
        self, options: RunOptions, seeds: Iterable[int], *, count: int, on_the_way: Callable[[int], None]
    ) -> Iterator[CampaignRow]:
        """Raises ConfigError where the options make no run, KeyboardInterrupt at once."""
        ...


def run_campaign(
    options: RunOptions,
    seeds: Sequence[int],
    out: Path,
    listener: Listener,
    on_row: Callable[[CampaignRow], None],
    *,
    jobs: int = 1,
    keep_failing: int = KEEP_FAILING,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[CampaignRow]:
    """Run every seed that has no row yet. Stops early, keeping all rows, when the user interrupts.

    ``jobs``: how many at once; on real hosts at most. ``keep_failing``: in virtual time only, where ``on_row`` gets the
    rows that did not pass and ``on_progress`` the rest. ConfigError for more than one job on hosts that belong to the
    user, and if ``out`` holds a campaign with other options.
    """
    if is_virtual(options):
        source = local_source(jobs)
        run_virtual(
            options, seeds, out, listener, on_row, source=source, keep_failing=keep_failing, on_progress=on_progress
        )
        return read_rows(out)
    if jobs > 1 and registry.load(registry.BACKENDS, options.backend).traits.lending is not None:
        raise ConfigError(
            f"{jobs} runs at once on {options.backend!r}, whose hosts are yours: there is one set of them",
            next_step="remove --jobs",
        )
    out.mkdir(parents=True, exist_ok=True)
    rows = read_rows(out)
    done = {row.seed for row in rows}
    todo = [seed for seed in dict.fromkeys(seeds) if seed not in done]
    _begin(out, options, listener, rows=bool(rows))
    made = (
        in_turn(options, todo, out, listener)
        if jobs == 1
        else side_by_side(options, todo, out, jobs=jobs, say=listener.progress)
    )
    try:
        for row in made:
            rows.append(row)
            with (out / ROWS).open("ab") as file:
                file.write(msgspec.json.encode(row) + b"\n")
            on_row(row)
    except KeyboardInterrupt:
        listener.progress("interrupted; repeat the command to resume")
    return sorted(rows, key=lambda row: row.seed)


def is_virtual(options: RunOptions) -> bool:
    """Whether the runs are in virtual time."""
    return isinstance(registry.load(registry.BACKENDS, options.backend), VirtualBackend)


def local_source(jobs: int) -> Source:
    """Processes of this machine."""

    def source(
        options: RunOptions,
        seeds: Iterable[int],
        *,
        count: int,  # noqa: ARG001 - it makes no difference
        on_the_way: Callable[[int], None],  # noqa: ARG001 - rows come as soon as they are made
    ) -> Iterator[CampaignRow]:
        yield from rows_of(options, seeds, jobs=jobs)

    return source


def run_virtual(
    options: RunOptions,
    seeds: Sequence[int],
    out: Path,
    listener: Listener,
    on_row: Callable[[CampaignRow], None],
    *,
    source: Source,
    keep_failing: int = KEEP_FAILING,
    on_progress: Callable[[Progress], None] | None = None,
    on_kept: Callable[[CampaignRow, bool], None] | None = None,
) -> Tally:
    """Simulate every seed that has no row yet, by any ``source``, and sum up the rows of all these seeds.

    ``on_row`` gets the rows that did not pass, ``on_progress`` the rest. ``on_kept`` gets each row of the file, and
    whether it is new or of an earlier call. Stops early, keeping all rows, when the user interrupts.
    """
    wanted = seeds if isinstance(seeds, range) else frozenset(seeds)
    done, everything, asked = SeedSet(), Tally(listed_max=0), Tally()
    with writing(out) as file:

        def keep(row: CampaignRow, *, new: bool) -> None:
            everything.count(row)
            if row.seed in wanted:
                asked.count(row)
            if on_kept is not None:
                on_kept(row, new)

        _begin(out, options, listener, rows=any(True for _ in file.rows()))
        for row in file.rows():
            if done.add(row.seed):
                keep(row, new=False)
        left = sum(seed not in done for seed in seeds)
        if not left:
            return asked
        meter = Meter(everything, everything.total + left, on_progress or _ignore)
        todo = (seed for seed in seeds if seed not in done)
        try:
            with contextlib.closing(_closable(source(options, todo, count=left, on_the_way=meter.on_the_way))) as rows:
                for made in rows:
                    row = made
                    if row.outcome == "fail" and everything.kept < keep_failing:
                        row = _kept_whole(options, row, out, listener)
                    file.write(row)
                    keep(row, new=True)
                    meter.count(row)
                    if row.outcome == "fail" or row.exit_code == EXIT_TROUBLE:
                        on_row(row)
        except KeyboardInterrupt:
            listener.progress("interrupted; repeat the command to resume")
    return asked


def _begin(out: Path, options: RunOptions, listener: Listener, *, rows: bool) -> None:
    remark = begin(out, options, version=version("dethrone"), rows=rows)
    if remark:
        listener.progress(remark)


def _kept_whole(options: RunOptions, row: CampaignRow, out: Path, listener: Listener) -> CampaignRow:
    """Run a seed again with all its files, which gives the same bytes."""
    directory = out / f"seed-{row.seed}"
    store.set_aside(directory)  # a run without a row was cut short
    result = run(msgspec.structs.replace(options, seed=row.seed, out=directory), listener)
    if result.interrupted:
        raise KeyboardInterrupt
    return msgspec.structs.replace(row, run_dir=str(directory))


def _closable(rows: Iterator[CampaignRow]) -> Generator[CampaignRow]:
    """Closing this generator stops the work."""
    yield from rows


def _ignore(_progress: Progress) -> None:
    """No caller watches."""


def read_rows(out: Path) -> list[CampaignRow]:
    """The rows so far; a torn last line is dropped. ConfigError if the file is none of ours."""
    return read_kept(out / ROWS, CampaignRow, what="the campaign's")
