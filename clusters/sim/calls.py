"""Request/response between simulated nodes, for targets that speak HTTP: every request ends in an answer or a failure.

Guarantees: a call fails by ``timeout`` when one RPC time-out passed on the caller's clock, by ``connection refused``
when no process listens there, by ``connection lost`` when the asked process ends; a late answer is dropped. Out of
scope: connections (the real shell keeps a few per peer and makes no more) and the wire format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dethrone.clusters.sim.clock import HostClock
from dethrone.clusters.sim.links import Link, Timeline
from dethrone.clusters.sim.network import Network
from dethrone.harness.core.clock import Ns


class Question:
    """A request on its way. ``life`` is that of the caller, who keeps the call in ``calls``."""

    __slots__ = ("body", "calls", "life", "number")

    def __init__(self, body: Any, calls: Calls, number: int, life: int) -> None:
        self.body = body
        self.calls = calls
        self.number = number
        self.life = life


class Answer:
    """An answer on its way to the caller's call ``number``."""

    __slots__ = ("body", "life", "number")

    def __init__(self, body: Any, number: int, life: int) -> None:
        self.body = body
        self.number = number
        self.life = life


class Caller(Protocol):
    """The node that makes the calls."""

    links: dict[str, Link]
    life: int
    frozen: bool
    clock: HostClock

    def failed(self, to: str, body: Any, error: str) -> None:
        """A call will not be answered."""

    def after_thaw(self, call: Callable[[], None]) -> None:
        """Do this after a freeze, behind everything that arrived meanwhile."""


class Calls:
    """The open calls of one node, and the requests that it has not answered yet."""

    def __init__(self, node: Caller, line: Timeline, network: Network, *, rpc_timeout_ns: Ns, used: bool) -> None:
        self._node = node
        self._line = line
        self._network = network
        self._rpc_timeout_ns = rpc_timeout_ns
        self.used = used
        """Whether the target speaks request/response at all."""
        self._open: dict[int, tuple[str, Any]] = {}
        self._asked: dict[int, tuple[Link, Question]] = {}
        self._last_call = 0
        self._last_request = 0

    def forget(self) -> None:
        """The process ended: callers that wait for its answer get ``connection lost``."""
        for _, question in self._asked.values():
            self._line.at(self._line.now + self._network.delay(), question.calls.lost, question, "connection lost")
        self._open.clear()
        self._asked.clear()

    def begin(self, to: str, body: Any, answers: int | None) -> tuple[Link, Any] | None:
        """What to send over which link; None: nothing (an answer without a waiting caller, no such peer)."""
        if answers is not None:
            asked = self._asked.pop(answers, None)
            if asked is None:
                return None
            link, question = asked
            back = self._node.links[link.src.name]
            return back, Answer(body, question.number, question.life)
        found = self._node.links.get(to)
        if found is None:
            self._line.at(self._line.now, self._fail_unsent, (to, body), self._node.life)
            return None
        self._last_call += 1
        question = Question(body, self, self._last_call, self._node.life)
        self._open[question.number] = (to, body)
        clock = self._node.clock
        due = clock.mono_due(clock.mono(self._line.now) + self._rpc_timeout_ns)
        self._line.at(due, self._expire, question, None)
        return found, question

    def asked(self, link: Link, question: Question) -> int:
        """A request arrived; the id by which the core answers it."""
        self._last_request += 1
        self._asked[self._last_request] = (link, question)
        return self._last_request

    def answered(self, answer: Answer) -> str | None:
        """Who answered, if a call still waits for this."""
        if answer.life != self._node.life:
            return None
        found = self._open.pop(answer.number, None)
        return None if found is None else found[0]

    def unheard(self, link: Link, body: Any) -> None:
        """A message of this node met a closed link: no process listens, or a cut (then only the time-out shows it)."""
        if type(body) is Question and not link.cut:
            self._line.at(self._line.now + self._network.delay(), self.lost, body, "connection refused")

    def lost(self, question: Question, error: str) -> None:
        """A call ends without an answer."""
        if question.life == self._node.life:
            found = self._open.pop(question.number, None)
            if found is not None:
                self._node.failed(*found, error)

    def _expire(self, question: Question, _: None) -> None:
        if self._node.frozen and question.life == self._node.life:
            self._node.after_thaw(lambda: self.lost(question, "timeout"))  # answers that came meanwhile are read first
        else:
            self.lost(question, "timeout")

    def _fail_unsent(self, what: tuple[str, Any], life: int) -> None:
        if life == self._node.life:
            self._node.failed(*what, "not a member")
