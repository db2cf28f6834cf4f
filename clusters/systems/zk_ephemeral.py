"""zk-ephemeral: Kafka's election through ZooKeeper's ephemeral nodes, as real processes. One member is the service.

Profiles: ``race`` (the sketch: replicas race for the leader node), ``controller`` (Kafka in ZooKeeper mode) and
``race-strict`` (race with epochs, acks=all, two in-sync replicas, a leader that steps down when it loses contact).

The safety weaknesses (acknowledged writes of acks=1 are lost with their leader) stay promised: that is how they fail.
"Term" is the leader epoch; nodes do not vote, but the service's disk must hold every epoch that it granted. Failover
takes the session timeout, a third of it and a round trip.

Source of the promise: specification of Kafka's ephemeral-node election, §6.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems.target import ANY_NUMBER, TargetSystem, check_voters
from dethrone.clusters.targets.zk_ephemeral.knobs import KNOBS, LAST, ZkKnobs
from dethrone.clusters.targets.zk_ephemeral.tree import TREE
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import RunDefaults
from dethrone.harness.core.planted import ExamPlan, Planted
from dethrone.harness.core.promise import NotPromised, Promise, noise_limit_ns

ALLOWANCE_NS = 500 * MS
"""A handful of round trips to the service with their fsyncs, on a shared machine."""

EXAM_LAGS_MS = ("3000", "400")

DAMAGE_SEEN: Mapping[str, int | None] = dict.fromkeys((f"damage:{TREE}:flipped", f"damage:{TREE}:unreadable"))
"""The service's records have checksums, and it stays down if it cannot read them: that ends failover, nothing else."""

RACE_LOSES = ("acknowledged-survives", "commit-never-regresses", "leader-completeness", "log-matching")
"""What the honest race fails without fencing, by its specification (ZK-B1, ZK-B2)."""

_NO_VOTES = NotPromised("nodes do not vote: the coordination service decides who leads")
_SERVICE_ELSEWHERE = NotPromised("the disk of a service that is not the last member is not looked at", "not observable")
_NO_ROUNDS = NotPromised("nodes do not campaign in rounds: a refused creation waits for the owner's node to vanish")
_LEASE = NotPromised(
    "leadership is a lease that only the service checks: a leader cut off continues (ZK-B2), in any number of epochs"
)
_FLAPS = NotPromised(
    "a paused service, or a flapping link to it, moves the lead between healthy brokers (ZK-B5, ZK-B7)"
)


class ZkEphemeralSystem(TargetSystem):
    """See ``dethrone.harness.core.interfaces.System``; also ``Electorate``."""

    name = "zk-ephemeral"
    knob_table = KNOBS
    tells_vote = False
    tells_disk = True
    served = frozenset({"append", "add", "read", "put", "get"})

    def target_name(self) -> str:
        """The package's name."""
        return "zk_ephemeral"

    def profiles(self) -> Mapping[str, str]:
        """The sketch first."""
        return {
            "race": "in-sync replicas race for the leader's ephemeral node; acks=1, no fencing",
            "controller": "an elected controller chooses the leader from the in-sync replicas; epochs fence",
            "race-strict": "race with epochs, acks=all, two in-sync replicas, step-down on a lost connection",
        }

    def defaults(self) -> RunDefaults:
        """A session timeout as tests use it; two brokers need not be enough: five nodes are advised."""
        return RunDefaults(
            faults=("partition", "kill", "pause"),
            workload="log",
            nemesis_interval_ns=5 * SECOND,
            time_limit_ns=90 * SECOND,
            settings={
                "zookeeper_session_timeout_ms": "2000",
                "replica_lag_time_max_ms": "3000",
                "call_retry_ms": "200",
            },
        )

    def planted(self) -> Mapping[str, Planted]:
        """See ``dethrone.harness.core.planted.Examinable``; who wins a race may have none of what was acknowledged."""
        return {
            name: msgspec.structs.replace(bug, weak=RACE_LOSES) if bug.settings.get("mode") == "race" else bug
            for name, bug in super().planted().items()
        }

    def exam(self) -> ExamPlan:
        """With a controller and acks=all: the race loses acknowledged writes by its specification (ZK-B1, B2).

        Short waits of fetches, so that followers learn different high watermarks; and in some of the runs followers
        leave the ISR while a fault lasts, not after it: who decides by an old ISR is seen only then.
        """
        plan = super().exam()
        settings = {
            **plan.settings,
            "acks": "all",
            "replica_fetch_wait_max_ms": "50",
        }
        in_turn = tuple({"replica_lag_time_max_ms": lag} for lag in EXAM_LAGS_MS)
        faults = (*plan.faults, "restart", "damage")
        return msgspec.structs.replace(
            plan, profile="controller", settings=settings, in_turn=in_turn, nodes=(4, 6), faults=faults
        )

    def rpc_timeout_ns(self, typed: ZkKnobs) -> Ns:
        """A connection is worth waiting for as long as a call."""
        return max(typed.call_retry, 50 * MS)

    def voters(self, nodes: tuple[str, ...], knobs: Mapping[str, str], *, profile: str) -> tuple[str, ...]:
        """The brokers: all members but the coordination service."""
        typed: ZkKnobs = self.typed(knobs, profile=profile)
        service = typed.coordinator_of(nodes)
        if len(nodes) < 2 or service not in nodes:
            raise ConfigError(
                f"{service!r} cannot be the coordination service of {', '.join(nodes)} and leave a broker",
                next_step="coordinator=last, or the name of a node, and at least two --nodes",
            )
        return tuple(node for node in nodes if node != service)

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        typed: ZkKnobs = self.typed(knobs, profile=profile)
        timeout = typed.session_timeout
        bound = timeout + timeout // 3 + 2 * typed.call_retry + ALLOWANCE_NS
        return Promise(
            system=self.name,
            profile=profile,
            source="specification of Kafka's ephemeral-node election, §6: session timeout + a third + a round trip",
            election_timeout_ns=timeout,
            noise_max_ns=noise_limit_ns(timeout),
            heartbeat_ns=timeout // 3,
            leader_bound_ns=2 * bound,
            later_gap_ns=2 * bound,
            step_down_ns=_step_down(typed),
            converge_ns=2 * bound + 2 * typed.fetch_wait_max,
            tiers=("T1",),
            exempt=_exempt(typed),
            tolerates={**ANY_NUMBER, **DAMAGE_SEEN},
            leader_bound_to_term=True,
            owed_in_calm=True,  # for the coordination service must be up, and reached by an ISR member (ZK-B3, ZK-B4)
            linearizable_reads=False,
            pre_vote=False,
        )


def _step_down(knobs: ZkKnobs) -> Ns | None:
    """Two thirds of the timeout after the last contact, and the allowance."""
    if not (knobs.step_down_on_disconnect and knobs.mode == "race"):
        return None
    return knobs.session_timeout * 2 // 3 + ALLOWANCE_NS


def _exempt(knobs: ZkKnobs) -> dict[str, NotPromised]:
    return {
        "one-vote-per-term": _NO_VOTES,
        "leader-has-majority": _NO_VOTES,
        "members-only": _NO_VOTES,
        **({} if knobs.coordinator == LAST else {"vote-is-durable": _SERVICE_ELSEWHERE}),
        "no-livelock": _NO_ROUNDS,
        "leader-stability": _FLAPS,
        # also with the step-down: a leader cut from a majority of brokers, but not from the service, rightly leads on
        "step-down-without-quorum": _LEASE
        if _step_down(knobs) is None
        else NotPromised("a leader steps down when it loses the service, not when it loses a majority of brokers"),
    }


SYSTEM = ZkEphemeralSystem()
