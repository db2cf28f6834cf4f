"""master-slave: RocketMQ's deployments without election, as real processes: the negative target.

The last member is a name server, the others are brokers. There is no election, so no property of leaders is promised;
acknowledged writes must survive, and logs of one group must agree, and both break by design (MS-B2, B3, B4). A run of
the default profile can therefore fail or stay undecided, but never pass; ``demand-failover`` promises what the protocol
lacks, so that a run reports the missing failover.

Source of the promise: specification of RocketMQ's master/slave deployments, §5.3, §6.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.clusters.systems.operations import READING
from dethrone.clusters.systems.target import ANY_NUMBER, CLIENT_PORT, OF_TERMS, TargetSystem, check_voters
from dethrone.clusters.systems.target_client import TargetClient
from dethrone.clusters.targets.master_slave.client import Routes
from dethrone.clusters.targets.master_slave.knobs import KNOBS, MsKnobs
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import Client, NodeSpec, OpOutcome, Reading, RunDefaults
from dethrone.harness.core.planted import ExamPlan
from dethrone.harness.core.promise import NotPromised, Promise, noise_limit_ns

ALLOWANCE_NS = 500 * MS

_NO_TERM = NotPromised("there is no term, no vote and no election: roles are configuration")
_NO_FAILOVER = NotPromised(
    "a dead master is never replaced: only restarting the same node, or an operator, brings writes back (MS-B1)"
)
_NO_QUORUM = NotPromised("a master has no quorum to lose: cut off, it serves on, and so may a second one (MS-B4)")
_OPERATOR = NotPromised("after an operator's split brain two logs diverge for ever (MS-B4)")
_SPREAD = NotPromised("messages are spread over groups, and a read of one broker shows one group's", "not observable")
_UNTERMED = NotPromised("no node deposes a master, but without terms no channel shows it", "not observable")
_GROUPS = NotPromised("traces do not name the group, and each group has a log of its own", "not observable")


class MasterSlaveSystem(TargetSystem):
    """See ``dethrone.harness.core.interfaces.System``; also ``Electorate``."""

    name = "master-slave"
    knob_table = KNOBS
    tells_vote = False
    served = frozenset({"append", "add", "read", "put", "get"})

    def profiles(self) -> Mapping[str, str]:
        """The plain one first."""
        return {
            "master-slave": "one master, slaves that copy asynchronously; nothing elects",
            "sync": "synchronous copies and flushes: SEND_OK means also on a slave",
            "demand-failover": "the same as master-slave, but a failover is demanded: the run must report it missing",
        }

    def defaults(self) -> RunDefaults:
        """Timers at a sixtieth; kills of masters lose what was not copied only with their disks, or to an operator."""
        return RunDefaults(
            faults=("partition", "kill", "pause"),
            workload="log",
            nemesis_interval_ns=5 * SECOND,
            time_limit_ns=60 * SECOND,
            settings={"time_factor": "1/60"},
        )

    def exam(self) -> ExamPlan:
        """What it loses by its specification is no alarm (MS-B2, B3, B4)."""
        weak = ("acknowledged-survives", "log-matching", "commit-never-regresses", "leader-completeness")
        return msgspec.structs.replace(super().exam(), weak=weak)

    def rpc_timeout_ns(self, typed: MsKnobs) -> Ns:
        """A heartbeat's time."""
        return max(typed.ha_send_heartbeat_interval, 50 * MS)

    def voters(self, nodes: tuple[str, ...], knobs: Mapping[str, str], *, profile: str) -> tuple[str, ...]:
        """The brokers: all members but the name servers. They vote on nothing, but they are what should be led."""
        typed: MsKnobs = self.typed(knobs, profile=profile)
        typed.layout(nodes)
        return typed.brokers_of(nodes)

    def interpreted(self, found: Reading, knobs: Mapping[str, str]) -> Reading:
        """A master is what comes nearest to a leader."""
        del knobs
        return msgspec.structs.replace(found, leads=found.role == "MASTER")

    def client(self, nodes: Mapping[str, NodeSpec]) -> Client:
        """A client that asks the name servers for routes."""
        spec = next(iter(nodes.values()))
        typed: MsKnobs = self.typed(spec.knobs, profile=spec.profile)
        return MasterSlaveClient(nodes, servers=typed.servers_of(tuple(nodes)), refresh_ns=typed.route_refresh)

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        typed: MsKnobs = self.typed(knobs, profile=profile)
        bound = typed.broker_expiry + typed.route_refresh + ALLOWANCE_NS
        demanded = profile == "demand-failover"
        return Promise(
            system=self.name,
            profile=profile,
            source="specification of RocketMQ's master/slave deployments, §5.3, §6",
            election_timeout_ns=typed.ha_housekeeping_interval,
            noise_max_ns=noise_limit_ns(typed.ha_housekeeping_interval),
            heartbeat_ns=typed.ha_send_heartbeat_interval,
            leader_bound_ns=bound,
            later_gap_ns=bound,
            step_down_ns=None,
            converge_ns=bound,
            tiers=("T1", "T2") if demanded else (),
            exempt=_exempt(typed, demanded=demanded),
            tolerates=ANY_NUMBER,
            leader_bound_to_term=False,
            linearizable_reads=False,
            pre_vote=False,
        )


def _exempt(knobs: MsKnobs, *, demanded: bool) -> dict[str, NotPromised]:
    out = dict.fromkeys(OF_TERMS, _NO_TERM)
    out["leader-stability"] = _UNTERMED
    out["step-down-without-quorum"] = _NO_QUORUM
    out["convergence-after-heal"] = _OPERATOR
    if not demanded:
        out["leader-when-owed"] = _NO_FAILOVER
    if knobs.deployment in ("DP4", "DP5"):
        out["log-matching"] = out["commit-never-regresses"] = _GROUPS
        out["acknowledged-survives"] = _SPREAD
    return out


class MasterSlaveClient(TargetClient):
    """Writes to any group's master; reads every group's messages, from its master or else from a slave."""

    def __init__(self, nodes: Mapping[str, NodeSpec], *, servers: tuple[str, ...], refresh_ns: Ns) -> None:
        super().__init__(nodes, port=CLIENT_PORT)
        self._servers = servers
        self._routes = Routes(refresh_ns)
        self._turn = 0

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: Ns) -> OpOutcome:
        """Carry out one operation; a write begins at ``target`` if that is a master."""
        deadline = time.monotonic_ns() + timeout_ns
        self._refresh(deadline)
        return self._read(f, value, deadline) if f in READING else self._write(f, value, target, deadline)

    def _refresh(self, deadline: Ns) -> None:
        now = time.monotonic_ns()
        if not self._routes.due(now):
            return
        for server in self._servers:
            left = min(deadline - time.monotonic_ns(), SECOND)
            told = super().invoke("get", "", target=server, timeout_ns=left) if left > 0 else None
            if told is not None and told.status == "ok" and isinstance(told.value, dict):
                self._routes.learn(told.value, now)
                return

    def _write(self, f: str, value: Any, target: str, deadline: Ns) -> OpOutcome:
        self._turn += 1
        writers = self._routes.writers(self._turn)
        if target in writers:
            writers.remove(target)
            writers.insert(0, target)
        outcome = OpOutcome(status="fail", error="no route to a master")
        for master in writers:
            left = deadline - time.monotonic_ns()
            if left <= 0:
                break
            outcome = super().invoke(f, value, target=master, timeout_ns=left)
            if outcome.status != "fail":
                break
        return outcome

    def _read(self, f: str, value: Any, deadline: Ns) -> OpOutcome:
        found: list[OpOutcome] = []
        for group in self._routes.groups():
            readers = self._routes.readers(group)
            outcome = OpOutcome(status="fail", error=f"no broker serves {group}")
            for reader in readers:
                share = (deadline - time.monotonic_ns()) // max(1, len(readers))
                if share <= 0:
                    break
                outcome = super().invoke(f, value, target=reader, timeout_ns=share)
                if outcome.status == "ok":
                    break
            if outcome.status != "ok":
                return outcome
            found.append(outcome)
        if not found:
            return OpOutcome(status="fail", error="no route")
        if f == "read":
            return OpOutcome(status="ok", value=[item for one in found for item in one.value], node=found[0].node)
        return next((one for one in found if one.value is not None), found[0])


SYSTEM = MasterSlaveSystem()
