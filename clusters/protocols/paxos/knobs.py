"""The knobs of the Paxos target: typed, scaled, and free of contradictions before anything starts.

Promises: every time is an integer of ns, scaled exactly by ``time_factor``; an unknown knob, a bad value or a set that
contradicts itself is a `ConfigError` that names the knob; ``words`` is the inverse of ``parse``. Leaves out rules: a
known-bad build overrides a rule (`variants`), not a knob. Some knobs are known to be unsafe all the same, as the
published descriptions leave them open: ``persist=false``, ``id_scheme=plain_counter``, ``accept_rule=ge_literal``.

Source: Lamport, "Paxos Made Simple", for the rules; the times are ours, sized like Raft's (150-300 ms).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Literal, NamedTuple

import msgspec

from harness.core.clock import MS, Ns
from harness.core.errors import ConfigError


class PaxosKnobs(msgspec.Struct, frozen=True, kw_only=True):
    """One group's settings, the same on all its nodes. Times are ns after ``time_factor``."""

    profile: str
    acceptors: int
    """How many of the members, from the first on, are acceptors; 0: all."""
    accept_rule: Literal["eq", "ge", "ge_literal"]
    persist: bool
    id_scheme: Literal["unique", "plain_counter"]
    nack: bool
    backoff: Literal["random", "none"]
    start_needs: Literal["majority", "one"]
    learner: Literal["memory", "disk"]
    relearn: Literal["ask", "attempt"]
    election: bool
    time_factor: str
    phase_timeout: Ns
    retry_backoff_min: Ns
    retry_backoff_max: Ns
    retry_backoff_cap: Ns
    patience: Ns
    heartbeat_interval: Ns
    heartbeat_timeout_min: Ns
    heartbeat_timeout_max: Ns


class Knob(NamedTuple):
    """One knob in words: default, what is allowed, what it does."""

    default: str
    allowed: str
    meaning: str


_SWITCH = "true|false"
_TIME = "a number of ms"

KNOBS: Mapping[str, Knob] = {
    "acceptors": Knob(
        "all", "all, or a whole number", "the first so many members accept; every member proposes and learns"
    ),
    "accept_rule": Knob(
        "eq", "eq|ge|ge_literal", "a proposal is accepted when its number equals, or is at least, max_id"
    ),
    "persist": Knob("true", _SWITCH, "acceptors and the counter are on disk before anything is answered"),
    "id_scheme": Knob(
        "unique", "unique|plain_counter", "numbers: counter times nodes plus own place, or a bare counter"
    ),
    "nack": Knob("true", _SWITCH, "a refusal is said; false: silence"),
    "backoff": Knob("random", "random|none", "how long a proposer waits before its next number"),
    "start_needs": Knob("majority", "majority|one", "how many acceptors must be reachable before a number is tried"),
    "learner": Knob("memory", "memory|disk", "where a learner keeps what it learned"),
    "relearn": Knob("ask", "ask|attempt", "how a learner that does not know learns: it asks acceptors, or proposes"),
    "election": Knob("false", _SWITCH, "epochs: instance -k decides who leads epoch k"),
    "time_factor": Knob("1", "a number above 0", "scales all times"),
    "phase_timeout_ms": Knob("200", _TIME, "how long one phase may take"),
    "retry_backoff_min_ms": Knob("50", _TIME, "the shortest first wait"),
    "retry_backoff_max_ms": Knob("150", _TIME, "the longest first wait; both double with each failure"),
    "retry_backoff_cap_ms": Knob("2000", _TIME, "the longest wait of all"),
    "patience_ms": Knob("2000", _TIME, "how long a client's request is worked on"),
    "heartbeat_interval_ms": Knob("50", _TIME, "between two heartbeats of the leader of an epoch"),
    "heartbeat_timeout_min_ms": Knob("150", _TIME, "the shortest silence after which a node contends"),
    "heartbeat_timeout_max_ms": Knob("300", _TIME, "the longest such silence"),
}

PROFILES: Mapping[str, Mapping[str, str]] = {"paxos": {}, "paxos-election": {"election": "true"}}
"""Profile → the words that differ from the defaults. None means ``paxos``."""

_SPELLINGS = {
    "phaseTimeout": "phase_timeout_ms",
    "heartbeatInterval": "heartbeat_interval_ms",
}
"""Another spelling of a time; either is accepted, not both."""


def parse(settings: Mapping[str, str], *, profile: str | None = None) -> PaxosKnobs:
    """Typed knobs from words; ``settings`` win over the profile."""
    name = "paxos" if profile is None else profile
    if name not in PROFILES:
        raise _bad(f"no profile {name!r}", next_step=_nearest(name, PROFILES))
    merged = {key: knob.default for key, knob in KNOBS.items()} | dict(PROFILES[name]) | _given(settings)
    for key, word in merged.items():
        allowed = KNOBS[key].allowed
        if "|" in allowed and word not in allowed.split("|"):
            raise _bad(f"{key} cannot be {word!r}", next_step=f"give {allowed}")
    factor = _number("time_factor", merged["time_factor"])

    def time(key: str) -> Ns:
        scaled = _number(key, merged[key]) * MS * factor
        return max(1, scaled.numerator // scaled.denominator)

    def on(key: str) -> bool:
        return merged[key] == "true"

    acceptors = merged["acceptors"]
    if acceptors != "all" and not (acceptors.isascii() and acceptors.isdigit() and int(acceptors) > 0):
        raise _bad(f"acceptors cannot be {acceptors!r}", next_step=f"give {KNOBS['acceptors'].allowed}")
    knobs = PaxosKnobs(
        profile=name,
        acceptors=0 if acceptors == "all" else int(acceptors),
        accept_rule=merged["accept_rule"],  # type: ignore[arg-type]  # one of the words, as just found
        persist=on("persist"),
        id_scheme=merged["id_scheme"],  # type: ignore[arg-type]
        nack=on("nack"),
        backoff=merged["backoff"],  # type: ignore[arg-type]
        start_needs=merged["start_needs"],  # type: ignore[arg-type]
        learner=merged["learner"],  # type: ignore[arg-type]
        relearn=merged["relearn"],  # type: ignore[arg-type]
        election=on("election"),
        time_factor=merged["time_factor"],
        phase_timeout=time("phase_timeout_ms"),
        retry_backoff_min=time("retry_backoff_min_ms"),
        retry_backoff_max=time("retry_backoff_max_ms"),
        retry_backoff_cap=time("retry_backoff_cap_ms"),
        patience=time("patience_ms"),
        heartbeat_interval=time("heartbeat_interval_ms"),
        heartbeat_timeout_min=time("heartbeat_timeout_min_ms"),
        heartbeat_timeout_max=time("heartbeat_timeout_max_ms"),
    )
    _refuse_contradictions(knobs)
    return knobs


def words(settings: Mapping[str, str], *, profile: str) -> dict[str, str]:
    """All knobs as words: the profile's, and ``settings`` (already found right) over them."""
    return {key: knob.default for key, knob in KNOBS.items()} | dict(PROFILES[profile]) | _given(settings)


def _given(settings: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for spelled, word in settings.items():
        name = _SPELLINGS.get(spelled, spelled)
        if name not in KNOBS:
            raise _bad(f"no knob {spelled!r}", next_step=_nearest(spelled, (*KNOBS, *_SPELLINGS)))
        if name in given:
            raise _bad(f"{name} is given twice", next_step=f"keep one of {spelled} and {name}")
        switch = {"on": "true", "off": "false"} if KNOBS[name].allowed == _SWITCH else {}
        given[name] = switch.get(word, word)
    return given


def _refuse_contradictions(knobs: PaxosKnobs) -> None:
    for low, high, what in (
        (knobs.retry_backoff_min, knobs.retry_backoff_max, "retry_backoff_min_ms is above retry_backoff_max_ms"),
        (knobs.retry_backoff_max, knobs.retry_backoff_cap, "retry_backoff_max_ms is above retry_backoff_cap_ms"),
        (
            knobs.heartbeat_timeout_min,
            knobs.heartbeat_timeout_max,
            "heartbeat_timeout_min_ms is above heartbeat_timeout_max_ms",
        ),
        (
            2 * knobs.heartbeat_interval,
            knobs.heartbeat_timeout_min,
            "a heartbeat timeout takes two heartbeats at least",
        ),
    ):
        if low > high:
            raise _bad(what, next_step="exchange the two, or leave them out")
    if knobs.learner == "disk" and not knobs.persist:
        raise _bad("learner=disk needs persist=true", next_step="set persist=true, or learner=memory")


def _number(name: str, word: str) -> Fraction:
    """A decimal such as ``0.1`` or ``10``, exactly."""
    try:
        value = Fraction(word)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0:
        raise _bad(f"{name} cannot be {word!r}", next_step=f"give {KNOBS[name].allowed}, above 0")
    return value


def _bad(what: str, *, next_step: str) -> ConfigError:
    return ConfigError(what, where="knobs of the paxos target", next_step=next_step)


def _nearest(word: str, names: Iterable[str]) -> str:
    known = tuple(names)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    return f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(sorted(known))}"
