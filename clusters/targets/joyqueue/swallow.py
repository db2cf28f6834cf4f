"""What a node sends although its metadata could not be written (knob ``persist_errors=swallow``).

The shell drops all effects that wait behind a failed batch. The original only logs the error and continues, its answer
included: so all waiting effects are kept here as well, and emitted again when the batch failed.

Guarantees: order is kept, nothing is emitted twice; the ``persisted`` note of a failed batch is dropped. Out of scope:
the decision (`rules`).

Source: docs/sources.md, joyqueue: JQ-B6.
"""

from __future__ import annotations

from dethrone.harness.core.machine import Await, Effect, Note, Reply, Send

_HELD = (Send, Reply, Note)


class Shadow:
    """A copy of what waits behind disk batches, in order."""

    def __init__(self) -> None:
        self._held: list[Effect] = []

    def record(self, out: list[Effect]) -> None:
        """Look at the effects of one event."""
        held = self._held
        for effect in out:
            if isinstance(effect, Await) or (held and isinstance(effect, _HELD)):
                held.append(effect)

    def released(self, token: int) -> None:
        """Batch ``token`` succeeded: the effects that waited only for it have left."""
        held = self._held
        if held and held[0] == Await(token):
            later = (at for at, effect in enumerate(held) if at and isinstance(effect, Await))
            del held[: next(later, len(held))]

    def dropped(self, token: int) -> list[Effect]:
        """Batch ``token`` failed: the dropped effects, to be emitted all the same."""
        held = self._held
        try:
            at = held.index(Await(token))
        except ValueError:
            return []
        again = held[at + 1 :]
        del held[at:]
        if again and isinstance(again[0], Note) and again[0].name == "persisted":
            del again[0]
        return again
