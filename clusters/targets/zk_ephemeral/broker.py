"""A broker: one replica of the partition, its session, and, in mode ``controller``, its part in that election.

Guarantees: deterministic; dispatch by type; nothing about the election is on its disk, so after a restart it knows no
epoch until it learns one from the service or the controller. Out of scope: the rules and the two modes' own steps.

Source: docs/sources.md, zk-ephemeral.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from dethrone.clusters.targets.kit.core import KitCore, status_of
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral import race, replica
from dethrone.clusters.targets.zk_ephemeral.controller import Controller
from dethrone.clusters.targets.zk_ephemeral.knobs import ZkKnobs
from dethrone.clusters.targets.zk_ephemeral.log import hw_ops
from dethrone.clusters.targets.zk_ephemeral.rules import Rules
from dethrone.clusters.targets.zk_ephemeral.session import CALL, CONTACT, DISCONNECTED, PING, Session, Told
from dethrone.clusters.targets.zk_ephemeral.state import CHECKPOINT, Broker
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import SHUTDOWN, Await, CoreStatus, DiskDone, DiskImage, Glance


class BrokerCore(Broker, KitCore["BrokerCore"]):
    """One broker."""

    graceful = True

    def __init__(self, node: str, members: tuple[str, ...], knobs: ZkKnobs, rules: Rules) -> None:
        super().__init__(node, members, knobs, rules)
        self.node = self
        told = Told(
            self._opened, self._disconnected, self._reconnected, self._expired, self._watched, self._watches_lost
        )
        self.session = Session(self, self.service, rules, knobs.session_timeout, told)
        self.controller = None if self.race else Controller(self)
        self.look_again = partial(race.look, self) if self.controller is None else self.controller.look

    # --- core -----------------------------------------------------------------------------------------------------

    def load(self, disk: DiskImage) -> None:
        """Load the log, open a session."""
        self.run = self.rng.below(1 << 52)
        ops = self.log.start(disk)
        self.checkpoint_hw = self.log.hw
        if ops:
            self.out.append(Await(self.batch(ops)))
        self.note("start", {"log_end": self.log.end, "last_epoch": self.log.last_term, "hw": self.log.hw})
        self.session.open()

    def late(self, timer: str) -> None:
        """A lost connection is noticed before anything that waited in a queue is handled."""
        del timer
        self.session.overdue()

    def _shut_down(self) -> None:
        """A clean stop: the session is closed, so its ephemeral nodes go at once. The shell ends the process after."""
        replica.stop_leading(self, "shut down")
        replica.stop_following(self)
        self.session.close()
        self.halted = True

    def hears(self, src: str, body: Any) -> None:
        """Hand a message to its handler; of the service's, to the session's."""
        kind = type(body)
        if src == self.service and kind in self.ANSWERS:
            self.ANSWERS[kind](self.session, body)
        elif self.controller is not None and kind in self.COMMANDS:
            self.COMMANDS[kind](self.controller, src, body)
        elif src != self.service or kind in self.MESSAGES:
            super().hears(src, body)

    def rings(self, timer: str) -> None:
        """Hand a timer to its handler."""
        if timer in self.TIMERS or self.controller is None:
            super().rings(timer)
        else:
            self.controller.on_timer(timer)

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded or failed."""
        if done.error is not None:
            file = "log" if done.token in self.batches else "hw"
            self.note("persist_failed", {"file": file, "error": done.error})
            if self.rules.on_persist_error("log") == "halt":
                self.halt(f"log: {done.error}")
                return
        if not self.log_written(done.token):
            return
        self.write_log()
        if self.leading is not None:
            replica.advance(self, self.leading)
        elif self.fetching and self.log.durable == self.log.end:
            replica.fetch(self)

    # --- what the session reports ---------------------------------------------------------------------------------

    def _opened(self) -> None:
        """Register, then find out who leads."""
        self.note("session_open", {"session": self.session.id})
        if self.leading is None:
            self.become(self.FOLLOWER, "session open")
        self.looking = self.look_twice = self.claiming = False
        self._register()
        self.look_again()

    def _register(self) -> None:
        if self.session.id is not None:
            node = m.Create(m.IDS + self.me, {"id": self.me}, ephemeral=True)
            self.session.call(node, self._registered)

    def _registered(self, answer: m.Answer) -> None:
        if answer.code == m.NODE_EXISTS and answer.owner != self.session.id:
            # a former life's session still lives: try again when its node is gone
            self.session.call(m.Exists(m.IDS + self.me, watch=True), self._registered_before)

    def _registered_before(self, answer: m.Answer) -> None:
        if answer.code != m.OK:
            self._register()

    def _disconnected(self) -> None:
        """No contact with the service: believed roles stay, unless the knob says otherwise."""
        self.note("session_disconnected", {"session": self.session.id})
        if self.race and self.leading is not None and self.rules.gives_up("disconnected"):
            replica.stop_leading(self, "disconnected from the service")
            self.become(self.NO_CONTACT, "disconnected from the service")

    def _reconnected(self) -> None:
        """Contact again, the session lived on."""
        self.note("session_reconnected", {"session": self.session.id})
        self.look_again()

    def _expired(self, session: int) -> None:
        """The session is gone, and its ephemeral nodes with it."""
        self.note("session_expired", {"session": session})
        self.count("sessions_expired")
        self.looking = self.look_twice = self.claiming = False
        if self.rules.gives_up("expired"):
            replica.stop_leading(self, "session expired")
            replica.stop_following(self)
            self.leader = None
            self.become(self.EXPIRED, "session expired")
        if self.controller is not None:
            self.controller.resign("session expired")

    def _watched(self, path: str, kind: str) -> None:
        """A watched node changed: read it again."""
        self.note("watch_fired", {"path": path, "kind": kind})
        self.count("watches")
        if path == m.IDS + self.me:
            self._register()
            if self.controller is not None:
                self.controller.on_watch(path)
        elif path == m.LEADER_PATH and self.race:
            if kind == m.NODE_DELETED and self.leading is None:
                replica.stop_following(self)
                self.leader = None
                if not self.rules.reacts_to_deletion:
                    return
            race.look(self, rewatch=self.rules.rewatches())
        elif self.controller is not None:
            self.controller.on_watch(path)
        elif self.race:
            self.look_again()

    def _watches_lost(self) -> None:
        """The service restarted: its watches are gone."""
        self._register()
        self.look_again()

    # --- other events ---------------------------------------------------------------------------------------------

    def _on_notice(self, src: str, body: m.LeaderNotice) -> None:
        if self.leading is not None and body.epoch > self.term:
            replica.deposed(self, body.epoch, f"{src} leads a newer epoch")

    def _checkpoint(self) -> None:
        self.checkpointing = False
        hw = min(self.log.hw, self.log.durable)
        if hw != self.checkpoint_hw:
            self.checkpoint_hw = hw
            self.batch(hw_ops(hw, sync=self.rules.syncs("hw")))

    MESSAGES: ClassVar = {
        m.Fetch: replica.on_fetch,
        m.FetchReply: replica.on_fetch_reply,
        m.LeaderNotice: _on_notice,
    }
    REQUESTS: ClassVar = (replica.on_request,)
    ANSWERS: ClassVar[Mapping[type, Callable[[Session, Any], None]]] = {
        m.Pong: Session.on_pong,
        m.Answer: Session.on_answer,
        m.WatchFired: Session.on_watch_fired,
        m.Connected: Session.on_connected,
        m.SessionExpired: Session.on_expired,
    }
    COMMANDS: ClassVar[Mapping[type, Callable[[Controller, str, Any], None]]] = {
        m.LeaderAndIsr: Controller.on_leader_and_isr,
        m.LeaderAndIsrReply: Controller.on_reply,
        m.UpdateMetadata: Controller.on_metadata,
    }
    TIMERS: ClassVar = {
        SHUTDOWN: _shut_down,
        PING: lambda b: b.session.on_ping_timer(),
        CONTACT: lambda b: b.session.on_contact_timer(),
        CALL: lambda b: b.session.on_call_timer(),
        replica.FETCH: replica.fetch,
        replica.PARKED: replica.on_parked_timer,
        replica.LAG: replica.on_lag_timer,
        CHECKPOINT: _checkpoint,
    }

    # --- status ---------------------------------------------------------------------------------------------------

    def status(self, now: Clocks) -> CoreStatus:
        """The observer record. ``term`` is the leader epoch; there are no votes."""
        log, leading, session = self.log, self.leading, self.session
        since = None if session.id is None else (now.mono - session.contact) // MS
        extra: dict[str, Any] = {
            "mode": self.knobs.mode,
            "acks": self.knobs.acks,
            "session": {
                "id": session.id,
                "state": DISCONNECTED if session.id is not None and now.mono >= self.overdue_at else session.state,
                "contact_ms": since,
            },
            "in_isr": leading is not None or self.in_isr,
            "durable": log.durable,
        }
        if leading is not None:
            extra["isr"] = list(leading.isr)
            extra["followers"] = {peer: one.end for peer, one in leading.followers.items()}
            extra["writes_pending"] = len(leading.writes)
        if self.controller is not None:
            extra["controller"] = self.controller.status()
        return status_of(self.glance(), hw=log.hw, counters=dict(self.counters), extra=extra)

    def glance(self) -> Glance:
        """Its main fields."""
        log = self.log
        return self.role, self.term, self.leader, None, (log.last_term, log.end), log.hw
