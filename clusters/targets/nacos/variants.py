"""The deliberately broken builds, the harmless ones that must raise no alarm, and the flips of claims.

Guarantees: each broken build overrides one rule (`broken`; 25 two, which make one mistake) and is named by its number
(docs/sources.md, planted-bugs; ``plain``: no number). The original is known to be unsafe, so they are bugs of the
profile ``nacos-mended`` and need its knobs. A flip is named ``flip-<source>-<n>`` after its claim (docs/sources.md,
claims); claims that rest on the same rule share a flip's change. Not applicable here:

* 01, 11: a vote is given for a higher term only, so a known term keeps a node from voting twice in it;
* 17: no record of a higher term names its candidate;
* 18, 35, 36, 37: no pre-vote; 47, 49, 51: no leases; 23, 53, 54: no change of members; 58: there is one loop only;
* 12, 14, 40, 42, 44, 56: data is not compared, and carries no terms; 45, 46: what was acknowledged is lost by design
  (NA-B6), so that no run without the bug passes; 27: a node that refuses a leader just campaigns again, won or lost;
* 33, 34: tasks tick from each node's own start, so that equal dues do not meet; 39: no request is repeated in a term.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import Mutant, planted
from dethrone.clusters.targets.nacos import broken
from dethrone.clusters.targets.nacos.knobs import LEADER_TIMEOUT_MS, TICK_PERIOD_MS
from dethrone.clusters.targets.nacos.messages import DatumStamp, State
from dethrone.clusters.targets.nacos.rules import Rules
from dethrone.harness.core.rng import Rng


class _NeverBeats(Rules):
    def beats(self, *, state: State, standalone: bool) -> bool:  # noqa: ARG002
        return False


class _NeverDue(Rules):
    def is_due(self, due_ms: int) -> bool:  # noqa: ARG002
        return False


class _NoOwnVote(Rules):
    def votes_for_itself(self) -> bool:
        return False


class _NoForwarding(Rules):
    def forwards(self) -> bool:
        return False


class _LeaderAloneIsEnough(Rules):
    def publish_majority(self, peers: int) -> int:  # noqa: ARG002
        return 1


class _LoyalFollower(Rules):
    def may_campaign(self, *, leader: str | None) -> bool:
        return leader is None


class _ForgetsTerm(Rules):
    def start_term(self, stored: int) -> int:  # noqa: ARG002
        return 0


class _SlowTasks(Rules):
    def tick_ms(self) -> int:
        return 2 * TICK_PERIOD_MS


class _ShortFirstDue(Rules):
    def first_leader_due_ms(self, rng: Rng) -> int:
        return rng.below(LEADER_TIMEOUT_MS // 2)


class _FixedDue(Rules):
    def leader_due_ms(self, rng: Rng) -> int:  # noqa: ARG002
        return LEADER_TIMEOUT_MS


class _RandomBeats(Rules):
    def heartbeat_due_ms(self, rng: Rng) -> int:
        return super().heartbeat_due_ms(rng) + rng.below(5) * TICK_PERIOD_MS


class _AlwaysWorks(Rules):
    def works(self, *, stop_work: bool, ready: bool) -> bool:  # noqa: ARG002
        return True


class _ResetsAfterwards(Rules):
    def resets_before_campaign(self) -> bool:
        return False


class _KeepsVotes(Rules):
    def clears_votes(self) -> bool:
        return False


class _FailureIsConsent(Rules):
    def counts_failed_call(self) -> bool:
        return True


class _AnswersStrangers(Rules):
    def knows_candidate(self, *, known: bool) -> bool:  # noqa: ARG002
        return True


class _KeepsOwnTerm(Rules):
    def adopts_term(self) -> bool:
        return False


class _DataCounts(Rules):
    def grants(self, *, candidate_term: int, own_term: int, own_items: int) -> bool:
        return candidate_term > own_term and own_items == 0


class _GrantPutsNothingOff(Rules):
    def grant_resets_due(self) -> bool:
        return False


class _EverybodyBeats(Rules):
    def beats(self, *, state: State, standalone: bool) -> bool:  # noqa: ARG002
        return True


class _BareBeats(Rules):
    def stamps(self, held: tuple[DatumStamp, ...]) -> tuple[DatumStamp, ...]:  # noqa: ARG002
        return ()


class _AnySenderLeads(Rules):
    def accepts_sender(self, state: State) -> bool:  # noqa: ARG002
        return True


class _AnyTermBeats(Rules):
    def accepts_term(self, *, own_term: int, sender_term: int) -> bool:  # noqa: ARG002
        return True


class _StaysWhatItWas(Rules):
    def beat_makes_follower(self, state: State) -> bool:  # noqa: ARG002
        return False


class _BeatPutsNothingOff(Rules):
    def beat_resets_dues(self) -> bool:
        return False


class _GoesOn(Rules):
    def stops_at_switch(self) -> bool:
        return False


class _OnlyInMemory(Rules):
    def stores_item(self) -> bool:
        return False


_FLIPS: tuple[tuple[int, str, type[Rules]], ...] = (
    (1, "a leader never beats, so that others campaign against it", _NeverBeats),
    (2, "the time of an election never comes", _NeverDue),
    (3, "a campaign opens without its own vote", _NoOwnVote),
    (4, "followers turn client writes away", _NoForwarding),
    (5, "a write is fine once the leader has it", _LeaderAloneIsEnough),
    (6, "a follower that knows a leader waits for it without limit", _LoyalFollower),
    (7, "a start begins with term 0 regardless of the stored one", _ForgetsTerm),
    (8, "both tasks run every second", _SlowTasks),
    (9, "the first due is drawn from half its range", _ShortFirstDue),
    (10, "a reset due is not random", _FixedDue),
    (11, "a reset beat due is random", _RandomBeats),
    (12, "the tasks continue while the work is stopped", _AlwaysWorks),
    (13, "votes are asked for before the counters are reset", _ResetsAfterwards),
    (14, "a campaign keeps what others supported", _KeepsVotes),
    (15, "a vote call that failed counts as support", _FailureIsConsent),
    (16, "strangers get votes", _AnswersStrangers),
    (17, "an equal term is granted", broken.EqualTermWins),
    (18, "a grant keeps the own term", _KeepsOwnTerm),
    (19, "a node with data grants nothing", _DataCounts),
    (20, "a grant does not put off the own campaign", _GrantPutsNothingOff),
    (21, "the same leader is announced with every answer", broken.SaysItEachTime),
    (22, "half of an even number is a majority", broken.HalfIsEnough),
    (23, "every node beats", _EverybodyBeats),
    (24, "beats say nothing of the items", _BareBeats),
    (25, "beats of nodes that do not lead are accepted", _AnySenderLeads),
    (26, "beats of lower terms are accepted", _AnyTermBeats),
    (27, "an accepted beat leaves a candidate a candidate", _StaysWhatItWas),
    (28, "an accepted beat puts nothing off", _BeatPutsNothingOff),
    (29, "an accepted beat puts nothing off", _BeatPutsNothingOff),
    (30, "a former leader's record is never fetched again", broken.KeepsFormer),
    (31, "the protocol continues after the switch to the new version", _GoesOn),
    (32, "followers keep published items in memory only", _OnlyInMemory),
)


VARIANTS: Mapping[str, Mutant] = {
    **planted(broken),
    **{f"flip-3-{n}": Mutant(says=says, rules=rules) for n, says, rules in _FLIPS},
}
