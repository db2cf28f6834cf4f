"""Client operations as Redis commands: one kept connection per node, one command per operation.

    put = ["SET", "{key}", "{value}"]
    wait = 1        # and, after a change, WAIT until a replica has it

Guarantees: a command is sent once; connecting, signing in, sending and the whole answer end by the deadline; a refusal
that servers give before they carry out a command (``REFUSING``) is ``fail``, every other error of a change is ``info``,
as are silence, a lost connection, and too few replicas that confirm a change in time. Out of scope: following
redirections, and transactions.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import time
from collections.abc import Mapping, Sequence

from dethrone.clusters.own.commands import single
from dethrone.clusters.own.operations import replicas
from dethrone.clusters.own.resp import BadAnswerError, ErrorReply, Reader, Reply, request
from dethrone.clusters.own.spec import OpTable
from dethrone.clusters.own.words import fill
from dethrone.clusters.systems.kept_http import CONNECT_LIMIT_NS, reason
from dethrone.clusters.systems.operations import unanswered, unsent
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import OpOutcome

REFUSING = frozenset(
    {"READONLY", "NOREPLICAS", "MASTERDOWN", "LOADING", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "NOAUTH", "NOPERM"}
)
"""Codes of errors after which nothing has happened, now or later."""
WAIT_LIMIT_NS, ANSWER_NS = 1 * SECOND, 100 * MS
"""How long replicas have to confirm a change, and what is left of the operation's time for the answer."""
CONFIRMED = frozenset({"put", "add", "append", "cas"})
SHOWN, TEXT_MAX = 120, 4096
"""Characters of an error that are kept, and that a pattern is searched in."""
_READ_BYTES = 64 << 10


class RedisClient:
    """Connections to the nodes at ``addresses``, all at ``port``."""

    def __init__(self, addresses: Mapping[str, str], port: int) -> None:
        self._addresses = addresses
        self._port = port
        self._open: dict[str, socket.socket] = {}

    def carry_out(
        self, f: str, op: OpTable, held: Mapping[str, str], words: Mapping[str, str], *, node: str, deadline: Ns
    ) -> OpOutcome:
        """One operation at ``node``. ``held``: its key and values; ``words``: of the node, for the password."""
        try:
            sock = self._connection(node, op, words, deadline)
        except (OSError, BadAnswerError) as error:
            self._drop(node)
            return unsent(f"{node}: {reason(error)}")
        try:
            reply = self._exchange(node, sock, [fill(word, held) for word in op.redis], deadline)
            outcome, count = understand(f, op, reply, node=node), replicas(op, words, where=f)
            if not count or f not in CONFIRMED or outcome.status != "ok" or outcome.value is False:
                return outcome
            limit_ms = max(1, min(deadline - time.monotonic_ns() - ANSWER_NS, WAIT_LIMIT_NS) // MS)
            having = self._exchange(node, sock, ["WAIT", str(count), str(limit_ms)], deadline)
        except (OSError, BadAnswerError) as error:
            self._drop(node)
            return unanswered(f, f"{node}: {reason(error)}", node=node)
        if isinstance(having, int) and having >= count:
            return outcome
        return unanswered(f, f"confirmed by {having!r:.{SHOWN}} of {count} replicas", node=node)

    def close(self) -> None:
        """Drop all connections."""
        for node in list(self._open):
            self._drop(node)

    def _connection(self, node: str, op: OpTable, words: Mapping[str, str], deadline: Ns) -> socket.socket:
        known = self._open.get(node)
        if known is not None:
            if not select.select([known], [], [], 0)[0]:
                return known
            self._drop(node)  # the other end hung up, or sent bytes without a request
        patience = min(deadline - time.monotonic_ns(), CONNECT_LIMIT_NS)
        if patience <= 0:
            raise TimeoutError
        sock = socket.create_connection((self._addresses[node], self._port), timeout=patience / SECOND)
        self._open[node] = sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if op.auth is not None:
            user, password = fill(op.auth.user, words), fill(op.auth.password, words)
            said = self._exchange(node, sock, ["AUTH", *([user] if user else []), password], deadline)
            if isinstance(said, ErrorReply):
                raise ConnectionError(f"it does not let us in: {said.code}")
        return sock

    def _exchange(self, node: str, sock: socket.socket, command: Sequence[str], deadline: Ns) -> Reply:
        """Send a command and wait for the whole answer. OSError, BadAnswerError."""

        def more() -> bytes:
            _limit(sock, deadline)
            data = sock.recv(_READ_BYTES)
            if not data:
                raise ConnectionError("the connection was closed")
            return data

        _limit(sock, deadline)
        sock.sendall(request(command))
        reader = Reader(more)
        reply = reader.reply()
        if reader.rest():  # bytes behind it must not be taken for the next answer
            self._drop(node)
        return reply

    def _drop(self, node: str) -> None:
        sock = self._open.pop(node, None)
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.close()


def understand(f: str, op: OpTable, reply: Reply, *, node: str) -> OpOutcome:
    """How the operation ended, by the server's answer. Doubt is ``info``."""
    if isinstance(reply, ErrorReply):
        shown = reply.text[:SHOWN]
        if reply.code in REFUSING or (
            op.fail_pattern is not None and re.search(op.fail_pattern, reply.text[:TEXT_MAX])
        ):
            return OpOutcome(status="fail", error=shown, node=node)
        return unanswered(f, shown, node=node)
    if f in {"put", "add", "append", "transfer"} and isinstance(reply, int | bytes):
        return OpOutcome(status="ok", node=node)
    if f == "cas" and (reply is None or reply in (0, 1, b"OK")):
        return OpOutcome(status="ok", value=reply in (1, b"OK"), node=node)
    if f == "get" and (reply is None or isinstance(reply, bytes)):
        return OpOutcome(status="ok", value=None if reply is None else _plain(reply), node=node)
    if f == "read" and reply is None:
        return OpOutcome(status="ok", value=[], node=node)
    if f == "read" and isinstance(reply, list):
        items = [one for one in reply if isinstance(one, bytes)]
        if len(items) == len(reply):
            return OpOutcome(status="ok", value=[_plain(one) for one in items], node=node)
    return unanswered(f, f"an answer that is not understood: {reply!r:.{SHOWN}}", node=node)


def _plain(raw: bytes) -> object:
    return single(raw.decode("utf-8", "replace"))


def _limit(sock: socket.socket, deadline: Ns) -> None:
    left = deadline - time.monotonic_ns()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left / SECOND)
