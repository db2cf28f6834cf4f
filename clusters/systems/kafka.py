"""Apache Kafka in KRaft mode, 4.1.0 and 3.9.1, as released: a quorum of controllers, and topics as logs.

Profiles: in ``kafka`` each node is controller and broker, and clients write to topics (one partition, a replica on each
node, a majority in sync, no unclean leaders); ``controllers`` is the quorum alone, for the workload ``election``.
"Leader" is the leader of the metadata quorum, its term the epoch; who leads a topic is Kafka's own affair.

It is observed by what it publishes of its Raft (``jvm/KafkaNode.java``): role, leader, vote and epoch of one epoch, and
the high watermark. A node's vote is stored before it can be seen.

Promised are elections as in KRaft, and that a record acknowledged by all replicas in sync is not lost as long as
one of them lives, which kills and cuts respect. Not promised: reads at a deposed topic leader (no linearizable
reads). Not observable: the nodes' logs. The bounds are those of the timers: a follower waits for the fetch time-out,
then elections of at most two election time-outs and a back-off.

Source: Kafka documentation 4.1 and 3.9 (configuration ``controller.quorum.*``, ``acks``, ``min.insync.replicas``;
design of replication); KIP-595 (metadata quorum), KIP-996 (pre-vote, since 4.0), KAFKA-15489 (a leader without its
majority resigns, since 3.7). Clock steps may cost time (timers are wall-clock), never safety: KIP-595 keeps Raft's,
which does not depend on timing, and a committed record stays "as long as there is at least one in sync replica alive".
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems import jvm
from dethrone.clusters.systems.kafka_client import KafkaClient
from dethrone.clusters.systems.released import Knob, milliseconds, not_observable
from dethrone.clusters.systems.target import check_voters
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import Client, Command, NodeSpec, Reading, RunDefaults
from dethrone.harness.core.promise import UNTIMED, NotPromised, Promise, noise_limit_ns

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
CLUSTER_ID = "ZGV0aHJvbmUtLWthZmthLQ"
"""A base64 UUID."""

HEAP_MB = 256
ROUNDS = 5
"""Lost elections that the bound leaves room for; see ``dethrone.clusters.systems.kraft``."""

ALLOWANCE_NS = 500 * MS

_KNOBS: Mapping[str, Knob] = {
    "election_timeout_ms": milliseconds("1000", 100, 60_000),
    "fetch_timeout_ms": milliseconds("2000", 200, 60_000),
    "election_backoff_max_ms": milliseconds("1000", 10, 60_000),
    "broker_session_timeout_ms": milliseconds("9000", 500, 120_000),
    "replica_lag_time_max_ms": milliseconds("30000", 500, 300_000),
}
_LEADS = "leader"
_NO_TRACE = "Kafka writes no trace of its votes on the wire"
_NO_LOG = "the log's end that Kafka publishes is read at another moment than its epoch"


class _Status(msgspec.Struct, frozen=True, gc=False):
    incarnation: int
    state: str
    epoch: int
    leader: int
    vote: int
    high_watermark: int
    version: str = ""


STATUS = msgspec.json.Decoder(_Status)

_LOG4J = """rootLogger.level = info
rootLogger.appenderRef.stdout.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d{ISO8601}] %p %m (%c{1})%n
"""


class KafkaSystem(jvm.JvmSystem):
    """See ``dethrone.harness.core.interfaces.System``. One release of Kafka: a Java runtime, this release's jars, and a
    compiler for the class that starts it."""

    served = frozenset({"append", "read"})
    channels = ("observed", "ops", "commit", "atomic", "voted_for")

    def __init__(self, *, name: str, release: str, recipe: str, pre_vote: bool, metadata: tuple[str, ...] = ()) -> None:
        self.name = name
        self.build = release
        self.recipe = recipe
        self._pre_vote = pre_vote
        self._metadata = metadata

    def known_knobs(self) -> Mapping[str, Knob]:
        """Timers."""
        return _KNOBS

    def profiles(self) -> Mapping[str, str]:
        """Combined nodes first."""
        return {
            "kafka": f"Kafka {self.build}: each node is controller and broker; topics are logs, acks=all",
            "controllers": f"Kafka {self.build}: the metadata quorum alone (with --workload election)",
        }

    def defaults(self) -> RunDefaults:
        """Brokers are given up sooner than by default, so that a topic's leader changes within a fault."""
        return RunDefaults(
            faults=("partition", "kill", "pause"),
            workload="log",
            nemesis_interval_ns=20 * SECOND,
            time_limit_ns=180 * SECOND,
            settings={"broker_session_timeout_ms": "3000", "replica_lag_time_max_ms": "4000"},
        )

    def files(self, node: NodeSpec) -> Mapping[str, bytes]:
        """Its properties, how it logs, and the program that runs next to it."""
        properties = "".join(f"{name}={value}\n" for name, value in self._properties(node).items())
        return {
            **jvm.sources(node, "KafkaNode"),
            f"{node.run_dir}/kafka.properties": properties.encode(),
            f"{node.run_dir}/log4j2.properties": _LOG4J.encode(),
        }

    def command(self, node: NodeSpec) -> Command:
        """Formatted at its first start, then a restart."""
        arguments = (
            CLUSTER_ID,
            f"{node.data_dir}/kafka",
            f"{node.run_dir}/kafka.properties",
            _roles(node),
            *self._metadata,
        )
        options = (f"-Dlog4j2.configurationFile={node.run_dir}/log4j2.properties",)
        return jvm.command(node, "KafkaNode", arguments, recipe=self.recipe, heap_mb=HEAP_MB, options=options)

    def reading(self, node: NodeSpec, body: bytes) -> Reading | None:
        """What Kafka publishes of its Raft; None while it publishes nothing yet."""
        found = jvm.status_of(STATUS, body)
        if found is None:
            return None
        names = broker_ids(node.members)
        leads = found.state == _LEADS
        leader = names.get(found.leader)
        if leader == node.name and not leads:
            leader = None  # it resigned: the epoch keeps its name, but it does not lead
        return Reading(
            role=found.state,
            leads=leads,
            term=found.epoch,
            leader=leader,
            voted_for=names.get(found.vote),
            commit=found.high_watermark if found.high_watermark >= 0 else None,
            atomic=True,
            incarnation=found.incarnation or None,
        )

    def client(self, nodes: Mapping[str, NodeSpec]) -> Client:
        """A new client of the brokers."""
        members = next(iter(nodes.values())).members if nodes else {}
        return KafkaClient(nodes, port=BROKER_PORT, ids=broker_ids(members))

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        election, fetch, backoff = (
            int(knobs[f"{name}_ms"]) * MS for name in ("election_timeout", "fetch_timeout", "election_backoff_max")
        )
        bound: Ns = fetch + ROUNDS * (2 * election + backoff) + ALLOWANCE_NS
        return Promise(
            system=self.name,
            profile=profile,
            source=f"Kafka {self.build} documentation (controller.quorum.*, acks, replication); KIP-595"
            + (", KIP-996" if self._pre_vote else "")
            + ", KAFKA-15489",
            election_timeout_ns=fetch + 2 * election,
            noise_max_ns=noise_limit_ns(fetch + 2 * election),
            heartbeat_ns=fetch // 4,
            leader_bound_ns=bound,
            later_gap_ns=bound,
            # A leader counts fetches over one and a half fetch time-outs, then resigns.
            step_down_ns=fetch * 3 // 2 + ALLOWANCE_NS,
            converge_ns=bound,
            tiers=("T1", "T2"),
            exempt=_exempt(pre_vote=self._pre_vote),
            tolerates=dict.fromkeys(("partition", "kill", "stop", "restart", "pause")),
            safe_under=UNTIMED,
            leader_bound_to_term=True,
            linearizable_reads=False,
            pre_vote=False,
            loss_percent_max=0,
        )

    def _properties(self, node: NodeSpec) -> dict[str, str]:
        own = position(node.members, node.name)
        broker = node.profile != "controllers"
        copies = len(node.members)
        session = int(node.knobs["broker_session_timeout_ms"])
        listeners = [f"CONTROLLER://{node.address}:{CONTROLLER_PORT}"]
        if broker:
            listeners.insert(0, f"PLAINTEXT://{node.address}:{BROKER_PORT}")
        voters = (
            f"{position(node.members, name)}@{address}:{CONTROLLER_PORT}" for name, address in node.members.items()
        )
        common = {
            "process.roles": _roles(node),
            "node.id": str(own),
            "controller.quorum.voters": ",".join(voters),
            "controller.quorum.election.timeout.ms": node.knobs["election_timeout_ms"],
            "controller.quorum.fetch.timeout.ms": node.knobs["fetch_timeout_ms"],
            "controller.quorum.election.backoff.max.ms": node.knobs["election_backoff_max_ms"],
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": f"{node.data_dir}/kafka",
            "broker.session.timeout.ms": str(session),
            "broker.heartbeat.interval.ms": str(max(100, min(2000, session // 4))),
            "num.network.threads": "2",
            "num.io.threads": "3",
        }
        if not broker:
            return common
        return {
            **common,
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": f"PLAINTEXT://{node.address}:{BROKER_PORT}",
            "auto.create.topics.enable": "true",
            "num.partitions": "1",
            "default.replication.factor": str(copies),
            "min.insync.replicas": str(copies // 2 + 1),
            "unclean.leader.election.enable": "false",
            "replica.lag.time.max.ms": node.knobs["replica_lag_time_max_ms"],
            "log.message.timestamp.type": "LogAppendTime",
            "log.retention.ms": "-1",
            "log.cleaner.enable": "false",
            "offsets.topic.replication.factor": str(copies),
        }


def _roles(node: NodeSpec) -> str:
    return "controller" if node.profile == "controllers" else "broker,controller"


def position(members: Mapping[str, str], name: str) -> int:
    """The id of a node: its place among the members, from 1."""
    return list(members).index(name) + 1


def broker_ids(members: Mapping[str, str]) -> dict[int, str]:
    """Id → node."""
    return dict(enumerate(members, start=1))


def _exempt(*, pre_vote: bool) -> dict[str, NotPromised]:
    out = not_observable(_NO_TRACE, "leader-has-majority", "members-only", "vote-is-durable")
    out |= not_observable(_NO_LOG, "leader-completeness", "log-matching")
    if not pre_vote:
        out["leader-stability"] = NotPromised(
            "before 4.0 there is no pre-vote: a healed voter's higher epoch deposes the leader"
        )
    return out


SYSTEM = KafkaSystem(name="kafka-kraft", release="4.1.0", recipe="kafka-4.1", pre_vote=True)
SYSTEM_3_9 = KafkaSystem(name="kafka-kraft-3.9", release="3.9.1", recipe="kafka-3.9", pre_vote=False)
