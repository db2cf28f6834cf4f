"""Clients and the observer in virtual time: operations and status questions, on their way through the network.

As the real ones do it (``dethrone.clusters.systems.target_client``, ``dethrone.harness.engine.run.status_poller``): a
client keeps one connection a node, sends a request once, follows redirections only; the observer has one question a
node open, gives up after ``ANSWER_BOUND_NS`` and asks again. Guarantees: an operation ends exactly once, within its
time-out; what was sent and not answered is ``info`` where it may have an effect. Out of scope: what operations mean
(``dethrone.clusters.systems.operations``).
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from typing import Any

from dethrone.clusters.sim.links import Entry, Timeline
from dethrone.clusters.sim.node import SimNode
from dethrone.clusters.systems.framed import CONNECT_LIMIT_NS
from dethrone.clusters.systems.operations import TRANSFERS, outcome_of, request_for, unanswered, unsent
from dethrone.clusters.systems.records import LEADER
from dethrone.clusters.systems.target_client import HOPS_MAX
from dethrone.clusters.targets.client_api import NotLeader
from dethrone.harness.core.clock import MS, Ns, Span
from dethrone.harness.core.interfaces import OpOutcome, Reading
from dethrone.harness.core.machine import Glance
from dethrone.harness.core.world import InvokeOp, OpDone, Polled

CLIENT = "client"
"""The name of harness and clients among ``HostState.cuts``."""

ANSWER_BOUND_NS = 500 * MS
RETRY_NS = 80 * MS


class _Op:
    """One operation under way. ``attempt`` counts requests: answers to older ones are dropped."""

    __slots__ = ("action", "attempt", "deadline", "done", "hops", "node", "outcome", "request", "sent")

    def __init__(self, action: InvokeOp, request: Any, deadline: Ns) -> None:
        self.action = action
        self.request = request
        self.deadline = deadline
        self.node = action.plan.target
        self.outcome: OpOutcome = unsent(f"no node {self.node!r}")
        self.hops = 0
        self.attempt = 0
        self.sent = False
        self.done = False


class Clients:
    """All client processes."""

    def __init__(
        self, nodes: dict[str, SimNode], line: Timeline, delay: Callable[[], Ns], done: Callable[[OpDone], None]
    ) -> None:
        self._nodes = nodes
        self._line = line
        self._delay = delay
        self._done = done
        self._connected: dict[tuple[int, str], int] = {}
        """(client, node) → the node's life that the connection is with."""
        self._open: dict[tuple[str, int, int], tuple[_Op, int]] = {}
        """(node, its life, request id) → who waits for the answer."""
        self._deadlines: deque[Entry] = deque()
        """Time-outs to come, in their order; only the first of them is on the agenda. Nearly all find their
        operation done, and hundreds of them there would make every other event dearer."""

    def invoke(self, action: InvokeOp) -> None:
        """Begin an operation."""
        plan, now = action.plan, self._line.now
        request = request_for(plan.f, plan.value)
        if request is None:
            self._done(OpDone(action.op, action.thread, now, unsent(f"no operation {plan.f!r}")))
            return
        op = _Op(action, request, now + action.timeout_ns)
        self._limit(op)
        self._go(op)

    def answered(self, node: SimNode, number: int, reply: Any) -> None:
        """A node answers a request: the answer sets out."""
        waits = self._open.pop((node.name, node.life, number), None)
        if waits is not None and node.reachable:
            self._line.at(self._line.now + self._delay(), self._answer, waits, reply)

    def ended(self, node: SimNode) -> None:
        """A node's process ended: its connections are closed."""
        for key in [key for key in self._open if key[0] == node.name]:
            op, attempt = self._open.pop(key)
            self._line.at(self._line.now + self._delay(), self._closed, op, attempt)

    def _limit(self, op: _Op) -> None:
        """Plan the time-out."""
        deadlines = self._deadlines
        entry: Entry = (op.deadline, self._line.order(), self._timed_out, op, None)
        if deadlines and op.deadline >= deadlines[-1][0]:
            deadlines.append(entry)
            return
        if not deadlines:
            deadlines.append(entry)
        insort(self._line.agenda, entry)

    # --- one operation --------------------------------------------------------------------------------------------

    def _go(self, op: _Op) -> None:
        """Ask the node that is next: over the connection that is there, or a new one."""
        node = self._nodes.get(op.node)
        if node is None:
            self._finish(op, op.outcome)
            return
        op.sent = False
        op.attempt += 1
        now = self._line.now
        if self._connected.get((op.action.thread, node.name)) == node.life and node.alive:
            self._send(op, node)
            return
        self._connected.pop((op.action.thread, node.name), None)
        self._line.at(now + self._delay(), self._knock, op, op.attempt)
        self._line.at(now + CONNECT_LIMIT_NS, self._no_connection, op, op.attempt)

    def _knock(self, op: _Op, attempt: int) -> None:
        """A connection request arrives at the host."""
        node = self._nodes[op.node]
        if op.done or op.attempt != attempt or not node.reachable:
            return
        self._line.at(self._line.now + self._delay(), self._shaken if node.alive else self._refused, op, attempt)

    def _shaken(self, op: _Op, attempt: int) -> None:
        if op.done or op.attempt != attempt:
            return
        node = self._nodes[op.node]
        self._connected[op.action.thread, node.name] = node.life
        self._send(op, node)

    def _refused(self, op: _Op, attempt: int) -> None:
        if not op.done and op.attempt == attempt:
            self._finish(op, unsent(f"{op.node}: Connection refused"))

    def _no_connection(self, op: _Op, attempt: int) -> None:
        if not op.done and op.attempt == attempt and not op.sent:
            self._finish(op, unsent(f"{op.node}: timeout"))

    def _send(self, op: _Op, node: SimNode) -> None:
        op.sent = True
        self._line.at(self._line.now + self._delay(), self._arrive, op, (op.attempt, node.life))

    def _arrive(self, op: _Op, which: tuple[int, int]) -> None:
        """A request arrives at the host. What its client gave up meanwhile is handled all the same."""
        attempt, life = which
        node = self._nodes[op.node] if op.attempt == attempt else None
        if node is None or not node.reachable:
            return
        if node.life != life or not node.running:
            self._line.at(self._line.now + self._delay(), self._closed, op, attempt)
            return
        number = node.next_request()
        self._open[node.name, life, number] = (op, attempt)
        request = op.request
        if node.open and not node.frozen:
            node.serve(number, request)
        else:
            node.when_open(lambda: node.serve(number, request))

    def _answer(self, waits: tuple[_Op, int], reply: Any) -> None:
        op, attempt = waits
        if op.done or op.attempt != attempt:
            return
        op.outcome = outcome_of(op.action.plan.f, reply, node=op.node)
        stays = op.hops >= HOPS_MAX or op.action.plan.f in TRANSFERS
        if type(reply) is not NotLeader or reply.leader in (None, op.node) or stays:
            self._finish(op, op.outcome)
            return
        op.hops += 1
        op.node = reply.leader or op.node
        self._go(op)

    def _closed(self, op: _Op, attempt: int) -> None:
        if not op.done and op.attempt == attempt:
            self._connected.pop((op.action.thread, op.node), None)
            self._finish(op, unanswered(op.action.plan.f, f"{op.node}: the connection was closed", node=op.node))

    def _timed_out(self, op: _Op, _: None) -> None:
        deadlines = self._deadlines
        if deadlines and deadlines[0][3] is op:  # the next one that still matters takes its place on the agenda
            deadlines.popleft()
            while deadlines and deadlines[0][3].done:
                deadlines.popleft()
            if deadlines:
                insort(self._line.agenda, deadlines[0])
        if op.done:
            return
        self._connected.pop((op.action.thread, op.node), None)  # a late answer must not meet the next request
        if op.sent:
            self._finish(op, unanswered(op.action.plan.f, f"{op.node}: timeout", node=op.node))
        else:
            self._finish(op, unsent(f"{op.node}: timeout"))

    def _finish(self, op: _Op, outcome: OpOutcome) -> None:
        op.done = True
        self._done(OpDone(op.action.op, op.action.thread, self._line.now, outcome))


class _Line:
    """The question that is open with one node, by its number; 0: none."""

    __slots__ = ("asked_at", "due", "incarnation", "node", "number", "open", "reading", "told")

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.told: Glance | None = None
        self.incarnation = 0
        self.reading: Reading | None = None
        self.number = 0
        self.open = False
        self.asked_at: Ns = 0
        self.due: Ns = 0


class Observer:
    """Asks every node for its status, at a fixed pace. ``tells_log`` and ``tells_vote``: as the system's adapter.

    ``interpret``: what the system makes of the common fields. ``read``: (node, bytes) → reading, for systems whose
    answers say more than these.
    """

    def __init__(
        self,
        nodes: dict[str, SimNode],
        line: Timeline,
        delay: Callable[[], Ns],
        said: Callable[[Ns, Polled], None],
        *,
        interval_ns: Ns,
        read: Callable[[str, bytes], Reading | None] | None,
        interpret: Callable[[Reading], Reading],
        tells_log: bool,
        tells_vote: bool,
    ) -> None:
        self._lines = [_Line(node) for node in nodes.values()]
        self._line = line
        self._delay = delay
        self._said = said
        self._interval_ns = interval_ns
        self._read = read
        self._interpret = interpret
        self._tells_log = tells_log
        self._tells_vote = tells_vote
        self._started = False

    def start(self) -> None:
        """Begin to ask; the nodes' questions are spread over the interval."""
        if self._started:
            return
        self._started = True
        for position, one in enumerate(self._lines):
            self._ask(one, self._line.now + position * self._interval_ns // len(self._lines))

    def _ask(self, one: _Line, at: Ns) -> None:
        """Plan a question that sets out at ``at``, now or later."""
        one.number += 1
        one.open = True
        one.asked_at = at
        one.due = at + self._interval_ns
        insort(self._line.agenda, (at + self._delay(), self._line.order(), self._arrive, one, one.number))

    def _arrive(self, one: _Line, number: int) -> None:
        node = one.node
        if node.open and not node.frozen and node.reachable:
            if self._read is not None or one.number != number:
                self._answer(one, number)
                return
            if node.stirred:
                if node.glance() != one.told or one.incarnation != node.incarnation:
                    self._answer(one, number)
                    return
                node.stirred = node.restless
            # Nothing is new, as most of the time: what `_answer` and `_ask` do, without the calls.
            line, delay = self._line, self._delay
            back = line.now + delay()
            self._said(back, Polled(node.name, Span(one.asked_at, back), one.reading))
            one.number = number = number + 1
            one.asked_at = at = one.due if one.due > back else back  # noqa: FURB136 - a call less
            one.due = at + self._interval_ns
            insort(line.agenda, (at + delay(), line.order(), self._arrive, one, number))
            return
        self._line.at(one.asked_at + ANSWER_BOUND_NS, self._give_up, one, number)
        if not node.reachable:
            return
        if not node.running or not node.alive:
            self._line.at(self._line.now + self._delay(), self._silent, one, number)
        else:
            node.when_open(lambda: self._answer(one, number))

    def _answer(self, one: _Line, number: int) -> None:
        """The node answers, if it lives to do so; the next question is planned with it."""
        if not one.open or one.number != number:
            return
        node = one.node
        if not node.reachable:
            self._line.at(one.asked_at + ANSWER_BOUND_NS, self._give_up, one, number)
            return
        if self._read is not None:
            body = node.answer()
            self._told(one, number, None if body is None else self._read(node.name, body))
            return
        told = node.glance()
        if told is None:
            self._told(one, number, None)
            return
        node.stirred = node.restless
        one.incarnation = node.incarnation
        role, term, leader, voted_for, log_end, commit = one.told = told
        common = Reading(
            role=role,
            leads=role == LEADER,
            term=term,
            leader=leader,
            voted_for=voted_for if self._tells_vote else None,
            log_end=log_end if self._tells_log else None,
            commit=commit if self._tells_log else None,
            atomic=True,
            incarnation=node.incarnation,
        )
        reading = one.reading = self._interpret(common)
        self._told(one, number, reading)

    def _told(self, one: _Line, number: int, reading: Reading | None) -> None:
        """An answer sets out; None: the process crashed over the question."""
        back = self._line.now + self._delay()
        if reading is None:
            self._line.at(back, self._silent, one, number)
            return
        one.open = False  # nothing can keep it from arriving: it is reported at that moment
        self._said(back, Polled(one.node.name, Span(one.asked_at, back), reading))
        self._ask(one, max(one.due, back))

    def _silent(self, one: _Line, number: int) -> None:
        self._end(one, number, "ECONNREFUSED")

    def _give_up(self, one: _Line, number: int) -> None:
        self._end(one, number, "no answer in time")

    def _end(self, one: _Line, number: int, why: str) -> None:
        if one.open and one.number == number:
            now = self._line.now
            one.open = False
            self._said(now, Polled(one.node.name, Span(one.asked_at, now), None, why))
            self._ask(one, max(one.due, now + RETRY_NS))
