"""Work over worker processes: a function, its tasks, and a call here for each answer as it comes.

Promises: with one job the work is done here, in order; a worker that dies is told, not waited for; Ctrl-C ends workers
at once and no answer that came is lost. Leaves out what the work is, and keeping its answers.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from harness.core.errors import HarnessError

T = TypeVar("T")
R = TypeVar("R")


def spread(work: Callable[[T], R], tasks: Sequence[T], *, jobs: int, keep: Callable[[R], None]) -> None:
    """``keep(work(task))`` for every task. ``work`` and what it takes and gives travel between processes."""
    if jobs == 1:
        for task in tasks:
            keep(work(task))
        return
    pool = ProcessPoolExecutor(max_workers=jobs, mp_context=multiprocessing.get_context("spawn"))
    waiting: set[Future[R]] = set()
    queue = iter(tasks)
    try:
        while True:
            while len(waiting) < 2 * jobs:
                for task in queue:
                    waiting.add(pool.submit(work, task))
                    break
                else:
                    break
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                keep(future.result())
    except BrokenProcessPool as error:
        raise HarnessError(
            "a worker process died", cause="out of memory, or killed", next_step="run it again: what is done stays"
        ) from error
    finally:
        for process in list((pool._processes or {}).values()):  # noqa: SLF001 - the pool waits for running tasks otherwise
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
