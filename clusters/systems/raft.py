"""raft: textbook Raft with switchable rules, as real processes. Profiles ``raft`` and ``raft-paper``.

E is the longest election timeout, A an allowance for round trips and fsyncs. The safety properties stay promised under
knobs that break a rule (``persist``, ``log_check`` …): so a known-bad target fails. Liveness follows the knobs.

Sources of the promise: Ongaro, Ousterhout, "In search of an understandable consensus algorithm", 2014; Ongaro, thesis,
6.2 (check-quorum), 6.4 (reads), 9.6 (pre-vote); the bounds of 10 and 12 E, and of rounds in a row, from simulation of
the two profiles; split votes from the spacing of uniform deadlines, checked against simulation.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems.operations import (
    GUARD_OPERATIONS,
    LOCK_OPERATIONS,
    MEMBER_OPERATIONS,
    OPERATIONS,
    TRANSACTIONS,
    TRANSFERS,
)
from dethrone.clusters.systems.target import ANY_NUMBER, TargetSystem, check_voters, in_proportion
from dethrone.clusters.targets.raft.knobs import KNOBS, RaftKnobs
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import RunDefaults
from dethrone.harness.core.planted import ExamPlan
from dethrone.harness.core.promise import NotPromised, Promise, Tier, noise_limit_ns

ALLOWANCE_NS = 200 * MS
"""A before anything was measured: containers on a shared machine, two of their larger round trips and fsyncs."""

ELECTIONS_WITH_PRE_VOTE = 10
ELECTIONS_WITHOUT = 12
"""B in units of E. Without pre-vote, nodes that cannot win still raise terms and spoil others' campaigns."""

ROUNDS_WITH_PRE_VOTE = 10
ROUNDS_WITHOUT = 12
"""Rounds in a row that a voter may campaign and lose. Of 18,500 honest terms with messages of 5 to 20 ms, or 30 % of
them lost, the longest row was 5, and each further round was five to six times rarer."""

SPLIT_WINDOW_NS = 10 * MS
"""What may pass between a voter's deadline and the arrival of its request at the others, beyond which two of them do
not stand in one term. An honest build splits one term in a hundred at 1 to 3 ms a message, 5 to 8 at 5 to 20 ms; one
without jitter, or with the same jitter everywhere, splits more than half."""

USUAL_TIMEOUT_NS = 300 * MS
DELAY_NS = 20 * MS

EXAM_OFTEN_PER_S, EXAM_SELDOM_PER_S = 30, 2
"""Operations: often enough to meet the short gaps of an election; and so seldom that a node that is cut off is not
behind at once, as under load, and may win an election that it should not ask for."""

DAMAGED_VOTE: Mapping[str, int | None] = {"damage:vote": None}
"""The vote file is checksummed, and a node that cannot read it stays down: that costs a node, never a second vote.
Damage of the log is not borne: entries cut off between two others look like entries that were never written."""

_SOURCE = "Raft paper (2014); thesis 6.2, 6.4, 9.6; bounds in election timeouts from simulation of the profile"


class RaftSystem(TargetSystem):
    """See ``dethrone.harness.core.interfaces.System``."""

    name = "raft"
    knob_table = KNOBS
    served = OPERATIONS | LOCK_OPERATIONS | GUARD_OPERATIONS | MEMBER_OPERATIONS | TRANSACTIONS | TRANSFERS
    enabled_by: Mapping[str, Mapping[str, str]] = {"transfer": {"transfer": "on"}}
    tells_disk = True

    def profiles(self) -> Mapping[str, str]:
        """The gate first."""
        return {
            "raft": "pre-vote, check-quorum, stickiness, no-op and read-index on",
            "raft-paper": "the paper's rules only: an isolated leader never steps down, a healed node deposes",
        }

    def defaults(self) -> RunDefaults:
        """Everything but restarts, with the log workload."""
        return RunDefaults(
            faults=("partition", "kill", "pause", "clock"),
            workload="log",
            nemesis_interval_ns=5 * SECOND,
            time_limit_ns=60 * SECOND,
        )

    def exam(self) -> ExamPlan:
        """Logs, leases and changes of members in turn, often and seldom, faults in haste and with room between them."""
        plan = super().exam()
        return msgspec.structs.replace(
            plan,
            workloads=("log", "lease", "membership"),
            rates_per_s=(EXAM_OFTEN_PER_S, EXAM_SELDOM_PER_S),
            faults=(*plan.faults, "restart", "damage"),
            intervals_ns=(1 * SECOND, plan.intervals_ns[-1] * 9 // 10),
            time_limit_ns=120 * SECOND,  # of a minute with room between faults what each kind owes takes two thirds
            settings={**plan.settings, "membership": "single_server"},
        )

    def rpc_timeout_ns(self, typed: RaftKnobs) -> Ns:
        """The knob of that name."""
        return typed.rpc_timeout

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        typed: RaftKnobs = self.typed(knobs, profile=profile)
        longest, heartbeat = typed.election_timeout_max, typed.heartbeat_interval
        elections = ELECTIONS_WITH_PRE_VOTE if typed.pre_vote else ELECTIONS_WITHOUT
        bound = elections * longest + ALLOWANCE_NS
        return Promise(
            system=self.name,
            profile=profile,
            source=_SOURCE,
            election_timeout_ns=longest,
            heartbeat_ns=heartbeat,
            leader_bound_ns=bound,
            later_gap_ns=bound,
            step_down_ns=_step_down(typed),
            converge_ns=bound,
            rounds_max=ROUNDS_WITH_PRE_VOTE if typed.pre_vote else ROUNDS_WITHOUT,
            split_vote_percent=_split_votes(typed, voters),
            tiers=_tiers(typed),
            exempt=_exempt(typed),
            tolerates={**ANY_NUMBER, **DAMAGED_VOTE},
            leader_bound_to_term=True,
            linearizable_reads=typed.reads != "local",
            pre_vote=typed.pre_vote,
            drift_ppm_max=int((typed.clock_drift_bound - 1) * 1_000_000),
            delay_max_ns=_grown(DELAY_NS, longest),
            noise_max_ns=noise_limit_ns(longest),
        )


def _grown(allowance: Ns, longest: Ns) -> Ns:
    """With the election timeout, where that is longer than the paper's."""
    return in_proportion(allowance, timer_ns=longest, usual_timer_ns=USUAL_TIMEOUT_NS, least_ns=allowance)


def _tiers(knobs: RaftKnobs) -> tuple[Tier, ...]:
    """T3 and T5 take both rules: pre-vote alone lets a deaf leader stand, check-quorum alone lets terms run away."""
    return ("T1", "T2", "T3", "T5") if knobs.pre_vote and knobs.check_quorum else ("T1", "T2")


def _step_down(knobs: RaftKnobs) -> Ns | None:
    """Window + heartbeat + one message after the last answered round was sent, and the allowance."""
    if not knobs.check_quorum:
        return None
    return knobs.check_quorum_window + knobs.heartbeat_interval + DELAY_NS + ALLOWANCE_NS


def _split_votes(knobs: RaftKnobs, voters: int) -> int:
    """The chance that, of as many voters as a majority has, a second one's deadline passes within the window of the
    first: 1 − (1 − window / spread)^q for deadlines drawn uniformly from the spread. In percent, upwards."""
    spread = max(1, knobs.election_timeout_max - knobs.election_timeout_min)
    everything = apart = 1
    for _ in range(voters // 2 + 1):
        everything *= spread
        apart *= max(0, spread - SPLIT_WINDOW_NS)
    return -(-100 * (everything - apart) // everything)


def _exempt(knobs: RaftKnobs) -> dict[str, NotPromised]:
    out: dict[str, NotPromised] = {}
    if not knobs.check_quorum:
        out["step-down-without-quorum"] = NotPromised(
            "without check-quorum an isolated leader reports that it leads, in its old term, without limit (RF-B5); "
            "the Raft paper has no such rule"
        )
    if not knobs.pre_vote:
        out["leader-stability"] = NotPromised(
            "without pre-vote the raised term of a healed or restarted node deposes a healthy leader once (RF-B6)"
        )
    elif not (knobs.prevote_leader_check and knobs.check_quorum):
        out["leader-stability"] = NotPromised(
            "pre-votes are granted despite a working leader without prevote_leader_check and check_quorum (RX-B5)"
        )
    return out


SYSTEM = RaftSystem()
