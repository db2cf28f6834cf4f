"""Apache ZooKeeper 3.9, as released: an ensemble that elects by its own protocol, ZAB.

A term is an epoch. A node leads once a quorum has acknowledged it as the leader of its epoch and it serves clients
(LEADING, broadcasting); it names its leader once it is in step with it. Before that its term is the epoch that it has
accepted, which it stores before it says so. ``Beside`` reports these from the server's peer object
(``jvm/ZooKeeperNode.java``); the log records each leadership that began, also the short ones between two polls.

Promised is what ZAB and its documentation state. Reads are linearizable behind a write of their session (``reads`` =
``quorum``). Behind ``sync`` they are not promised to be: it is not a quorum operation, and a deposed leader that does
not know it yet answers it. Votes are not observable: they stay in memory, by rounds of their own, and mean nothing
across restarts. Observers, hierarchies of quorums and membership changes are out of scope.

Source: ZooKeeper 3.9 administrator's guide (initLimit, syncLimit, tickTime, fastleader.maxNotificationInterval);
ZooKeeper internals (consistency guarantees; sync: ZOOKEEPER-1675); Junqueira, Reed, Serafini, "Zab: high-performance
broadcast for primary-backup systems", 2011 (at most one leader is established in an epoch; Zab assumes crash-recovery
and no bound on time for its safety).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec

from dethrone.clusters.systems import jvm
from dethrone.clusters.systems.released import Choice, Knob, Number, milliseconds, not_observable
from dethrone.clusters.systems.target import check_voters
from dethrone.clusters.systems.zookeeper_client import Reads, ZooKeeperClient
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.interfaces import (
    Client,
    Command,
    Malformed,
    NodeSpec,
    Reading,
    RunDefaults,
    TraceLine,
)
from dethrone.harness.core.promise import UNTIMED, NotPromised, Promise, noise_limit_ns

CLIENT_PORT = 2181
PEER_PORT = 2888
ELECTION_PORT = 3888
HEAP_MB = 192
EPOCH_SHIFT = 32
"""A zxid is an epoch above a counter of this many bits."""

ALLOWANCE_NS = 1 * SECOND
LEADER_BOUND_NS = 10 * SECOND

_KNOBS: Mapping[str, Knob] = {
    "tick_time_ms": milliseconds("2000", 50, 60_000),
    "init_limit_ticks": Number("10", 2, 1000, "ticks"),
    "sync_limit_ticks": Number("5", 2, 1000, "ticks"),
    "max_notification_interval_ms": milliseconds("60000", 200, 600_000),
    "reads": Choice("quorum", ("quorum", "sync")),
}

_ELECTED = re.compile(
    rb"quorum\.Leader - Have quorum of supporters, sids: \[(.*)\]; starting up .* zxid: 0x([0-9a-f]+)"
)

_NO_VOTE = "ZooKeeper keeps votes in memory, by rounds of their own, and reports none"
_NO_LOG = "ZooKeeper does not report the end of its log"


class _Status(msgspec.Struct, frozen=True, gc=False):
    incarnation: int
    atomic: bool
    id: int
    state: Literal["LOOKING", "FOLLOWING", "LEADING", "OBSERVING"]
    zab: Literal["ELECTION", "DISCOVERY", "SYNCHRONIZATION", "BROADCAST"]
    leader: int
    accepted: int
    current: int
    serves: bool
    zxid: int


_STATUS = msgspec.json.Decoder(_Status)


class ZooKeeperSystem(jvm.JvmSystem):
    """See ``dethrone.harness.core.interfaces.System``; also ``Telling``."""

    name = "zookeeper"
    build = "3.9.3"
    recipe = "zookeeper"
    served = frozenset({"append", "add", "read", "put", "get", "cas", "acquire", "release", "use"})
    channels = ("traced", "observed", "ops", "commit", "atomic")

    def known_knobs(self) -> Mapping[str, Knob]:
        """Timers, and how it is read."""
        return _KNOBS

    def profiles(self) -> Mapping[str, str]:
        """One."""
        return {"zookeeper": "as released; reads behind a write of their session unless the knob reads is sync"}

    def defaults(self) -> RunDefaults:
        """Timers at an eighth, so that holds and gaps are longer than the promised bound."""
        return RunDefaults(
            faults=("partition", "kill", "pause", "clock"),
            workload="log",
            nemesis_interval_ns=12 * SECOND,
            time_limit_ns=150 * SECOND,
            settings={"tick_time_ms": "250", "max_notification_interval_ms": "1000"},
        )

    def files(self, node: NodeSpec) -> Mapping[str, bytes]:
        """The configuration, and the program that runs next to the server."""
        lines = [
            f"tickTime={node.knobs['tick_time_ms']}",
            f"initLimit={node.knobs['init_limit_ticks']}",
            f"syncLimit={node.knobs['sync_limit_ticks']}",
            f"dataDir={_store(node)}",
            f"clientPort={CLIENT_PORT}",
            "maxClientCnxns=0",
            "standaloneEnabled=false",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            *(
                f"server.{number}={address}:{PEER_PORT}:{ELECTION_PORT}"
                for number, address in enumerate(node.members.values(), start=1)
            ),
        ]
        text = "".join(f"{line}\n" for line in lines)
        return {_configuration(node): text.encode(), **jvm.sources(node, "ZooKeeperNode")}

    def command(self, node: NodeSpec) -> Command:
        """ZooKeeper's main, with its number where it looks for it: also after its data were lost."""
        made = jvm.command(
            node,
            "ZooKeeperNode",
            (_configuration(node),),
            recipe=self.recipe,
            heap_mb=HEAP_MB,
            options=(
                f"-Dzookeeper.fastleader.maxNotificationInterval={node.knobs['max_notification_interval_ms']}",
                "-Dzookeeper.jmx.log4j.disable=true",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.quorum=info",
                "-Dorg.slf4j.simpleLogger.showDateTime=true",
                "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
            ),
        )
        number = list(node.members).index(node.name) + 1
        first = f'mkdir -p "{_store(node)}" && echo {number} > "{_store(node)}/myid" && exec "$@"'
        return msgspec.structs.replace(made, argv=("/bin/sh", "-c", first, "sh", *made.argv))

    def reading(self, node: NodeSpec, body: bytes) -> Reading | None:
        """See the head of this module; None if it is no answer of that node."""
        found = jvm.status_of(_STATUS, body)
        if found is None:
            return None
        names = dict(enumerate(node.members, start=1))
        if names.get(found.id) != node.name:
            return None
        in_step = found.zab == "BROADCAST" and found.serves and found.state in {"LEADING", "FOLLOWING"}
        leads = in_step and found.state == "LEADING"
        counted = found.zxid > 0 and found.zxid % (1 << EPOCH_SHIFT) > 0
        return Reading(
            role=_role(found, in_step=in_step),
            leads=leads,
            term=found.current if in_step else max(found.accepted, found.current, 0),
            leader=node.name if leads else names.get(found.leader) if in_step else None,
            commit=found.zxid if in_step and counted else None,
            atomic=found.atomic,
            incarnation=found.incarnation or None,
        )

    def trace_path(self, node: NodeSpec) -> str:
        """Its log."""
        return f"{node.log_dir}/node.log"

    def trace(self, line: bytes) -> TraceLine | None:
        """See ``trace_lines``."""
        found = self.trace_lines(line)
        return found[0] if found and isinstance(found[0], TraceLine) else None

    def trace_lines(self, line: bytes) -> Sequence[TraceLine | Malformed]:
        """The beginning of a leadership: a quorum has acknowledged it, and the epoch's first zxid names the epoch."""
        found = _ELECTED.search(line)
        if found is None:
            return ()
        supporters = sorted({int(number) for number in re.findall(rb"\d+", found[1])})
        told = TraceLine(
            incarnation=0,
            n=0,
            mono_ns=None,
            name="elected",
            term=int(found[2], 16) >> EPOCH_SHIFT,
            role="leader",
            source="core",
            data={"supporters": supporters},
        )
        return (told,)

    def client(self, nodes: Mapping[str, NodeSpec]) -> Client:
        """A new client."""
        knobs = next(iter(nodes.values())).knobs
        return ZooKeeperClient(nodes, port=CLIENT_PORT, reads=cast("Reads", knobs["reads"]))

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module. A leader is found again after the loss was seen, one round of notifications,
        and two attempts to bring a quorum in step.
        """
        check_voters(self.name, voters)
        tick = int(knobs["tick_time_ms"]) * MS
        init, sync = int(knobs["init_limit_ticks"]) * tick, int(knobs["sync_limit_ticks"]) * tick
        notification = int(knobs["max_notification_interval_ms"]) * MS
        bound = max(LEADER_BOUND_NS, sync + notification + 2 * init + ALLOWANCE_NS)
        any_number: dict[str, int | None] = dict.fromkeys(("partition", "kill", "stop", "restart", "pause", "clock"))
        return Promise(
            system=self.name,
            profile=profile,
            source="ZooKeeper 3.9 administrator's guide and internals; Junqueira, Reed, Serafini: Zab, 2011",
            election_timeout_ns=sync,
            noise_max_ns=noise_limit_ns(sync),
            heartbeat_ns=tick // 2,
            leader_bound_ns=bound,
            later_gap_ns=bound,
            step_down_ns=sync + 2 * tick + ALLOWANCE_NS,  # seen once a tick, with acknowledgements two a tick
            converge_ns=bound,
            tiers=("T1", "T2"),
            exempt=_EXEMPT,
            tolerates=any_number,
            safe_under=UNTIMED,
            leader_bound_to_term=True,
            linearizable_reads=knobs["reads"] == "quorum",
            pre_vote=False,
        )


def _role(found: _Status, *, in_step: bool) -> str:
    match found.state:
        case "LEADING":
            return "leader" if in_step else "prospective"
        case "FOLLOWING":
            return "follower" if in_step else "synchronizing"
        case other:
            return other.lower()


def _store(node: NodeSpec) -> str:
    return f"{node.data_dir}/zookeeper"


def _configuration(node: NodeSpec) -> str:
    return f"{node.run_dir}/zoo.cfg"


_EXEMPT: Mapping[str, NotPromised] = {
    **not_observable(_NO_VOTE, "one-vote-per-term", "leader-has-majority", "members-only", "vote-is-durable"),
    **not_observable(_NO_LOG, "leader-completeness", "log-matching"),
    "leader-stability": NotPromised(
        "a server that comes back joins the established leader; that a leader stays is nowhere promised"
    ),
}

SYSTEM = ZooKeeperSystem()
