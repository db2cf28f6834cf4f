"""A campaign on real hosts: its seeds one after another, or side by side, as many at once as the machine bears.

Guarantees: a run that is ``unknown`` only because of noise of the hosts is repeated with its seed, ``NOISE_REPEATS``
times at most, and then alone; side by side each run is a process of its own, with networks, ports and state of its own;
fewer run at once as soon as noise appears (``Admission``). Out of scope: the rows' file (``row_file``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import NamedTuple

import msgspec

from dethrone.harness.core import store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.campaign.virtual_seeds import findings
from dethrone.harness.engine.campaign.worker_processes import workers
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED
from dethrone.harness.engine.run.judgement import RunResult
from dethrone.harness.engine.run.listener import Listener, Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import run

NOISE_REPEATS = 2
"""How often a seed is run again if noise alone kept its run from a verdict."""
_AGAIN = ("", "-again", "-again-2")

NOISE_PERCENT_MAX = 5.0
"""The share of a run that noise may be charged with before fewer run at once."""

QUIET_RUNS = 3
"""As many quiet runs at each place, one after another, admit one more."""


class Attempt(NamedTuple):
    """A run of a seed. ``number``: how many noise has spoiled before."""

    seed: int
    number: int = 0


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to. ``spoiled``: noise alone keeps it from a verdict: another run may get one."""

    row: CampaignRow
    spoiled: bool
    interrupted: bool


class Admission:
    """How many runs are admitted at once: halved by each noisy one, raised by quiet ones. Pure."""

    def __init__(self, most: int) -> None:
        self.width = most
        self._most = most
        self._quiet = 0

    def learn(self, row: CampaignRow) -> None:
        """A run ended."""
        if row.by_noise or row.noise_percent > NOISE_PERCENT_MAX:
            self.width, self._quiet = max(1, self.width // 2), 0
            return
        self._quiet += 1
        if self._quiet >= QUIET_RUNS * self.width:
            self.width, self._quiet = min(self._most, self.width + 1), 0


def in_turn(options: RunOptions, seeds: Sequence[int], out: Path, listener: Listener) -> Iterator[CampaignRow]:
    """One run after another. Ends early when the user interrupts one."""
    for seed in seeds:
        for number in range(NOISE_REPEATS + 1):
            done = carry_out(options, Attempt(seed, number), out, listener=listener)
            if done.interrupted:
                return
            if not done.spoiled or number == NOISE_REPEATS:
                yield done.row
                break
            listener.progress(f"seed {seed}: unknown because of a noisy host; repeating it with the same seed")


def side_by_side(
    options: RunOptions, seeds: Sequence[int], out: Path, *, jobs: int, say: Callable[[str], None]
) -> Iterator[CampaignRow]:
    """Up to ``jobs`` runs at once; rows as they come. KeyboardInterrupt: after all runs were rolled back."""
    waiting, alone = deque(Attempt(seed) for seed in seeds), deque[Attempt]()
    admission = Admission(jobs)
    running: dict[Future[Finished], tuple[Attempt, int]] = {}
    with workers(jobs) as pool:
        while waiting or alone or running:
            while one := _next(waiting, alone, [attempt for attempt, _ in running.values()], admission.width):
                running[pool.submit(carry_out, options, one, out)] = one, len(running) + 1
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                one, at_once = running.pop(future)
                finished = future.result()
                if finished.interrupted:
                    raise KeyboardInterrupt
                before = admission.width
                admission.learn(finished.row)
                if admission.width < before:
                    say(f"seed {one.seed}: the hosts were noisy; at most {admission.width} runs at once from now on")
                if finished.spoiled and one.number < NOISE_REPEATS:
                    alone.append(Attempt(one.seed, one.number + 1))
                    say(f"seed {one.seed}: unknown because of a noisy host; repeating it alone with the same seed")
                else:
                    yield msgspec.structs.replace(finished.row, at_once=at_once)


def _next(waiting: deque[Attempt], alone: deque[Attempt], running: Sequence[Attempt], width: int) -> Attempt | None:
    """The run that may begin now, taken off its queue. What is repeated waits until nothing else runs."""
    if any(one.number for one in running):
        return None
    if alone:
        return None if running else alone.popleft()
    return waiting.popleft() if waiting and len(running) < width else None


def carry_out(options: RunOptions, one: Attempt, out: Path, *, listener: Listener | None = None) -> Finished:
    """One run, in this process."""
    directory = out / f"seed-{one.seed}{_AGAIN[one.number]}"
    store.set_aside(directory)  # a run without a row was cut short
    result = run(msgspec.structs.replace(options, seed=one.seed, out=directory), listener or Silence())
    return Finished(
        row=_row(result, repeats=one.number),
        spoiled=_spoiled(result),
        interrupted=result.exit_code == EXIT_INTERRUPTED or result.interrupted,
    )


def _spoiled(result: RunResult) -> bool:
    judgement = result.judgement
    return judgement is not None and judgement.host_noise and not result.interrupted and not result.trouble


def _row(result: RunResult, *, repeats: int) -> CampaignRow:
    judgement = result.judgement
    return CampaignRow(
        seed=result.seed,
        outcome=judgement.outcome if judgement else "unknown",
        exit_code=result.exit_code,
        run_dir=str(result.run_dir),
        elapsed_ns=int(result.figures.get("elapsed_s", 0) * SECOND),
        elections=int(result.figures.get("elections", 0)),
        faults=int(result.figures.get("faults", 0)),
        ops_ok=int(result.figures.get("ok", 0)),
        findings=findings(judgement)[:20],
        reason=judgement.reason if judgement else "; ".join(result.trouble)[:500],
        repeated=repeats > 0,
        repeats=repeats,
        by_noise=_spoiled(result),
        excused=judgement.excused if judgement else 0,
        noise_percent=judgement.noise_percent if judgement else 0.0,
    )
