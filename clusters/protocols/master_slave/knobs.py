"""The knobs of the master/slave target, and the layout of a deployment: who is what, by position and configuration.

Promises: every time is an integer of ns, scaled exactly by ``time_factor``; an unknown knob, a bad value or a
deployment that does not fit the members is a ConfigError. RocketMQ's own spelling is accepted. Leaves out rules.

Source: specification of RocketMQ's master/slave deployments, §2, §3, §5.1.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from fractions import Fraction

import msgspec

from harness.core.clock import MS, Ns
from harness.core.errors import ConfigError

ASYNC_MASTER, SYNC_MASTER, SLAVE = "ASYNC_MASTER", "SYNC_MASTER", "SLAVE"
DEPLOYMENTS: Mapping[str, str] = {
    "DP1": "one master, one slave",
    "DP2": "one master, several slaves, synchronous copying",
    "DP3": "one master, several slaves, asynchronous copying",
    "DP4": "several masters, no slave",
    "DP5": "several groups, each of one master and one slave",
}
MASTER_ID = 0
READ_BALANCED_ID = 1
"""The only slave that takes balanced reads."""


class Place(msgspec.Struct, frozen=True):
    """What a broker is by its configuration."""

    broker_name: str
    broker_id: int
    broker_role: str


class MsKnobs(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster's settings. Times are ns after ``time_factor``."""

    profile: str
    deployment: str
    name_servers: int
    first_slave_id: int
    broker_role: str
    flush_disk_type: str
    sync_flush_timeout: Ns
    flush_interval: Ns
    ha_send_heartbeat_interval: Ns
    ha_housekeeping_interval: Ns
    ha_slave_fallbehind_max: int
    register_interval: Ns
    broker_expiry: Ns
    route_refresh: Ns
    suggest_slave_lag: int
    degraded_counts_as: str
    time_factor: str

    def servers_of(self, members: tuple[str, ...]) -> tuple[str, ...]:
        """The name servers: the last members."""
        return members[len(members) - self.name_servers :]

    def brokers_of(self, members: tuple[str, ...]) -> tuple[str, ...]:
        """The brokers: all others."""
        return members[: len(members) - self.name_servers]

    def layout(self, members: tuple[str, ...]) -> dict[str, Place]:
        """Broker → what it is. Raises ConfigError if the deployment does not fit."""
        brokers = self.brokers_of(members)
        self._fits(len(brokers))
        places: dict[str, Place] = {}
        if self.deployment == "DP4":
            return {node: Place(_group(i), MASTER_ID, self.broker_role) for i, node in enumerate(brokers)}
        if self.deployment == "DP5":
            for i, node in enumerate(brokers):
                group = _group(2 * (i // 2))
                places[node] = Place(group, MASTER_ID, self.broker_role) if i % 2 == 0 else self._slave(group, 0)
            return places
        for i, node in enumerate(brokers):
            places[node] = Place("a", MASTER_ID, self.broker_role) if i == 0 else self._slave("a", i - 1)
        return places

    def _slave(self, group: str, number: int) -> Place:
        return Place(group, self.first_slave_id + number, SLAVE)

    def _fits(self, brokers: int) -> None:
        least = {"DP1": 2, "DP2": 2, "DP3": 2, "DP4": 1, "DP5": 2}[self.deployment]
        exact = self.deployment == "DP1" and brokers != 2
        odd = self.deployment == "DP5" and brokers % 2
        if brokers < least or exact or odd:
            raise ConfigError(
                f"{self.deployment} ({DEPLOYMENTS[self.deployment]}) cannot be laid out on {brokers} brokers",
                where=f"master-slave target, {self.name_servers} name server(s) besides",
                next_step="choose another --nodes or deployment",
            )


def _group(number: int) -> str:
    """Broker names: a, b, c …; the pairs of DP5 are a, c, e …, as the author's own."""
    return chr(ord("a") + number) if number < 26 else f"g{number}"


_DEFAULTS = {
    "deployment": "DP3",
    "name_servers": "1",
    "first_slave_id": "1",
    "broker_role": "",
    "flush_disk_type": "ASYNC_FLUSH",
    "sync_flush_timeout_ms": "5000",
    "flush_interval_ms": "500",
    "ha_send_heartbeat_interval_ms": "5000",
    "ha_housekeeping_interval_ms": "20000",
    "ha_slave_fallbehind_max": str(256 * 1024 * 1024),
    "register_interval_ms": "30000",
    "broker_expiry_ms": "120000",
    "route_refresh_ms": "30000",
    "suggest_slave_lag": "1000",
    "degraded_counts_as": "unknown",
    "time_factor": "1",
}
"""``broker_role`` left empty follows the deployment: SYNC_MASTER in DP2, ASYNC_MASTER otherwise."""

PROFILES: Mapping[str, Mapping[str, str]] = {
    "master-slave": _DEFAULTS,
    "sync": {**_DEFAULTS, "deployment": "DP2", "flush_disk_type": "SYNC_FLUSH"},
    "demand-failover": _DEFAULTS,
}


def _bad(what: str, *, next_step: str) -> ConfigError:
    return ConfigError(what, where="knobs of the master-slave target", next_step=next_step)


def _nearest(word: str, names: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.4)
    return f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(sorted(names))}"


def _number(name: str, word: str, *, least: int = 0) -> Fraction:
    try:
        value = Fraction(word)
    except (ValueError, ZeroDivisionError):
        raise _bad(f"{name}={word!r} is not a number", next_step=f"{name}=1 for example") from None
    if value < least or (least == 0 and value <= 0):
        raise _bad(f"{name}={word!r} is too small", next_step=f"{name}=1 for example")
    return value


def _whole(name: str, word: str, *, least: int) -> int:
    value = _number(name, word, least=least)
    if value.denominator != 1:
        raise _bad(f"{name} must be a whole number", next_step=f"{name}=1")
    return int(value)


def _one_of(name: str, word: str, names: tuple[str, ...]) -> str:
    if word not in names:
        raise _bad(f"{name}={word!r} does not exist", next_step=_nearest(word, names))
    return word


def _own_name(spelled: str) -> str:
    """``haSendHeartbeatInterval`` → ``ha_send_heartbeat_interval_ms``; other names as they are."""
    if spelled in _DEFAULTS:
        return spelled
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", spelled).lower()
    return f"{name}_ms" if f"{name}_ms" in _DEFAULTS else name


def words_of(settings: Mapping[str, str], *, profile: str) -> dict[str, str]:
    """All knobs of the profile as words, ``settings`` over them."""
    words = dict(PROFILES[profile])
    for spelled, word in settings.items():
        name = _own_name(spelled)
        if name not in words:
            raise _bad(f"no knob {spelled!r}", next_step=_nearest(name, tuple(words)))
        words[name] = word
    _one_of("deployment", words["deployment"], tuple(DEPLOYMENTS))
    words["broker_role"] = words["broker_role"] or (SYNC_MASTER if words["deployment"] == "DP2" else ASYNC_MASTER)
    return words


def read_knobs(settings: Mapping[str, str], *, profile: str | None = None) -> MsKnobs:
    """The knobs of ``profile`` (default ``master-slave``) with ``settings`` over them. Raises ConfigError."""
    name = profile or "master-slave"
    if name not in PROFILES:
        raise _bad(f"no profile {name!r}", next_step=_nearest(name, tuple(PROFILES)))
    words = words_of(settings, profile=name)
    factor = _number("time_factor", words["time_factor"])

    def time(key: str) -> Ns:
        scaled = _number(key, words[key]) * MS * factor
        return max(1, scaled.numerator // scaled.denominator)

    return MsKnobs(
        profile=name,
        deployment=words["deployment"],
        name_servers=_whole("name_servers", words["name_servers"], least=1),
        first_slave_id=_whole("first_slave_id", words["first_slave_id"], least=1),
        broker_role=_one_of("broker_role", words["broker_role"], (ASYNC_MASTER, SYNC_MASTER)),
        flush_disk_type=_one_of("flush_disk_type", words["flush_disk_type"], ("ASYNC_FLUSH", "SYNC_FLUSH")),
        sync_flush_timeout=time("sync_flush_timeout_ms"),
        flush_interval=time("flush_interval_ms"),
        ha_send_heartbeat_interval=time("ha_send_heartbeat_interval_ms"),
        ha_housekeeping_interval=time("ha_housekeeping_interval_ms"),
        ha_slave_fallbehind_max=_whole("ha_slave_fallbehind_max", words["ha_slave_fallbehind_max"], least=1),
        register_interval=time("register_interval_ms"),
        broker_expiry=time("broker_expiry_ms"),
        route_refresh=time("route_refresh_ms"),
        suggest_slave_lag=_whole("suggest_slave_lag", words["suggest_slave_lag"], least=1),
        degraded_counts_as=_one_of("degraded_counts_as", words["degraded_counts_as"], ("unknown", "ok")),
        time_factor=words["time_factor"],
    )
