"""What all partition groups of one node share: the current event, disk batches, waiting requests, send tasks.

Guarantees: a send task starts at the end of the event that submitted it, or later when a knob defers it, always before
its first statement; tasks due together run in the order of their submission, at most ``executor_thread_num_max`` per
event. A request without an answer in time is forgotten. Out of scope: every rule.

Source: docs/sources.md, joyqueue: ``RaftLeaderElection``.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from dethrone.clusters.targets.joyqueue.knobs import Knobs, SendKind
from dethrone.clusters.targets.joyqueue.rules import Rules
from dethrone.clusters.targets.joyqueue.storage import Stored
from dethrone.clusters.targets.kit.core import KitNode
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import DiskOp, SetTimer

FAR: Ns = 1 << 62
TASKS = "tasks"
"""The timer of send tasks that were deferred."""

CallKind = Literal["prevote", "vote", "heartbeat", "append", "timeout_now"]


class AnyGroup(Protocol):
    """What a node needs to know of a partition group."""

    term: int

    def count(self, name: str) -> None:
        """One more of these."""


GroupT = TypeVar("GroupT", bound=AnyGroup)


class Call(NamedTuple, Generic[GroupT]):
    """A request that waits for its answer: what the original's callback holds."""

    group: GroupT
    kind: CallKind
    term: int
    peer: str
    deadline: Ns


class Task(NamedTuple, Generic[GroupT]):
    """A send task. ``body``: the log's end (votes), the request without its id (heartbeats)."""

    group: GroupT
    kind: SendKind
    peer: str
    body: Any


class Node(KitNode, Generic[GroupT]):
    """One node."""

    def __init__(self, me: str, knobs: Knobs, rules: Rules) -> None:
        super().__init__()
        self.me = me
        self.knobs = knobs
        self.rules = rules
        self.batches: dict[int, tuple[GroupT, Stored | int]] = {}
        """Batch → (group, what it makes durable: a term and vote, or a right end), oldest first."""
        self.next_id = 0
        self.calls: dict[int, Call[GroupT]] = {}
        self.call_ns = knobs.ns(knobs.send_command_timeout_ms)
        self.ready: deque[Task[GroupT]] = deque()
        self.later: list[tuple[Ns, int, Task[GroupT]]] = []
        self.tasks_at: Ns = FAR
        self.threads = knobs.executor_thread_num_max
        self.delays = bool(knobs.defer_task or knobs.task_delay_max_ms)
        self.deferrals: list[tuple[str, SendKind, Ns, Ns]] = []
        """(peer, kind, delay, until): what `defer_task` asked for."""

    # --- disk -----------------------------------------------------------------------------------------------------

    def start_batch(self, group: GroupT, ops: tuple[DiskOp, ...], makes_durable: Stored | int) -> int:
        """Append a disk batch without a barrier; its token."""
        token = self.batch(ops)
        self.batches[token] = (group, makes_durable)
        return token

    # --- requests -------------------------------------------------------------------------------------------------

    def call(self, group: GroupT, kind: CallKind, peer: str) -> int:
        """Remember a request that is about to be sent in the group's present term; its id. Forgets the overdue."""
        calls, mono = self.calls, self.mono
        while calls:
            oldest = next(iter(calls))
            if calls[oldest].deadline > mono:
                break
            late = calls.pop(oldest)
            late.group.count("calls_unanswered")
        self.next_id += 1
        calls[self.next_id] = Call(group, kind, group.term, peer, mono + self.call_ns)
        return self.next_id

    def answered(self, number: int) -> Call[GroupT] | None:
        """The request that this answers; None if it is not waited for (any more)."""
        call = self.calls.pop(number, None)
        return None if call is None or call.deadline <= self.mono else call

    # --- send tasks -----------------------------------------------------------------------------------------------

    def submit(self, group: GroupT, kind: SendKind, peer: str, body: Any) -> None:
        """Hand a send task to the executor."""
        late: Ns = self.rules.task_delay(self.rng, peer=peer, kind=kind) if self.delays else 0
        if self.deferrals:
            self.deferrals = [one for one in self.deferrals if one[3] > self.mono]
            late += sum(one[2] for one in self.deferrals if one[0] in {"*", peer} and one[1] == kind)
        task = Task(group, kind, peer, body)
        if late:
            self.token += 1  # orders tasks of one moment by their submission
            heapq.heappush(self.later, (self.mono + late, self.token, task))
        else:
            self.ready.append(task)

    def defer_task(self, peer: str, kind: SendKind, delay_ns: Ns, until: Ns = FAR) -> None:
        """A fault: send tasks of ``kind`` to ``peer`` (``*``: any) submitted before ``until`` start so much later."""
        self.deferrals.append((peer, kind, delay_ns, until))

    def take_tasks(self) -> list[Task[GroupT]]:
        """The tasks to run at the end of this event."""
        later = self.later
        while later and later[0][0] <= self.mono:
            self.ready.append(heapq.heappop(later)[2])
        ready = self.ready
        return [ready.popleft() for _ in range(min(len(ready), self.threads))]

    def arm_tasks(self) -> None:
        """Set the timer for what is left."""
        at = self.mono if self.ready else (self.later[0][0] if self.later else FAR)
        if at != self.tasks_at:
            self.tasks_at = at
            self.out.append(SetTimer(TASKS, None if at == FAR else at))
