"""The rules of the bully target that a planted bug may break: the knobs that are in force, and a few more.

Guarantees: pure. A planted bug stands on the rule that it breaks, or, like the harmless builds, which must raise no
alarm, on the class whose knobs it turns. What the protocol loses by its design is no bug: each part of a cut cluster
elects. Out of scope: when the rules are asked (``classic``, ``mongo``, ``core``).
"""

from __future__ import annotations

from fractions import Fraction

from dethrone.clusters.targets.bully.knobs import BullyKnobs
from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.mutants import Switched, mutant
from dethrone.harness.core.clock import Ns


@mutant(
    "plain-slow-timeout",
    says="takes ten times as long to miss a coordinator",
    caught_by=(by.OWED,),
    scales={"fail_timeout": Fraction(10)},
)
@mutant(
    "plain-no-bully-no-yield",
    says="neither side of a healed cut gives way",
    caught_by=(by.CONVERGES,),
    knobs={"bully_back": False, "yields": False},
)
@mutant(
    "28-never-steps-down",
    says="does not step down without a majority",
    caught_by=(by.STEP_DOWN,),
    needs={"step_down": "on", "majority_to_stand": "on"},
    knobs={"step_down": False},
)
@mutant("harmless-more-beats", says="beats twice as often", scales={"heartbeat": Fraction(1, 2)})
@mutant("harmless-early-timeout", says="misses a coordinator a little sooner", scales={"fail_timeout": Fraction(3, 4)})
@mutant("harmless-patient", says="waits a little longer for a higher id", scales={"ok_timeout": Fraction(5, 4)})
@mutant("harmless-impatient", says="waits less long for an announcement", scales={"coord_timeout": Fraction(3, 4)})
@mutant("harmless-majority-writes", says="acknowledges what a majority holds", knobs={"write_concern": "majority"})
class Rules:
    """See the module. ``on``: the knobs in force."""

    def __init__(self, knobs: BullyKnobs) -> None:
        self.on = knobs

    takes_lead = Switched(
        "plain-never-leads", says="does not lead when no higher id answers", caught_by=(by.OWED, by.CONVERGES)
    )
    """A node leads when ``ok_timeout`` runs out without an answer."""

    @mutant("plain-never-down", answers=False, says="never takes a silent node for dead", caught_by=(by.OWED,))
    def unheard(self, silence: Ns) -> bool:
        """Whether a node that was silent for so long is down."""
        return silence > self.on.fail_timeout

    @mutant(
        "plain-all-answer",
        answers=True,
        says="lower ids are asked, and answer, too",
        caught_by=(by.OWED, by.CONVERGES),
    )
    def answers(self, *, higher: bool) -> bool:
        """Whether an election of another node, whose id is higher or not, is answered and taken over."""
        return not higher and self.on.reply_ok

    @mutant("plain-all-answer", answers=True)
    def asks(self, *, higher: bool) -> bool:
        """Whether an election is announced to a node with such an id."""
        return higher
