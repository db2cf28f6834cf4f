"""The knobs of JoyQueue's leader election: typed, scaled, with the original's names and defaults.

Promises: ``parse`` accepts exactly the words of ``KNOBS`` (an original name such as ``election.vote.timeout`` means
the same knob) and raises ConfigError for anything else, naming the nearest; ``words`` is its inverse. All times are
protocol ms scaled by ``time_factor``, an exact decimal, to a whole number of ns. The two coding oddities of the
original are there by default: ``fix_missing_return`` and ``sync_flag_reset`` mend them.

Leaves out: ``election.heartbeat.max.timeout`` is off by default here, as the specification of the harness says; 30000
is the original's.

Source: specification of JoyQueue's ``RaftLeaderElection``, §3 and §6; ``ElectionConfigKey`` of the project for names.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, NamedTuple

import msgspec

from harness.core.clock import MS, Ns
from harness.core.errors import ConfigError

SendKind = Literal["prevote", "vote", "heartbeat"]
SEND_KINDS: tuple[SendKind, ...] = ("prevote", "vote", "heartbeat")
GROUPS_MAX = 16

_FACTOR_MIN = Decimal("0.002")
_FACTOR_MAX = Decimal(1000)


class Deferral(msgspec.Struct, frozen=True):
    """Send tasks of this kind to this peer (``*``: any) start ``ms`` protocol ms late: before their first statement."""

    peer: str
    kind: SendKind | Literal["*"]
    ms: int


class Knobs(msgspec.Struct, frozen=True, kw_only=True):
    """All knobs of one node; the same on all nodes of a cluster."""

    election_timeout_ms: int = 5000
    vote_timeout_ms: int = 5000
    heartbeat_timeout_ms: int = 1000
    heartbeat_max_timeout_ms: int = 0
    send_command_timeout_ms: int = 5000
    executor_thread_num_min: int = 10
    executor_thread_num_max: int = 50
    transfer_leader_timeout_ms: int = 10_000
    persist_errors: Literal["refuse", "swallow"] = "refuse"
    callback_term_check: bool = True
    fix_missing_return: bool = False
    sync_flag_reset: bool = False
    commit_current_term_only: bool = True
    reads: Literal["log", "local"] = "log"
    transfer: bool = False
    groups: int = 1
    learners: tuple[str, ...] = ()
    task_delay_max_ms: int = 0
    defer_task: tuple[Deferral, ...] = ()
    max_entries_per_append: int = 64
    time_factor: Decimal = Decimal(1)

    @property
    def unit_ns(self) -> Ns:
        """How long one protocol ms lasts."""
        return int(self.time_factor * MS)

    def ns(self, protocol_ms: int) -> Ns:
        """How long ``protocol_ms`` last on this node's clock."""
        return protocol_ms * self.unit_ns


class Knob(NamedTuple):
    """One knob in words: default, what is allowed, what it does; ``original`` is its name in the original."""

    default: str
    allowed: str
    meaning: str
    original: str = ""


_MS = "ms, a whole number from 1"

KNOBS: Mapping[str, Knob] = {
    "election_timeout_ms": Knob(
        "5000", _MS, "T: an election timer runs for T + random[0, T)", "election.election.timeout"
    ),
    "vote_timeout_ms": Knob("5000", _MS, "how long a campaign lasts; not random", "election.vote.timeout"),
    "heartbeat_timeout_ms": Knob("1000", _MS, "the leader's heartbeat period", "election.heartbeat.timeout"),
    "heartbeat_max_timeout_ms": Knob(
        "0",
        "ms, 0: never (the original has 30000)",
        "a replica that took no append for so long gets no heartbeat",
        "election.heartbeat.max.timeout",
    ),
    "send_command_timeout_ms": Knob(
        "5000", _MS, "how long the answer to a request is waited for", "election.send.command.timeout"
    ),
    "executor_thread_num_min": Knob(
        "10", "a whole number from 1", "send tasks that may always run at once", "election.executor.thread.num.min"
    ),
    "executor_thread_num_max": Knob(
        "50", "a whole number from 1", "send tasks that run at once at most", "election.executor.thread.num.max"
    ),
    "transfer_leader_timeout_ms": Knob(
        "10000", _MS, "how long a hand-over is tried", "election.transfer.leader.timeout"
    ),
    "persist_errors": Knob(
        "refuse", "refuse|swallow", "a node that cannot store its metadata stops, or only logs it as the original does"
    ),
    "callback_term_check": Knob("true", "true|false", "answers to requests of an earlier term are dropped"),
    "fix_missing_return": Knob("false", "true|false", "no tally after a step-down by a vote answer (mends JQ-B1)"),
    "sync_flag_reset": Knob("false", "true|false", "flags are reset when a round begins, not in its tasks (JQ-B2)"),
    "commit_current_term_only": Knob("true", "true|false", "counting replicas commits entries of the own term only"),
    "reads": Knob("log", "log|local", "reads are entries of the log, or answered from what the leader applied"),
    "transfer": Knob("false", "true|false", "whether leadership can be handed over"),
    "groups": Knob("1", f"1 to {GROUPS_MAX}", "partition groups of the topic, each with an election of its own"),
    "learners": Knob("", "node names, separated by commas", "nodes that replicate and never vote"),
    "task_delay_max_ms": Knob(
        "0", "ms, from 0", "each send task starts after a random delay up to this: an exhausted thread pool"
    ),
    "defer_task": Knob(
        "", "peer:prevote|vote|heartbeat|*:ms, separated by commas", "send tasks that start late, by peer and kind"
    ),
    "max_entries_per_append": Knob("64", "a whole number from 1", "entries of one append request"),
    "time_factor": Knob("1", "a decimal from 0.002 to 1000", "scales all timers"),
}

_ORIGINAL = {knob.original: name for name, knob in KNOBS.items() if knob.original}

PROFILES: Mapping[str, Mapping[str, str]] = {
    "joyqueue": {},
    "joyqueue-starved": {"task_delay_max_ms": "4000"},
    "joyqueue-mended": {"fix_missing_return": "true", "sync_flag_reset": "true"},
}
"""Profile → the words that differ from the defaults. None means ``joyqueue``."""


def parse(settings: Mapping[str, str], *, profile: str | None = None) -> Knobs:
    """Typed knobs from words; ``settings`` win over the profile."""
    name = "joyqueue" if profile is None else profile
    if name not in PROFILES:
        raise ConfigError(f"unknown profile {name!r} of joyqueue", next_step=_nearest(name, PROFILES))
    given: dict[str, str] = {}
    for spelled, text in settings.items():
        key = _ORIGINAL.get(spelled, spelled)
        if key not in KNOBS:
            raise ConfigError(f"unknown knob {spelled!r} of joyqueue", next_step=_nearest(spelled, KNOBS))
        if key in given:
            raise ConfigError(f"knob {key} of joyqueue is given twice", next_step="keep one of its two names")
        given[key] = text
    typed: dict[str, Any] = {key: _value(key, text) for key, text in {**PROFILES[name], **given}.items()}
    knobs = Knobs(**typed)
    if knobs.executor_thread_num_min > knobs.executor_thread_num_max:
        raise ConfigError(
            "executor_thread_num_min of joyqueue is above executor_thread_num_max", next_step="exchange the two"
        )
    if knobs.heartbeat_timeout_ms >= knobs.election_timeout_ms:
        raise ConfigError(
            "heartbeat_timeout_ms of joyqueue must be below election_timeout_ms",
            cause="followers would campaign between two heartbeats",
            next_step="shorten the heartbeat or lengthen the election timeout",
        )
    return knobs


def words(knobs: Knobs) -> dict[str, str]:
    """All knobs as words, defaults filled in."""
    return {key: _word(getattr(knobs, key)) for key in KNOBS}


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, tuple):
        return ",".join(f"{v.peer}:{v.kind}:{v.ms}" if isinstance(v, Deferral) else str(v) for v in value)
    return str(value)


def _value(key: str, text: str) -> Any:
    allowed = KNOBS[key].allowed
    if key == "time_factor":
        return _factor(text)
    if key == "learners":
        return tuple(name for name in text.split(",") if name)
    if key == "defer_task":
        return tuple(_deferral(part) for part in text.split(",") if part)
    if "|" in allowed:
        if text in allowed.split("|"):
            return text == "true" if allowed == "true|false" else text
    elif text.isascii() and text.isdigit():
        number = int(text)
        least = 0 if KNOBS[key].default == "0" else 1
        if number >= least and (key != "groups" or number <= GROUPS_MAX):
            return number
    raise ConfigError(f"knob {key} of joyqueue cannot be {text!r}", next_step=f"give {allowed}")


def _deferral(text: str) -> Deferral:
    peer, _, rest = text.partition(":")
    kind, _, ms = rest.partition(":")
    if not peer or kind not in (*SEND_KINDS, "*") or not (ms.isascii() and ms.isdigit()):
        raise ConfigError(
            f"knob defer_task of joyqueue cannot hold {text!r}", next_step=f"give {KNOBS['defer_task'].allowed}"
        )
    return Deferral(peer, kind, int(ms))  # type: ignore[arg-type]  # checked against SEND_KINDS above


def _factor(text: str) -> Decimal:
    try:
        factor = Decimal(text)
    except InvalidOperation:
        factor = Decimal(0)
    if not factor.is_finite() or not _FACTOR_MIN <= factor <= _FACTOR_MAX or factor * MS != int(factor * MS):
        raise ConfigError(
            f"knob time_factor of joyqueue cannot be {text!r}",
            cause="a protocol millisecond must last a whole number of nanoseconds",
            next_step="give a decimal from 0.002 to 1000 with at most six places, such as 0.1",
        )
    return factor


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
