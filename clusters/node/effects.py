"""The order of effects with disk barriers: which may be carried out now, which wait, which are dropped.

Pure: effects in, effects out. Promises the meaning of ``Await`` in `dethrone.harness.core.machine`: behind one, every
later send, reply and note of the node waits in order until its batch is done, and is dropped if the batch failed; disk
batches, timers and halts never wait. Out of scope: carrying anything out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from dethrone.harness.core.machine import Await, Disk, Effect, Halt, Note, Reply, Send

_HELD = frozenset((Send, Reply, Note))


class Barrier:
    """One node's queue of held effects.

    ``admit`` takes what one event produced, ``done`` what became of one batch; both return the effects that may be
    carried out now, in order. Raises ValueError when a token is started twice.
    """

    __slots__ = ("_failed", "_held", "_pending", "dropped")

    def __init__(self) -> None:
        self._held: deque[Effect] = deque()
        self._pending: set[int] = set()
        self._failed: set[int] = set()
        self.dropped = 0
        """Effects dropped behind failed batches, since the start."""

    @property
    def held(self) -> int:
        """How many effects and barriers wait."""
        return len(self._held)

    @property
    def pending(self) -> int:
        """How many disk batches are not done."""
        return len(self._pending)

    def admit(self, effects: Iterable[Effect]) -> list[Effect]:
        """Effects of one event, in the core's order → those to carry out now. Nothing follows a ``Halt``."""
        ready: list[Effect] = []
        held = self._held
        behind_failure = False
        effect: Any
        for effect in effects:
            kind = type(effect)
            if kind in _HELD:
                if behind_failure:
                    self.dropped += 1
                elif held:
                    held.append(effect)
                else:
                    ready.append(effect)
            elif kind is Await:
                if effect.token in self._failed:
                    behind_failure = True
                elif effect.token in self._pending and not behind_failure:
                    held.append(effect)
            else:
                if kind is Disk:
                    self._start(effect.token)
                ready.append(effect)
                if kind is Halt:
                    break
        return ready

    def done(self, token: int, error: str | None) -> list[Effect]:
        """Batch ``token`` was carried out (``error`` None) or not → the effects released by it, in order."""
        self._pending.discard(token)
        held = self._held
        if error is not None:
            self._failed.add(token)
            for index, effect in enumerate(held):
                if isinstance(effect, Await) and effect.token == token:
                    self._drop_from(index)
                    break
        ready: list[Effect] = []
        while held:
            effect = held[0]
            if isinstance(effect, Await):
                if effect.token in self._pending:
                    break
            else:
                ready.append(effect)
            held.popleft()
        return ready

    def _start(self, token: int) -> None:
        if token in self._pending or token in self._failed:
            raise ValueError(f"disk batch {token} was started before and is not finished or has failed")
        self._pending.add(token)

    def _drop_from(self, index: int) -> None:
        while len(self._held) > index:
            if not isinstance(self._held.pop(), Await):
                self.dropped += 1
