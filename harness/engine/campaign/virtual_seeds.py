"""A campaign in virtual time: many seeds over worker processes, in memory; only the first failing ones kept whole.

A seed is rehearsed without files. The first failing seeds run again with all files and give the same bytes, so nothing
is lost. Guarantees: rows come in the order of the seeds, regardless of the number of workers, and are in the file as
soon as they and all before them are known; memory does not grow with the seeds; a worker that dies is reported, not
waited for. ``campaign`` handles the rows' file.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future

import msgspec

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.events import Observed, Return, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import Checker
from dethrone.harness.core.known_findings import Known
from dethrone.harness.core.known_findings import read as read_known
from dethrone.harness.engine.campaign.row import CampaignRow, Progress
from dethrone.harness.engine.campaign.row_file import Tally
from dethrone.harness.engine.campaign.worker_processes import workers
from dethrone.harness.engine.run.code_names import chosen_checkers, limited
from dethrone.harness.engine.run.exit_status import EXIT_TROUBLE, exit_code
from dethrone.harness.engine.run.garbage_collection import swept
from dethrone.harness.engine.run.judge import acknowledged, watching
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.engine.run.lifecycle import today
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.rehearsal import rehearse_draft

CHUNK = 4
"""Seeds that a worker takes at once: enough to hide the way there, few enough to be stopped soon."""


def rows_of(options: RunOptions, seeds: Iterable[int], *, jobs: int) -> Iterator[CampaignRow]:
    """A row for each seed, in order. Raises ConfigError where the options make no run, KeyboardInterrupt at once."""
    coming = iter(seeds)
    chunks = iter(lambda: tuple(itertools.islice(coming, CHUNK)), ())
    first = next(chunks, None)
    if first is None:
        return
    draft(options, seed=first[0])  # what is wrong with the options is wrong for all
    chunks = itertools.chain((first,), chunks)
    if jobs == 1:
        for chunk in chunks:
            yield from rehearse_seeds(options, chunk)
        return
    waiting: deque[Future[list[CampaignRow]]] = deque()
    with workers(jobs) as pool:
        for chunk in chunks:
            waiting.append(pool.submit(rehearse_seeds, options, chunk))
            if len(waiting) > 3 * jobs:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def rehearse_seeds(options: RunOptions, seeds: Sequence[int]) -> list[CampaignRow]:
    """The rows of these seeds, in this process."""
    checkers = chosen_checkers(options.checkers)
    known = () if options.known is None else read_known(options.known)
    return [_row(options, seed, checkers, known) for seed in swept(seeds)]


def _row(options: RunOptions, seed: int, checkers: Mapping[str, Checker], known: Sequence[Known]) -> CampaignRow:
    began = time.monotonic_ns()
    try:
        drafted = draft(options, seed=seed)
        plan = drafted.plan
        run = rehearse_draft(drafted, checkers, watchers=watching(checkers, plan), limited=limited(options.checkers))
    except HarnessError as error:
        return CampaignRow(
            seed=seed,
            outcome="unknown",
            exit_code=EXIT_TROUBLE,
            run_dir="",
            elapsed_ns=time.monotonic_ns() - began,
            elections=0,
            faults=0,
            ops_ok=0,
            reason=error.what[:500],
        )
    judgement = acknowledged(run.judgement, known, system=plan.system, day=today())
    return CampaignRow(
        seed=seed,
        outcome=judgement.outcome,
        exit_code=exit_code(
            outcome=judgement.outcome,
            trouble=bool(judgement.trouble),
            interrupted=False,
            fail_on=options.fail_on,
            excused=judgement.excused,
        ),
        run_dir="",
        elapsed_ns=time.monotonic_ns() - began,
        elections=_elections(run.history),
        faults=sum(fault.outcome == "installed" for fault in run.realised.faults),
        ops_ok=Counter(event.status for event in run.history.of(Return))["ok"],
        findings=findings(judgement)[:20],
        reason=judgement.reason,
        excused=judgement.excused,
        cuts=judgement.cuts or msgspec.UNSET,
    )


def _elections(history: History) -> int:
    seen = {(event.group, event.term, event.node) for event in history.of(Observed) if event.leads}
    seen |= {(event.group, event.term, event.node) for event in history.of(Traced) if event.name == "elected"}
    return len(seen)


def findings(judgement: Judgement | None) -> tuple[str, ...]:
    """The findings without an excuse, a sentence each."""
    return tuple(
        f"{verdict.checker}: {finding.sentence}"
        for verdict in (judgement.verdicts if judgement else ())
        if verdict.outcome == "fail"
        for finding in verdict.findings
        if finding.fails
    )


class Meter:
    """Counts rows; calls ``on_progress`` at most once a second, and at the end. ``tally``: of all rows so far."""

    def __init__(self, tally: Tally, total: int, on_progress: Callable[[Progress], None]) -> None:
        self._tally = tally
        self._total = total
        self._on_progress = on_progress
        self._began = time.monotonic_ns()
        self._first = tally.total
        self._told: Ns = self._began

    def count(self, _row: CampaignRow) -> None:
        """One more row, which the tally counts already."""
        self._tell(0, at_once=self._tally.total == self._total)

    def on_the_way(self, seeds: int) -> None:
        """This number of seeds is simulated, but their rows have not arrived yet."""
        self._tell(seeds, at_once=False)

    def _tell(self, on_the_way: int, *, at_once: bool) -> None:
        now = time.monotonic_ns()
        if now - self._told < SECOND and not at_once:
            return
        self._told = now
        done = self._tally.total
        self._on_progress(
            Progress(
                done=done,
                total=self._total,
                failing=self._tally.counts["fail"],
                unknown=self._tally.counts["unknown"],
                per_s=(done + on_the_way - self._first) * SECOND / max(1, now - self._began),
                on_the_way=on_the_way,
            )
        )
