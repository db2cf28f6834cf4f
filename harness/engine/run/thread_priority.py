"""The harness's threads come before all ordinary ones of its machine while a run is live.

They work for a few percent of a processor, but what they are late for is lost: the moment of an answer, a trigger, a
poll. As ordinary threads they wait for their turn behind the nodes of this and of other runs, for longer than they work
where the kernel shares out processors by session and by container (``sched_autogroup_enabled``, control groups).
Guarantees: real-time round robin at its lowest priority, for this process only; what it starts meanwhile is ordinary;
afterwards, and when the process is killed, nothing is left of it. Where that is not allowed (neither root nor
``RLIMIT_RTPRIO``; a container) or not wanted (a run that was started with ``nice``) all stays as it is, which is no
error: late threads are noise, and are recorded. Out of scope: agents, which share their hosts with nodes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TASKS = Path("/proc/self/task")


class ThreadPriority:
    """Raised thread by thread; ``raised``: the ids of those that are."""

    def __init__(self) -> None:
        self.raised: set[int] = set()
        self.allowed = TASKS.is_dir() and os.getpriority(os.PRIO_PROCESS, 0) <= 0

    def look(self) -> None:
        """Raise the threads that have begun since the last look; the first refusal is the last try."""
        if not self.allowed:
            return
        first = os.sched_param(os.sched_get_priority_min(os.SCHED_RR))
        for thread in _own() - self.raised:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                if os.sched_getscheduler(thread) != os.SCHED_OTHER:
                    continue  # as the user wants it
                try:
                    os.sched_setscheduler(thread, os.SCHED_RR | os.SCHED_RESET_ON_FORK, first)
                except PermissionError:
                    self.allowed = False
                    return
                self.raised.add(thread)

    def restore(self) -> None:
        """Each thread that still runs is an ordinary one again."""
        for thread in _own() & self.raised if self.raised else ():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
        self.raised.clear()


def _own() -> set[int]:
    return {int(task.name) for task in TASKS.iterdir()}


@contextmanager
def threads_first() -> Iterator[ThreadPriority]:
    """Threads of now; ``look`` now and then for those that begin later."""
    priority = ThreadPriority()
    priority.look()
    try:
        yield priority
    finally:
        priority.restore()
