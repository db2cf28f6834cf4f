"""A tiny language to write histories, for stories and tests: one call an event, times in ms.

    tale = Tale(3).up()
    tale.elected("n1", 1, "n1 n2").poll("n1", 1, leads=True)
    history = tale.end()

Every history goes through the real encoder and reader, so what a test judges is what a file would give.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.clock import MS, Span
from dethrone.harness.core.events import (
    SCHEMA,
    Begin,
    Converged,
    End,
    FatalLine,
    FaultEvent,
    Invoke,
    Mark,
    NodeDied,
    NodeProcess,
    Noise,
    Observed,
    Return,
    Traced,
)
from dethrone.harness.core.history import History, parse_history
from dethrone.harness.core.hoststate import HEALTHY, HostState, with_cuts
from dethrone.harness.core.plan import Plan, WorkloadPlan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.schedule import Schedule

ENCODER = msgspec.json.Encoder()
EVERY_MS = 250
BOUND_MS = 2000


class Tale:
    """Events in order. ``now`` is in ms; most calls return the tale."""

    def __init__(self, nodes: int = 3, *, seed: int = 7) -> None:
        self.nodes = tuple(f"n{k}" for k in range(1, nodes + 1))
        self.events: list[Any] = []
        self.now = 0
        self.incarnation = dict.fromkeys(self.nodes, 1)
        self.alive = dict.fromkeys(self.nodes, True)
        self.counter: dict[tuple[str, int], int] = {}
        self.state: dict[str, HostState] = dict.fromkeys(self.nodes, HEALTHY)
        self.ops = self.faults = 0
        self.active: dict[int, tuple[str, tuple[str, ...]]] = {}
        self.add(Begin, schema=SCHEMA, system="raft", nodes=self.nodes, seed=seed)

    def add(self, event_type: type, /, **fields: Any) -> int:
        seq = len(self.events)
        self.events.append(event_type(seq=seq, t=self.now * MS, **fields))
        return seq

    def span(self, before: int = 2, after: int = 0) -> Span:
        return Span(max(0, self.now - before) * MS, (self.now + after) * MS)

    def wait(self, ms: int) -> Tale:
        self.now += ms
        return self

    def mark(self, name: str, **data: Any) -> Tale:
        self.add(Mark, name=name, data=data)
        return self

    # --- processes ----------------------------------------------------------------------------------------------

    def up(self, *names: str) -> Tale:
        for node in names or self.nodes:
            self.process(node, "started")
            self.process(node, "ready")
            self.alive[node] = True
        return self.wait(10)

    def process(self, node: str, phase: str, *, asked: bool = True, code: int | None = None) -> Tale:
        self.add(
            NodeProcess,
            span=self.span(),
            node=node,
            incarnation=self.incarnation.get(node, 1),
            phase=phase,
            asked=asked,
            code=code,
        )
        return self

    def died(self, node: str, code: int | None, *lines: str, **detail: Any) -> Tale:
        """An end that nobody asked for, as agents report it."""
        self.process(node, "exited", asked=False, code=code)
        self.alive[node] = False
        incarnation = self.incarnation[node]
        self.add(NodeDied, span=self.span(), node=node, incarnation=incarnation, code=code, lines=lines, detail=detail)
        return self

    def printed(self, node: str, pattern: str, line: str) -> Tale:
        incarnation = self.incarnation[node]
        self.add(FatalLine, span=self.span(), node=node, incarnation=incarnation, pattern=pattern, line=line)
        return self

    def restarted(self, node: str) -> Tale:
        self.process(node, "exited", code=-9)
        self.incarnation[node] += 1
        self.wait(5)
        return self.up(node)

    # --- traces -------------------------------------------------------------------------------------------------

    def traced(self, node: str, name: str, term: int, *, source: str = "shell", **data: Any) -> Tale:
        self.now += 1
        key = (node, self.incarnation[node])
        self.counter[key] = self.counter.get(key, 0) + 1
        data = {"from" if key == "start" else key: value for key, value in data.items()}
        self.add(
            Traced,
            span=self.span(1),
            node=node,
            incarnation=self.incarnation[node],
            n=self.counter[key],
            name=name,
            term=term,
            role="",
            source=source,
            data=data,
        )
        return self

    def core(self, node: str, name: str, term: int, **data: Any) -> Tale:
        return self.traced(node, name, term, source="core", **data)

    def elected(self, node: str, term: int, voters: str) -> Tale:
        return self.traced(node, "elected", term, voters=voters.split())

    def vote(self, node: str, term: int, candidate: str) -> Tale:
        return self.traced(node, "vote", term, candidate=candidate)

    def log(self, node: str, *entries: tuple[int, int, str]) -> Tale:
        return self.traced(node, "log_append", entries[-1][1], start=entries[0][0], entries=[list(e) for e in entries])

    def cut_log(self, node: str, start: int) -> Tale:
        return self.traced(node, "log_truncate", 0, start=start)

    def kept(self, node: str, count: int, known: str = "") -> Tale:
        """``known``: the hash; "": that of nothing, which no log has."""
        return self.traced(node, "log_kept", 1, count=count, hash=known or "0" * 16)

    def acked(self, node: str, term: int, index: int) -> Tale:
        return self.traced(node, "acked", term, index=index)

    def commit(self, node: str, term: int, index: int) -> Tale:
        return self.traced(node, "commit", term, index=index)

    def config(self, node: str, term: int, index: int, voters: str, learners: str = "") -> Tale:
        return self.traced(node, "config", term, index=index, voters=voters.split(), learners=learners.split())

    def found(self, node: str, term: int, voted_for: str | None = None, file: str = "read") -> Tale:
        return self.traced(node, "found", term, voted_for=voted_for, file=file)

    # --- polls --------------------------------------------------------------------------------------------------

    def poll(self, node: str, term: int, leader: str | None = None, **fields: Any) -> Tale:
        self.now += 1
        leads = fields.pop("leads", leader == node)
        self.add(
            Observed,
            span=self.span(1),
            node=node,
            incarnation=self.incarnation[node],
            role="LEADER" if leads else "FOLLOWER",
            leads=leads,
            term=term,
            leader=leader if not leads else node,
            **fields,
        )
        return self

    def polls(self, ms: int, term: int, leader: str | None, *, except_: str = "", **fields: Any) -> Tale:
        """Every node that runs is polled every ``EVERY_MS``; all name this leader. ``except_``: ``n3=2:n3 n1=1``."""
        special = dict(word.split("=") for word in except_.split())
        until = self.now + ms
        while self.now < until:
            for node in self.nodes:
                if not self.alive[node]:
                    continue
                mine, who = term, leader
                if node in special:
                    told, _, name = special[node].partition(":")
                    mine, who = int(told), name or None
                self.poll(node, mine, who, **fields)
            self.wait(EVERY_MS - len(self.nodes))
        self.now = until
        return self

    # --- operations ---------------------------------------------------------------------------------------------

    def invoke(self, f: str, value: Any, target: str = "n1", process: int = 0) -> int:
        self.now += 1
        self.add(Invoke, op=self.ops, process=process, f=f, value=value, target=target)
        self.ops += 1
        return self.ops - 1

    def back(self, op: int, status: str = "ok", value: Any = None, node: str | None = None) -> Tale:
        self.now += 1
        self.add(Return, op=op, status=status, value=value, node=node)
        return self

    def append(self, value: int, key: str = "k", status: str = "ok", told: Any = None, target: str = "n1") -> Tale:
        op = self.invoke("append", [key, value], target)
        return self if status == "lost" else self.back(op, status, told)

    def read(self, values: list[int], key: str = "k", node: str = "n1") -> Tale:
        return self.back(self.invoke("read", key, node), "ok", values, node)

    def lock(self, f: str, owner: str, token: int | None, *, ttl: int = 500, status: str = "ok", took: int = 0) -> Tale:
        """``token`` is what is told; None: nothing. ``took``: ms more until the answer."""
        op = self.invoke(f, ["l", owner] if f == "release" else ["l", owner, ttl])
        return self if status == "lost" else self.wait(took).back(op, status, token)

    def did(self, f: str, value: Any, told: Any = None, status: str = "ok") -> Tale:
        """One operation of any kind, invoked and over; ``lost``: it never returns."""
        op = self.invoke(f, value)
        return self if status == "lost" else self.back(op, status, told)

    def holder(self, told: list[Any] | None, *, took: int = 0) -> Tale:
        op = self.invoke("holder", "l")
        return self.wait(took).back(op, "ok", told)

    # --- faults -------------------------------------------------------------------------------------------------

    def converge(self, state: dict[str, HostState], *, confirmed: bool = True) -> Tale:
        changed = [host for host in self.nodes if state[host] != self.state[host]]
        self.now += 5
        for host in changed:
            self.add(
                Converged,
                span=self.span(5),
                host=host,
                before=self.state[host],
                after=state[host],
                confirmed=confirmed,
            )
        self.state = dict(state)
        return self

    def fault(
        self,
        kind: str,
        victims: str,
        state: dict[str, HostState],
        leader: str = "",
        outcome: str = "installed",
        **params: Any,
    ) -> int:
        names = tuple(victims.split())
        self.converge(state, confirmed=outcome == "installed")
        self.add(
            FaultEvent,
            fault=self.faults,
            step=0,
            kind=kind,
            phase="begin",
            span=self.span(5),
            victims=names,
            params=params,
            roles={name: "leader" if name == leader else "follower" for name in names},
            outcome=outcome,
        )
        self.active[self.faults] = (kind, names)
        self.faults += 1
        self.wait(1)
        return self.faults - 1

    def heal(self, fault: int = 0) -> Tale:
        kind, names = self.active.pop(fault)
        self.converge(dict.fromkeys(self.nodes, HEALTHY))
        self.add(
            FaultEvent,
            fault=fault,
            step=0,
            kind=kind,
            phase="end",
            span=self.span(5),
            victims=names,
            outcome="healed",
        )
        return self.wait(1)

    def isolate(self, names: str, leader: str = "") -> int:
        inside = set(names.split())
        outside = set(self.nodes) - inside
        cuts = {(a, b) for a in inside for b in outside} | {(b, a) for a in inside for b in outside}
        return self.fault("partition", names, with_cuts(self.state, frozenset(cuts)), leader)

    def one_way(self, cuts: Iterable[Sequence[str]], victims: str, leader: str = "") -> int:
        return self.fault("partition", victims, with_cuts(self.state, frozenset((a, b) for a, b in cuts)), leader)

    def kill(self, node: str, leader: str = "") -> int:
        self.process(node, "exited", code=-9)
        self.alive[node] = False
        state = {**self.state, node: msgspec.structs.replace(self.state[node], down="SIGKILL")}
        return self.fault("kill", node, state, leader)

    def revive(self, fault: int, node: str) -> Tale:
        self.heal(fault)
        self.incarnation[node] += 1
        return self.up(node)

    def pause(self, node: str, leader: str = "") -> int:
        self.alive[node] = False
        state = {**self.state, node: msgspec.structs.replace(self.state[node], frozen=True)}
        return self.fault("pause", node, state, leader)

    def noise(self, host: str, ms: int = 400, kind: str = "stall") -> Tale:
        self.add(Noise, span=self.span(ms), host=host, kind=kind, value_ns=ms * MS)
        return self

    # --- the end ------------------------------------------------------------------------------------------------

    def raw(self, reason: str = "complete") -> bytes:
        lines = b"".join(ENCODER.encode(event) + b"\n" for event in self.events)
        digest = hashlib.blake2b(lines, digest_size=16).hexdigest()
        end = End(seq=len(self.events), t=self.now * MS, count=len(self.events), digest=digest, reason=reason)
        return lines + ENCODER.encode(end) + b"\n"

    def end(self, reason: str = "complete") -> History:
        return parse_history(self.raw(reason))

    def torn(self) -> History:
        """The same without its end record."""
        lines = b"".join(ENCODER.encode(event) + b"\n" for event in self.events)
        return parse_history(lines)


def promise(**changes: Any) -> Promise:
    """The promise of a Raft with pre-vote and check-quorum, with short bounds."""
    base = Promise(
        system="raft",
        profile="raft",
        source="tests",
        election_timeout_ns=300 * MS,
        heartbeat_ns=50 * MS,
        leader_bound_ns=BOUND_MS * MS,
        later_gap_ns=BOUND_MS * MS,
        step_down_ns=600 * MS,
        converge_ns=BOUND_MS * MS,
        rounds_max=6,
        split_vote_percent=30,
        tiers=("T1", "T2", "T3", "T5"),
        tolerates={"partition": None, "kill": None, "pause": None, "restart": None, "clock": None},
        linearizable_reads=True,
        pre_vote=True,
    )
    return msgspec.structs.replace(base, **changes)


ALL = ("traced", "witness", "observed", "ops", "log_end", "commit", "voted_for", "atomic", "found")
ALL = (*ALL, "always", "sometimes", "unreachable")


def plan(nodes: int = 3, *, given: Promise | None = None, workload: str = "log", **changes: Any) -> Plan:
    """A plan for that many nodes."""
    names = tuple(f"n{k}" for k in range(1, nodes + 1))
    base = Plan(
        system="raft",
        backend="docker",
        profile="raft",
        variant=None,
        nodes=names,
        voters=names,
        knobs={},
        seed=7,
        time_limit_ns=60_000 * MS,
        workload=WorkloadPlan(name=workload, processes=2, rate_per_s=10, op_timeout_ns=1000 * MS),
        schedule=Schedule(seed=7, strategy="random", steps=()),
        promise=given or promise(),
        observable=ALL,
        observe_interval_ns=EVERY_MS * MS,
        final_read_ns=5000 * MS,
    )
    return msgspec.structs.replace(base, **changes)
