"""RocketMQ's DLedger as released, 0.4.3, 0.3.2 and 0.2.2: a Raft-like log that brokers replicate with.

Each node is one ``DLedgerServer`` of the jar, started by a main class of ours (``jvm/DLedgerNode.java``; releases after
0.2 have none) that also reports the member's state, read in its own monitor: role, leader, term, vote, log end and
commit belong to one moment.

Promised is what its documentation claims of a log on Raft: one leader a term, acknowledged entries stay, a leader that
hears no majority within ``maxHeartBeatLeak`` heartbeats becomes a candidate. Not promised: linearizable reads (its
``GET`` answers from the leader's log), stability (no pre-vote), progress under clock steps (timers and time-outs are
wall-clock). Safety is claimed under clock steps, too: DLedger commits "based on the Raft protocol", whose safety does
not depend on timing. The disk is not synced before an acknowledgement, so only what survives a process kill is claimed.

A release is judged by this one promise, regardless of its known bugs: a violation is for the harness to find.

Source: DLedger's documentation (README, "DLedger introduction", configuration table: heartBeatTimeIntervalMs 2000,
maxHeartBeatLeak 3, minVoteIntervalMs 300, maxVoteIntervalMs 1000) and ``DLedgerLeaderElector``.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems import jvm
from dethrone.clusters.systems.released import Knob, Number, milliseconds, not_observable
from dethrone.clusters.systems.rocketmq_client import RocketmqClient
from dethrone.clusters.systems.target import check_voters
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Client, Command, NodeSpec, Reading, RunDefaults
from dethrone.harness.core.promise import UNTIMED, NotPromised, Promise, noise_limit_ns

PORT = 20911
GROUP = "dethrone"
HEAP_MB = 128
IN_VAIN = 5
"""Lost campaigns that the bound leaves room for; see ``dethrone.clusters.systems.dledger``."""

ALLOWANCE_NS = 500 * MS

_SETTINGS: Mapping[str, str] = {
    "heart_beat_time_interval_ms": "heartBeatTimeIntervalMs",
    "max_heart_beat_leak": "maxHeartBeatLeak",
    "min_vote_interval_ms": "minVoteIntervalMs",
    "max_vote_interval_ms": "maxVoteIntervalMs",
    "max_wait_ack_time_ms": "maxWaitAckTimeMs",
}
_MOST = 60_000
_KNOBS: Mapping[str, Knob] = {
    "heart_beat_time_interval_ms": milliseconds("2000", 1, _MOST),
    "max_heart_beat_leak": Number("3", 1, _MOST),
    "min_vote_interval_ms": milliseconds("300", 1, _MOST),
    "max_vote_interval_ms": milliseconds("1000", 1, _MOST),
    "max_wait_ack_time_ms": milliseconds("2500", 1, _MOST),
}

_OPENS = ("java.nio", "sun.nio.ch", "java.lang", "java.util", "jdk.internal.ref")
"""Packages into which it reaches, to unmap its files."""

_NO_TRACE = "DLedger writes no trace of its votes on the wire"


class _Status(msgspec.Struct, frozen=True, gc=False):
    incarnation: int
    state: str
    term: int
    leader: str | None
    vote: str | None
    committed: int
    end_index: int
    end_term: int


_STATUS = msgspec.json.Decoder(_Status)


class RocketmqSystem(jvm.JvmSystem):
    """See ``dethrone.harness.core.interfaces.System``. One release of DLedger; ``numbers`` as its client's."""

    served = frozenset({"append", "read"})
    channels = ("observed", "ops", "log_end", "commit", "atomic", "voted_for")

    def __init__(self, *, name: str, release: str, numbers: bool) -> None:
        self.name = name
        self.recipe = f"dledger-{release}"
        self.build = release
        self._numbers = numbers

    def known_knobs(self) -> Mapping[str, Knob]:
        """Timers, and how many heartbeats may be missed."""
        return _KNOBS

    def knobs(self, settings: Mapping[str, str], *, profile: str | None, variant: str | None) -> Mapping[str, str]:
        """All knobs as words. Raises ConfigError."""
        knobs = super().knobs(settings, profile=profile, variant=variant)
        if int(knobs["min_vote_interval_ms"]) >= int(knobs["max_vote_interval_ms"]):
            raise ConfigError(
                f"min_vote_interval_ms of {self.name} must be below max_vote_interval_ms",
                next_step="set them together",
            )
        return knobs

    def profiles(self) -> Mapping[str, str]:
        """One."""
        return {"dledger": f"DLedger {self.build} with its file store"}

    def defaults(self) -> RunDefaults:
        """At a quarter of the heartbeat, so that several elections fit into a run."""
        return RunDefaults(
            faults=("partition", "kill", "pause"),
            workload="log",
            nemesis_interval_ns=15 * SECOND,
            time_limit_ns=150 * SECOND,
            settings={"heart_beat_time_interval_ms": "500"},
        )

    def files(self, node: NodeSpec) -> Mapping[str, bytes]:
        """The class that starts it."""
        return jvm.sources(node, "DLedgerNode")

    def command(self, node: NodeSpec) -> Command:
        """One server of the group."""
        peers = ";".join(f"{name}-{address}:{PORT}" for name, address in node.members.items())
        settings = [f"{setter}={node.knobs[name]}" for name, setter in _SETTINGS.items()]
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS]
        options = (*opens, f"-Duser.home={node.data_dir}", "-Dorg.slf4j.simpleLogger.showDateTime=true")
        arguments = (GROUP, node.name, peers, f"{node.data_dir}/dledger", *settings)
        return jvm.command(node, "DLedgerNode", arguments, recipe=self.recipe, heap_mb=HEAP_MB, options=options)

    def reading(self, node: NodeSpec, body: bytes) -> Reading | None:
        """The member's state. Positions count from 1; an empty log ends at (0, 0)."""
        found = jvm.status_of(_STATUS, body)
        if found is None:
            return None
        leader = found.leader if found.leader in node.members else None
        leads = found.state == "LEADER"
        return Reading(
            role=found.state.lower(),
            leads=leads,
            term=found.term,
            leader=leader,
            voted_for=found.vote if found.vote in node.members else None,
            log_end=(max(0, found.end_term), found.end_index + 1),
            commit=found.committed + 1,
            atomic=True,
            incarnation=found.incarnation or None,
        )

    def client(self, nodes: Mapping[str, NodeSpec]) -> Client:
        """A new client."""
        return RocketmqClient(nodes, port=PORT, group=GROUP, numbers=self._numbers)

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        period = int(knobs["heart_beat_time_interval_ms"]) * MS
        patience = int(knobs["max_heart_beat_leak"]) * period
        longest_wait = int(knobs["max_vote_interval_ms"]) * MS
        bound: Ns = patience + IN_VAIN * 3 * longest_wait + 2 * period + ALLOWANCE_NS
        return Promise(
            system=self.name,
            profile=profile,
            source=f"DLedger {self.build}: documentation and configuration (heartbeats, votes), leader elector",
            election_timeout_ns=patience,
            noise_max_ns=noise_limit_ns(patience),
            heartbeat_ns=period,
            leader_bound_ns=bound,
            later_gap_ns=bound,
            step_down_ns=patience + 2 * period + ALLOWANCE_NS,
            converge_ns=bound + patience,
            tiers=("T1", "T2"),
            exempt=_EXEMPT,
            tolerates=dict.fromkeys(("partition", "kill", "stop", "restart", "pause")),
            safe_under=UNTIMED,
            leader_bound_to_term=True,
            linearizable_reads=False,
            pre_vote=False,
            loss_percent_max=0,
        )


_EXEMPT: Mapping[str, NotPromised] = {
    **not_observable(_NO_TRACE, "leader-has-majority", "members-only", "vote-is-durable"),
    **not_observable("DLedger reports the end of its log, not its entries", "log-matching"),
    "leader-stability": NotPromised(
        "there is no pre-vote: a member that returns with a higher term may depose a leader"
    ),
}

SYSTEM = RocketmqSystem(name="rocketmq-dledger", release="0.4.3", numbers=True)
SYSTEM_0_3_2 = RocketmqSystem(name="rocketmq-dledger-0.3.2", release="0.3.2", numbers=True)
SYSTEM_0_2_2 = RocketmqSystem(name="rocketmq-dledger-0.2.2", release="0.2.2", numbers=False)
