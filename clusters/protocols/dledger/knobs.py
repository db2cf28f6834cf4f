"""The knobs of the DLedger target: typed, scaled, and judged before anything starts.

Promises: every time is an integer of ns, scaled exactly by ``time_factor``; an unknown knob or a bad value is a
ConfigError that names the nearest one. Each knob has one own name; the original's spelling and the short names K1 to K4
are understood as well. Leaves out rules: a planted bug overrides a rule (`variants`), not a knob; where DLedger itself
is unsafe or two of its sources disagree, that IS a knob.

Source: DLedger 0.2.7, ``DLedgerConfig`` and ``DLedgerLeaderElector``; where the profile ``dledger`` differs from it,
the safer reading was taken, and ``dledger-upstream`` has the original's.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec

from harness.core.clock import MS, Ns
from harness.core.errors import ConfigError


class DledgerKnobs(msgspec.Struct, frozen=True, kw_only=True):
    """One group's settings, the same on all its nodes. Times are ns after ``time_factor``."""

    profile: str
    clock: str
    persist_mode: str
    ledger_end_term: str
    count_expired_ledger: bool
    flag_handling: str
    has_leader_delay: str
    leader_checks_max_term_first: bool
    commit_own_term_only: bool
    get_committed_only: bool
    push_checks_leader: bool
    fsync: str
    noop_on_elect: bool
    fail_pending_on_step_down: bool
    max_heart_beat_leak: int
    max_pending_requests_num: int
    max_in_flight: int
    heart_beat_interval: Ns
    min_vote_interval: Ns
    max_vote_interval: Ns
    vote_wait: Ns
    loop_period: Ns
    max_wait_ack_time: Ns
    max_push_time_out: Ns
    compare_time_out: Ns
    push_retry: Ns
    commit_interval: Ns
    flush_interval: Ns
    check_point_interval: Ns
    time_factor: str


class Knob(NamedTuple):
    """One knob in words: default, what is allowed, what it does. ``also``: other spellings."""

    default: str
    allowed: str
    meaning: str
    also: tuple[str, ...] = ()


_SWITCH = "true|false"

KNOBS: Mapping[str, Knob] = {
    "clock": Knob("wall", "wall|monotonic", "the clock behind every timestamp of the election"),
    "persist_mode": Knob(
        "atomic", "atomic|upstream|none", "how the term file is written; atomic stops the node on an error", ("K3",)
    ),
    "ledger_end_term": Knob(
        "entry", "entry|curr_term", "the term of the log's end: the last entry's, or the current one when it was stored"
    ),
    "count_expired_ledger": Knob("true", _SWITCH, "REJECT_EXPIRED_LEDGER_TERM counts as a longer log in case 4"),
    "flag_handling": Knob(
        "bump_only", "bump_only|immediate", "a raised term is voted for 300 to 1000 ms later, or at once", ("K1",)
    ),
    "has_leader_delay": Knob("0", "0|leak", "the extra delay of case 2: none, or maxHeartBeatLeak periods", ("K2",)),
    "leader_checks_max_term_first": Knob(
        "false", _SWITCH, "a leader steps down for a higher term before it counts successes", ("K4",)
    ),
    "commit_own_term_only": Knob("true", _SWITCH, "a leader commits by counting only entries of its own term"),
    "get_committed_only": Knob("true", _SWITCH, "a leader serves committed entries only"),
    "push_checks_leader": Knob("true", _SWITCH, "all four pushes must come from the leader that is followed"),
    "fsync": Knob("each", "each|async", "log entries are synced before they count, or every 10 ms"),
    "noop_on_elect": Knob("false", _SWITCH, "a new leader appends a blank entry, which commits what it inherited"),
    "fail_pending_on_step_down": Knob("true", _SWITCH, "a deposed leader answers its callers"),
    "max_heart_beat_leak": Knob(
        "3", "a whole number", "periods without success before giving up", ("maxHeartBeatLeak",)
    ),
    "max_pending_requests_num": Knob("10000", "a whole number", "unanswered appends", ("maxPendingRequestsNum",)),
    "max_in_flight": Knob("1000", "a whole number", "entries pushed to a peer and unanswered"),
    "heart_beat_time_interval_ms": Knob("2000", "ms", "period of heartbeats", ("heartBeatTimeIntervalMs",)),
    "min_vote_interval_ms": Knob("300", "ms", "least delay of a campaign", ("minVoteIntervalMs",)),
    "max_vote_interval_ms": Knob(
        "1000", "ms", "its upper bound, and the extra delay of case 4", ("maxVoteIntervalMs",)
    ),
    "vote_wait_ms": Knob("2000", "ms", "fixed part of the longest wait for votes"),
    "loop_period_ms": Knob("10", "ms", "sleep between two passes of the maintenance loop"),
    "max_wait_ack_time_ms": Knob("2500", "ms", "how long an append waits for a majority", ("maxWaitAckTimeMs",)),
    "max_push_time_out_ms": Knob("1000", "ms", "an unanswered push is sent again", ("maxPushTimeOutMs",)),
    "compare_time_out_ms": Knob("3000", "ms", "longest wait for the answer to COMPARE or TRUNCATE"),
    "push_retry_ms": Knob("500", "ms", "pause of a pusher that starts over"),
    "commit_interval_ms": Knob("1000", "ms", "period of COMMIT when there is nothing to send"),
    "flush_interval_ms": Knob("10", "ms", "period of syncs with fsync=async"),
    "check_point_interval_ms": Knob("3000", "ms", "period of the checkpoint file"),
    "time_factor": Knob("1", "a number above 0", "scales all times"),
}

PROFILES: Mapping[str, Mapping[str, str]] = {
    "dledger": {},
    "dledger-mended": {"leader_checks_max_term_first": "true", "clock": "monotonic", "noop_on_elect": "true"},
    "dledger-upstream": {
        "persist_mode": "upstream",
        "has_leader_delay": "leak",
        "commit_own_term_only": "false",
        "get_committed_only": "false",
        "push_checks_leader": "false",
        "fsync": "async",
        "fail_pending_on_step_down": "false",
    },
}
"""Profile → the words that differ from the defaults. None means ``dledger``."""

_ALSO = {other: name for name, knob in KNOBS.items() for other in knob.also}


def given(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings under the knobs' own names. ConfigError: unknown, or given twice."""
    out: dict[str, str] = {}
    for spelled, word in settings.items():
        name = _ALSO.get(spelled, spelled)
        if name not in KNOBS:
            raise ConfigError(f"unknown knob {spelled!r} of dledger", next_step=_nearest(spelled, (*KNOBS, *_ALSO)))
        if name in out:
            raise ConfigError(f"knob {name} of dledger is given twice", next_step=f"keep one spelling of {name}")
        out[name] = word
    return out


def profile_words(profile: str) -> dict[str, str]:
    """All knobs of a profile as words."""
    return {name: PROFILES[profile].get(name, knob.default) for name, knob in KNOBS.items()}


def read_knobs(settings: Mapping[str, str], *, profile: str | None = None) -> DledgerKnobs:
    """Typed knobs; ``settings`` win over the profile."""
    name = profile or "dledger"
    if name not in PROFILES:
        raise ConfigError(f"unknown profile {name!r} of dledger", next_step=_nearest(name, tuple(PROFILES)))
    words = {**profile_words(name), **given(settings)}
    factor = _number("time_factor", words["time_factor"])

    def time(key: str) -> Ns:
        scaled = _number(key, words[key]) * MS * factor
        return max(1, scaled.numerator // scaled.denominator)

    typed: dict[str, Any] = {}
    for key, knob in KNOBS.items():
        if knob.allowed == _SWITCH:
            typed[key] = _one_of(key, words[key]) == "true"
        elif "|" in knob.allowed:
            typed[key] = _one_of(key, words[key])
        elif knob.allowed == "a whole number":
            typed[key] = _count(key, words[key])
    knobs = DledgerKnobs(
        profile=name,
        heart_beat_interval=time("heart_beat_time_interval_ms"),
        min_vote_interval=time("min_vote_interval_ms"),
        max_vote_interval=time("max_vote_interval_ms"),
        vote_wait=time("vote_wait_ms"),
        loop_period=time("loop_period_ms"),
        max_wait_ack_time=time("max_wait_ack_time_ms"),
        max_push_time_out=time("max_push_time_out_ms"),
        compare_time_out=time("compare_time_out_ms"),
        push_retry=time("push_retry_ms"),
        commit_interval=time("commit_interval_ms"),
        flush_interval=time("flush_interval_ms"),
        check_point_interval=time("check_point_interval_ms"),
        time_factor=words["time_factor"],
        **typed,
    )
    if knobs.min_vote_interval >= knobs.max_vote_interval:
        raise ConfigError(
            "min_vote_interval_ms must lie below max_vote_interval_ms",
            where="knobs of the dledger target",
            cause="a campaign's delay is drawn from between them, the upper bound excluded",
            next_step="leave them at 300 and 1000",
        )
    return knobs


def _one_of(name: str, word: str) -> str:
    allowed = KNOBS[name].allowed
    if allowed == _SWITCH:
        word = {"on": "true", "off": "false"}.get(word, word)
    if word not in allowed.split("|"):
        raise ConfigError(f"knob {name} of dledger cannot be {word!r}", next_step=f"give {allowed}")
    return word


def _number(name: str, word: str) -> Fraction:
    try:
        value = Fraction(word)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0:
        raise ConfigError(f"knob {name} of dledger cannot be {word!r}", next_step="give a number above 0")
    return value


def _count(name: str, word: str) -> int:
    if not (word.isascii() and word.isdigit() and int(word) > 0):
        raise ConfigError(f"knob {name} of dledger cannot be {word!r}", next_step="give a whole number above 0")
    return int(word)


def _nearest(word: str, names: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.4)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
