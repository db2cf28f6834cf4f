"""What most witnesses share: the log file, the file that keeps a vote, and what one node says of its elections.

Guarantees: each of them reports what was really sent, received or carried out, once; nothing is taken from a core.
Terms and indexes count from 1, as observers count. Out of scope: which messages and files show what (each protocol's
own witness), and what follows from it (checkers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from dethrone.clusters.targets.kit.files import Unreadable, digest, split_log
from dethrone.harness.core.log_marks import Entry, LogMarks, Marks
from dethrone.harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Unlink, Witnessed, Write

S = TypeVar("S")

Parsed = tuple[Sequence[Entry], Sequence[int], Sequence[Witnessed]]
"""What log records hold: [index, term, hash] each, where each ends in these bytes, and what else they show."""
Parse = Callable[[bytes, int, int], Parsed]
"""(bytes, index of the first record, term of the record before it) → what they hold; `Unreadable`: unknown."""


def says_plainly(name: str, term: int, data: dict[str, Any]) -> Witnessed:
    """An event of a node that has one log."""
    return Witnessed(name, term, data)


Says = Callable[[str, int, dict[str, Any]], Witnessed]


def log_parser(path: str, *, first: int) -> Parse:
    """Of logs as ``files.read_log`` reads them; ``first``: the index in the file of the first record of all."""

    def parse(data: bytes, index: int, _: int) -> Parsed:
        records, _ = split_log(data, path=path, first=index + first - 1)
        entries = [(n, term, digest(command)) for n, (_, term, command, _) in enumerate(records, index)]
        return entries, [end for _, _, _, end in records], ()

    return parse


class RecordLogWatch:
    """Records that were appended to one file, and cut from it. After damage it reports nothing more of this life.

    A new life reports how many records are as ``marks`` say that earlier lives showed them, and shows those behind.

    ``scratch``: the temporary file that takes the log's place where the log is replaced as a whole.
    """

    def __init__(self, path: str, parse: Parse, says: Says = says_plainly, *, scratch: str = "") -> None:
        self.path = path
        self._parse, self._says, self._scratch = parse, says, scratch
        self._temporary = b""
        self._ends: list[int] = []
        self._entries: list[Entry] = []
        self._marks = Marks()
        self._damaged = False

    def booted(self, disk: DiskImage, marks: LogMarks) -> list[Witnessed]:
        """A new incarnation: what the file holds, and that nothing follows it."""
        content = disk.get(self.path, b"")
        more = [] if isinstance(content, str) else self._took(content, 0)
        self._damaged |= isinstance(content, str)
        if self._damaged:
            return []
        entries = self._entries
        self._marks = marks.of(self.path)
        kept, known = self._marks.found(entries)
        seen = [self._cut()]
        if kept:
            last = {"count": kept, "hash": f"{known:016x}"}
            seen.insert(0, self._says("log_kept", entries[kept - 1][1], last))
        if kept < len(entries):
            seen.append(self._says("log_append", entries[-1][1], {"from": kept + 1, "entries": entries[kept:]}))
        return [*seen, *more]

    def carried(self, op: DiskOp) -> list[Witnessed]:
        """This operation is done."""
        if isinstance(op, Unlink):
            self._ends.clear()
            self._entries.clear()
            return [self._cut()]
        if self._damaged or isinstance(op, Fsync):
            return []
        if isinstance(op, Rename):
            return self._replaced(self._temporary) if op.src == self._scratch else []
        if op.path == self._scratch:
            self._temporary = op.data
            return []
        return self._wrote(op)

    def _wrote(self, op: Write) -> list[Witnessed]:
        ends = self._ends
        end = ends[-1] if ends else 0
        at = end if op.offset is None else op.offset
        seen: list[Witnessed] = []
        if at < end:
            while ends and ends[-1] > at:
                ends.pop()
                self._entries.pop()
            seen.append(self._cut())
        return seen + self._appended(op.data, at) if op.data else seen

    def _replaced(self, content: bytes) -> list[Witnessed]:
        """What both logs hold stays."""
        before = self._entries
        self._ends, self._entries = [], []
        self._took(content, 0)
        now = self._marks.entries = self._entries
        same = next((at for at, (old, new) in enumerate(zip(before, now, strict=False)) if old != new), None)
        kept = min(len(before), len(now)) if same is None else same
        self._marks.cut(kept)
        seen = [self._says("log_truncate", 0, {"from": kept + 1})] if kept < len(before) else []
        more = {"from": kept + 1, "entries": now[kept:]}
        return [*seen, self._says("log_append", now[-1][1], more)] if kept < len(now) else seen

    def _cut(self) -> Witnessed:
        self._marks.cut(len(self._ends))
        return self._says("log_truncate", 0, {"from": len(self._ends) + 1})

    def _appended(self, data: bytes, at: int) -> list[Witnessed]:
        first = len(self._ends) + 1
        more = self._took(data, at)
        entries = self._entries[first - 1 :]
        if not entries:
            return []
        return [self._says("log_append", entries[-1][1], {"from": first, "entries": entries}), *more]

    def _took(self, data: bytes, at: int) -> Sequence[Witnessed]:
        """Store what these bytes hold. What they show besides entries."""
        first = len(self._ends) + 1
        try:
            entries, ends, more = self._parse(data, first, self._entries[-1][1] if self._entries else 0)
        except Unreadable:
            self._damaged = True
            return ()
        self._ends += [at + end for end in ends]
        self._entries += entries
        return more


class StateFileWatch(Generic[S]):
    """A file that is replaced as a whole: what it holds by what was carried out, and when that became durable."""

    def __init__(self, path: str, read: Callable[[bytes], S], *, scratch: str = "") -> None:
        self.path = path
        self._read, self._scratch = read, scratch or f"{path}.tmp"
        self._temporary: S | None = None
        self.now: S | None = None
        """What the file holds; None: nothing, or nothing that can be read."""

    def found(self, disk: DiskImage) -> Literal["absent", "unreadable", "read"]:
        """What a new incarnation finds."""
        content = disk.get(self.path)
        self.now = self._state(content) if isinstance(content, bytes) else None
        return "absent" if content is None else "unreadable" if self.now is None else "read"

    def carried(self, op: DiskOp) -> Literal["", "replaced", "durable"]:
        """What this operation made of the file. ``durable``: of something that can be read."""
        if isinstance(op, Write):
            if op.path == self._scratch:
                self._temporary = self._state(op.data)
            elif op.path == self.path:
                self.now = self._state(op.data)
                return "replaced"
        elif isinstance(op, Rename):
            if op.dst == self.path:
                self.now = self._temporary
                return "replaced"
        elif op.path == self.path:
            if isinstance(op, Fsync):
                return "" if self.now is None else "durable"
            self.now = None
        return ""

    def _state(self, content: bytes) -> S | None:
        try:
            return self._read(content)
        except Unreadable:
            return None


class ElectionWatch:
    """Votes, elections, acknowledgements and commits of one node (in one group) within one incarnation.

    ``answered`` is reported once per term, where nothing else of that term showed it.
    """

    def __init__(self, node: str, says: Says = says_plainly) -> None:
        self.node = node
        self.says = says
        self.marks = LogMarks()
        self.forget()

    def forget(self) -> None:
        """What a process loses when it ends."""
        self.grants: dict[int, set[str]] = {}
        """Term → the nodes whose granted votes arrived."""
        self.voted: set[tuple[int, str]] = set()
        self.led = -1
        self.acked = (-1, -1)
        self.answered = 0
        self.commit = 0

    def found(self, file: str, term: int, voted_for: str | None) -> Witnessed:
        """The vote as a new incarnation finds it."""
        return self.says("found", term, {"voted_for": voted_for, "file": file})

    def persisted(self, term: int, voted_for: str | None) -> Witnessed:
        """The vote is durable."""
        return self.says("persisted", term, {"voted_for": voted_for})

    def granted(self, term: int, voter: str) -> None:
        """A granted vote arrived."""
        self.grants.setdefault(term, set()).add(voter)

    def votes(self, term: int, candidate: str) -> list[Witnessed]:
        """A vote leaves."""
        if (term, candidate) in self.voted:
            return []
        self.voted.add((term, candidate))
        self.answered = max(self.answered, term)
        return [self.says("vote", term, {"candidate": candidate})]

    def answers(self, term: int, to: str) -> list[Witnessed]:
        """An answer leaves that grants nothing: it still shows the term that this node is in."""
        if term <= self.answered:
            return []
        self.answered = term
        return [self.says("answered", term, {"to": to})]

    def acks(self, term: int, index: int, leader: str) -> list[Witnessed]:
        """An answer leaves that confirms everything up to ``index``."""
        if (term, index) == self.acked:
            return []
        self.acked = (term, index)
        self.answered = max(self.answered, term)
        return [self.says("acked", term, {"index": index, "leader": leader})]

    def leads(self, term: int, *, stood: bool, **more: Any) -> list[Witnessed]:
        """A message of the leader of a term leaves for the first time; ``stood``: it voted for itself."""
        self.led = term
        self.answered = max(self.answered, term)
        voters = self.grants.get(term, set()) | ({self.node} if stood else set())
        return [self.says("elected", term, {"voters": sorted(voters), **more})]

    def commits(self, term: int, index: int) -> list[Witnessed]:
        """A leader's message leaves that says how far its log is committed."""
        if index <= self.commit:
            return []
        self.commit = index
        return [self.says("commit", term, {"index": index})]


class DiskWatch(ElectionWatch, Generic[S]):
    """A node with one log file, and one file that keeps its vote."""

    def watched(self) -> tuple[RecordLogWatch, StateFileWatch[S]]:
        """Both files, of a new incarnation."""
        raise NotImplementedError

    def stored(self, change: Literal["replaced", "durable"], state: S) -> list[Witnessed]:
        """The file of the vote holds this now, or durably."""
        raise NotImplementedError

    def forget(self) -> None:
        """What a process loses when it ends."""
        super().forget()
        self.log, self.file = self.watched()

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch is done."""
        out: list[Witnessed] = []
        for op in ops:
            if not isinstance(op, Rename) and op.path == self.log.path:
                out += self.log.carried(op)
            elif (change := self.file.carried(op)) and self.file.now is not None:
                out += self.stored(change, self.file.now)
        return out
