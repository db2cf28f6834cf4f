"""persist_mode=upstream: all that follows a write of the term file waits for it, even if the write fails.

The original writes under its lock before it answers, and ignores a write error; the shells' ``Await`` would drop the
effects behind a failed batch. Guarantees: sends, replies and notes keep their order. Out of scope: every other mode.

Source: DLedger 0.2.7, ``MemberState.persistTerm``: the error is logged.
"""

from __future__ import annotations

from collections import deque

from dethrone.harness.core.machine import Effect, Note, Reply, Send

_HELD = (Send, Reply, Note)


class SoftBarrier:
    """Effects that wait for batches; an int in the queue is the token of a batch."""

    def __init__(self) -> None:
        self._held: deque[Effect | int] = deque()
        self._pending: set[int] = set()

    def hold(self, out: list[Effect], mark: tuple[int, list[int]] | None) -> None:
        """Take out of one event's effects what must wait. ``mark``: from where on, and for which new batches."""
        if not self._held and mark is None:
            return
        start = 0 if self._held else len(out)
        if mark is not None:
            start = min(start, mark[0])
        kept = out[:start]
        for position, effect in enumerate(out[start:], start):
            if mark is not None and position == mark[0]:
                self._held.extend(mark[1])
                self._pending.update(mark[1])
            if isinstance(effect, _HELD):
                self._held.append(effect)
            else:
                kept.append(effect)
        out[:] = kept

    def done(self, token: int) -> list[Effect]:
        """This batch succeeded or failed: the effects that may leave now."""
        self._pending.discard(token)
        ready: list[Effect] = []
        held = self._held
        while held:
            first = held[0]
            if isinstance(first, int):
                if first in self._pending:
                    break
            else:
                ready.append(first)
            held.popleft()
        return ready
