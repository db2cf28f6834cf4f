"""zab: ZooKeeper's atomic broadcast with fast leader election, as real processes. One profile, ``zab``.

All of safety is promised: nothing of it hangs on time. Not promised: linearizable reads (they are local), and a leader
where messages are lost, for each loss ends a connection. A leader that is cut off leaves after syncLimit + 1 ticks, but
a connection that is still being synced counts as heard for initLimit more, so that is what is promised.

Sources of the promise: Junqueira, Reed, Serafini, "Zab: High-performance broadcast for primary-backup systems", DSN
2011; Apache ZooKeeper's sources (FastLeaderElection, Leader, Learner) and their limits in ticks.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems.target import ANY_NUMBER, TargetSystem, check_voters
from dethrone.clusters.targets.zab.knobs import KNOBS, ZabKnobs
from dethrone.clusters.targets.zab.rules import LEADING
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import Reading, RunDefaults
from dethrone.harness.core.planted import ExamPlan
from dethrone.harness.core.promise import Promise, noise_limit_ns

ALLOWANCE_NS = 200 * MS
DELAY_NS = 20 * MS
ROUNDS_MAX = 10
LOSS_PERCENT = 0
RPC_TIMEOUT_NS = 100 * MS

EXAM_RATE_PER_S = 40

QUICK: Mapping[str, str] = {
    "tick_time_ms": "200",
    "finalize_wait_ms": "100",
    "min_notification_interval_ms": "100",
    "max_notification_interval_ms": "1000",
}
"""Ticks of a tenth of the sample configuration's, and votes repeated every second at least: ZooKeeper's minute would
hide every other wait."""


class ZabSystem(TargetSystem):
    """See ``dethrone.harness.core.interfaces.System``."""

    name = "zab"
    knob_table = KNOBS
    tells_disk = True

    def profiles(self) -> Mapping[str, str]:
        """One."""
        return {"zab": "fast leader election, discovery, synchronization and broadcast of ZooKeeper"}

    def defaults(self) -> RunDefaults:
        """Quick ticks, so that every hold and every gap is longer than the promised bound."""
        return RunDefaults(
            faults=("partition", "kill", "restart", "pause", "clock"),
            workload="log",
            nemesis_interval_ns=8 * SECOND,
            time_limit_ns=90 * SECOND,
            settings=QUICK,
        )

    def exam(self) -> ExamPlan:
        """More writes than the workload's own: much of what breaks needs some under way."""
        return msgspec.structs.replace(super().exam(), rates_per_s=(EXAM_RATE_PER_S,))

    def rpc_timeout_ns(self, typed: ZabKnobs) -> Ns:
        """A connect: the core waits for nothing by itself."""
        return min(RPC_TIMEOUT_NS, typed.sync_ns)

    def interpreted(self, found: Reading, knobs: Mapping[str, str]) -> Reading:
        """A leader that was only nominated leads nothing yet."""
        del knobs
        return msgspec.structs.replace(found, leads=found.role == LEADING)

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        typed: ZabKnobs = self.typed(knobs, profile=profile)
        silence = typed.sync_ns + typed.tick_time
        bound = _leader_bound(typed)
        return Promise(
            system=self.name,
            profile=profile,
            source="DSN 2011; Apache ZooKeeper: FastLeaderElection, Leader, Learner",
            election_timeout_ns=silence,
            heartbeat_ns=typed.tick_time // 2,
            leader_bound_ns=bound,
            later_gap_ns=bound,
            step_down_ns=typed.init_ns + silence + DELAY_NS + ALLOWANCE_NS,
            converge_ns=bound,
            rounds_max=ROUNDS_MAX,
            loss_percent_max=LOSS_PERCENT,
            tiers=("T1", "T2"),
            tolerates=ANY_NUMBER,
            leader_bound_to_term=True,
            linearizable_reads=False,
            pre_vote=False,
            delay_max_ns=DELAY_NS,
            noise_max_ns=noise_limit_ns(silence),
        )


def _leader_bound(knobs: ZabKnobs) -> Ns:
    """The longest wait before a vote is repeated, the quiet time, and two waits of discovery and synchronization."""
    return knobs.max_notification_interval + knobs.finalize_wait + 2 * knobs.init_ns + ALLOWANCE_NS


SYSTEM = ZabSystem()
