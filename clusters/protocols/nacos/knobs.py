"""Knobs and constants of the naming Raft, typed, with the defaults that are faithful to the original.

Promises: ``parse`` accepts exactly the words of ``KNOBS`` and raises ConfigError for anything else, naming the nearest
knob; ``words`` is its inverse. The dues are counted in protocol milliseconds, tick by tick, and ``time_factor`` scales
what one protocol millisecond lasts; it is an exact decimal with at most six places, so every duration is a whole
number of nanoseconds.

Leaves out: knobs for the constants of §3; the original has none either.

Source: specification of Nacos 1.4.1 naming Raft, §3 and §9. ``late_ticks``, ``namespace`` and ``version_switch_ms`` are
ours: the specification says that a starved process delays its election, while the original's fixed-rate timer catches
up on every missed tick at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, NamedTuple

import msgspec

from harness.core.clock import MS, Ns
from harness.core.errors import ConfigError

TICK_PERIOD_MS = 500
LEADER_TIMEOUT_MS = 15_000
RANDOM_MS = 5_000
HEARTBEAT_INTERVAL_MS = 5_000
PUBLISH_TIMEOUT_MS = 5_000
PUBLISH_TERM_INCREASE_COUNT = 100
FETCH_BATCH_MAX = 50
FORWARD_TIMEOUT_MS = 2 * PUBLISH_TIMEOUT_MS
"""A follower's patience with the leader that it forwarded a write to: longer than the leader's own with the others."""
FORWARD_HOPS_MAX = 3
"""Two nodes that hold each other for the leader would hand a write to and fro for ever."""

_FACTOR_MIN = Decimal("0.002")
_FACTOR_MAX = Decimal(1000)


class Knobs(msgspec.Struct, frozen=True, kw_only=True):
    """All knobs. The four safe variants are false by default: false is the original's behaviour."""

    persist_vote: bool = False
    count_current_term_only: bool = False
    leader_needs_majority_acks: bool = False
    beat_raises_term: bool = False
    term_jump: int = 0
    restart_term: Literal["loaded", "zero"] = "loaded"
    beat_data: bool = True
    send_beat_only: bool = False
    standalone: bool = False
    version_switch_ms: int = 0
    late_ticks: Literal["skip", "burst"] = "skip"
    namespace: str = "public"
    time_factor: Decimal = Decimal(1)

    def ns(self, protocol_ms: int) -> Ns:
        """How long ``protocol_ms`` last on this node's clock."""
        return int(self.time_factor * (protocol_ms * MS))

    def ms_left(self, protocol_ms: int) -> int:
        """The same in whole milliseconds of this node's clock, for people to read."""
        return self.ns(protocol_ms) // MS


class Knob(NamedTuple):
    """One knob in words: default, what is allowed, what it does."""

    default: str
    allowed: str
    meaning: str


KNOBS: Mapping[str, Knob] = {
    "persist_vote": Knob("false", "true|false", "term and voteFor are on disk before a vote leaves, and never go back"),
    "count_current_term_only": Knob("false", "true|false", "only records of the own current term count in the tally"),
    "leader_needs_majority_acks": Knob(
        "false", "true|false", "a leader's beat or write keeps it from electing only once a majority answered"
    ),
    "beat_raises_term": Knob("false", "true|false", "an accepted beat raises the term to the sender's"),
    "term_jump": Knob("0", "0|100", "what a publish adds to the leader's term"),
    "restart_term": Knob("loaded", "loaded|zero", "whether the stored term reaches the own record at start"),
    "beat_data": Knob("true", "true|false", "followers fetch and delete items after the list in a beat"),
    "send_beat_only": Knob("false", "true|false", "beats carry no items, and nobody looks for them"),
    "standalone": Knob("false", "true|false", "one node that leads by itself and sends no beats"),
    "version_switch_ms": Knob("0", "0 (never) or more", "after how many protocol ms the cluster runs the new version"),
    "late_ticks": Knob("skip", "skip|burst", "what the election task does with ticks missed by a starved process"),
    "namespace": Knob("public", "letters, digits, - and _", "the folder of the data items"),
    "time_factor": Knob("1", "a decimal from 0.002 to 1000", "scales all timers"),
}

PROFILES: Mapping[str, Mapping[str, str]] = {
    "nacos": {},
    "nacos-mended": {
        "persist_vote": "true",
        "count_current_term_only": "true",
        "leader_needs_majority_acks": "true",
        "beat_raises_term": "true",
    },
}
"""Profile → the words that differ from the defaults. None means ``nacos``."""


def parse(settings: Mapping[str, str], *, profile: str | None = None) -> Knobs:
    """Typed knobs from words; ``settings`` win over the profile."""
    name = "nacos" if profile is None else profile
    if name not in PROFILES:
        raise ConfigError(f"unknown profile {name!r} of nacos", next_step=_nearest(name, PROFILES))
    for key in settings:
        if key not in KNOBS:
            raise ConfigError(f"unknown knob {key!r} of nacos", next_step=_nearest(key, KNOBS))
    merged = {**PROFILES[name], **settings}
    typed: dict[str, Any] = {key: _value(key, text) for key, text in merged.items()}
    knobs = Knobs(**typed)
    if knobs.persist_vote and knobs.restart_term == "zero":
        raise ConfigError(
            "persist_vote and restart_term=zero contradict each other",
            cause="a vote that is stored with its term is of no use if the term is forgotten at the start",
            next_step="leave restart_term at loaded",
        )
    return knobs


def words(knobs: Knobs) -> dict[str, str]:
    """All knobs as words, defaults filled in."""
    return {key: _word(getattr(knobs, key)) for key in KNOBS}


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _value(key: str, text: str) -> bool | int | str | Decimal:
    allowed = KNOBS[key].allowed
    if key == "time_factor":
        return _factor(text)
    if key == "version_switch_ms":
        if text.isascii() and text.isdigit():
            return int(text)
    elif key == "namespace":
        if text and text.replace("-", "").replace("_", "").isalnum() and text.isascii():
            return text
    elif text in allowed.split("|"):
        if allowed == "true|false":
            return text == "true"
        return int(text) if key == "term_jump" else text
    raise ConfigError(f"knob {key} of nacos cannot be {text!r}", next_step=f"give {allowed}")


def _factor(text: str) -> Decimal:
    try:
        factor = Decimal(text)
    except InvalidOperation:
        factor = Decimal(0)
    if not factor.is_finite() or not _FACTOR_MIN <= factor <= _FACTOR_MAX or factor * MS != int(factor * MS):
        raise ConfigError(
            f"knob time_factor of nacos cannot be {text!r}",
            cause="a protocol millisecond must last a whole number of nanoseconds",
            next_step="give a decimal from 0.002 to 1000 with at most six places, such as 0.1",
        )
    return factor


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
