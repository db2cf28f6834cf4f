"""One node on the bench: put it into a state, hand it one event, look at everything that comes out."""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.nacos.core import NacosCore
from dethrone.clusters.targets.nacos.knobs import KNOBS
from dethrone.clusters.targets.nacos.messages import BeatRequest, RaftPeer, VoteRequest
from dethrone.clusters.targets.nacos.target import TARGET
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import (
    CoreEvent,
    Disk,
    DiskDone,
    Fired,
    Halt,
    Message,
    Note,
    Reply,
    Request,
    Send,
    SendFailed,
    SetTimer,
)
from dethrone.harness.core.rng import Rng


class Bench:
    """Node ``me`` of ``members``; ``out`` holds the effects of the last event."""

    def __init__(
        self,
        members: str = "n1 n2 n3",
        me: str = "n1",
        *,
        disk: Any = None,
        seed: int = 7,
        profile=None,
        variant: str | None = None,
        **settings: str,
    ) -> None:
        self.me = me
        self.members = tuple(members.split())
        self.now = 0
        self.rng = Rng(seed)
        core = TARGET.core(node=me, members=self.members, knobs=KNOBS.parse(settings, profile=profile), variant=variant)
        assert isinstance(core, NacosCore)
        self.core = core
        self.out: list[Any] = []
        self.core.boot(disk or {}, self.clocks(), self.rng, self.out)
        self.boot_out = self.out

    def clocks(self) -> Clocks:
        return Clocks(mono=self.now, wall=self.now)

    @property
    def state(self):
        return self.core.state

    @property
    def local(self):
        return self.core.state.local

    def put(self, **fields: Any) -> Bench:
        """Set fields of the own record."""
        for name, value in fields.items():
            setattr(self.local, name, value)
        return self

    def know(self, ip: str, **fields: Any) -> Bench:
        """Set fields of a peer's record."""
        for name, value in fields.items():
            setattr(self.state.peers.peers[ip], name, value)
        return self

    def follow(self, ip: str, term: int) -> Bench:
        """Hold ``ip`` for the leader, as after its beat."""
        if ip == self.me:
            self.state.peers.leader = self.local
        else:
            self.state.peers.make_leader(RaftPeer(ip, ip, term, state="LEADER"))
        self.out = []
        return self

    def handle(self, event: CoreEvent) -> list[Any]:
        self.out = []
        self.core.handle(event, self.clocks(), self.rng, self.out)
        return self.out

    def ask(self, src: str, body: Any) -> Any:
        """A peer's request; its answer (exactly one) comes back."""
        self.handle(Message(src, body, 42))
        answers = [effect for effect in self.out if isinstance(effect, Send) and effect.answers is not None]
        assert len(answers) == 1
        assert (answers[0].to, answers[0].answers) == (src, 42)
        return answers[0].body

    def tell(self, src: str, body: Any) -> list[Any]:
        """A peer's answer."""
        return self.handle(Message(src, body))

    def fail(self, to: str, body: Any) -> list[Any]:
        return self.handle(SendFailed(to, body, "connection refused"))

    def vote(self, candidate: str, term: int) -> Any:
        return self.ask(candidate, VoteRequest(RaftPeer(candidate, candidate, term, state="CANDIDATE")))

    def beat(self, leader: str, term: int, *datums: Any, state: Any = "LEADER") -> Any:
        return self.ask(leader, BeatRequest(RaftPeer(leader, leader, term, state=state), tuple(datums)))

    def client(self, body: Any, number: int = 1) -> Any:
        """A client's request; the answer, or None if it waits."""
        self.handle(Request(number, body))
        return self.reply(number)

    def reply(self, number: int = 1) -> Any:
        replies = [effect.body for effect in self.out if isinstance(effect, Reply) and effect.id == number]
        assert len(replies) <= 1
        return replies[0] if replies else None

    def fire(self, timer: str) -> list[Any]:
        return self.handle(Fired(timer))

    def later(self, ms: int) -> Bench:
        self.now += ms * MS
        return self

    def disks_done(self) -> None:
        """Let every batch of the last event succeed."""
        for token in [effect.token for effect in self.out if isinstance(effect, Disk)]:
            self.core.handle(DiskDone(token), self.clocks(), self.rng, [])

    # --- what came out ------------------------------------------------------------------------------------------

    def sent(self, kind: type = object) -> list[tuple[str, Any]]:
        return [
            (effect.to, effect.body)
            for effect in self.out
            if isinstance(effect, Send) and effect.answers is None and isinstance(effect.body, kind)
        ]

    def notes(self, name: str) -> list[Note]:
        return [effect for effect in self.out if isinstance(effect, Note) and effect.name == name]

    def note(self, name: str) -> dict[str, Any]:
        (note,) = self.notes(name)
        return dict(note.data)

    def timers(self) -> dict[str, int | None]:
        return {effect.name: effect.at for effect in self.out if isinstance(effect, SetTimer)}

    def halted(self) -> str | None:
        reasons = [effect.reason for effect in self.out if isinstance(effect, Halt)]
        return reasons[0] if reasons else None
