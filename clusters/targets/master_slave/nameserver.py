"""A name server: which address serves as which broker id of which group, in memory only.

Guarantees: the last registration of a (broker name, broker id) wins; a broker that is silent for the expiry is dropped,
one whose connection is known to be closed at once. Nothing is stored: after a restart the table fills with the next
registrations. Out of scope: topics' own configuration.

Source: docs/sources.md, master-slave.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dethrone.clusters.targets.client_api import Get, NotLeader, Ok, Refused
from dethrone.clusters.targets.kit.core import KitCore, KitNode, status_of
from dethrone.clusters.targets.master_slave.knobs import MASTER_ID, MsKnobs
from dethrone.clusters.targets.master_slave.messages import RegisterAnswer, RegisterBroker, Route
from dethrone.clusters.targets.master_slave.rules import Rules
from dethrone.harness.core.clock import MS, Clocks, Ns
from dethrone.harness.core.machine import CoreStatus, DiskImage, Glance, SendFailed, SetTimer

ROLE = "NAMESERVER"
EXPIRY = "expiry"


class NameServerCore(KitNode, KitCore["NameServerCore"]):
    """See the module."""

    role = ROLE

    def __init__(self, node: str, knobs: MsKnobs, rules: Rules) -> None:
        super().__init__()
        self.node = self
        self.me = node
        self.knobs = knobs
        self.rules = rules
        self.table: dict[tuple[str, int], tuple[str, Ns]] = {}
        """(broker name, broker id) → (address, last heartbeat)."""
        self.armed = False

    def load(self, disk: DiskImage) -> None:
        """Start with an empty table."""
        del disk
        self.note("start", {"role": ROLE})

    def on_request(self, request: int, body: Any) -> None:
        """Handle a client's request."""
        self.reply(request, self._answer(body))

    def send_failed(self, event: SendFailed) -> None:
        """A connection is closed."""
        self._drop(lambda address, _: address == event.to, "connection closed")

    def status(self, now: Clocks) -> CoreStatus:
        """Registered addresses with age. It has no leader and no followers."""
        return status_of(
            self.glance(),
            counters=dict(self.counters),
            extra={
                "registered": {
                    f"{name}/{broker_id}": {"address": address, "age_ms": (now.mono - last) // MS}
                    for (name, broker_id), (address, last) in sorted(self.table.items())
                }
            },
        )

    def glance(self) -> Glance:
        """Nothing of this ever changes."""
        return ROLE, 0, None, None, (0, 0), 0

    def routes(self) -> dict[str, dict[str, str]]:
        """Broker name → broker id as text → address."""
        out: dict[str, dict[str, str]] = {}
        for (name, broker_id), (address, _) in sorted(self.table.items()):
            out.setdefault(name, {})[str(broker_id)] = address
        return out

    def _register(self, src: str, body: RegisterBroker) -> None:
        key = (body.broker_name, body.broker_id)
        before = self.table.get(key)
        self.table[key] = (body.address, self.mono)
        if before is None or before[0] != body.address:
            at = {"group": body.broker_name, "id": body.broker_id, "address": body.address}
            self.note("registered", at)
            self.note("route_changed", {**at, "before": None if before is None else before[0]})
            self.count("route_changes")
        master = self.table.get((body.broker_name, MASTER_ID))
        self.send(src, RegisterAnswer(body.broker_name, None if master is None else master[0]))
        if not self.armed:
            self._arm()

    def _expire(self) -> None:
        self.armed = False
        self._drop(lambda _, last: self.mono - last >= self.knobs.broker_expiry, "silent")
        self._arm()

    MESSAGES: ClassVar = {RegisterBroker: _register}
    TIMERS: ClassVar = {EXPIRY: _expire}

    def _answer(self, body: Any) -> Any:
        if isinstance(body, Route | Get):  # a client that knows the common requests only asks with a Get
            return Ok(self.routes())
        masters = [address for (_, broker_id), (address, _) in sorted(self.table.items()) if broker_id == MASTER_ID]
        return NotLeader(masters[0]) if masters else Refused("no master is registered")

    def _drop(self, gone: Any, why: str) -> None:
        for key, (address, last) in list(self.table.items()):
            if gone(address, last):
                del self.table[key]
                at = {"group": key[0], "id": key[1], "address": address}
                self.note("dropped", {**at, "why": why})
                self.note("route_changed", {**at, "address": None, "before": address})

    def _arm(self) -> None:
        if self.table:
            self.armed = True
            due = min(last for _, last in self.table.values()) + self.knobs.broker_expiry
            self.out.append(SetTimer(EXPIRY, due))
