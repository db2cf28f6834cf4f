"""Write-before-effect: what a step of the director decided, as the events to write down and the actions that follow.

Guarantees: events are numbered without gaps, in the order in which they were decided; an action leaves only together
with the events that announce it, and the loop that takes both writes the events first (``runner``, ``virtual_loop``);
each event is shown to every watcher and fed to the triggers that wait for its type. Out of scope: what is decided
(``director``), the file (``dethrone.harness.core.history``), and the undo of a fault, which ``runner`` records in the
ledger (``dethrone.harness.core.ledger``) and so syncs to disk before it asks a host for the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import AnyEvent
from dethrone.harness.core.interfaces import ClusterView, Watcher
from dethrone.harness.engine.run.continuation import worth_keeping
from dethrone.harness.engine.run.nemesis_driver import NemesisDriver


class Outbox:
    """Collects until ``take``.

    ``watchers`` say whether an event ends the run; they are asked while ``watching`` says so. An event of a type that
    no watcher and none of the ``triggers`` looks at may be added to ``events`` without ``append``, if ``seq`` counts
    it and ``kept`` gets what is worth keeping: there are most of answers and of trace lines. ``view``: the picture of
    the cluster that triggers see. ``keeps``: while this is set, what is worth keeping is collected in ``kept``.
    """

    def __init__(
        self,
        nemesis: NemesisDriver,
        *,
        view: Callable[[Ns], ClusterView],
        watchers: Sequence[Watcher],
        watching: Callable[[], bool],
        keeps: bool,
    ) -> None:
        self._nemesis = nemesis
        self.triggers = nemesis.triggers
        self._view = view
        self.watchers = list(watchers)
        self._watching = watching
        self.keeps = keeps
        self.kept: list[AnyEvent] = []
        """What a run that may continue is judged on."""
        self.observed = nemesis.triggers.observed
        """(node, group) → what that node said last, for triggers that wait for a change."""
        self.found = False
        """Whether a watcher has found something."""
        self.seq = 0
        """The number of the next event."""
        self.events: list[AnyEvent] = []
        self._actions: list[w.Action] = []

    def write(self, event_type: type[Any], t: Ns, /, **fields: Any) -> Any:
        """The next event, made and collected."""
        event = event_type(seq=self.seq, t=t, **fields)
        self.append(event)
        return event

    def append(self, event: AnyEvent) -> None:
        """The next event, numbered ``seq``."""
        self.seq += 1
        self.events.append(event)
        if self.keeps and worth_keeping(event):
            self.kept.append(event)
        if self.watchers and self._watching():
            self._watch(event)  # from the first event on: what happens before the warm-up is half of some proofs
        hears = self.triggers.hears
        if hears and type(event) in hears:
            self._nemesis.feed(event, event.t, lambda: self._view(event.t))

    def _watch(self, event: AnyEvent) -> None:
        if any([watcher(event) for watcher in self.watchers]):  # noqa: C419 - each watcher must see each event
            self.found = True

    def awaited(self, event_type: type) -> bool:
        """Whether an armed trigger waits for an event of this type."""
        return event_type in self.triggers.hears

    def keep_no_more(self) -> None:
        """The run will not continue beyond its schedule."""
        self.keeps = False
        self.kept.clear()

    def act(self, action: w.Action) -> None:
        """The next action. Write the event that announces it first."""
        self._actions.append(action)

    def take(self) -> tuple[list[AnyEvent], list[w.Action]]:
        """Everything since the last time."""
        events, actions = self.events, self._actions
        self.events, self._actions = [], []
        return events, actions
