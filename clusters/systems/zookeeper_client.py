"""A client of ZooKeeper: one session per server that it talks to, and one more for each lock that it takes.

    append [list, v], add   a sequential node below ``/list-<list>`` whose NAME carries the value: one write
    read   list             the names there in the order of their numbers: one read
    put, get, cas           the data of ``/register-<key>``; cas and the rest by its version
    acquire [lock, owner, ttl_ms]   a new session with (at least) that time-out, and in it an ephemeral sequential node
                            below ``/lock-<lock>``: held if no node there has a lower number. The session is never
                            renewed, so the lock runs out with it. The token is the zxid that created the node
    release [lock, owner]   deletes that node
    use [lock, token]       raises ``/guard-<lock>`` unless it is above the token

A read is preceded, in its session, by a write to ``/barrier`` (``reads`` = ``quorum``): a session's requests are
carried out in their order, so it shows every write acknowledged before it was sent. With ``reads`` = ``sync`` it is
preceded by ``sync`` instead, which no quorum confirms.

Guarantees: each request is sent once; an unanswered request that may have changed something is ``info``, and every step
before it was answered. A lock whose session or node may not exist is not held. Out of scope: watches, moving sessions
between servers, renewing locks.

Source: ZooKeeper programmer's guide (sessions, sequence nodes), recipes (locks), internals (consistency guarantees).
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote, unquote

from dethrone.clusters.systems import zookeeper_wire as wire
from dethrone.clusters.systems.framed import FramedLine, NeverSentError, NoAnswerError
from dethrone.clusters.systems.operations import unsent
from dethrone.clusters.systems.zookeeper_wire import Reader
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.interfaces import NodeSpec, OpOutcome

SESSION_MS = 10_000
"""Time-out of the sessions in which clients read and write; one that ran out is replaced."""

TRIES_MAX = 30
"""How often a change that was overtaken is tried again."""

TOKEN_DIGITS = 20
BARRIER = "/barrier"

Reads = Literal["quorum", "sync"]


class RefusedError(Exception):
    """The server refused a request: ``code`` says why, ``position`` which one of those sent together."""

    def __init__(self, code: int, why: str = "", *, position: int = 0) -> None:
        super().__init__(why or f"ZooKeeper's error {code}")
        self.code = code
        self.position = position


class UnknownFateError(Exception):
    """Whether the operation had, or will have, an effect is not known."""


class ZooKeeperClient:
    """See ``dethrone.harness.core.interfaces.Client``."""

    def __init__(self, nodes: Mapping[str, NodeSpec], *, port: int, reads: Reads) -> None:
        self._addresses = {name: (spec.address, port) for name, spec in nodes.items()}
        self._reads = reads
        self._sessions: dict[str, Session] = {}
        self._held: dict[tuple[str, str], tuple[str, int]] = {}
        """(lock, owner) → the node that holds it, and its token."""

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: Ns) -> OpOutcome:
        """Carry out one operation at the server ``target``."""
        deadline = time.monotonic_ns() + timeout_ns
        if target not in self._addresses:
            return unsent(f"no node {target!r}")
        try:
            return OpOutcome(status="ok", value=self._carry_out(f, value, target, deadline), node=target)
        except NeverSentError as error:
            return unsent(f"{target}: {error}")
        except RefusedError as error:
            return OpOutcome(status="fail", error=str(error), node=target)
        except NoAnswerError as error:  # to a question, and nothing was changed before it
            self._drop(target)
            return OpOutcome(status="fail", error=f"{target}: {error}", node=target)
        except UnknownFateError as error:
            self._drop(target)
            return OpOutcome(status="info", error=f"{target}: {error}", node=target)

    def close(self) -> None:
        """Drop all connections; sessions and what they hold run out by themselves."""
        for target in list(self._sessions):
            self._drop(target)

    def _carry_out(self, f: str, value: Any, target: str, deadline: Ns) -> Any:
        match f, value:
            case "append" | "add", [str(key), int() | str() as item]:
                return self._append(f"/list-{_word(key)}", item, target, deadline)
            case "read", str(key):
                return self._list(f"/list-{_word(key)}", target, deadline)
            case "put", [str(key), item]:
                return self._put(f"/register-{_word(key)}", _bytes(item), target, deadline)
            case "get", str(key):
                data, _ = self._get(f"/register-{_word(key)}", target, deadline)
                return None if data is None else json.loads(data)
            case "cas", [str(key), old, new]:
                return self._cas(f"/register-{_word(key)}", old, _bytes(new), target, deadline)
            case "acquire", [str(lock), str(owner), int(ttl_ms)]:
                return self._acquire(lock, owner, ttl_ms, target, deadline)
            case "release", [str(lock), str(owner)]:
                return self._release(lock, owner, target, deadline)
            case "use", [str(lock), int(token)] if token >= 0:
                return self._use(f"/guard-{_word(lock)}", token, target, deadline)
            case _:
                raise NeverSentError(f"no operation {f!r} with the value {value!r:.80}")

    # --- lists and registers --------------------------------------------------------------------------------------

    def _append(self, folder: str, item: Any, target: str, deadline: Ns) -> None:
        """The name of the new node is the value, then a dot and the number."""
        session = self._session(target, deadline)
        body = wire.create(f"{folder}/{quote(json.dumps(item), safe='')}.", b"", wire.PERSISTENT_SEQUENTIAL)
        session.change_below(folder, wire.CREATE, body, deadline)

    def _list(self, folder: str, target: str, deadline: Ns) -> list[Any]:
        session = self._session(target, deadline)
        try:
            answer = session.read(wire.GET_CHILDREN, folder, deadline, self._reads)
        except RefusedError as error:
            if error.code == wire.NO_NODE:
                return []
            raise
        with _understood():
            names = wire.in_sequence(answer.texts())
            return [json.loads(unquote(name[: -wire.SEQUENCE_DIGITS - 1])) for name in names]

    def _put(self, path: str, data: bytes, target: str, deadline: Ns) -> None:
        session = self._session(target, deadline)
        try:
            session.change(wire.SET_DATA, wire.set_data(path, data), deadline)
        except RefusedError as error:
            if error.code != wire.NO_NODE:
                raise
            try:
                session.change(wire.CREATE, wire.create(path, data, wire.PERSISTENT), deadline)
            except RefusedError as overtaken:
                if overtaken.code != wire.NODE_EXISTS:
                    raise
                session.change(wire.SET_DATA, wire.set_data(path, data), deadline)

    def _get(self, path: str, target: str, deadline: Ns) -> tuple[bytes | None, int]:
        """The data of a node and their version; None where there is no node."""
        session = self._session(target, deadline)
        try:
            answer = session.read(wire.GET_DATA, path, deadline, self._reads)
        except RefusedError as error:
            if error.code == wire.NO_NODE:
                return None, wire.ANY_VERSION
            raise
        with _understood():
            return answer.buffer(), answer.stat().version

    def _cas(self, path: str, old: Any, new: bytes, target: str, deadline: Ns) -> bool:
        for _ in range(TRIES_MAX):
            data, version = self._get(path, target, deadline)
            if (None if data is None else json.loads(data)) != old:
                return False
            if self._replace(path, new, version, target, deadline):
                return True
        raise RefusedError(wire.BAD_VERSION, f"overtaken {TRIES_MAX} times")

    def _replace(self, path: str, data: bytes, version: int, target: str, deadline: Ns) -> bool:
        """Whether the node was changed; not, if it is no longer in that version (``ANY_VERSION``: not there)."""
        session = self._session(target, deadline)
        try:
            if version == wire.ANY_VERSION:
                session.change(wire.CREATE, wire.create(path, data, wire.PERSISTENT), deadline)
            else:
                session.change(wire.SET_DATA, wire.set_data(path, data, version), deadline)
        except RefusedError as error:
            if error.code in {wire.BAD_VERSION, wire.NODE_EXISTS}:
                return False
            raise
        return True

    # --- locks ----------------------------------------------------------------------------------------------------

    def _acquire(self, lock: str, owner: str, ttl_ms: int, target: str, deadline: Ns) -> int:
        folder = f"/lock-{_word(lock)}"
        session = Session(self._addresses[target], ttl_ms, deadline)
        try:
            if session.timeout_ms < ttl_ms:
                raise RefusedError(0, f"a session of {session.timeout_ms} ms only")
            body = wire.create(f"{folder}/", owner.encode(), wire.EPHEMERAL_SEQUENTIAL)
            answer = session.change_below(folder, wire.CREATE2, body, deadline)
            try:
                path, stat = answer.text(), answer.stat()
                others = session.read(wire.GET_CHILDREN, folder, deadline, None).texts()
                first = wire.in_sequence(others)[0]
            except (NoAnswerError, RefusedError, ValueError, IndexError) as error:
                raise UnknownFateError(str(error)) from error
            if f"{folder}/{first}" != path:
                session.end(deadline)  # the node goes with it, now or when it runs out
                raise RefusedError(0, "held")
            self._held[lock, owner] = (path, stat.czxid)
            return stat.czxid
        finally:
            session.close()

    def _release(self, lock: str, owner: str, target: str, deadline: Ns) -> int:
        if (lock, owner) not in self._held:
            raise RefusedError(wire.NO_NODE, "not held")
        session = self._session(target, deadline)
        path, token = self._held.pop((lock, owner))
        session.change(wire.DELETE, wire.delete(path), deadline)
        return token

    def _use(self, path: str, token: int, target: str, deadline: Ns) -> int:
        """The guard only rises: any value read, however old, is no higher than it is now."""
        mine = f"{token:0{TOKEN_DIGITS}}".encode()
        for _ in range(TRIES_MAX):
            data, version = self._get(path, target, deadline)
            if data is not None and data > mine:
                raise RefusedError(0, f"token {token} is older than one that was used")
            if self._replace(path, mine, version, target, deadline):
                return token
        raise RefusedError(wire.BAD_VERSION, f"overtaken {TRIES_MAX} times")

    # --- sessions -------------------------------------------------------------------------------------------------

    def _session(self, target: str, deadline: Ns) -> Session:
        known = self._sessions.get(target)
        if known is not None and known.usable():
            return known
        self._drop(target)
        made = self._sessions[target] = Session(self._addresses[target], SESSION_MS, deadline)
        return made

    def _drop(self, target: str) -> None:
        session = self._sessions.pop(target, None)
        if session is not None:
            session.close()


class Session:
    """A session and its connection. Raises NeverSentError if there is none in time."""

    def __init__(self, address: tuple[str, int], timeout_ms: int, deadline: Ns) -> None:
        self._line = FramedLine(address, deadline)
        self._last = 0
        try:
            self._line.send(wire.connect(timeout_ms), deadline)
            made = Reader(self._line.receive(deadline)).session()
            if made.number == 0:
                raise NeverSentError("the server made no session")
        except (NoAnswerError, ValueError, NeverSentError) as error:
            self._line.close()
            raise NeverSentError(f"no session: {error}") from error
        self.timeout_ms = made.timeout_ms
        self._spoken_ns = time.monotonic_ns()

    def usable(self) -> bool:
        """Whether the server still listens, and the session cannot have run out by our own clock."""
        silent = time.monotonic_ns() - self._spoken_ns
        return not self._line.ended() and silent < self.timeout_ms * MS // 2

    def change(self, kind: int, body: bytes, deadline: Ns) -> Reader:
        """Send a request that changes something; its answer behind the head. Raises Refused or UnknownFate."""
        try:
            return self._answers([(kind, body)], deadline)
        except NoAnswerError as error:
            raise UnknownFateError(str(error)) from error
        except RefusedError as error:
            if error.code in wire.REFUSED:
                raise
            raise UnknownFateError(str(error)) from error

    def change_below(self, folder: str, kind: int, body: bytes, deadline: Ns) -> Reader:
        """The same below a folder, which is made first if it is not there."""
        try:
            return self.change(kind, body, deadline)
        except RefusedError as error:
            if error.code != wire.NO_NODE:
                raise
        self.make(folder, deadline)
        return self.change(kind, body, deadline)

    def read(self, kind: int, path: str, deadline: Ns, reads: Reads | None) -> Reader:
        """Send a question behind the request that makes its answer fresh; the answer. Raises Refused or NoAnswer."""
        question = (kind, wire.unwatched(path))
        if reads is None:
            return self._answers([question], deadline)
        before = (wire.SET_DATA, wire.set_data(BARRIER, b""))
        if reads == "sync":
            before = (wire.SYNC, wire.path_only(path))
        for _ in range(2):
            try:
                return self._answers([before, question], deadline)
            except RefusedError as error:
                if error.position == 1:
                    raise
                if error.code != wire.NO_NODE:
                    raise NoAnswerError(f"refused before the question: {error}") from error
            self.make(BARRIER, deadline)
        raise NoAnswerError(f"{BARRIER} cannot be written")

    def make(self, path: str, deadline: Ns) -> None:
        """A node without data, unless it is there. It means nothing by itself: raises NoAnswer where it is unknown."""
        try:
            self._answers([(wire.CREATE, wire.create(path, b"", wire.PERSISTENT))], deadline)
        except RefusedError as error:
            if error.code != wire.NODE_EXISTS:
                raise

    def end(self, deadline: Ns) -> None:
        """Ask for its end; whether it is heard does not matter."""
        try:
            self._line.send(wire.request(self._last + 1, wire.CLOSE), deadline)
            self._line.receive(deadline)
        except NoAnswerError:
            pass

    def close(self) -> None:
        """Drop the connection."""
        self._line.close()

    def _answers(self, requests: list[tuple[int, bytes]], deadline: Ns) -> Reader:
        """Send all at once; the last answer. The first refusal is raised when all have answered."""
        first = self._last + 1
        for kind, body in requests:
            self._last += 1
            self._line.send(wire.request(self._last, kind, body), deadline)
        refused: RefusedError | None = None
        answer = Reader(b"")
        for position in range(len(requests)):
            answer = Reader(self._line.receive(deadline))
            try:
                head = answer.header()
            except ValueError as error:
                raise NoAnswerError(f"a garbled answer: {error}") from error
            if head.xid != first + position:
                raise NoAnswerError(f"an answer to request {head.xid}")
            if head.error and refused is None:
                refused = RefusedError(head.error, position=position)
        self._spoken_ns = time.monotonic_ns()
        if refused is not None:
            raise refused
        return answer


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """What cannot be read was not answered."""
    try:
        yield
    except ValueError as error:
        raise NoAnswerError(f"an answer that is not understood: {error}") from error


def _word(name: str) -> str:
    return quote(name, safe="")


def _bytes(item: Any) -> bytes:
    return json.dumps(item).encode()
