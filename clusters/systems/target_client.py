"""A client of our protocol targets: framed JSON over one kept connection per node.

Guarantees: one request is sent once; it goes to another node only after an answer that it certainly had no effect
(``not_leader``, at most ``HOPS_MAX`` times); a connection on which an answer is missing is dropped, so that a late
answer is never taken for a later request's. One client belongs to one thread.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.clusters.node.frames import BadFrame, FrameReader, frame
from dethrone.clusters.systems.operations import outcome_of, request_for, unanswered, unsent
from dethrone.clusters.targets.client_api import ClientReply, ClientRequest, InstanceRequest, NotLeader, StateRequest
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.interfaces import NodeSpec, OpOutcome

HOPS_MAX = 3
CONNECT_LIMIT_NS = 1 * SECOND
READ_BYTES = 256 * 1024


_Request = ClientRequest | InstanceRequest | StateRequest


class _Ask(msgspec.Struct, frozen=True, gc=False):
    id: int
    request: _Request


class _Answer(msgspec.Struct, frozen=True, gc=False):
    id: int
    reply: ClientReply | None = None
    error: str | None = None


class _NeverSentError(Exception):
    """The request certainly did not leave; ``str`` says why."""


class _NoAnswerError(Exception):
    """The request left, or may have; ``str`` says why there is no answer."""


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Answer)


class TargetClient:
    """See ``dethrone.harness.core.interfaces.Client``."""

    def __init__(self, nodes: Mapping[str, NodeSpec], *, port: int) -> None:
        self._addresses = {name: (spec.address, port) for name, spec in nodes.items()}
        self._lines: dict[str, _Line] = {}
        self._last_id = 0

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: Ns) -> OpOutcome:
        """Carry out one operation, first at ``target``, then where redirections lead."""
        deadline = time.monotonic_ns() + timeout_ns
        request = request_for(f, value)
        if request is None:
            return unsent(f"no operation {f!r} with the value {value!r:.80}")
        node, outcome = target, unsent(f"no node {target!r}")
        for _ in range(1 + HOPS_MAX):
            if node not in self._addresses:
                return outcome
            self._last_id += 1
            try:
                answer = self._ask(node, self._last_id, request, deadline)
            except _NeverSentError as error:
                return unsent(f"{node}: {error}")
            except _NoAnswerError as error:
                self._drop(node)
                return unanswered(f, f"{node}: {error}", node=node)
            if answer.reply is None:
                # The node did not understand it: certainly no effect.
                return OpOutcome(status="fail", error=answer.error or "no reply", node=node)
            outcome = outcome_of(f, answer.reply, node=node)
            if not isinstance(answer.reply, NotLeader) or answer.reply.leader in {None, node}:
                return outcome
            node = answer.reply.leader or node
        return outcome

    def close(self) -> None:
        """Drop all connections."""
        for name in list(self._lines):
            self._drop(name)

    def _ask(self, node: str, number: int, request: _Request, deadline: Ns) -> _Answer:
        line = self._lines.get(node)
        if line is not None and line.ended():
            self._drop(node)
            line = None
        if line is None:
            line = self._lines[node] = _Line(self._addresses[node], deadline)
        line.send(frame(_ENCODER.encode(_Ask(number, request))), deadline)
        return line.answer(number, deadline)

    def _drop(self, node: str) -> None:
        line = self._lines.pop(node, None)
        if line is not None:
            line.sock.close()


class _Line:
    """One connection. Raises _NeverSentError if it cannot be made."""

    def __init__(self, address: tuple[str, int], deadline: Ns) -> None:
        patience = min(deadline - time.monotonic_ns(), CONNECT_LIMIT_NS)
        if patience <= 0:
            raise _NeverSentError("no time was left to connect")
        try:
            self.sock = socket.create_connection(address, timeout=patience / SECOND)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise _NeverSentError(_reason(error)) from error
        self._reader = FrameReader()
        self._frames: list[bytes] = []

    def ended(self) -> bool:
        """Whether the other end hung up, or spoke unasked: nothing may be sent here any more."""
        try:
            return bool(select.select([self.sock], [], [], 0)[0])
        except (OSError, ValueError):
            return True

    def send(self, data: bytes, deadline: Ns) -> None:
        """Send everything; once this began, the request may have arrived."""
        try:
            self._limit(deadline)
            self.sock.sendall(data)
        except OSError as error:
            raise _NoAnswerError(_reason(error)) from error

    def answer(self, number: int, deadline: Ns) -> _Answer:
        """The answer to request ``number``."""
        while True:
            try:
                self._limit(deadline)
                data = self.sock.recv(READ_BYTES)
            except OSError as error:
                raise _NoAnswerError(_reason(error)) from error
            if not data:
                raise _NoAnswerError("the connection was closed")
            try:
                answers = [_DECODER.decode(payload) for payload in self._reader.feed(data)]
            except (BadFrame, msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise _NoAnswerError(f"a garbled answer: {error}") from error
            for answer in answers:
                if answer.id == number:
                    return answer

    def _limit(self, deadline: Ns) -> None:
        left = deadline - time.monotonic_ns()
        if left <= 0:
            raise TimeoutError
        self.sock.settimeout(left / SECOND)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return error.strerror or str(error) or type(error).__name__
