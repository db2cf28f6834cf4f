"""The knobs of JoyQueue's leader election: typed, scaled, with the original's names and defaults.

Guarantees: ``parse`` accepts exactly the words of ``KNOBS`` (an original name such as ``election.vote.timeout`` means
the same knob) and raises ConfigError for anything else, naming the nearest; ``words`` is its inverse. All times are
protocol ms scaled by ``time_factor``, an exact decimal, to a whole number of ns. The two coding oddities of the
original are there by default: ``fix_missing_return`` and ``sync_flag_reset`` mend them.

Differs from the original: ``election.heartbeat.max.timeout`` is off by default (30000 there).

Source: docs/sources.md, joyqueue: ``ElectionConfigKey`` for names and defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

import msgspec

from dethrone.clusters.targets.kit.knobs import (
    Knob,
    KnobTable,
    Settings,
    one_of,
    protocol_ms,
    scaling,
    switch,
    text,
    whole,
)

SendKind = Literal["prevote", "vote", "heartbeat"]
SEND_KINDS: tuple[SendKind, ...] = ("prevote", "vote", "heartbeat")
GROUPS_MAX = 16


class Deferral(msgspec.Struct, frozen=True):
    """Send tasks of this kind to this peer (``*``: any) start ``ms`` protocol ms late: before their first statement."""

    peer: str
    kind: SendKind | Literal["*"]
    ms: int


def _names(word: str) -> tuple[str, ...]:
    return tuple(name for name in word.split(",") if name)


def _deferrals(word: str) -> tuple[Deferral, ...]:
    return tuple(_deferral(part) for part in word.split(",") if part)


def _deferral(part: str) -> Deferral:
    peer, kind, ms = (*part.split(":"), "", "", "")[:3]
    if part.count(":") != 2 or not peer or kind not in (*SEND_KINDS, "*") or not (ms.isascii() and ms.isdigit()):
        raise ValueError(part)
    return Deferral(peer, kind, int(ms))  # type: ignore[arg-type]  # checked against SEND_KINDS above


def _timer(default: str, name: str, says: str, *, least: int = 1) -> Knob:
    """A time that the original knows by this name."""
    return protocol_ms(default, says, least=least, original=(f"election.{name}",))


class Knobs(Settings, frozen=True, kw_only=True):
    """All knobs of one node; the same on all nodes of a cluster."""

    time_factor: Annotated[Fraction, scaling("0.002", "1000")]
    election_timeout_ms: Annotated[
        int, _timer("5000", "election.timeout", "T: an election timer runs for T + random[0, T)")
    ]
    vote_timeout_ms: Annotated[int, _timer("5000", "vote.timeout", "how long a campaign lasts; not random")]
    heartbeat_timeout_ms: Annotated[int, _timer("1000", "heartbeat.timeout", "the leader's heartbeat period")]
    heartbeat_max_timeout_ms: Annotated[
        int,
        _timer(
            "0",
            "heartbeat.max.timeout",
            "a replica that took no append for so long gets no heartbeat; 0: never (the original has 30000)",
            least=0,
        ),
    ]
    send_command_timeout_ms: Annotated[
        int, _timer("5000", "send.command.timeout", "how long the answer to a request is waited for")
    ]
    executor_thread_num_min: Annotated[
        int,
        whole("10", "send tasks that may always run at once", original=("election.executor.thread.num.min",)),
    ]
    executor_thread_num_max: Annotated[
        int,
        whole("50", "send tasks that run at once at most", original=("election.executor.thread.num.max",)),
    ]
    transfer_leader_timeout_ms: Annotated[
        int, _timer("10000", "transfer.leader.timeout", "how long a hand-over is tried")
    ]
    persist_errors: Annotated[
        Literal["refuse", "swallow"],
        one_of(
            "refuse",
            ("refuse", "swallow"),
            "a node that cannot store its metadata stops, or only logs it as the original does",
        ),
    ]
    callback_term_check: Annotated[bool, switch("true", "answers to requests of an earlier term are dropped")]
    fix_missing_return: Annotated[bool, switch("false", "no tally after a step-down by a vote answer (mends JQ-B1)")]
    sync_flag_reset: Annotated[bool, switch("false", "flags are reset when a round begins, not in its tasks (JQ-B2)")]
    commit_current_term_only: Annotated[bool, switch("true", "counting replicas commits entries of the own term only")]
    reads: Annotated[
        Literal["log", "local"],
        one_of("log", ("log", "local"), "reads are entries of the log, or answered from what the leader applied"),
    ]
    transfer: Annotated[bool, switch("false", "whether leadership can be handed over")]
    groups: Annotated[
        int, whole("1", "partition groups of the topic, each with an election of its own", most=GROUPS_MAX)
    ]
    learners: Annotated[
        tuple[str, ...], text("", _names, "node names, separated by commas", "nodes that replicate and never vote")
    ]
    task_delay_max_ms: Annotated[
        int,
        protocol_ms("0", "each send task starts after a random delay up to this: an exhausted thread pool", least=0),
    ]
    defer_task: Annotated[
        tuple[Deferral, ...],
        text(
            "",
            _deferrals,
            "peer:prevote|vote|heartbeat|*:ms, separated by commas",
            "send tasks that start late, by peer and kind",
        ),
    ]
    max_entries_per_append: Annotated[int, whole("64", "entries of one append request")]

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """See `Settings`."""
        if self.executor_thread_num_min > self.executor_thread_num_max:
            yield "executor_thread_num_min is above executor_thread_num_max", "exchange the two"
        if self.heartbeat_timeout_ms >= self.election_timeout_ms:
            yield (
                "heartbeat_timeout_ms must be below election_timeout_ms: followers would campaign between heartbeats",
                "shorten the heartbeat or lengthen the election timeout",
            )


KNOBS = KnobTable(
    "joyqueue",
    Knobs,
    profiles={
        "joyqueue": {},
        "joyqueue-starved": {"task_delay_max_ms": "4000"},
        "joyqueue-mended": {"fix_missing_return": "true", "sync_flag_reset": "true"},
    },
)
