"""The rules of the bully target that a planted bug may break: the knobs that are in force, and a few more.

Guarantees: pure. Out of scope: when the rules are asked (``classic``, ``mongo``, ``core``).
"""

from __future__ import annotations

from dethrone.clusters.targets.bully.knobs import BullyKnobs
from dethrone.harness.core.clock import Ns


class Rules:
    """See the module. ``on``: the knobs in force."""

    def __init__(self, knobs: BullyKnobs) -> None:
        self.on = knobs

    def is_majority(self, count: int, *, members: int) -> bool:
        """Whether this count is more than half of the members."""
        return 2 * count > members

    def answers(self, *, higher: bool) -> bool:
        """Whether an election of another node, whose id is higher or not, is answered and taken over."""
        return not higher and self.on.reply_ok

    def takes_lead(self, *, answered: bool) -> bool:
        """Whether a node whose ``ok_timeout`` ran out leads."""
        return not answered

    def asks(self, *, higher: bool) -> bool:
        """Whether an election is announced to a node with such an id."""
        return higher

    def accepts(self, *, lower: bool) -> bool:
        """Whether a node follows a coordinator with such an id."""
        return not lower or not self.on.bully_back

    def unheard(self, silence: Ns) -> bool:
        """Whether a node that was silent for so long is down."""
        return silence > self.on.fail_timeout
