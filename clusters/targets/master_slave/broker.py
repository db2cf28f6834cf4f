"""A broker of the master/slave deployments: a master that takes writes, or a slave that copies and serves reads.

Guarantees: the role comes from the configuration at the start and never changes without a restart; nothing elects. A
slave appends what its master sends, in order, and reports its position. Out of scope: which broker serves which read
(`client`), consumer offsets, and what a master answers to a write (`sends`).

Source: docs/sources.md, master-slave.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from dethrone.clusters.targets.client_api import Append, ChangeConfig, Get, NotLeader, Ok, Put, Refused
from dethrone.clusters.targets.kit.core import KitCore, status_of
from dethrone.clusters.targets.master_slave import messages as m
from dethrone.clusters.targets.master_slave.knobs import ASYNC_MASTER, MASTER_ID, SLAVE, MsKnobs, Place
from dethrone.clusters.targets.master_slave.place import conf_ops, load_place
from dethrone.clusters.targets.master_slave.rules import Rules
from dethrone.clusters.targets.master_slave.sends import SEND_LIMIT, Sends
from dethrone.clusters.targets.zk_ephemeral.log import LOG, Log, LogNode
from dethrone.clusters.targets.zk_ephemeral.messages import Record
from dethrone.harness.core.clock import MS, Clocks, Ns
from dethrone.harness.core.machine import (
    Await,
    CoreStatus,
    DiskDone,
    DiskImage,
    Fsync,
    Glance,
    Send,
    SendFailed,
    SetTimer,
)

REGISTER, HA, FLUSH = "register", "ha", "flush"
CLUSTER, TOPIC = "dethrone", "t"
MASTER_ROLE, SLAVE_ROLE = "MASTER", "SLAVE"


class Slave:
    """What a master knows of one connected slave. ``end``: what was sent; ``acked``: what it reported to hold."""

    def __init__(self, now: Ns, acked: int) -> None:
        self.heard = self.sent = now
        self.acked = self.end = acked


class BrokerCore(LogNode, KitCore["BrokerCore"]):
    """See the module. ``place``: what this broker is; ``next_place``: what it will be after a restart."""

    def __init__(self, node: str, members: tuple[str, ...], knobs: MsKnobs, rules: Rules) -> None:
        super().__init__(Log(sync=rules.waits_for_disk()))
        self.node = self
        self.me = node
        self.knobs = rules.knobs
        self.rules = rules
        self.servers = knobs.servers_of(members)
        self.places = knobs.layout(members)
        self.place = self.next_place = self.places[node]
        self.role = SLAVE_ROLE
        self.master: str | None = None
        self.heard: Ns | None = None
        """A slave's exchange with its master: when it was last heard; None: no exchange."""
        self.refused: str | None = None
        """The master whose log was found shorter than the own one."""
        self.slaves: dict[str, Slave] = {}
        self.sends = Sends(self, rules)
        self.acked_most = 0
        self.syncing: int | None = None
        self.dirty = False

    # --- core -----------------------------------------------------------------------------------------------------

    def load(self, disk: DiskImage) -> None:
        """Read the configuration and the log."""
        self.place = self.rules.load_place(lambda: load_place(disk), self.place)
        ops = self.log.start(disk)
        if ops:
            self.out.append(Await(self.batch(ops)))
        self._take_place(self.place)
        self.show_durable()
        name, number, role = msgspec.structs.astuple(self.place)
        self.note("start", {"id": number, "role": role, "group": name, "max_offset": self.log.end})
        self._register()
        self._arm_ha()

    def send_failed(self, event: SendFailed) -> None:
        """A connection is lost."""
        self._closed(event.to, "connection closed")

    @property
    def leads(self) -> bool:
        """Whether this broker is a master."""
        return self.role == MASTER_ROLE

    def _take_place(self, place: Place) -> None:
        self.place = self.next_place = place
        self.role = MASTER_ROLE if self.rules.is_master(place) else SLAVE_ROLE
        self.master = self.me if self.leads else None

    # --- name servers ---------------------------------------------------------------------------------------------

    def _register(self) -> None:
        place = self.place
        body = m.RegisterBroker(CLUSTER, place.broker_name, place.broker_id, self.me, self.me, (TOPIC,))
        for server in self.servers:
            self.out.append(Send(server, body))
        wait = self.knobs.register_interval
        if not self.leads and self.master is None:
            wait = min(wait, self.knobs.ha_send_heartbeat_interval)  # a slave without a master asks again soon
        self.out.append(SetTimer(REGISTER, self.mono + wait))

    def _on_registered(self, src: str, body: m.RegisterAnswer) -> None:
        """A slave learns its master's address."""
        del src
        if self.leads or body.broker_name != self.place.broker_name or body.master in (None, self.me, self.master):
            return
        self.master = body.master
        self.heard = None
        self.note("route_changed", {"group": body.broker_name, "id": MASTER_ID, "address": body.master})
        self._tell_master()

    # --- slave ----------------------------------------------------------------------------------------------------

    def _tell_master(self) -> None:
        if self.master is not None and self.refused != self.master:
            end = self.rules.ack_position(durable=self.log.durable, written=self.log.end)
            self.out.append(Send(self.master, m.HaAck(end)))

    def _on_transfer(self, src: str, body: m.HaTransfer) -> None:
        if self.leads or src != self.master or self.refused == src:
            return
        log = self.log
        shorter = body.slave_end == log.end > body.master_end
        if shorter and not self.rules.copies_from(master_end=body.master_end, own_end=log.end):
            self.heard = None
            self.refused = src
            self.count("copies_refused")
            self.note(
                "ha_closed", {"with": src, "why": "shorter log", "master_end": body.master_end, "own_end": log.end}
            )
            return
        if shorter:
            self.cut_log(body.master_end)
        if self.heard is None:
            self.note("ha_connected", {"with": src, "offset": log.end})
        self.heard = self.mono
        if not body.records:
            lag = body.master_end - log.end
            if lag:
                self.note("slave_lag", {"offset": log.end, "behind": lag})
            self._tell_master()
            return
        keep = self.rules.cuts_before_copy(own_end=log.end, offset=body.offset)
        if keep < log.end:
            self.cut_log(keep)
        if body.offset != log.end:
            if body.offset + len(body.records) <= log.durable:
                self._tell_master()  # an old transfer: the master learns what is there
            return
        for one in body.records:
            log.append(Record(log.end + 1, 0, one.command))
        self.write_log()
        if self.rules.ack_position(durable=log.durable, written=log.end) > log.durable:
            self._tell_master()

    # --- master ---------------------------------------------------------------------------------------------------

    def _on_ack(self, src: str, body: m.HaAck) -> None:
        if not self.leads:
            return
        slave = self.slaves.get(src)
        if body.max_offset > self.log.end:  # this log is the shorter one: the slave must know, and does not count
            self._closed(src, "the slave's log is longer")
            self.out.append(Send(src, m.HaTransfer(self.log.end, (), self.log.end, body.max_offset)))
            return
        if slave is None:
            slave = self.slaves[src] = Slave(self.mono, body.max_offset)
            self.note("ha_connected", {"with": src, "offset": body.max_offset})
            self._transfer(src, slave, always=True)
        slave.heard = self.mono
        slave.acked = body.max_offset
        slave.end = max(slave.end, body.max_offset)
        if body.max_offset > self.acked_most:
            self.acked_most = body.max_offset
            self.note("commit", {"index": body.max_offset, "slave": src})
        self.sends.answer(self.acked_most, self._slave_available)
        self._transfer(src, slave)

    def _transfer(self, name: str, slave: Slave, *, always: bool = False) -> None:
        """Send what follows the slave's log, one batch ahead of its answer; ``always``: a heartbeat at least."""
        log = self.log
        fresh = slave.end <= slave.acked < log.durable
        if not (fresh or always):
            return
        offset = min(slave.acked, log.durable)
        records = tuple(log.entries[offset : min(log.durable, offset + self.rules.records_max())])
        slave.end = offset + len(records)
        slave.sent = self.mono
        self.out.append(Send(name, m.HaTransfer(offset, records, log.end, slave.acked)))

    def _slave_available(self) -> bool:
        """Whether a slave is there that counts for synchronous sends."""
        size = self.log.size
        for slave in self.slaves.values():
            behind = size - (self.log.ends[slave.acked - 1] if slave.acked else 0)
            if self.rules.slave_available(behind):
                return True
        return False

    def _ha_tick(self) -> None:
        """Heartbeats, silent peers, and a slave's attempts to connect."""
        limit = self.knobs.ha_housekeeping_interval
        if self.leads:
            for name, slave in list(self.slaves.items()):
                if self.mono - slave.heard >= limit:
                    self._closed(name, "silent")
                else:
                    slave.end = slave.acked  # what was sent and not acknowledged is sent again
                    self._transfer(name, slave, always=True)
        else:
            if self.heard is not None and self.mono - self.heard >= limit:
                self._closed(self.master or "", "silent")
            self._tell_master()
            if self.rules.promotes_itself(master_silent=self.heard is None and self.mono >= 2 * limit):
                self._take_place(Place(self.place.broker_name, MASTER_ID, ASYNC_MASTER))
                self.note("role_change", {"from": SLAVE_ROLE, "to": MASTER_ROLE, "why": "its master is silent"})
                self._register()
        self._arm_ha()

    def _closed(self, peer: str, why: str) -> None:
        if self.leads:
            if self.slaves.pop(peer, None) is not None:
                self.note("ha_closed", {"with": peer, "why": why})
        elif peer == self.master and self.heard is not None:
            self.heard = None
            self.note("ha_closed", {"with": peer, "why": why})

    def _arm_ha(self) -> None:
        self.out.append(SetTimer(HA, self.mono + self.knobs.ha_send_heartbeat_interval))

    # --- clients --------------------------------------------------------------------------------------------------

    def on_request(self, request: int, body: Any) -> None:
        """Handle a client's request."""
        if isinstance(body, Get):
            self._on_get(request, body)
        elif isinstance(body, m.Pull):
            self._on_pull(request, body)
        elif isinstance(body, Append | Put):
            self._on_write(request, body)
        elif isinstance(body, ChangeConfig):
            self._on_operator(request, body)
        else:
            self.reply(request, Refused("master-slave brokers serve append, put, get and pull"))

    def _on_write(self, request: int, body: Append | Put) -> None:
        if self.rules.takes_writes(master=self.leads):
            self.sends.take(request, body)
            return
        self.count("writes_refused")
        self.note("write_refused", {"id": self.place.broker_id})
        self.reply(request, NotLeader(self.master if self.master != self.me else None))

    def _on_get(self, request: int, body: Get) -> None:
        self.note("read", {"id": self.place.broker_id, "key": body.key})
        self.reply(request, Ok(self.log.read(body.key)))

    def _on_pull(self, request: int, body: m.Pull) -> None:
        held = self.log.read(body.queue)
        values = held if isinstance(held, list) else []
        ids = {self.places[name].broker_id for name in self.slaves if name in self.places}
        end = len(values)
        code = m.OFFSET_ERROR if not 0 <= body.offset <= end else m.FOUND if body.offset < end else m.NO_NEW
        found = values[body.offset : body.offset + self.rules.records_max()] if code == m.FOUND else []
        suggest = self.rules.suggests(lag=end - body.offset, slaves=ids) if self.leads else self.place.broker_id
        self.note("read", {"id": self.place.broker_id, "key": body.queue, "code": code})
        told = {
            "code": code,
            "values": found,
            "next_offset": end if code == m.OFFSET_ERROR else body.offset + len(found),
            "suggest": suggest,
        }
        self.reply(request, Ok(told))

    def _on_operator(self, request: int, body: ChangeConfig) -> None:
        """An operator edits this broker's configuration: ``add`` makes it the master, ``remove`` a slave."""
        name = self.place.broker_name
        if body.add == self.me:
            place = Place(name, MASTER_ID, self.knobs.broker_role)
        elif body.remove == self.me:
            place = Place(name, self.knobs.first_slave_id, SLAVE)
        else:
            self.reply(request, Refused("an operator changes a broker at that very broker"))
            return
        self.next_place = place
        self.note("operator_change", {"id": place.broker_id, "role": place.broker_role, "effect": "after a restart"})
        self.out.append(Await(self.batch(conf_ops(place))))
        self.reply(request, Ok({"broker_id": place.broker_id, "effect": "after a restart"}))

    # --- disk -----------------------------------------------------------------------------------------------------

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded or failed."""
        if done.token == self.syncing:
            self.syncing = None
        if done.error is not None:
            self.note("persist_failed", {"file": LOG, "error": done.error})
            if self.rules.on_persist_error(LOG) == "halt":
                self.halt(f"{LOG}: {done.error}")
                return
        if not self.log_written(done.token):
            return
        self.show_durable()
        self.write_log()
        if not self.log.sync and not self.dirty:
            self.dirty = True
            self.out.append(SetTimer(FLUSH, self.mono + self.knobs.flush_interval))
        if self.sends.waiting:
            self.sends.answer(self.acked_most, self._slave_available)
        if self.leads:
            for name, slave in self.slaves.items():
                self._transfer(name, slave)
        else:
            self._tell_master()

    def _flush(self) -> None:
        """ASYNC_FLUSH: the barrier, some time later."""
        self.dirty = False
        if self.syncing is None and self.log.end:
            self.syncing = self.batch((Fsync(LOG),))

    MESSAGES: ClassVar = {m.HaAck: _on_ack, m.HaTransfer: _on_transfer, m.RegisterAnswer: _on_registered}
    TIMERS: ClassVar = {
        REGISTER: _register,
        HA: _ha_tick,
        FLUSH: _flush,
        SEND_LIMIT: lambda broker: broker.sends.late(),
    }

    # --- saying ---------------------------------------------------------------------------------------------------

    def status(self, now: Clocks) -> CoreStatus:
        """The observer record."""
        place = self.place
        extra: dict[str, Any] = {
            "broker_id": place.broker_id,
            "broker_role": place.broker_role,
            "group": place.broker_name,
            "storage": "CommitLog",
            "writable": self.leads,
            "after_restart": {"broker_id": self.next_place.broker_id, "broker_role": self.next_place.broker_role},
        }
        if self.leads:
            extra["slaves"] = {name: slave.acked for name, slave in self.slaves.items()}
            extra["sends_pending"] = len(self.sends.waiting)
        else:
            extra["master"] = self.master
            extra["connected"] = self.heard is not None
            extra["silence_ms"] = None if self.heard is None else (now.mono - self.heard) // MS
            extra["refuses_copy_from"] = self.refused
        return status_of(self.glance(), counters=dict(self.counters), extra=extra)

    def glance(self) -> Glance:
        """Its main fields."""
        log = self.log
        return self.role, 0, self.master, None, (0, log.end), self.acked_most if self.leads else log.durable
