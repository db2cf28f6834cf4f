"""paxos: basic Paxos, repeated instance by instance, as real processes. No node leads; ``paxos-election`` adds epochs.

What is promised is agreement, that acknowledged writes of the log survive, and that an acceptor's disk holds what it
answered. All stay promised under knobs that break a rule (``persist``, ``id_scheme``, ``accept_rule=ge_literal``): that
is how a known-bad setting fails. Nothing about leaders is promised, for Paxos has none. With epochs, each has one
leader, elected by a majority, and one is owed in time unless proposers do not back off.

Source of the promise: Lamport, "Paxos Made Simple", 2001; progress needs one undisturbed proposer (Fischer, Lynch,
Paterson, 1985), so the bound, in silences and phases, is from simulation of the profile.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems.target import ANY_NUMBER, TargetSystem, check_voters
from dethrone.clusters.targets.paxos.knobs import KNOBS, PaxosKnobs
from dethrone.clusters.targets.paxos.storage import FILE
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import Reading, RunDefaults
from dethrone.harness.core.planted import ExamPlan
from dethrone.harness.core.promise import LIVENESS, NotPromised, Promise, noise_limit_ns
from dethrone.harness.core.quorum import quorum

ALLOWANCE_NS = 200 * MS
"""Round trips and fsyncs of containers on a shared machine."""

SILENCES, PHASES = 4, 4
"""The bound in longest silences and in phases: a dead leader, a dead winner, and a duel after each. In 1,250 simulated
runs of the honest build no gap was longer."""

LOSS_PERCENT = 10
"""No leader is owed over links that lose more: each message goes once, and a decision takes two phases of a question
and an answer with every one of a bare majority. At 30 % and with three of five left one try in seventeen succeeds."""

EXAM_CROWD_PER_S = 100

DAMAGE_SEEN: Mapping[str, int | None] = dict.fromkeys((f"damage:{FILE}:flipped", f"damage:{FILE}:unreadable"))
"""The records have checksums, and a node that cannot read them stays down: that costs an acceptor, never a promise.
Records cut off between two others look like records that were never written."""

_NO_LEADER = NotPromised("Paxos has no leader")
_ACCEPTS_AGAIN = NotPromised("an acceptor may accept several proposals of one instance; agreement says what must hold")
_LEARNT_AGAIN = NotPromised("the epoch that a node knows is learnt, not stored: after a restart it is learnt again")
_NO_LOG_ENDS = NotPromised(
    "instances are decided one by one, in any order: there is no log end and no commit index to compare",
    "not observable",
)
_NO_ROUNDS = NotPromised(
    "contenders do not vote for themselves term by term: rounds cannot be counted", "not observable"
)
_NEVER_NOTICES = NotPromised("the leader of an epoch stays it until the next epoch is decided, noticed by it or not")
_DUELS = NotPromised("without back-off two proposers may outbid each other for ever (PX-B2)")


class PaxosSystem(TargetSystem):
    """See ``dethrone.harness.core.interfaces.System``."""

    name = "paxos"
    knob_table = KNOBS
    tells_log = False
    tells_vote = False
    tells_disk = True
    served = frozenset({"propose", "learn", "append", "add", "read", "put", "get", "cas"})

    def profiles(self) -> Mapping[str, str]:
        """The one with epochs first: without leaders there is no liveness to judge yet, so a run stays unknown."""
        return {
            "paxos-election": "values decided by instance, a log of them, and instance -k decides who leads epoch k",
            "paxos": "the same without epochs; no node leads",
        }

    def defaults(self) -> RunDefaults:
        """Contended instances under everything that it bears."""
        return RunDefaults(
            faults=("partition", "kill", "restart", "pause"),
            workload="agreement",
            nemesis_interval_ns=5 * SECOND,
            time_limit_ns=60 * SECOND,
        )

    def exam(self) -> ExamPlan:
        """Also four acceptors, clocks and damaged files; and many clients, so that proposers meet in an instance."""
        plan = super().exam()
        return msgspec.structs.replace(
            plan,
            nodes=(3, 5, 4),
            faults=(*plan.faults, "clock", "damage"),
            rates_per_s=(None, EXAM_CROWD_PER_S),
        )

    def rpc_timeout_ns(self, typed: PaxosKnobs) -> Ns:
        """Half a phase: a phase is one call and its answer."""
        return max(typed.phase_timeout // 2, 20 * MS)

    def interpreted(self, found: Reading, knobs: Mapping[str, str]) -> Reading:
        """Without epochs, the node that a value names leads nothing."""
        if knobs.get("election") == "true":
            return found
        return msgspec.structs.replace(found, leads=False, leader=None)

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        typed: PaxosKnobs = self.typed(knobs, profile=profile)
        silence = typed.heartbeat_timeout_max
        bound = SILENCES * silence + PHASES * typed.phase_timeout + ALLOWANCE_NS
        return Promise(
            system=self.name,
            profile=profile,
            source='Lamport, "Paxos Made Simple" (2001); the bound from simulation of the profile',
            election_timeout_ns=silence,
            noise_max_ns=noise_limit_ns(silence),
            heartbeat_ns=typed.heartbeat_interval,
            leader_bound_ns=bound,
            later_gap_ns=bound,
            tiers=("T1", "T2") if typed.election else (),
            exempt=_exempt(typed),
            tolerates={**ANY_NUMBER, **DAMAGE_SEEN},
            leaderless=not typed.election,
            leader_bound_to_term=typed.election,
            leader_serves=False,  # it first decides, one after another, what others began: that takes as long as it is
            linearizable_reads=True,
            pre_vote=False,
            loss_percent_max=LOSS_PERCENT,
            quorum=quorum(typed.acceptors or voters),
        )


def _exempt(knobs: PaxosKnobs) -> dict[str, NotPromised]:
    out = dict.fromkeys(
        ("one-leader-per-term", "one-vote-per-term", "term-never-decreases", "leader-has-majority", *LIVENESS),
        _NO_LEADER,
    )
    out.update(dict.fromkeys(("leader-completeness", "log-matching", "commit-never-regresses"), _NO_LOG_ENDS))
    out.update(dict.fromkeys(("lease-exclusion", "members-only"), _NO_LEADER))
    if not knobs.election:
        return out
    for name in ("one-leader-per-term", "leader-has-majority", "members-only", "leader-when-owed"):
        del out[name]
    out["one-vote-per-term"] = _ACCEPTS_AGAIN
    out["term-never-decreases"] = _LEARNT_AGAIN
    out["no-livelock"] = _NO_ROUNDS
    for name in ("step-down-without-quorum", "convergence-after-heal", "leader-stability"):
        out[name] = _NEVER_NOTICES
    if knobs.backoff == "none":
        out["leader-when-owed"] = _DUELS
    return out


SYSTEM = PaxosSystem()
