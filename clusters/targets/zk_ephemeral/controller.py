"""Mode ``controller``: one broker is elected controller; it chooses the partition's leader from the live ISR.

Guarantees: a controller acts only between its election and the known end of its session; every change of the partition
state is written with compare-and-set before any broker learns of it; commands are repeated until the broker answers.
Brokers refuse a lower controller epoch, and ignore a lower leader epoch (with fencing) and a command for their former
life. Out of scope: replication.

Source: docs/sources.md, zk-ephemeral; KIP-380 (commands are bound to a registration).
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral import replica
from dethrone.clusters.targets.zk_ephemeral.state import Broker, StoredState, read_state

RESEND = "resend"


class Controller:
    """A broker's part in the controller's election, and its office if it wins."""

    def __init__(self, b: Broker) -> None:
        self.b = b
        self.owner: str | None = None
        """The controller as known here."""
        self.elected = False
        self.looking = False
        self.look_twice = False
        self.epoch = 0
        self.live: dict[str, int] = {}
        """Live broker → the session of its registration."""
        self.sessions: dict[str, int] = {}
        """Broker → the registration for which it was last given its role."""
        self.reading: dict[str, int] = {}
        """Broker → reads of its registration under way."""
        self.state: StoredState | None = None
        self.version = -1
        self.writing = False
        self.offline = False
        self.unanswered: dict[str, m.LeaderAndIsr] = {}

    def status(self) -> dict[str, Any]:
        """For the observer record."""
        return {
            "is": self.elected,
            "id": self.owner,
            "epoch": self.epoch if self.elected else self.b.controller_epoch,
            "live": sorted(self.live) if self.elected else list(self.b.live),
        }

    # --- its election ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read ``/controller``, setting the watch; contend if it is free."""
        if self.looking:
            self.look_twice = True
            return
        self.looking = True
        self.b.session.call(m.Exists(m.CONTROLLER_PATH, watch=self.b.rules.rewatches()), self._looked)

    def _looked(self, answer: m.Answer) -> None:
        self.looking = False
        if self.look_twice:
            self.look_twice = False
            self.look()
            return
        b = self.b
        data = answer.data if isinstance(answer.data, dict) else {}
        if answer.code == m.OK:
            self.owner = data.get("id")
            if answer.owner == b.session.id:
                self._take_office() if not self.elected else self._refresh()
            else:
                self.resign("another controller")
            return
        self.resign("no controller")
        b.note("contend", {"path": m.CONTROLLER_PATH})
        b.session.call(m.Create(m.CONTROLLER_PATH, {"id": b.me}, ephemeral=True), self._created)

    def _created(self, answer: m.Answer) -> None:
        b = self.b
        if answer.code == m.OK or answer.owner == b.session.id:
            b.note("ephemeral_created", {"path": m.CONTROLLER_PATH})
            self.owner = b.me
            self._take_office()
            self.look()
        else:
            data = answer.data if isinstance(answer.data, dict) else {}
            b.note("create_refused", {"path": m.CONTROLLER_PATH, "owner": data.get("id")})
            self.look()

    def _take_office(self) -> None:
        self.b.session.call(m.GetNode(m.CONTROLLER_EPOCH_PATH), self._raise_epoch)

    def _raise_epoch(self, answer: m.Answer) -> None:
        """``/controller_epoch`` plus one, with compare-and-set."""
        if self.elected:
            return
        stored = answer.data if isinstance(answer.data, int) else 0
        epoch = stored + 1
        path = m.CONTROLLER_EPOCH_PATH
        op = m.SetNode(path, epoch, answer.version) if answer.code != m.NO_NODE else m.Create(path, epoch)

        def told(done: m.Answer) -> None:
            if done.code == m.OK:
                self._begin(epoch)
            else:
                self.look()

        self.b.session.call(op, told)

    def _begin(self, epoch: int) -> None:
        b = self.b
        self.elected, self.epoch = True, epoch
        self.state, self.version, self.writing, self.offline = None, -1, False, False
        self.live.clear()
        self.sessions.clear()
        self.unanswered.clear()
        self.reading.clear()
        b.controller_epoch = max(b.controller_epoch, epoch)
        b.note(
            "leader_elected",
            {"path": m.CONTROLLER_PATH, "id": b.me, "controller_epoch": epoch, "contenders": list(b.brokers)},
        )
        b.timer(RESEND, b.knobs.call_retry)
        self._refresh()

    def _refresh(self) -> None:
        """Read all brokers, with watches, then the partition."""
        for broker in self.b.brokers:
            self._read_broker(broker)
        self._read_state()

    def resign(self, why: str) -> None:
        """Stop acting."""
        if why == "session expired":
            self.looking = self.look_twice = False
        if self.elected:
            self.elected = False
            self.unanswered.clear()
            self.b.note("controller_resigned", {"controller_epoch": self.epoch, "why": why})
            self.b.timer(RESEND, None)
        if why == "session expired":
            self.owner = None

    # --- its office -----------------------------------------------------------------------------------------------

    def on_watch(self, path: str) -> None:
        """Something that was watched changed."""
        if path == m.CONTROLLER_PATH:
            self.look()
        elif path.startswith(m.IDS) and self.elected:
            self._read_broker(path[len(m.IDS) :])

    def _read_broker(self, broker: str) -> None:
        epoch = self.epoch

        def told(answer: m.Answer) -> None:
            self.reading[broker] -= 1
            if not self.reading[broker]:
                del self.reading[broker]
            if not self.elected or self.epoch != epoch:
                return
            if answer.code == m.OK:
                self.live[broker] = answer.owner
            else:
                self.live.pop(broker, None)
                self.unanswered.pop(broker, None)
            if not self.reading and self.version >= -1:
                self._decide()

        self.reading[broker] = self.reading.get(broker, 0) + 1
        self.b.session.call(m.Exists(m.IDS + broker, watch=True), told)

    def _read_state(self) -> None:
        epoch = self.epoch
        self.writing = True

        def told(answer: m.Answer) -> None:
            self.writing = False
            if self.elected and self.epoch == epoch:
                self.state = read_state(answer.data) if answer.code == m.OK else None
                self.version = answer.version
                self._decide()

        self.b.session.call(m.GetNode(m.STATE_PATH), told)

    def _decide(self) -> None:
        """Determine the leader; write it if it changed, then notify the brokers that have not confirmed it."""
        if self.writing or self.reading or not self.live:
            return
        wanted = self._wanted()
        if wanted is None:
            self._tell(
                set(self.live) - {who for who, session in self.sessions.items() if self.live.get(who) == session}
            )
            return
        epoch, before = self.epoch, self.state
        self.writing = True

        def told(answer: m.Answer) -> None:
            self.writing = False
            if not self.elected or self.epoch != epoch:
                return
            if answer.code == m.OK or answer.data == wanted.data():
                self.state, self.version = wanted, answer.version
                if before is not None and before.isr != wanted.isr:
                    change = {"old": list(before.isr), "new": list(wanted.isr), "why": "controller"}
                    self.b.note("isr_change", change)
                self._tell(set(self.live))
            self._read_state()  # something may have changed meanwhile

        data = wanted.data()
        op = m.Create(m.STATE_PATH, data) if before is None else m.SetNode(m.STATE_PATH, data, self.version)
        self.b.session.call(op, told)

    def _wanted(self) -> StoredState | None:
        """The state that should be stored; None if the stored one is right."""
        b, state, live = self.b, self.state, self.live
        alive = [broker for broker in b.brokers if broker in live]
        if state is None:
            return StoredState(alive[0], 1, tuple(alive), self.epoch)
        back = {who for who in live if who in self.sessions and self.sessions[who] != live[who]}
        dead = {who for who in state.isr if who not in live}
        lost = state.leader is None or state.leader not in live or state.leader in back
        if not lost:
            if not dead:
                return None
            return StoredState(state.leader, state.epoch, tuple(x for x in state.isr if x not in dead), self.epoch)
        fit = [who for who in b.brokers if who in live and b.rules.may_lead(who, state.isr)]
        chosen = [who for who in fit if who not in back] or fit
        if chosen:
            self.offline = False
            isr = tuple(x for x in state.isr if x not in dead) or (chosen[0],)
            return StoredState(chosen[0], state.epoch + 1, isr, self.epoch)
        if b.knobs.unclean_leader_election:
            b.note("unclean_election", {"id": alive[0], "isr": list(state.isr)})
            return StoredState(alive[0], state.epoch + 1, (alive[0],), self.epoch)
        if not self.offline:
            self.offline = True
            b.note("partition_offline", {"isr": list(state.isr), "live": alive})
        return None if state.leader is None else StoredState(None, state.epoch + 1, state.isr, self.epoch)

    def _tell(self, brokers: set[str]) -> None:
        state = self.state
        if state is None:
            return
        metadata = m.UpdateMetadata(self.epoch, state.leader, state.epoch, tuple(self.live))
        for broker in self.b.brokers:
            session = self.live.get(broker)
            if session is None:
                continue
            if broker in brokers:
                self.sessions[broker] = session
                command = m.LeaderAndIsr(self.epoch, state.leader, state.epoch, state.isr, self.version, session)
                if broker == self.b.me:
                    self.on_leader_and_isr(broker, command)
                else:
                    self.unanswered[broker] = command
                    self.b.send(broker, command)
            if broker == self.b.me:
                self.on_metadata(broker, metadata)
            elif brokers:
                self.b.send(broker, metadata)

    def on_timer(self, timer: str) -> None:
        """Repeat unanswered commands."""
        if timer != RESEND or not self.elected:
            return
        for broker, command in self.unanswered.items():
            self.b.send(broker, command)
        self.b.timer(RESEND, self.b.knobs.call_retry)

    def on_reply(self, src: str, body: m.LeaderAndIsrReply) -> None:
        """A broker answered."""
        command = self.unanswered.get(src)
        if body.code == m.STALE_CONTROLLER and self.elected and body.controller_epoch > self.epoch:
            self.resign("a broker knows a newer controller")
            self.look()
        elif command is not None and (body.controller_epoch, body.leader_epoch, body.version) == (
            command.controller_epoch,
            command.leader_epoch,
            command.version,
        ):
            del self.unanswered[src]

    # --- at a broker ----------------------------------------------------------------------------------------------

    def on_leader_and_isr(self, src: str, body: m.LeaderAndIsr) -> None:
        """A command: obeyed unless it is older than what is known here."""
        b = self.b
        code, epoch = m.ACCEPTED, body.controller_epoch
        if not b.rules.accepts_controller(b.controller_epoch, body.controller_epoch):
            code, epoch = m.STALE_CONTROLLER, b.controller_epoch
        elif b.knobs.fencing and body.broker_session != b.session.id:
            code = m.STALE_BROKER
        elif not b.rules.accepts_epoch(b.term, body.leader_epoch):
            code = m.OLD_EPOCH
        b.note(
            "leader_and_isr",
            {
                "answer": "accepted" if code == m.ACCEPTED else "refused",
                "code": code,
                "leader": body.leader,
                "leader_epoch": body.leader_epoch,
                "controller_epoch": body.controller_epoch,
                "known": [b.controller_epoch, b.term],
            },
        )
        if code == m.ACCEPTED:
            self._obey(body)
        if src != b.me:
            b.send(src, m.LeaderAndIsrReply(epoch, body.leader_epoch, body.version, code))

    def _obey(self, body: m.LeaderAndIsr) -> None:
        b = self.b
        b.controller_epoch = (
            max(b.controller_epoch, body.controller_epoch) if b.knobs.fencing else body.controller_epoch
        )
        leading = b.leading
        if body.leader == b.me:
            if leading is None or b.term != body.leader_epoch:
                replica.stop_leading(b, "a newer epoch of its own")
                replica.lead(b, body.leader_epoch, body.isr, body.version, body.isr)
            elif body.version > leading.version:
                leading.controller_epoch = body.controller_epoch
                state = StoredState(body.leader, body.leader_epoch, body.isr, body.controller_epoch)
                replica.reread(b, leading, state, body.version)
        elif body.leader is None:
            replica.stop_leading(b, "the partition is offline")
            replica.stop_following(b)
            b.set_term(body.leader_epoch)
            b.leader = None
            b.become(b.FOLLOWER, "the partition is offline")
        else:
            replica.follow(b, body.leader, body.leader_epoch)

    def on_metadata(self, src: str, body: m.UpdateMetadata) -> None:
        """Who lives; a stale controller's word is refused."""
        b = self.b
        if not b.rules.accepts_controller(b.controller_epoch, body.controller_epoch):
            b.note("fenced", {"what": "update_metadata", "from": src, "controller_epoch": body.controller_epoch})
            return
        b.live = body.live
