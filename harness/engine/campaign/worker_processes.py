"""Work over worker processes: a function, its tasks, and a call here for each answer as it comes.

Guarantees: with one job the work is done here, in order; a worker that dies is reported, not waited for; Ctrl-C, and
any error, ends workers (those in a run on real hosts heal first), as does the end of this process, even by ``kill -9``;
no received answer is lost. What the work is, and keeping its answers, is out of scope.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import TypeVar

from dethrone.harness.core.errors import HarnessError

END_LIMIT_S = 90.0
ASK_AGAIN_S = 1.0
_PR_SET_PDEATHSIG = 1

T = TypeVar("T")
R = TypeVar("R")


def spread(work: Callable[[T], R], tasks: Sequence[T], *, jobs: int, keep: Callable[[R], None]) -> None:
    """``keep(work(task))`` for every task. ``work``, its arguments and its results are pickled."""
    if jobs == 1:
        for task in tasks:
            keep(work(task))
        return
    waiting: set[Future[R]] = set()
    queue = iter(tasks)
    with workers(jobs) as pool:
        while True:
            waiting |= {pool.submit(work, task) for task in itertools.islice(queue, 2 * jobs - len(waiting))}
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                keep(future.result())


@contextlib.contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes, which are gone when this ends. HarnessError: one of them died."""
    pool = ProcessPoolExecutor(
        max_workers=jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_leave_interrupts_to_the_parent
    )
    try:
        yield pool
    except BrokenProcessPool as error:
        raise HarnessError(
            "a worker process died",
            cause="out of memory, or killed",
            next_step="repeat the command: finished work is kept",
        ) from error
    finally:
        processes = list((pool._processes or {}).values())  # noqa: SLF001 - the pool waits for running tasks otherwise
        pool.shutdown(wait=False, cancel_futures=True)
        _end(processes)


def _leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches all processes of a terminal; the parent ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(signal.SIGTERM)
    threading.Thread(target=_end_after_the_parent, daemon=True).start()


def _end_after_the_parent() -> None:
    """Do what ``_end`` does where the parent cannot: a run takes the first signal as its sign, and without another one
    this process would wait for its next task forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        while True:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(ASK_AGAIN_S)


def end_with_parent(by: signal.Signals) -> None:
    """Have the kernel send this signal to this process when the thread that started it is gone, even after kill -9."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)


def _end(processes: Sequence[BaseProcess]) -> None:
    """Ask until they are gone: one that heals its hosts takes the first time as its sign, and the next task if let."""
    deadline = time.monotonic() + END_LIMIT_S
    while (alive := [process for process in processes if process.is_alive()]) and time.monotonic() < deadline:
        for process in alive:
            process.terminate()
        for process in alive:
            process.join(timeout=ASK_AGAIN_S / len(alive))
    for process in alive:
        process.kill()
