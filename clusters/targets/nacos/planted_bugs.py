"""The planted bugs that need code, and the harmless builds, which must raise no alarm: one class of broken rules each.

A bug that always answers the same stands on the rule that it breaks, in ``rules``.

Guarantees: each build breaks one rule (25 two, which make one mistake) and is named by its number
(docs/sources.md, planted-bugs; ``plain``: no number). The original is known to be unsafe, so they are bugs of the
profile ``nacos-mended`` and need its knobs. Not applicable here:

* 01, 11: a vote is given for a higher term only, so a known term keeps a node from voting twice in it;
* 17: no record of a higher term names its candidate;
* 18, 35, 36, 37: no pre-vote; 47, 49, 51: no leases; 23, 53, 54: no change of members; 58: there is one loop only;
* 12, 14, 40, 42, 44, 56: data is not compared, and carries no terms; 45, 46: what was acknowledged is lost by design
  (NA-B6), so that no run without the bug passes; 27: a node that refuses a leader just campaigns again, won or lost;
* 33, 34: tasks tick from each node's own start, so that equal dues do not meet; 39: no request is repeated in a term.
"""

# ruff: noqa: ARG002, D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from collections.abc import Callable

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.nacos.knobs import HEARTBEAT_INTERVAL_MS, LEADER_TIMEOUT_MS, RANDOM_MS, TICK_PERIOD_MS
from dethrone.clusters.targets.nacos.messages import State
from dethrone.clusters.targets.nacos.rules import ANSWERED, STORED, Rules
from dethrone.clusters.targets.nacos.storage import Meta
from dethrone.harness.core.rng import Rng

_CURRENT = {"count_current_term_only": "true"}


# --- the stored vote --------------------------------------------------------------------------------------------


@mutant(
    "07-unreadable-means-fresh",
    says="treats an unreadable file as a node that never voted",
    caught_by=(by.VOTE, by.TERM, by.DURABLE),
    needs=STORED,
)
class UnreadableMeansFresh(Rules):
    def loads_meta(self, load: Callable[[], Meta]) -> Meta:
        try:
            return load()
        except Unreadable:
            return Meta()


@mutant(
    "10-resumes-leadership",
    says="leads after a restart in a term in which it voted for itself",
    caught_by=(by.MAJORITY, by.LEADER),
    needs=STORED,
)
class ResumesLeadership(Rules):  # A node that voted for itself leads after a restart
    def start_state(self, meta: Meta, *, me: str) -> State:
        return "LEADER" if meta.vote_for == me else "FOLLOWER"


# --- counting ---------------------------------------------------------------------------------------------------


@mutant(
    "16-counts-older-term", says="counts records of earlier terms", caught_by=(by.LEADER, by.MAJORITY), needs=_CURRENT
)
class CountsOlderTerm(Rules):
    def counts(self, record_term: int, *, own_term: int) -> bool:
        return record_term <= own_term


@mutant(
    "21-majority-of-responders",
    says="is elected by a majority of those who answered",
    caught_by=(by.MAJORITY, by.LEADER),
    needs=_CURRENT,
)
class MajorityOfResponders(Rules):
    def wins(self, best: int, *, peers: int, counted: int) -> bool:
        return best >= counted // 2 + 1


@mutant(
    "22-half-is-enough",
    says="counts half of an even number as a majority",
    caught_by=(by.LEADER, by.MAJORITY),
    nodes_min=4,
)
class HalfIsEnough(Rules):
    def majority(self, peers: int) -> int:
        return (peers + 1) // 2


@mutant("plain-wants-every-vote", says="is elected only with the votes of all members", caught_by=(by.OWED,))
class WantsEveryVote(Rules):  # Elected only with the votes of all members
    def wins(self, best: int, *, peers: int, counted: int) -> bool:
        return best >= peers


@mutant("plain-votes-twice", says="votes for every candidate of a term", caught_by=(by.VOTE, by.LEADER), needs=STORED)
class EqualTermWins(Rules):  # Votes for every candidate of a term
    def grants(self, *, candidate_term: int, own_term: int, own_items: int) -> bool:
        return candidate_term >= own_term


# --- terms and leaders ------------------------------------------------------------------------------------------


@mutant("25-term-may-fall", says="adopts the lower term of a beat", caught_by=(by.TERM,), needs=STORED)
class TermMayFall(Rules):  # Follows any sender of a beat, down as well as up
    def accepts_term(self, *, own_term: int, sender_term: int) -> bool:
        return True

    def term_after_beat(self, own_term: int, sender_term: int) -> int:
        return sender_term


@mutant("28-never-steps-down", says="keeps leading without a majority", caught_by=(by.STEP_DOWN,), needs=ANSWERED)
class NeverStepsDown(Rules):
    def campaigns_as(self, state: State) -> bool:
        return state != "LEADER"


# --- harmless ---------------------------------------------------------------------------------------------------


@mutant("harmless-longer-jitter", says="draws its dues from a wider range")
class LongerJitter(Rules):
    def leader_due_ms(self, rng: Rng) -> int:
        return LEADER_TIMEOUT_MS + rng.below(RANDOM_MS * 5 // 4)


@mutant("harmless-more-beats", says="beats more often")
class MoreBeats(Rules):
    def heartbeat_due_ms(self, rng: Rng) -> int:
        return HEARTBEAT_INTERVAL_MS * 3 // 5


@mutant("harmless-early-start", says="begins one tick earlier")
class HalfTicks(Rules):  # A first due a little earlier
    def first_leader_due_ms(self, rng: Rng) -> int:
        return max(0, super().first_leader_due_ms(rng) - TICK_PERIOD_MS)
