"""nacos: the naming "Raft" of Nacos 1.4.1, as real processes: known to be unsafe; ``nacos-mended`` mends four rules.

The known weaknesses among the safety properties stay promised, for every system owes safety: they are what makes it
fail. The others are not promised. Only what its channels can show is judged: there is no log of terms and indexes
behind its items, and what a record calls ``voteFor`` is also set by beats, so a polled one is no vote.

Source of the promise: specification of the Nacos 1.4.1 naming Raft, §6, and its bounds (60 s times the factor).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems.target import ANY_NUMBER, TargetSystem, check_voters
from dethrone.clusters.targets.nacos.knobs import (
    HEARTBEAT_INTERVAL_MS,
    KNOBS,
    LEADER_TIMEOUT_MS,
    PUBLISH_TIMEOUT_MS,
    RANDOM_MS,
    TICK_PERIOD_MS,
    Knobs,
)
from dethrone.clusters.targets.nacos.storage import META
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import RunDefaults
from dethrone.harness.core.planted import ExamPlan
from dethrone.harness.core.promise import NotPromised, Promise, noise_limit_ns

LEADER_BOUND_MS = 60_000
"""Cold start, a leader's death and a split in a row: 15.5 + 20.5 + 20.5 s, before scaling."""

SPLITS_MAX = 6
"""Dues are drawn from 5 s and run out on ticks of 500 ms. Nodes that were started together tick together: then two of
three share the first of ten ticks, and split the vote, in one round of seven. More in a row than this are a chance
below one in a million."""

LOSS_PERCENT = 0
"""No leader is owed over links that lose requests: each is sent once a round, and a round lasts 15 to 20 s."""

DELAY_MS = 20
"""Of links and disks, before scaling. Two that are due within a few times as long split the vote, and who is due is
drawn from 5 s: where a disk takes a larger part of it, splits are no longer rare."""

ALLOWANCE_NS = 200 * MS
CALL_LIMIT_MS = PUBLISH_TIMEOUT_MS
"""Late answers count in this protocol, so a call may take as long as a publish waits for its majority."""

EXAM_TIME_FACTOR = "0.05"

MENDED = "nacos-mended"

DAMAGE_SEEN: Mapping[str, int | None] = {f"damage:{META}:unreadable": None}
"""A node that cannot read its term stays down. The file has no checksum: other damage may pass for another term."""

_MOST_DUE_MS = LEADER_TIMEOUT_MS + RANDOM_MS

_NO_POSITIONS = NotPromised(
    "its items carry timestamps, no terms or indexes; log end and commit are counts of items", "not observable"
)


class NacosSystem(TargetSystem):
    """See ``dethrone.harness.core.interfaces.System``."""

    name = "nacos"
    knob_table = KNOBS
    tells_log = False
    tells_vote = False
    tells_disk = True
    served = frozenset({"append", "add", "read", "put", "get"})

    def profiles(self) -> Mapping[str, str]:
        """The original first."""
        return {
            "nacos": "as Nacos 1.4.1 does it, with its known faults",
            MENDED: "votes stored, only the current term counted, leaders need answers, beats raise the term",
        }

    def defaults(self) -> RunDefaults:
        """No writes, as the publish path hides double votes; timers at a tenth; until a double vote or election.

        In haste, which is how the original fails soonest.
        """
        return RunDefaults(
            faults=("partition", "kill", "restart", "pause"),
            workload="election",
            nemesis_interval_ns=3 * SECOND,
            time_limit_ns=120 * SECOND,
            settings={"time_factor": "0.1"},
            stop_at_first_failure=True,
            stop_at=("one-leader-per-term", "one-vote-per-term"),
        )

    def profile_defaults(self, profile: str) -> RunDefaults:
        """Of the mended one, with more time: a profile that is expected to pass has to show liveness, too.

        Faults then last beyond the bound for a leader, 6.2 s at a tenth, and there is time for one of each.
        """
        usual = self.defaults()
        if profile != MENDED:
            return usual
        return msgspec.structs.replace(usual, nemesis_interval_ns=8 * SECOND, time_limit_ns=180 * SECOND)

    def exam(self) -> ExamPlan:
        """The mended one, for the original fails by its specification; without writes, as they hide votes.

        Timers at a twentieth; also four members, clocks, and a file that cannot be read.
        """
        profile = MENDED
        settings = {"time_factor": EXAM_TIME_FACTOR}
        bound = self.promise(self.knobs(settings, profile=profile, variant=None), profile=profile, voters=5)
        plan = super().exam()
        return msgspec.structs.replace(
            plan,
            profile=profile,
            nodes=(3, 5, 4),
            faults=(*plan.faults, "clock", "damage"),
            intervals_ns=(SECOND, bound.leader_bound_ns * 5 // 4),
            settings={**plan.settings, **settings},
        )

    def rpc_timeout_ns(self, typed: Knobs) -> Ns:
        """Scaled as all timers are; never below what a loaded machine needs."""
        return max(typed.ns(CALL_LIMIT_MS), 50 * MS)

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        typed: Knobs = self.typed(knobs, profile=profile)
        bound = typed.ns(LEADER_BOUND_MS) + ALLOWANCE_NS
        return Promise(
            system=self.name,
            profile=profile,
            source="specification of the Nacos 1.4.1 naming Raft, §6",
            election_timeout_ns=typed.ns(_MOST_DUE_MS),
            noise_max_ns=noise_limit_ns(typed.ns(_MOST_DUE_MS)),
            heartbeat_ns=typed.ns(HEARTBEAT_INTERVAL_MS),
            leader_bound_ns=bound,
            later_gap_ns=bound,
            step_down_ns=_step_down(typed),
            converge_ns=bound,
            tiers=("T1", "T2"),
            loss_percent_max=LOSS_PERCENT,
            delay_max_ns=max(MS, typed.ns(DELAY_MS)),
            exempt=_exempt(typed),
            tolerates={**ANY_NUMBER, **DAMAGE_SEEN},
            splits_max=SPLITS_MAX,
            leader_bound_to_term=False,
            linearizable_reads=False,
            pre_vote=False,
        )


def _step_down(knobs: Knobs) -> Ns | None:
    """A leader whose beats no majority answers campaigns when its due runs out, and is a candidate from then on."""
    if not knobs.leader_needs_majority_acks:
        return None
    return knobs.ns(_MOST_DUE_MS + HEARTBEAT_INTERVAL_MS + TICK_PERIOD_MS) + ALLOWANCE_NS


def _exempt(knobs: Knobs) -> dict[str, NotPromised]:
    out = {
        "leader-completeness": _NO_POSITIONS,
        "log-matching": _NO_POSITIONS,
        "commit-never-regresses": _NO_POSITIONS,
        "leader-stability": NotPromised(
            "the larger term wins, nothing else is compared: a node that returns deposes a working leader (NA-B7)"
        ),
    }
    if not knobs.leader_needs_majority_acks:
        out["step-down-without-quorum"] = NotPromised(
            "a leader puts off its own election with every beat it sends, answered or not, so it never resigns (NA-B4)"
        )
    return out


SYSTEM = NacosSystem()
