"""A campaign on real hosts: its seeds one after another, or side by side, as many at once as the machine bears.

Guarantees: a run that is ``unknown`` only because of noise of the hosts, or in trouble next to others, is repeated with
its seed, ``NOISE_REPEATS`` times at most, and then alone; side by side each run is a process of its own, with networks,
ports and state of its own, and its nodes' data in memory; the first one measures the machine for those that follow, one
more begins only while processors are idle (``IdleCores``), and fewer run at once as soon as noise appears
(``Admission``). Out of scope: the rows' file (``row_file``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import NamedTuple

import msgspec

from dethrone.harness.core import registry, store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.plan import Plan
from dethrone.harness.engine.campaign.admission import Admission
from dethrone.harness.engine.campaign.idle_cores import LOOK_EVERY_S, IdleCores
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.campaign.virtual_seeds import findings
from dethrone.harness.engine.campaign.worker_processes import workers
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED, EXIT_TROUBLE
from dethrone.harness.engine.run.judgement import RunResult
from dethrone.harness.engine.run.listener import Listener, Silence
from dethrone.harness.engine.run.measurement import fits_in_memory
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import run

NOISE_REPEATS = 2
"""How often a seed is run again if noise alone kept its run from a verdict."""
_AGAIN = ("", "-again", "-again-2")


class Attempt(NamedTuple):
    """A run of a seed. ``number``: how many noise has spoiled before."""

    seed: int
    number: int = 0


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to. ``spoiled``: noise alone keeps it from a verdict: another run may get one."""

    row: CampaignRow
    spoiled: bool
    interrupted: bool


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
    options = _in_memory(options)
    admission = Admission((Attempt(seed) for seed in seeds), most=jobs)
    running: dict[Future[Finished], Attempt] = {}
    cores = IdleCores()
    with workers(jobs) as pool:
        while True:
            while one := admission.next(room=cores.enough(len(running))):
                cores.begun()
                alone = one.number or one.seed == seeds[0]
                chosen = options if alone else _as_measured(options, out / f"seed-{seeds[0]}")
                running[pool.submit(carry_out, chosen, one, out)] = one
            if not running:
                return
            look_s = LOOK_EVERY_S if admission.left else None
            for future in wait(running, look_s, return_when=FIRST_COMPLETED).done:
                one = running.pop(future)
                at_once, finished = admission.running[one], future.result()
                if finished.interrupted:
                    raise KeyboardInterrupt
                row = finished.row
                crowded = at_once > 1 and row.exit_code == EXIT_TROUBLE
                if admission.ended(one, by_noise=row.by_noise or crowded, noise_percent=row.noise_percent):
                    say(f"seed {one.seed}: the hosts were noisy; at most {admission.width} runs at once from now on")
                if (finished.spoiled or crowded) and one.number < NOISE_REPEATS:
                    admission.again(Attempt(one.seed, one.number + 1))
                    why = f"trouble next to {at_once - 1} others" if crowded else "unknown because of a noisy host"
                    say(f"seed {one.seed}: {why}; repeating it alone with the same seed")
                else:
                    yield msgspec.structs.replace(row, at_once=at_once)


def _in_memory(options: RunOptions) -> RunOptions:
    """With the nodes' data in memory, unless the user says where: syncs of other runs on one disk hold up no node then.

    What is too long for that keeps it on disk.
    """
    memory_dir = registry.load(registry.BACKENDS, options.backend).traits.memory_dir
    if options.data_in is not None or not fits_in_memory(memory_dir, options.time_limit_ns or 0):
        return options
    return msgspec.structs.replace(options, data_in="memory")


def _as_measured(options: RunOptions, first: Path) -> RunOptions:
    """With the time scale that the first run chose, which was alone then: next to others a run measures these, too."""
    if options.time_scale is not None:
        return options
    try:
        plan = store.read_json(first / store.PLAN, Plan)
    except HistoryError:
        return options  # it was not drawn yet
    return msgspec.structs.replace(options, time_scale=plan.time_scale) if "needed" in plan.calibration else options


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
        cuts=(judgement.cuts if judgement else ()) or msgspec.UNSET,
        noise_percent=judgement.noise_percent if judgement else 0.0,
    )
