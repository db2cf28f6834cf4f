"""The knobs of the Raft target: typed, scaled, and free of contradictions before anything starts.

Promises: every time is an integer of ns, scaled exactly by ``time_factor``; an unknown knob, a bad value or a set that
contradicts itself is a `ConfigError` that names the knob. Leaves out rules: a known-bad target overrides a rule
(`variants`), not a knob; knobs of the Raft paper's own safety rules (``persist``, ``log_check`` ...) may be off.

Source: Raft paper, 5.6 (timing), 9.3 (150-300 ms); thesis 4.2.3, 6.2, 6.4, 9.6 for the extensions.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from fractions import Fraction

import msgspec

from harness.core.clock import MS, Ns
from harness.core.errors import ConfigError

READ_MODES = ("local", "log", "readindex", "lease")
MEMBERSHIPS = ("static", "single_server")


class RaftKnobs(msgspec.Struct, frozen=True, kw_only=True):
    """One group's settings, the same on all its nodes. Times are ns after ``time_factor``."""

    profile: str
    pre_vote: bool
    prevote_leader_check: bool
    check_quorum: bool
    stickiness: bool
    noop: bool
    reads: str
    drift_num: int
    drift_den: int
    vote_holdoff_after_start: bool
    membership: str
    config_needs_own_commit: bool
    transfer: bool
    log_check: bool
    prev_check: bool
    persist: bool
    commit_current_term_only: bool
    retry_same_term: bool
    eager_commit_notice: bool
    max_entries_per_append: int
    time_factor: str
    election_timeout_min: Ns
    election_timeout_max: Ns
    heartbeat_interval: Ns
    rpc_timeout: Ns
    check_quorum_window: Ns
    sticky_window: Ns

    def lease_allowed(self) -> str:
        """Why a lease read cannot be served with these knobs; empty when it can."""
        for name, on in (
            ("noop", self.noop),
            ("stickiness", self.stickiness),
            ("vote_holdoff_after_start", self.vote_holdoff_after_start),
        ):
            if not on:
                return f"lease reads need {name}=on"
        return ""


_COMMON = {
    "log_check": "on",
    "prev_check": "on",
    "persist": "on",
    "commit_current_term_only": "on",
    "retry_same_term": "off",
    "eager_commit_notice": "off",
    "max_entries_per_append": "64",
    "time_factor": "1",
    "election_timeout_min_ms": "150",
    "election_timeout_max_ms": "300",
    "heartbeat_interval_ms": "50",
    "rpc_timeout_ms": "50",
    "check_quorum_window_ms": "",
    "sticky_window_ms": "",
    "clock_drift_bound": "1.1",
    "vote_holdoff_after_start": "",
    "membership": "static",
    "config_needs_own_commit": "on",
    "transfer": "off",
}

PROFILES: Mapping[str, Mapping[str, str]] = {
    "raft": {
        **_COMMON,
        "pre_vote": "on",
        "prevote_leader_check": "on",
        "check_quorum": "on",
        "stickiness": "on",
        "noop": "on",
        "reads": "readindex",
    },
    "raft-paper": {
        **_COMMON,
        "pre_vote": "off",
        "prevote_leader_check": "off",
        "check_quorum": "off",
        "stickiness": "off",
        "noop": "off",
        "reads": "local",
    },
}

_SPELLINGS = {
    "electionTimeoutMin": "election_timeout_min_ms",
    "electionTimeoutMax": "election_timeout_max_ms",
    "heartbeatInterval": "heartbeat_interval_ms",
    "rpcTimeout": "rpc_timeout_ms",
    "checkQuorumWindow": "check_quorum_window_ms",
    "stickyWindow": "sticky_window_ms",
}
"""The specification's names of the times; either spelling is accepted, not both."""

_NAMES = (*PROFILES["raft"], "safe_reads", *_SPELLINGS)


def _bad(what: str, *, next_step: str) -> ConfigError:
    return ConfigError(what, where="knobs of the raft target", next_step=next_step)


def _nearest(word: str, names: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.4)
    return f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(sorted(names))}"


def _switch(name: str, word: str) -> bool:
    if word in ("on", "true"):
        return True
    if word in ("off", "false"):
        return False
    raise _bad(f"{name}={word!r} is not a switch", next_step=f"{name}=on or {name}=off")


def _number(name: str, word: str) -> Fraction:
    """A decimal such as ``0.1`` or ``10``, exactly."""
    try:
        value = Fraction(word)
    except (ValueError, ZeroDivisionError):
        raise _bad(f"{name}={word!r} is not a number", next_step=f"{name}=1 for example") from None
    if value <= 0:
        raise _bad(f"{name}={word!r} must be above 0", next_step=f"{name}=1 for example")
    return value


def _one_of(name: str, word: str, names: tuple[str, ...]) -> str:
    if word not in names:
        raise _bad(f"{name}={word!r} does not exist", next_step=_nearest(word, names))
    return word


def read_knobs(settings: Mapping[str, str], *, profile: str | None = None) -> RaftKnobs:
    """The knobs of ``profile`` (default ``raft``) with ``settings`` over them."""
    name = profile or "raft"
    if name not in PROFILES:
        raise _bad(f"no profile {name!r}", next_step=_nearest(name, tuple(PROFILES)))
    given = _given(settings)
    words = {**PROFILES[name], **given}
    factor = _number("time_factor", words["time_factor"])

    def time(key: str) -> Ns:
        scaled = _number(key, words[key]) * MS * factor
        return max(1, scaled.numerator // scaled.denominator)

    timeout_min = time("election_timeout_min_ms")
    timeout_max = time("election_timeout_max_ms")
    drift = _number("clock_drift_bound", words["clock_drift_bound"])
    reads = _one_of("reads", words["reads"], READ_MODES)
    batch = _number("max_entries_per_append", words["max_entries_per_append"])
    if batch.denominator != 1:
        raise _bad("max_entries_per_append must be a whole number", next_step="max_entries_per_append=64")
    holdoff = words["vote_holdoff_after_start"] or ("on" if reads == "lease" else "off")
    knobs = RaftKnobs(
        profile=name,
        pre_vote=_switch("pre_vote", words["pre_vote"]),
        prevote_leader_check=_switch("prevote_leader_check", words["prevote_leader_check"]),
        check_quorum=_switch("check_quorum", words["check_quorum"]),
        stickiness=_switch("stickiness", words["stickiness"]),
        noop=_switch("noop", words["noop"]),
        reads=reads,
        drift_num=drift.numerator,
        drift_den=drift.denominator,
        vote_holdoff_after_start=_switch("vote_holdoff_after_start", holdoff),
        membership=_one_of("membership", words["membership"], MEMBERSHIPS),
        config_needs_own_commit=_switch("config_needs_own_commit", words["config_needs_own_commit"]),
        transfer=_switch("transfer", words["transfer"]),
        log_check=_switch("log_check", words["log_check"]),
        prev_check=_switch("prev_check", words["prev_check"]),
        persist=_switch("persist", words["persist"]),
        commit_current_term_only=_switch("commit_current_term_only", words["commit_current_term_only"]),
        retry_same_term=_switch("retry_same_term", words["retry_same_term"]),
        eager_commit_notice=_switch("eager_commit_notice", words["eager_commit_notice"]),
        max_entries_per_append=int(batch),
        time_factor=words["time_factor"],
        election_timeout_min=timeout_min,
        election_timeout_max=timeout_max,
        heartbeat_interval=time("heartbeat_interval_ms"),
        rpc_timeout=time("rpc_timeout_ms"),
        check_quorum_window=time("check_quorum_window_ms") if words["check_quorum_window_ms"] else timeout_max,
        sticky_window=time("sticky_window_ms") if words["sticky_window_ms"] else timeout_min,
    )
    _refuse_contradictions(knobs, given)
    return knobs


def _given(settings: Mapping[str, str]) -> dict[str, str]:
    """The caller's settings under their one name, ``safe_reads`` turned into ``reads``."""
    given: dict[str, str] = {}
    for spelled, word in settings.items():
        if spelled not in _NAMES:
            raise _bad(f"no knob {spelled!r}", next_step=_nearest(spelled, _NAMES))
        name = _SPELLINGS.get(spelled, spelled)
        if name in given:
            raise _bad(f"{name} is given twice", next_step=f"keep one of {spelled} and {name}")
        given[name] = word
    if "safe_reads" in given:
        safe = _switch("safe_reads", given.pop("safe_reads"))
        reads = given.setdefault("reads", "readindex" if safe else "local")
        if safe == (reads == "local"):
            raise _bad(f"safe_reads and reads={reads} contradict", next_step="give only reads")
    return given


def _refuse_contradictions(knobs: RaftKnobs, given: Mapping[str, str]) -> None:
    """A knob whose need is off: always an error where safety or liveness hangs on it, else only when asked for."""

    def need(active: bool, what: str, needed: str, met: bool) -> None:  # noqa: FBT001 - a table of four columns
        if active and not met:
            name = what.split("=", maxsplit=1)[0]
            raise _bad(f"{what} needs {needed}", next_step=f"set {needed}, or {name} to something else")

    asked = given.get
    need(knobs.stickiness, "stickiness=on", "check_quorum=on", knobs.check_quorum)
    need(asked("prevote_leader_check") in ("on", "true"), "prevote_leader_check=on", "pre_vote=on", knobs.pre_vote)
    need(knobs.reads in ("readindex", "lease"), f"reads={knobs.reads}", "noop=on", knobs.noop)
    need(knobs.reads == "lease", "reads=lease", "stickiness=on", knobs.stickiness)
    need(knobs.reads == "lease", "reads=lease", "vote_holdoff_after_start=on", knobs.vote_holdoff_after_start)
    need(knobs.membership == "single_server", "membership=single_server", "noop=on", knobs.noop)
    single = knobs.membership == "single_server"
    need("config_needs_own_commit" in given, "config_needs_own_commit", "membership=single_server", single)
    if knobs.drift_num < knobs.drift_den:
        raise _bad("clock_drift_bound is a ratio of two rates, at least 1", next_step="clock_drift_bound=1.1")
    if knobs.election_timeout_min > knobs.election_timeout_max:
        raise _bad("electionTimeoutMin is above electionTimeoutMax", next_step="exchange the two")
    if knobs.heartbeat_interval * 2 > knobs.election_timeout_min:
        raise _bad(
            "heartbeatInterval must be well below electionTimeoutMin (at most half of it)",
            next_step="shorten the heartbeat or lengthen the timeout",
        )
    if knobs.reads == "lease" and knobs.sticky_window < knobs.election_timeout_min:
        raise _bad(
            "reads=lease counts on voters that stay sticky for electionTimeoutMin; stickyWindow is shorter",
            next_step="leave stickyWindow at its default",
        )
    if knobs.check_quorum and knobs.check_quorum_window <= knobs.heartbeat_interval:
        raise _bad("checkQuorumWindow must be longer than heartbeatInterval", next_step="leave it at its default")
