"""The knobs of the master/slave target, and the layout of a deployment: each member's role, by position and knobs.

Guarantees: every time is an integer of ns, scaled exactly by ``time_factor``; an unknown knob, a bad value or a
deployment that does not fit the members is a ConfigError. RocketMQ's own spelling is accepted. Out of scope: rules.

Source: docs/sources.md, master-slave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from dethrone.clusters.targets.kit.knobs import KnobTable, Settings, one_of, time, whole
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ConfigError

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


class MsKnobs(Settings, frozen=True, kw_only=True):
    """One cluster's settings."""

    deployment: Annotated[str, one_of("DP3", tuple(DEPLOYMENTS), "which brokers are masters and which are slaves")]
    name_servers: Annotated[int, whole("1", "how many of the last members are name servers")]
    first_slave_id: Annotated[int, whole("1", "the broker id of the first slave")]
    broker_role: Annotated[
        str,
        one_of("", (ASYNC_MASTER, SYNC_MASTER), "how a master copies; empty: SYNC_MASTER in DP2, else ASYNC_MASTER"),
    ]
    flush_disk_type: Annotated[
        str, one_of("ASYNC_FLUSH", ("ASYNC_FLUSH", "SYNC_FLUSH"), "whether a write waits for the disk")
    ]
    sync_flush_timeout: Annotated[Ns, time("5000", "how long a write waits for the disk, or for slaves")]
    flush_interval: Annotated[Ns, time("500", "between two flushes with ASYNC_FLUSH")]
    ha_send_heartbeat_interval: Annotated[Ns, time("5000", "a slave that said nothing for so long reports its offset")]
    ha_housekeeping_interval: Annotated[Ns, time("20000", "a silent connection between master and slave is closed")]
    ha_slave_fallbehind_max: Annotated[int, whole(str(256 * 1024 * 1024), "bytes behind at which a slave is no help")]
    register_interval: Annotated[Ns, time("30000", "between two registrations with the name servers")]
    broker_expiry: Annotated[Ns, time("120000", "a broker that did not register for so long is forgotten")]
    route_refresh: Annotated[Ns, time("30000", "between two looks of a client at the routes")]
    suggest_slave_lag: Annotated[int, whole("1000", "messages behind at which a reader is sent to a slave")]
    degraded_counts_as: Annotated[
        str, one_of("unknown", ("unknown", "ok"), "what a write is that only the master may have")
    ]

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


def _fill(words: dict[str, str]) -> None:
    words["broker_role"] = words["broker_role"] or (SYNC_MASTER if words["deployment"] == "DP2" else ASYNC_MASTER)


KNOBS = KnobTable(
    "master-slave",
    MsKnobs,
    profiles={
        "master-slave": {},
        "sync": {"deployment": "DP2", "flush_disk_type": "SYNC_FLUSH"},
        "demand-failover": {},
    },
    fill=_fill,
    spelled=True,
)
