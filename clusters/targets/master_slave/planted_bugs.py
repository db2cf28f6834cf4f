"""The planted bugs that need code, and the harmless builds, which must raise no alarm: one class of broken rules each.

A bug that always answers the same stands on the rule that it breaks, in ``rules``.

Guarantees: a bug's number means the same mistake in every protocol (docs/sources.md, planted-bugs). Nothing votes,
campaigns or commits by quorum here, so most numbers have no counterpart. 07 has none as the only file besides the
messages is the operator's: after a change of roles the honest build diverges, too (MS-B4). Where the base loses
acknowledged writes by itself (asynchronous copies), ``advised`` names knobs under which it does not.
"""

# ruff: noqa: ARG002, D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.master_slave.rules import SYNC, Rules


@mutant(
    "44-cuts-before-copy",
    says="a slave cuts its log at every transfer, repeated or not",
    caught_by=(by.COMMIT, by.ACKED, by.MATCHING),
)
class CutsBeforeCopy(Rules):
    def cuts_before_copy(self, *, own_end: int, offset: int) -> int:
        return min(own_end, offset)


@mutant(
    "46-acks-before-write",
    says="a slave acknowledges messages that it has not written",
    caught_by=(by.ACKED,),
    needs=SYNC,
)
class AcksBeforeWrite(Rules):
    def ack_position(self, *, durable: int, written: int) -> int:
        return written


@mutant("plain-promotes-itself", says="a slave becomes a master by itself", caught_by=(by.MATCHING, by.ACKED))
class PromotesItself(Rules):
    def promotes_itself(self, *, master_silent: bool) -> bool:
        return master_silent
