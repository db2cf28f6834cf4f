"""dledger: the leader election and log of RocketMQ DLedger, as real processes.

H is the heartbeat period. The safety properties stay promised under all knobs: that is how ``persist_mode``,
``ledger_end_term``, ``commit_own_term_only``, ``push_checks_leader`` and ``fsync`` fail. The known weaknesses of the
election among the other properties are not promised: a lagging node with a higher term never comes back (DL-B1), one
with an equal log deposes a healthy leader (DL-B2), an immediate vote after a raised term finds no leader (DL-B7). With
the wall clock, clock steps are not tolerated (DL-B5): what they cost in progress is excused, and safety is claimed all
the same, for votes and commits count terms and indexes, never times. A damaged term file is tolerated where its node
then stays down (``persist_mode=atomic``), a damaged log never: it is cut silently. Reads are local to the leader.

Source of the promise: the rules of DLedger 0.2.7, and simulation of this target: a dead leader is replaced within 6.9 s
(connections refused) or 11.2 s (black-holed), behind a half-open link within 12.6 s; a leader that is cut off steps
down 4 to 6 s later.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems.target import ANY_NUMBER, TargetSystem, check_voters, in_proportion
from dethrone.clusters.targets.dledger.knobs import KNOBS, DledgerKnobs
from dethrone.clusters.targets.dledger.storage import TERM
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import RunDefaults
from dethrone.harness.core.planted import ExamPlan
from dethrone.harness.core.promise import NotPromised, Promise, noise_limit_ns

ALLOWANCE_NS = 200 * MS
"""Round trips and fsyncs of containers on a shared machine."""

IN_VAIN = 5
"""Lost campaigns that B leaves room for. With a peer silent each waits in full, and where all survivors are needed, two
that stand at once both lose: in simulation, one in a hundred elections takes two, one in a thousand three."""

ROUNDS_MAX = 12
SPLIT_VOTE_PERCENT = 40
"""Delays are drawn from 700 ms, a round trip is far below that."""

USUAL_PERIOD_NS = 2 * SECOND
DELAY_NS = 20 * MS
LOSS_PERCENT = 0
"""Calls go once, over a connection that loses nothing. Where single messages are lost, a campaign waits in full for a
lost answer; and each gap of a pipeline of pushes takes a second until it is reported and up to three until the logs are
compared, while clients get "unknown" after 2.5 s: entries commit, yet hardly a write is acknowledged."""

CALL_LIMIT_NS = 500 * MS

EXAM_TIME_FACTOR = "0.05"
EXAM_NODES = (3, 5, 3, 4)
"""Three more often: there each node that is away counts, and leaders follow one another soonest."""

EXAM_INTERVALS_NS = (1 * SECOND, 1500 * MS, 3 * SECOND)

_SOURCE = "DLedger 0.2.7 (leader elector, entry pusher); bounds from simulation of the election rules"


class DledgerSystem(TargetSystem):
    """See ``dethrone.harness.core.interfaces.System``."""

    name = "dledger"
    knob_table = KNOBS
    tells_disk = True

    def profiles(self) -> Mapping[str, str]:
        """The safer reading first."""
        return {
            "dledger": "the election of DLedger 0.2.7 over a durable term file and a safe log",
            "dledger-mended": "and: larger terms outweigh a majority, monotonic clock, a blank entry at each election",
            "dledger-upstream": "as release 0.2.7 does it: nothing synced, old terms committed by counting",
        }

    def defaults(self) -> RunDefaults:
        """At a tenth of the timers, so that elections fit into a minute; the blank entry lets reads be served."""
        return RunDefaults(
            faults=("partition", "kill", "pause"),
            workload="log",
            nemesis_interval_ns=5 * SECOND,
            time_limit_ns=60 * SECOND,
            settings={"time_factor": "0.1", "noop_on_elect": "true"},
        )

    def exam(self) -> ExamPlan:
        """Clusters of an even size, too. At a twentieth of the timers: a fault of a second outlasts an election."""
        plan = super().exam()
        return msgspec.structs.replace(
            plan,
            nodes=EXAM_NODES,
            faults=(*plan.faults, "restart", "damage"),
            intervals_ns=EXAM_INTERVALS_NS,
            settings={**plan.settings, "time_factor": EXAM_TIME_FACTOR},
        )

    def rpc_timeout_ns(self, typed: DledgerKnobs) -> Ns:
        """A quarter of a heartbeat period; between 50 and 500 ms."""
        return min(CALL_LIMIT_NS, max(50 * MS, typed.heart_beat_interval // 4))

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        typed: DledgerKnobs = self.typed(knobs, profile=profile)
        period = typed.heart_beat_interval
        patience = max(2, typed.max_heart_beat_leak) * period
        longest_wait = typed.vote_wait + typed.max_vote_interval
        bound = patience + IN_VAIN * (longest_wait + 2 * typed.max_vote_interval) + 2 * period + ALLOWANCE_NS
        if typed.has_leader_delay == "leak":
            bound += 2 * patience
        safe_under = dict(ANY_NUMBER)
        if typed.persist_mode == "atomic":
            safe_under[f"damage:{TERM}"] = None
        tolerates = {kind: most for kind, most in safe_under.items() if kind != "clock" or typed.clock != "wall"}
        mended = typed.leader_checks_max_term_first
        return Promise(
            system=self.name,
            profile=profile,
            source=_SOURCE,
            election_timeout_ns=patience,
            heartbeat_ns=period,
            leader_bound_ns=bound,
            later_gap_ns=bound,
            step_down_ns=patience + period + 4 * typed.loop_period + ALLOWANCE_NS,
            converge_ns=bound + patience + typed.compare_time_out + typed.push_retry if mended else None,
            rounds_max=ROUNDS_MAX,
            split_vote_percent=SPLIT_VOTE_PERCENT,
            tiers=("T1", "T2"),
            exempt=_exempt(typed),
            tolerates=tolerates,
            safe_under=safe_under,
            leader_bound_to_term=True,
            linearizable_reads=False,
            pre_vote=False,
            delay_max_ns=in_proportion(DELAY_NS, timer_ns=period, usual_timer_ns=USUAL_PERIOD_NS, least_ns=MS),
            loss_percent_max=LOSS_PERCENT,
            noise_max_ns=noise_limit_ns(patience),
        )


def _exempt(knobs: DledgerKnobs) -> dict[str, NotPromised]:
    out = {
        "leader-stability": NotPromised(
            "a node that returns with a raised term and an equal log deposes a healthy leader once (DL-B2); this is"
            " rare, for an isolated node keeps its term"
        )
    }
    if not knobs.leader_checks_max_term_first:
        out["convergence-after-heal"] = NotPromised(
            "a leader with a majority of successes looks at no larger term, and voters compare logs before terms: a"
            " lagging node with a higher term stays a candidate for ever (DL-B1)"
        )
    if knobs.flag_handling == "immediate":
        out["leader-when-owed"] = out["no-livelock"] = NotPromised(
            "with flag_handling=immediate a peer votes for itself in every term that it raised, before it can be asked"
            " again: terms climb and no node wins (DL-B7)"
        )
    return out


SYSTEM = DledgerSystem()
