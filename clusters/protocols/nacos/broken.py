"""The rules of the planted bugs, and of the harmless builds: each class overrides what it is named for.

Promises: the number is the one of the table of planted bugs. They are bugs of the mended protocol; the original lacks
most of what they break. Leaves out which knobs and checkers belong to them, and flips of claims (`variants`).
"""

# ruff: noqa: ARG002, D102 - each method is documented in `rules`; a mistake is to ignore what one is given

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from clusters.protocols.nacos.knobs import HEARTBEAT_INTERVAL_MS, LEADER_TIMEOUT_MS, RANDOM_MS, TICK_PERIOD_MS
from clusters.protocols.nacos.messages import State
from clusters.protocols.nacos.rules import Rules
from clusters.protocols.nacos.storage import Damaged, Meta
from harness.core.rng import Rng

# --- the stored vote --------------------------------------------------------------------------------------------


class AnswerBeforePersist(Rules):
    """02."""

    def waits_for_disk(self) -> bool:
        return False


class IgnoreFailedWrite(Rules):
    """04: what rested on the write is lost with it, what comes later is not."""

    def on_persist_error(self) -> Literal["halt", "ignore"]:
        return "ignore"


class NotSynced(Rules):
    """05."""

    def syncs(self) -> bool:
        return False


class DeleteThenRename(Rules):
    """06."""

    def deletes_first(self) -> bool:
        return True


class UnreadableMeansFresh(Rules):
    """07."""

    def loads_meta(self, load: Callable[[], Meta]) -> Meta:
        try:
            return load()
        except Damaged:
            return Meta()


class ResumesLeadership(Rules):
    """10: whoever voted for itself leads after a restart."""

    def start_state(self, meta: Meta, *, me: str) -> State:
        return "LEADER" if meta.vote_for == me else "FOLLOWER"


# --- counting ---------------------------------------------------------------------------------------------------


class CountsOlderTerm(Rules):
    """16."""

    def counts(self, record_term: int, *, own_term: int) -> bool:
        return record_term <= own_term


class MajorityOfResponders(Rules):
    """21."""

    def wins(self, best: int, *, peers: int, counted: int) -> bool:
        return best >= counted // 2 + 1


class HalfIsEnough(Rules):
    """22, and the flip 3-22."""

    def majority(self, peers: int) -> int:
        return (peers + 1) // 2


class WantsEveryVote(Rules):
    """Elected only with the votes of all members."""

    def wins(self, best: int, *, peers: int, counted: int) -> bool:
        return best >= peers


class EqualTermWins(Rules):
    """Votes for everybody who asks in a term, and the flip 3-17."""

    def grants(self, *, candidate_term: int, own_term: int, own_items: int) -> bool:
        return candidate_term >= own_term


# --- terms and leaders ------------------------------------------------------------------------------------------


class TermMayFall(Rules):
    """25: follows whoever beats, down as well as up."""

    def accepts_term(self, *, own_term: int, sender_term: int) -> bool:
        return True

    def term_after_beat(self, own_term: int, sender_term: int) -> int:
        return sender_term


class NeverStepsDown(Rules):
    """28."""

    def campaigns_as(self, state: State) -> bool:
        return state != "LEADER"


class SendingIsContact(Rules):
    """30: what the original does (NA-B4)."""

    def sending_is_contact(self) -> bool:
        return True


class AnyRequestResetsDue(Rules):
    """31."""

    def refusal_resets_due(self) -> bool:
        return True


class TimersOnWallClock(Rules):
    """52."""

    def clock(self) -> Literal["mono", "wall"]:
        return "wall"


# --- harmless ---------------------------------------------------------------------------------------------------


class LongerJitter(Rules):
    """Draws its dues from a wider range."""

    def leader_due_ms(self, rng: Rng) -> int:
        return LEADER_TIMEOUT_MS + rng.below(RANDOM_MS * 5 // 4)


class MoreBeats(Rules):
    """Beats more often."""

    def heartbeat_due_ms(self, rng: Rng) -> int:
        return HEARTBEAT_INTERVAL_MS * 3 // 5


class HalfTicks(Rules):
    """A first due a little earlier."""

    def first_leader_due_ms(self, rng: Rng) -> int:
        return max(0, super().first_leader_due_ms(rng) - TICK_PERIOD_MS)


class SaysItEachTime(Rules):
    """More lines in the trace, and the flip 3-21."""

    def announces(self, *, changed: bool) -> bool:
        return True


class KeepsFormer(Rules):
    """Never asks a former leader for its record; the flip 3-30."""

    def refreshes_former(self) -> bool:
        return False
