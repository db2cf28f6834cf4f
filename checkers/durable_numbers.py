"""What a Paxos acceptor said about numbers, held against what its disk says when the next process looks at it.

The part of ``vote-is-durable`` for protocols whose votes are numbers of an instance: per instance, the number promised
on disk is at least every number that the node promised, and the number of what it accepted at least that of the
acceptance that it reported last. A file that cannot be read holds nothing: its process must stay silent.

Guarantees: reported instances only (a witness may omit old ones and says so); the first finding of a node is enough.
Out of scope: whether a promise is kept within one life: what that costs shows in ``agreement``.

Source: Lamport, "Paxos Made Simple", 2.4 ("stable storage … must be updated before it sends the response").
"""

from __future__ import annotations

from typing import Any, ClassVar

from dethrone.checkers.base import finding
from dethrone.checkers.facts import in_group
from dethrone.harness.core.events import Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding


class Numbers:
    """One node over its lives: instance → the promise with the highest number; the acceptance reported last."""

    __slots__ = ("_accepted", "_blind", "_promised")

    NAMES: ClassVar[frozenset[str]] = frozenset({"promised", "accepted"})
    """Shell events that say a number."""

    def __init__(self) -> None:
        self._promised: dict[int, Traced] = {}
        self._accepted: dict[int, Traced] = {}
        self._blind: Traced | None = None

    @property
    def said(self) -> bool:
        """Whether the node has said anything that its disk must hold."""
        return bool(self._promised or self._accepted)

    def hear(self, history: History, promise: Promise, event: Traced) -> list[Finding]:
        """The node says a number; it must not if this life could not read its file."""
        instance, number = event.data.get("instance"), event.data.get("id")
        if not isinstance(instance, int) or not isinstance(number, int):
            return []
        blind = self._blind
        if blind is not None and blind.incarnation == event.incarnation:
            return [
                finding(
                    history,
                    promise,
                    f"{event.node} could not read its file after a restart, and continued: it {event.name} number"
                    f" {number} in instance {instance}{in_group(event.group)}.",
                    (blind.seq, event.seq),
                    nodes=(event.node,),
                    term=abs(instance),
                )
            ]
        if event.name == "accepted":
            self._accepted[instance] = event
        elif instance not in self._promised or _number(self._promised[instance]) < number:
            self._promised[instance] = event
        return []

    def compare(self, history: History, promise: Promise, found: Traced) -> list[Finding]:
        """A new life looks at the disk."""
        self._blind = None
        if found.data.get("file") == "unreadable":
            self._blind = found if self.said else None
            return []
        held: dict[str, Any] = found.data["instances"]
        whole = found.data.get("complete", True)
        for told, at in ((self._promised, 0), (self._accepted, 1)):
            for instance, event in told.items():
                pair = held.get(str(instance))
                if pair is None and not whole:
                    continue
                number = pair[at] if pair else 0
                if number < _number(event):
                    return [_lost(history, promise, event, found, number)]
        return []


def _number(event: Traced) -> int:
    number: int = event.data["id"]
    return number


def _lost(history: History, promise: Promise, said: Traced, found: Traced, number: int) -> Finding:
    instance = said.data["instance"]
    holds = f"no more than number {number}" if number else "nothing"
    return finding(
        history,
        promise,
        f"{said.node} {said.name} number {said.data['id']} in instance {instance}{in_group(said.group)}, and after a"
        f" restart its disk holds {holds} as {said.name} there.",
        (said.seq, found.seq),
        nodes=(said.node,),
        term=abs(instance),
    )
