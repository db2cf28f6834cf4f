"""joyqueue: JoyQueue's RaftLeaderElection, as real processes. Profiles for the original, starved and mended.

The known weaknesses among the safety properties (JQ-B1, JQ-B2: a node that no one elected leads) stay promised, for
every system owes safety: they are what makes ``joyqueue-starved`` fail. Without late send tasks they cannot happen.
Not promised are what the original does not have: a leader that steps down without a quorum (JQ-B5), and a leader that
pre-votes protect (JQ-B4).

Damaged metadata are tolerated: a node that cannot read them stays down. A damaged log is not: entries cut off its end
look like entries that were never written.

T is ``election_timeout_ms``; an election timer runs for T to 2 T. Reads go through the log by default, so they are as
linearizable as leaders are single.

Source of the promise: specification of JoyQueue's ``RaftLeaderElection``, §6: failover in T to 2 T, 5 s + T to 2 T more
for each lost campaign.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems.target import ANY_NUMBER, TargetSystem, check_voters
from dethrone.clusters.targets.joyqueue.knobs import KNOBS, Knobs
from dethrone.clusters.targets.joyqueue.rules import members_of
from dethrone.clusters.targets.joyqueue.storage import METADATA, group_names
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import RunDefaults
from dethrone.harness.core.planted import ExamPlan
from dethrone.harness.core.promise import NotPromised, Promise, noise_limit_ns
from dethrone.harness.core.quorum import quorum

ELECTIONS = 4
"""B in units of the longest election timeout: one failover and two lost campaigns, with room."""

ALLOWANCE_NS = 200 * MS
LATE_TASKS = 3
"""How many late send tasks in a row an election may meet."""

ROUNDS_MAX = 10
"""Pre-vote rounds in a row that may fail while all nodes hear each other."""

SPLIT_WINDOW_NS = 30 * MS
"""From one node's expiry until its vote request keeps another from expiring: three messages and a write."""

LOSS_PERCENT = 0
"""Each request of an election goes once, over a connection that loses nothing: one that is lost all the same costs its
campaign."""

EXAM_TIME_FACTOR = "0.05"
EXAM_INTERVALS_NS = (1300 * MS, 5 * SECOND)
EXAM_SELDOM_PER_S = 3

DELAYS = 50
"""How many one-way delays fit into the longest election timeout: an election takes ten, with its writes."""

_SOURCE = "specification of JoyQueue's RaftLeaderElection, §6; B is four of its longest election timeouts"


class JoyQueueSystem(TargetSystem):
    """See ``dethrone.harness.core.interfaces.System``."""

    name = "joyqueue"
    knob_table = KNOBS
    tells_disk = True
    served = frozenset({"append", "add", "read", "put", "get", "cas"})

    def profiles(self) -> Mapping[str, str]:
        """The original first."""
        return {
            "joyqueue": "as JoyQueue does it, with its two coding oddities, which need late send tasks to show",
            "joyqueue-starved": "the same with an exhausted thread pool: leaders that were not elected",
            "joyqueue-mended": "both oddities mended; a deaf leader still stays, a healed follower still deposes",
        }

    def voters(self, nodes: tuple[str, ...], knobs: Mapping[str, str], *, profile: str) -> tuple[str, ...]:
        """All nodes but the learners."""
        typed: Knobs = self.typed(knobs, profile=profile)
        return members_of(nodes, typed.learners)

    def defaults(self) -> RunDefaults:
        """Timers at a tenth, with the log workload."""
        return RunDefaults(
            faults=("partition", "kill", "pause", "restart"),
            workload="log",
            nemesis_interval_ns=5 * SECOND,
            time_limit_ns=60 * SECOND,
            settings={"time_factor": "0.1"},
        )

    def exam(self) -> ExamPlan:
        """Clusters of an even size, too, and clocks besides the default run's faults.

        At a twentieth of the timers: a fault that is held for seconds outlasts B, and one of a second an election. With
        few operations, a leader may have none of its own term for a while.
        """
        plan = super().exam()
        return msgspec.structs.replace(
            plan,
            nodes=(3, 5, 4),
            faults=(*plan.faults, "clock", "damage"),
            intervals_ns=EXAM_INTERVALS_NS,
            rates_per_s=(None, EXAM_SELDOM_PER_S),
            settings={**plan.settings, "time_factor": EXAM_TIME_FACTOR},
        )

    def rpc_timeout_ns(self, typed: Knobs) -> Ns:
        """A quarter of a heartbeat period: a slower connect is retried, well within an election timeout.

        ``send_command_timeout_ms`` is the patience with answers, which the core itself has.
        """
        return max(typed.ns(typed.heartbeat_timeout_ms) // 4, 50 * MS)

    def several_groups(self, knobs: Mapping[str, str]) -> bool:
        """Whether the knob asks for more than one."""
        return knobs.get("groups", "1") != "1"

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        typed: Knobs = self.typed(knobs, profile=profile)
        longest = 2 * typed.ns(typed.election_timeout_ms)
        late = LATE_TASKS * typed.ns(typed.task_delay_max_ms + max((d.ms for d in typed.defer_task), default=0))
        lost = max(0, typed.ns(typed.vote_timeout_ms - typed.election_timeout_ms))
        bound = ELECTIONS * (longest + lost) + late + ALLOWANCE_NS
        return Promise(
            system=self.name,
            profile=profile,
            source=_SOURCE,
            election_timeout_ns=longest,
            noise_max_ns=noise_limit_ns(longest),
            heartbeat_ns=typed.ns(typed.heartbeat_timeout_ms),
            leader_bound_ns=bound,
            later_gap_ns=bound,
            step_down_ns=None,
            converge_ns=bound + typed.ns(typed.send_command_timeout_ms + typed.heartbeat_timeout_ms),
            rounds_max=ROUNDS_MAX,
            split_vote_percent=_split_votes(typed, voters),
            tiers=("T1", "T2"),
            exempt=_EXEMPT,
            tolerates={**ANY_NUMBER, **{f"damage:{name}/{METADATA}": None for name in group_names(typed.groups)}},
            leader_bound_to_term=True,
            linearizable_reads=typed.reads == "log",
            pre_vote=True,
            delay_max_ns=max(MS, longest // DELAYS),
            loss_percent_max=LOSS_PERCENT,
        )


def _split_votes(knobs: Knobs, voters: int) -> int:
    """The chance that, of as many voters as a majority has, a second one's timer expires within the window of the
    first: 1 − (1 − window / T)^q, in percent, upwards. Late send tasks widen the window."""
    spread = knobs.ns(knobs.election_timeout_ms)
    late = 2 * knobs.ns(knobs.task_delay_max_ms + max((d.ms for d in knobs.defer_task), default=0))
    everything = apart = 1
    for _ in range(quorum(voters)):
        everything *= spread
        apart *= max(0, spread - SPLIT_WINDOW_NS - late)
    return -(-100 * (everything - apart) // everything)


_EXEMPT: Mapping[str, NotPromised] = {
    "step-down-without-quorum": NotPromised(
        "a leader does not count the answers to heartbeats: once cut off, it calls itself leader without limit (JQ-B5)"
    ),
    "leader-stability": NotPromised(
        "a pre-vote is granted by the log alone, even under a leader: a follower that returns, or misses one link, "
        "deposes a working leader while no new entries are written (JQ-B4)"
    ),
}

SYSTEM = JoyQueueSystem()
