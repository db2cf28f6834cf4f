"""How long an agent has given no sign of life, and when to report that.

Guarantees: pure; a harness that stalled itself does not declare an agent silent. Out of scope: heartbeats, and what a
silence puts in doubt.
"""

from __future__ import annotations

from dethrone.harness.core.clock import SECOND, Ns

SILENT_NS = 2 * SECOND
"""An agent without a sign of life for longer is silent; two heartbeats fit in."""


class Silence:
    """How long an agent has given no sign of life, and when to report that: once, then each time the length doubled.

    One heartbeat is in flight at a time. An agent is silent once ``look`` finds the same one unanswered twice: a
    harness that stalled itself looks once, late, and has the answer by the next look. Silences of at most
    ``SILENT_NS`` do not count.
    """

    def __init__(self, now: Ns) -> None:
        self.life: Ns = now
        """The last moment at which the agent was certainly alive."""
        self._looks = 0
        self._next: Ns = 0
        self._number = 0
        self._broken = False

    def broke(self) -> None:
        """The connection is gone: nothing can arrive from the agent until it is connected again."""
        self._broken = True

    def look(self, now: Ns) -> tuple[Ns, Ns, int] | None:
        """A heartbeat is unanswered: returns the silence so far and its number, if they are to be reported."""
        self._looks += 1
        if self._looks < 2 or now - self.life <= SILENT_NS or now < self._next:
            return None
        self._number += not self._next
        self._next = now + (now - self.life)
        return self.life, now, self._number

    def lived(self, at: Ns, now: Ns) -> tuple[Ns, Ns, int] | None:
        """It is known ``now`` that the agent was alive then: returns the silence that ended and its number, if any."""
        since, self.life = self.life, max(self.life, at)
        was_silent = bool(self._next) or (self._broken and now - since > SILENT_NS)
        self._number += was_silent and not self._next
        self._looks, self._next, self._broken = 0, 0, False
        return (since, now, self._number) if was_silent else None
