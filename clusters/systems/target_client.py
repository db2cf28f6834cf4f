"""A client of our protocol targets: framed JSON over one kept connection per node.

Guarantees: one request is sent once; it goes to another node only after an answer that it certainly had no effect
(``not_leader``, at most ``HOPS_MAX`` times; a transfer concerns the node that is asked, and goes to no other); a
connection on which an answer is missing is dropped, so that a late answer is never taken for a later request's. One
client belongs to one thread.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.clusters.systems.framed import FramedLines, NeverSentError, NoAnswerError
from dethrone.clusters.systems.operations import TRANSFERS, outcome_of, request_for, unanswered, unsent
from dethrone.clusters.targets.client_api import ClientReply, ClientRequest, InstanceRequest, NotLeader, StateRequest
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces import NodeSpec, OpOutcome

HOPS_MAX = 3

_Request = ClientRequest | InstanceRequest | StateRequest


class _Ask(msgspec.Struct, frozen=True, gc=False):
    id: int
    request: _Request


class _Answer(msgspec.Struct, frozen=True, gc=False):
    id: int
    reply: ClientReply | None = None
    error: str | None = None


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Answer)


class TargetClient:
    """See ``dethrone.harness.core.interfaces.Client``."""

    def __init__(self, nodes: Mapping[str, NodeSpec], *, port: int) -> None:
        self._kept = FramedLines(nodes, port)
        self._last_id = 0

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: Ns) -> OpOutcome:
        """Carry out one operation, first at ``target``, then where redirections lead."""
        deadline = time.monotonic_ns() + timeout_ns
        request = request_for(f, value)
        if request is None:
            return unsent(f"no operation {f!r} with the value {value!r:.80}")
        node, outcome = target, unsent(f"no node {target!r}")
        for _ in range(1 + HOPS_MAX):
            if node not in self._kept:
                return outcome
            self._last_id += 1
            try:
                answer = self._ask(node, self._last_id, request, deadline)
            except NeverSentError as error:
                return unsent(f"{node}: {error}")
            except NoAnswerError as error:
                self._kept.drop(node)
                return unanswered(f, f"{node}: {error}", node=node)
            if answer.reply is None:
                # The node did not understand it: certainly no effect.
                return OpOutcome(status="fail", error=answer.error or "no reply", node=node)
            outcome = outcome_of(f, answer.reply, node=node)
            if not isinstance(answer.reply, NotLeader) or answer.reply.leader in {None, node} or f in TRANSFERS:
                return outcome
            node = answer.reply.leader or node
        return outcome

    def close(self) -> None:
        """Drop all connections."""
        self._kept.close()

    def _ask(self, node: str, number: int, request: _Request, deadline: Ns) -> _Answer:
        line = self._kept.line(node, deadline)
        line.send(_ENCODER.encode(_Ask(number, request)), deadline)
        while True:
            answer = _understood(line.receive(deadline))
            if answer.id == number:
                return answer


def _understood(frame: bytes) -> _Answer:
    try:
        return _DECODER.decode(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise NoAnswerError(f"a garbled answer: {error}") from error
