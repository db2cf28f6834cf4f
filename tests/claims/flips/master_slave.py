"""The flips of the claims about master and slaves: builds in which the very rule of one claim is broken.

Guarantees: a flip overrides one rule and is named ``flip-<source>-<n>`` after its claim (docs/sources.md, claims); the
class of a planted bug that breaks this rule serves as its flip. Out of scope: checkers; only the claim's test must
catch a flip.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.master_slave.knobs import Place
from dethrone.clusters.targets.master_slave.planted_bugs import PromotesItself
from dethrone.clusters.targets.master_slave.rules import Rules


class EverySlaveBalanced(Rules):
    def takes_balanced_reads(self, broker_id: int) -> bool:
        return broker_id > 0


class AcksAfterLocalAppend(Rules):
    def waits_for_slave(self) -> bool:
        return False


class SlaveTakesWrites(Rules):
    def takes_writes(self, *, master: bool) -> bool:
        return True


class RoleByName(Rules):
    def is_master(self, place: Place) -> bool:
        return place.broker_id <= 1


FLIPS: Mapping[str, type[Rules]] = {
    "flip-0-1": PromotesItself,  # a slave replaces its dead master
    "flip-1-2": AcksAfterLocalAppend,  # a synchronous master does not wait
    "flip-1-3": PromotesItself,  # a slave replaces its dead master
    "flip-1-4": SlaveTakesWrites,  # the group is written without its master
    "flip-1-5": SlaveTakesWrites,  # a slave takes writes
    "flip-1-6": EverySlaveBalanced,  # any slave takes balanced reads
    "flip-1-7": RoleByName,  # brokerId 1 is a master, too
}
