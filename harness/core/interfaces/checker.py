"""What judges a history: checkers, the abilities that some of them have, and sequential models.

Guarantees: a checker is a function of history and plan; it never raises for a history that is odd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from dethrone.harness.core.history import History
from dethrone.harness.core.operations import ModelOptions, Operations
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Kind, Verdict

Watcher = Callable[[Any], bool]
"""Fed events in order; True once a finding is certain."""


class Checker(Protocol):
    """A pure function: history, promise, plan → verdict. A crash is turned into ``unknown`` by the caller.

    Must not read files or clocks; must not judge what the promise exempts (``n/a`` with its reason).
    """

    name: str
    version: str
    kind: Kind

    def check(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""


class Unmet(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has yet to show, in words, and the fault kinds of which one more may show it."""

    what: str
    kinds: tuple[str, ...]


@runtime_checkable
class Demanding(Protocol):
    """A checker that says, while a run lasts, what it would miss if the run ended now."""

    def unmet(self, history: History, promise: Promise, plan: Plan) -> Sequence[Unmet]:
        """Of a history that holds faults, convergences, marks, processes, noise and who led, and nothing else."""


@runtime_checkable
class Incremental(Protocol):
    """A safety checker that can also watch a running history, to stop a run at its first finding."""

    def watcher(self, promise: Promise, plan: Plan) -> Watcher:
        """What watches one run."""


@runtime_checkable
class Searching(Protocol):
    """A checker whose memory is not bounded by the run, and who says ``unknown`` where it would exceed a limit."""

    def within(self, memory_bytes_max: int) -> Checker:
        """The same with this limit."""


@runtime_checkable
class Revealing(Protocol):
    """A checker of something that may be no promise and surprises users all the same: it says what happened to it."""

    def revealed(self, history: History, promise: Promise, plan: Plan) -> Verdict | None:
        """``n/a`` with figures, of a property that is not promised; None: there is nothing to say."""


class Model(Protocol):
    """What clients may see of one kind of object (a register, a set, a log): judges operations of any origin.

    Pure, as a checker is. ``pass`` only if every operation could be judged; a search that gives up is ``unknown`` with
    how far it came; certificates hold places (``dethrone.harness.core.operations``). A model that takes much memory may
    say in ``operations_max`` how many operations of a file it is given unless asked for more; one that judges by times
    says so with ``timed``, and is given no file in which they run backwards.
    """

    name: str

    def summary(self) -> str:
        """One line for ``list models``: the operations that it knows."""

    def functions(self) -> frozenset[str]:
        """The names of the operations that it knows; any other is an error of the file."""

    def judge(self, operations: Operations, options: ModelOptions) -> Verdict:
        """The verdict on these operations."""
