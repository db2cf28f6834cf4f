"""The knobs of the ephemeral-node target: typed, scaled, free of contradictions before anything starts.

Promises: every time is an integer of ns, scaled exactly by ``time_factor``; Kafka's own spelling of a name (with dots)
is accepted; an unknown knob or a bad value is a ConfigError that names the nearest. Leaves out rules: planted bugs
override a rule (`variants`), not a knob.

Source: specification of Kafka's ephemeral-node election, §4; defaults of Kafka 3.3.1 in ZooKeeper mode.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from fractions import Fraction

import msgspec

from harness.core.clock import MS, Ns
from harness.core.errors import ConfigError

MODES = ("race", "controller")
FENCINGS = ("off", "epochs")
TRUNCATES = ("hw", "epoch", "off")
ACKS = ("1", "all")
LAST = "last"


class ZkKnobs(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster's settings, the same on all its nodes. Times are ns after ``time_factor``."""

    profile: str
    mode: str
    fencing: bool
    session_timeout: Ns
    replica_lag_time_max: Ns
    unclean_leader_election: bool
    min_insync_replicas: int
    acks: str
    step_down_on_disconnect: bool
    truncate: str
    isr_in_force: str
    rewatch: bool
    service_clock: str
    coordinator: str
    fetch_wait_max: Ns
    hw_checkpoint_interval: Ns
    call_retry: Ns
    time_factor: str

    def coordinator_of(self, members: tuple[str, ...]) -> str:
        """The member that is the coordination service."""
        return members[-1] if self.coordinator == LAST else self.coordinator


_RACE = {
    "mode": "race",
    "fencing": "",
    "zookeeper_session_timeout_ms": "18000",
    "replica_lag_time_max_ms": "30000",
    "unclean_leader_election_enable": "false",
    "min_insync_replicas": "1",
    "acks": "1",
    "step_down_on_disconnect": "false",
    "truncate": "",
    "isr_in_force": "published",
    "rewatch": "on",
    "service_clock": "mono",
    "coordinator": LAST,
    "replica_fetch_wait_max_ms": "500",
    "hw_checkpoint_interval_ms": "5000",
    "call_retry_ms": "500",
    "time_factor": "1",
}

PROFILES: Mapping[str, Mapping[str, str]] = {
    "race": _RACE,
    "controller": {**_RACE, "mode": "controller"},
    "race-strict": {
        **_RACE,
        "fencing": "epochs",
        "truncate": "epoch",
        "acks": "all",
        "min_insync_replicas": "2",
        "step_down_on_disconnect": "true",
    },
}
"""``fencing`` and ``truncate`` left empty follow the mode: off and hw in race, epochs and epoch in controller."""


def _bad(what: str, *, next_step: str) -> ConfigError:
    return ConfigError(what, where="knobs of the zk-ephemeral target", next_step=next_step)


def _nearest(word: str, names: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.4)
    return f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(sorted(names))}"


def _switch(name: str, word: str) -> bool:
    if word in ("on", "true"):
        return True
    if word in ("off", "false"):
        return False
    raise _bad(f"{name}={word!r} is not a switch", next_step=f"{name}=true or {name}=false")


def _number(name: str, word: str) -> Fraction:
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


def words_of(settings: Mapping[str, str], *, profile: str) -> dict[str, str]:
    """All knobs of the profile as words, ``settings`` over them, what follows the mode filled in."""
    words = dict(PROFILES[profile])
    for spelled, word in settings.items():
        name = spelled.replace(".", "_")
        if name not in words:
            raise _bad(f"no knob {spelled!r}", next_step=_nearest(name, tuple(words)))
        words[name] = word
    controller = _one_of("mode", words["mode"], MODES) == "controller"
    words["fencing"] = words["fencing"] or ("epochs" if controller else "off")
    words["truncate"] = words["truncate"] or ("epoch" if controller else "hw")
    return words


def read_knobs(settings: Mapping[str, str], *, profile: str | None = None) -> ZkKnobs:
    """The knobs of ``profile`` (default ``race``) with ``settings`` over them. Raises ConfigError."""
    name = profile or "race"
    if name not in PROFILES:
        raise _bad(f"no profile {name!r}", next_step=_nearest(name, tuple(PROFILES)))
    words = words_of(settings, profile=name)
    factor = _number("time_factor", words["time_factor"])

    def time(key: str) -> Ns:
        scaled = _number(key, words[key]) * MS * factor
        return max(1, scaled.numerator // scaled.denominator)

    least = _number("min_insync_replicas", words["min_insync_replicas"])
    if least.denominator != 1:
        raise _bad("min_insync_replicas must be a whole number", next_step="min_insync_replicas=1")
    knobs = ZkKnobs(
        profile=name,
        mode=words["mode"],
        fencing=_one_of("fencing", words["fencing"], FENCINGS) == "epochs",
        session_timeout=time("zookeeper_session_timeout_ms"),
        replica_lag_time_max=time("replica_lag_time_max_ms"),
        unclean_leader_election=_switch("unclean_leader_election_enable", words["unclean_leader_election_enable"]),
        min_insync_replicas=int(least),
        acks=_one_of("acks", words["acks"], ACKS),
        step_down_on_disconnect=_switch("step_down_on_disconnect", words["step_down_on_disconnect"]),
        truncate=_one_of("truncate", words["truncate"], TRUNCATES),
        isr_in_force=_one_of("isr_in_force", words["isr_in_force"], ("published", "local")),
        rewatch=_switch("rewatch", words["rewatch"]),
        service_clock=_one_of("service_clock", words["service_clock"], ("mono", "wall")),
        coordinator=words["coordinator"],
        fetch_wait_max=time("replica_fetch_wait_max_ms"),
        hw_checkpoint_interval=time("hw_checkpoint_interval_ms"),
        call_retry=time("call_retry_ms"),
        time_factor=words["time_factor"],
    )
    if knobs.session_timeout < 3 * MS:
        raise _bad("the session timeout must be at least 3 ms after scaling", next_step="choose a larger time_factor")
    if knobs.fetch_wait_max >= knobs.replica_lag_time_max:
        raise _bad(
            "replica_fetch_wait_max_ms must be below replica_lag_time_max_ms",
            next_step="a follower whose fetch is kept waiting would leave the ISR",
        )
    return knobs
