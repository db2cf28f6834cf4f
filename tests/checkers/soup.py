"""Hypothesis strategies: any events in any order, and small election histories that nearly make sense."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

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
    Sighted,
    Silent,
    Traced,
    Trouble,
)
from dethrone.harness.core.history import History
from dethrone.harness.core.hoststate import ClockSkew, DiskTrouble, HostState, LinkQuality

NODES = ("n1", "n2", "n3")
nodes = st.sampled_from(NODES)
hosts = st.sampled_from((*NODES, "client", "elsewhere"))
terms = st.integers(0, 4)
numbers = st.integers(-2, 2**70) | st.integers(0, 6)
words = st.sampled_from(
    [
        *("elected", "vote", "commit", "acked", "log_append", "log_kept", "log_truncate", "persisted", "relabel"),
        *("found", "answered", "config", "read_served", "leader_seen", "halt", "crashed"),
    ]
)
spans = st.tuples(st.integers(0, 9000), st.integers(0, 900)).map(lambda p: Span(p[0] * MS, (p[0] + p[1]) * MS))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
entries = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from("ab")).map(list), max_size=4)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "voters": st.lists(nodes, max_size=3) | values,
        "candidate": nodes | values,
        "index": st.integers(0, 5) | values,
        "new": st.integers(0, 5) | values,
        "from": st.integers(-1, 5) | values,
        "count": st.integers(-1, 5) | values,
        "hash": st.sampled_from(("0" * 16, "f" * 16)) | values,
        "entries": entries | values,
        "voted_for": nodes | values,
        "result": st.just("won") | values,
        "file": st.sampled_from(["read", "absent", "unreadable"]) | values,
        "learners": values,
        "what": st.just("appended") | values,
        "lease_left": st.integers(0, 9) | values,
        "readIndex": st.integers(0, 5) | values,
        "leader": nodes | values,
        "config": st.fixed_dictionaries({"voters": st.lists(nodes, max_size=3)}) | values,
    },
)
states = st.builds(
    HostState,
    cuts=st.lists(hosts, max_size=2, unique=True).map(tuple),
    links=st.lists(
        st.builds(LinkQuality, src=hosts, delay_ns=st.sampled_from([0, MS, 900 * MS]), loss_percent=st.integers(0, 99)),
        max_size=1,
    ).map(tuple),
    down=st.sampled_from([None, None, "SIGKILL"]),
    frozen=st.booleans(),
    clock=st.none() | st.builds(ClockSkew, offset_ns=st.integers(-5, 5)),
    disk=st.none()
    | st.builds(DiskTrouble, kind=st.sampled_from(["full", "readonly", "eio", "slow"]), latency_ns=st.integers(0, 9)),
    cpu_percent=st.none() | st.integers(1, 99),
)

_ANY: list[tuple[type, dict[str, Any]]] = [
    (Mark, {"name": st.sampled_from(["faults", "final", "stop", "step"]), "data": st.just({})}),
    (
        Invoke,
        {
            "op": st.integers(0, 8),
            "process": st.integers(0, 2),
            "f": st.sampled_from(["append", "read", "put", "acquire", "renew", "release", "holder"]),
            "value": values
            | st.tuples(st.just("k"), st.integers(0, 5)).map(list)
            | st.just("k")
            | st.tuples(st.just("k"), st.sampled_from("ab"), st.integers(0, 9)).map(list)
            | st.tuples(st.just("k"), st.sampled_from("ab")).map(list),
            "target": hosts,
        },
    ),
    (
        Return,
        {
            "op": st.integers(0, 8),
            "status": st.sampled_from(["ok", "fail", "info"]),
            "value": values
            | st.lists(st.integers(0, 5), max_size=5)
            | st.tuples(st.sampled_from("ab"), st.integers(0, 5)).map(list)
            | st.fixed_dictionaries({"index": st.integers(0, 5), "term": terms}),
            "node": st.none() | nodes,
        },
    ),
    (
        Observed,
        {
            "span": spans,
            "node": hosts,
            "incarnation": st.integers(0, 2) | numbers,
            "role": st.text(max_size=2),
            "leads": st.booleans(),
            "term": terms | numbers,
            "leader": st.none() | hosts,
            "voted_for": st.none() | hosts,
            "log_end": st.none() | st.tuples(terms, st.integers(-1, 5)),
            "commit": st.none() | st.integers(-1, 6) | numbers,
            "atomic": st.booleans(),
        },
    ),
    (Silent, {"span": spans, "node": hosts, "error": st.just("refused")}),
    (
        Traced,
        {
            "span": spans,
            "node": hosts,
            "incarnation": st.integers(0, 2) | numbers,
            "n": st.integers(0, 30) | numbers,
            "name": words | st.sampled_from(["prevote_started", "prevote_result", "halt", "election_started"]),
            "term": terms | numbers,
            "role": st.just(""),
            "source": st.sampled_from(["shell", "core"]),
            "data": bodies,
        },
    ),
    (
        NodeProcess,
        {
            "span": spans,
            "node": hosts,
            "incarnation": st.integers(0, 2),
            "phase": st.sampled_from(["started", "ready", "exited"]),
            "asked": st.booleans(),
        },
    ),
    (
        NodeDied,
        {
            "span": spans,
            "node": hosts,
            "incarnation": st.integers(0, 2),
            "code": st.none() | st.integers(-64, 255),
            "lines": st.lists(st.text(max_size=9) | st.just("panic: no")).map(tuple),
            "detail": st.dictionaries(st.sampled_from(["oom_kills", "signalled", "x"]), values, max_size=2),
        },
    ),
    (
        FatalLine,
        {
            "span": spans,
            "node": hosts,
            "incarnation": st.integers(0, 2),
            "pattern": st.text(max_size=3),
            "line": st.text(max_size=9),
        },
    ),
    (
        Sighted,
        {
            "span": spans,
            "node": hosts,
            "incarnation": st.integers(0, 2),
            "n": st.integers(1, 9),
            "by": st.sampled_from(["log", "wire", "metric"]),
            "name": st.text(max_size=3),
            "data": st.dictionaries(st.sampled_from(["line", "groups", "left_out"]), values, max_size=2),
        },
    ),
    (Converged, {"span": spans, "host": hosts, "before": states, "after": states, "confirmed": st.booleans()}),
    (
        FaultEvent,
        {
            "fault": st.integers(0, 3),
            "step": st.just(0),
            "kind": st.sampled_from(["partition", "kill", "pause", "clock", "wipe", "restart"]),
            "phase": st.sampled_from(["begin", "end"]),
            "span": spans,
            "victims": st.lists(hosts, max_size=2).map(tuple),
            "roles": st.dictionaries(hosts, st.sampled_from(["leader", "follower", "unknown"]), max_size=2),
            "outcome": st.sampled_from(["installed", "skipped", "indeterminate", "healed", "heal_failed"]),
        },
    ),
    (
        Noise,
        {
            "span": spans,
            "host": hosts,
            "kind": st.sampled_from(["stall", "fsync", "harness", "summary"]),
            "value_ns": st.integers(0, 10**9),
        },
    ),
    (Trouble, {"kind": st.just("x"), "message": st.just("y")}),
]
_drafts = st.one_of([st.tuples(st.just(kind), st.fixed_dictionaries(fields)) for kind, fields in _ANY])


@st.composite
def soups(draw: Any) -> History:
    """Any events at all, sometimes complete."""
    drafts = draw(st.lists(_drafts, max_size=40))
    t = 0
    events: list[Any] = []
    if draw(st.booleans()) or not drafts:
        events.append(Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=NODES, seed=1))
    for kind, fields in drafts:
        t += draw(st.integers(0, 900)) * MS
        group = draw(st.sampled_from(["", "", "", "g"]))
        events.append(kind(seq=len(events), t=t, group=group, **fields))
    complete = draw(st.booleans())
    if complete:
        events.append(End(seq=len(events), t=t, count=len(events), digest="", reason="complete"))
    return History(events, damage=None if complete else "no end record")


def resequenced(events: list[Any]) -> list[Any]:
    return [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events)]


@st.composite
def elections(draw: Any) -> History:
    """Small histories of polls and witnessed events, dense enough to collide."""
    events: list[Any] = [Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=NODES, seed=1)]
    counter: dict[tuple[str, int], int] = {}
    for _ in range(draw(st.integers(0, 14))):
        node = draw(nodes)
        incarnation = draw(st.integers(1, 2))
        term = draw(st.integers(0, 3))
        lo = draw(st.integers(0, 40))
        span = Span(lo, lo + draw(st.integers(0, 10)))
        if draw(st.booleans()):
            events.append(
                Observed(
                    seq=len(events),
                    t=span.hi,
                    span=span,
                    node=node,
                    incarnation=incarnation,
                    role="",
                    leads=draw(st.booleans()),
                    term=term,
                    leader=draw(st.none() | nodes),
                    voted_for=draw(st.none() | nodes),
                    log_end=None,
                    commit=draw(st.none() | st.integers(0, 3)),
                    atomic=draw(st.sampled_from([True, True, False])),
                )
            )
            continue
        key = (node, incarnation)
        counter[key] = counter.get(key, 0) + 1
        name = draw(st.sampled_from(["vote", "elected", "acked", "persisted", "note"]))
        events.append(
            Traced(
                seq=len(events),
                t=span.hi,
                span=span,
                node=node,
                incarnation=incarnation,
                n=counter[key],
                name=name,
                term=term,
                role="",
                source="core" if name == "note" else draw(st.sampled_from(["shell", "shell", "core"])),
                data={
                    "candidate": draw(nodes),
                    "voters": draw(st.lists(nodes, max_size=3, unique=True)),
                    "index": draw(st.integers(0, 3)),
                },
            )
        )
    events.append(End(seq=len(events), t=99, count=len(events), digest="", reason="complete"))
    return History(events, damage=None)
