"""How many runs may go side by side on real hosts, and which is next. Pure.

Guarantees: a run that noise spoiled halves how many are admitted, a noisy one admits one fewer, but runs that were
under way together do so only once; quiet runs admit one more, up to what was asked for; what must be alone (a repeat of
a run that noise spoiled, hosts that belong to the user) begins when nothing else runs, and nothing begins next to it.
Out of scope: starting runs, and whether one is repeated (``live_seeds``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

NOISE_PERCENT_MAX = 20.0
"""The share of a run that noise may be charged with before fewer run at once. Runs charged with 16 % had a verdict."""

QUIET_RUNS = 3
"""As many quiet runs at each place, one after another, admit one more."""


class Admission(Generic[T]):
    """The runs that are due, in order; ``most``: how many at once at most. ``alone``: whether one must be alone."""

    def __init__(self, due: Iterable[T], *, most: int, alone: Callable[[T], bool] = lambda _: False) -> None:
        self.width = most
        """How many are admitted at once now."""
        self.running: dict[T, int] = {}
        """Each run under way → the most that were under way at any moment of it, itself included."""
        self._most = most
        self._quiet = 0
        self._counted: set[T] = set()
        """Those under way when it was narrowed last, of whose noise that has taken account."""
        self._due = deque(due)
        self._alone = alone
        self._again: deque[T] = deque()
        self._exclusive = False

    def next(self, *, room: bool = True) -> T | None:
        """The run that may begin now; it counts as running from then on. ``room``: for one next to those under way."""
        if self._exclusive or len(self.running) >= self.width or (self.running and not room):
            return None
        queue = self._again or self._due
        if not queue:
            return None
        exclusive = queue is self._again or self._alone(queue[0])
        if exclusive and self.running:
            return None
        self._exclusive = exclusive
        begun = queue.popleft()
        self.running[begun] = 1
        for one in self.running:
            self.running[one] = max(self.running[one], len(self.running))
        return begun

    def ended(self, one: T, *, by_noise: bool, noise_percent: float) -> bool:
        """A run ended. True: it was so noisy that fewer run at once from now on."""
        del self.running[one]
        self._exclusive = False
        counted = one in self._counted
        self._counted.discard(one)
        before = self.width
        if by_noise or noise_percent > NOISE_PERCENT_MAX:
            self._quiet = 0
            if not counted:
                self.width = max(1, before // 2 if by_noise else before - 1)
                self._counted = set(self.running)
            return self.width < before
        self._quiet += 1
        if self._quiet >= QUIET_RUNS * self.width:
            self.width, self._quiet = min(self._most, self.width + 1), 0
        return False

    def again(self, one: T) -> None:
        """Noise spoiled it: this is due before all others, alone."""
        self._again.append(one)

    @property
    def left(self) -> int:
        """How many are due and have not begun."""
        return len(self._due) + len(self._again)

    def stop(self) -> None:
        """Nothing more begins."""
        self._due.clear()
        self._again.clear()
