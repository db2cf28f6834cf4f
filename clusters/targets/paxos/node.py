"""The state of one node, and the verbs by which every handler sends, stores, arms timers and notes what happened.

Guarantees: nothing leaves before what it rests on is durable (``store`` appends a batch and an ``Await``); the node's
own acceptor answers its own proposer and learner the same way: when their batch is done. Out of scope: every rule
(`rules`) and the handlers (`acceptor`, `proposer`, `learner`, `log`, `election`, `requests`).
"""

from __future__ import annotations

from collections import deque
from typing import Any

from dethrone.clusters.targets.kit.core import KitNode
from dethrone.clusters.targets.kit.machine import Machine
from dethrone.clusters.targets.paxos import storage
from dethrone.clusters.targets.paxos.knobs import PaxosKnobs
from dethrone.clusters.targets.paxos.messages import Command, LogRequest, PaxosMessage, Value
from dethrone.clusters.targets.paxos.rules import Report, Rules
from dethrone.clusters.targets.paxos.storage import Acceptor, DiskRecord
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import Await, DiskOp, Note, Reply, Send, SetTimer
from dethrone.harness.core.quorum import quorum

IDLE, PREPARING, PROPOSING, DONE = "IDLE", "PREPARING", "PROPOSING", "DONE"
LEADER, CONTENDING, FOLLOWER = "LEADER", "CONTENDING", "FOLLOWER"

ATTEMPT, ASKING, PATIENCE, CATCH_UP = "attempt/", "ask/", "patience", "catch_up"
CONTEND, BEAT = "contend", "heartbeat"

NEVER = -(1 << 62)


class Attempt:
    """A proposer's work on one instance. ``own`` is None where it only wants to learn.

    ``waiting``: request → that client's own value. ``kept``: it continues although no client waits.
    """

    def __init__(self, own: Value | None) -> None:
        self.own = own
        self.own_sent = False
        self.state = IDLE
        self.id = 0
        self.val: Value | None = None
        self.promises: dict[str, Report] = {}
        self.accepts: set[str] = set()
        self.failures = 0
        self.waiting: dict[int, Value | None] = {}
        self.kept = False


class Asking:
    """A learner's question to the acceptors about one instance. ``answered``: who answered."""

    def __init__(self) -> None:
        self.answered: set[str] = set()
        self.waiting: list[int] = []


class Instance:
    """Everything that one node knows of one instance."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.acceptor = Acceptor()
        self.seen = 0
        """The highest number seen."""
        self.attempt: Attempt | None = None
        self.done = False
        """The own proposer's work here ended with a decision."""
        self.asking: Asking | None = None
        self.tally: dict[int, tuple[Value, set[str]]] = {}
        self.chosen: Value | None = None
        self.chosen_id = 0


class Node(KitNode):
    """One node. Handlers change the fields."""

    def __init__(self, me: str, members: tuple[str, ...], knobs: PaxosKnobs, rules: Rules) -> None:
        super().__init__()
        self.me = me
        self.members = members
        """All nodes: each may propose and learns."""
        self.acceptors = members[: knobs.acceptors or len(members)]
        self.accepting = me in self.acceptors
        self.peers = rules.order(tuple(name for name in members if name != me))
        self.others = tuple(name for name in self.peers if name in self.acceptors)
        """The other acceptors."""
        self.place = members.index(me)
        self.majority = quorum(len(self.acceptors))
        self.knobs = knobs
        self.rules = rules
        self.wall_timers = rules.clock() == "wall"
        self.cnt = 0
        self.instances: dict[int, Instance] = {}
        self.latest = 0
        """The highest client instance that was touched."""
        self.attempts_open = 0
        """Instances with an attempt: a node is asked for it more often than attempts begin."""
        self.heard: dict[str, Ns] = {}
        """When something last arrived from a peer."""
        self.unreached: set[int] = set()
        """Instances whose attempt waits for enough acceptors to be reachable."""
        self.deadlines: deque[tuple[Ns, int, int]] = deque()
        """(when patience ends, request, instance or 0 for the log), oldest first."""
        self.open: set[int] = set()
        """Requests that were not answered."""
        self.local: deque[PaxosMessage] = deque()
        """Answers of the own acceptor to the own proposer and learner."""
        self.counters = {"attempts": 0, "abandoned": 0, "decided": 0, "nacks": 0}
        self.batches: dict[int, tuple[tuple[DiskRecord, ...], tuple[PaxosMessage, ...]]] = {}
        """Batch under way → its records, and the answers to this very node that wait for it."""
        # the log
        self.frontier = 1
        """The lowest client instance not known to be decided."""
        self.top = 0
        """The highest client instance known to be decided, or in use by a command."""
        self.log_used = False
        self.queue: deque[tuple[int, Command]] = deque()
        self.active: tuple[int, int, Command] | None = None
        """(instance, request, command) that the log proposes now."""
        self.machine = Machine()
        self.origin = me
        self.commands = 0
        self.asked_at = 0
        """The frontier for which the acceptors were asked."""
        self.catching = False
        """The timer that looks after a gap is armed."""
        # epochs
        self.epoch = 0
        self.top_epoch = 0
        self.leader: str | None = None
        self.leads = False
        self.contends_for = 0
        """The epoch for which this node was last proposed."""
        self.contend_at: Ns = 0
        self.beat_at: Ns = NEVER
        """When the leader's last heartbeat came, monotonic."""

    # --- looking ------------------------------------------------------------------------------------------------

    def instance(self, number: int) -> Instance:
        """The state of an instance, fresh if it is new."""
        number = self.rules.instance(number)
        found = self.instances.get(number)
        if found is None:
            found = self.instances[number] = Instance(number)
            self.latest = max(self.latest, number)
            self.top_epoch = max(self.top_epoch, -number)
        return found

    def reachable(self) -> int:
        """How many other acceptors were heard within a phase's time."""
        since = self.mono - self.knobs.phase_timeout
        heard = self.heard.get
        count = 0
        for name in self.others:  # asked at every acceptance
            if heard(name, NEVER) >= since:
                count += 1
        return count

    def may_start(self) -> bool:
        """Whether enough acceptors can be reached to try a number."""
        return self.rules.may_start(self.reachable(), own=self.accepting, acceptors=len(self.acceptors))

    def needed(self) -> int:
        """How many acceptors make a majority, as this build counts."""
        return self.rules.majority(len(self.acceptors), reachable=self.reachable() + self.accepting)

    def shown_role(self) -> str:
        """LEADER of the epoch, else the state of the own proposer where it was last at work."""
        if self.leads:
            return LEADER
        if self.knobs.election:
            contending = self.instances.get(-self.contends_for)
            return FOLLOWER if contending is None or contending.attempt is None else CONTENDING
        latest = self.instances.get(self.latest)
        return IDLE if latest is None else proposer_state(latest)

    # --- saying -------------------------------------------------------------------------------------------------

    def trace(self, name: str, instance: int, data: dict[str, Any]) -> None:
        """A trace event; its term is the instance, or the epoch that the instance decides."""
        data["instance"] = instance
        self.out.append(Note(name, abs(instance), self.shown_role(), data))

    def send(self, to: str, body: PaxosMessage) -> None:
        """To one node; what is for this one is handled behind the event."""
        if to == self.me:
            self.local.append(body)
        else:
            self.out.append(Send(to, body))

    def send_peers(self, body: PaxosMessage) -> None:
        """To every other node."""
        for peer in self.peers:
            self.out.append(Send(peer, body))

    def reply(self, request: int, body: Any) -> None:
        """Answer a client, once."""
        if request in self.open:
            self.open.discard(request)
            self.out.append(Reply(request, body))

    def send_acceptors(self, body: PaxosMessage) -> None:
        """To every other acceptor."""
        for peer in self.others:
            self.out.append(Send(peer, body))

    # --- time ---------------------------------------------------------------------------------------------------

    def clock(self) -> Ns:
        """What the timers' clock shows."""
        return self.wall if self.wall_timers else self.mono

    def arm(self, timer: str, after: Ns) -> None:
        """Let the timer ring ``after`` ns from now."""
        self.out.append(SetTimer(timer, self.clock() + after, self.rules.clock()))

    # --- disk ---------------------------------------------------------------------------------------------------

    def store(self, records: tuple[DiskRecord, ...], local: tuple[PaxosMessage, ...], *, wait: bool = True) -> None:
        """Append records; later effects wait for them (``wait``), and so do ``local``, answers to this very node."""
        if not records or not self.knobs.persist:
            self.local.extend(local)
            return
        token = self._start(storage.append_ops(records, sync=self.rules.syncs), records, local if wait else ())
        if wait:
            self.out.append(Await(token))
        else:
            self.local.extend(local)

    def store_ops(self, ops: tuple[DiskOp, ...]) -> None:
        """Carry out a batch that is no record, and let everything wait for it."""
        self.out.append(Await(self._start(ops, (), ())))

    def _start(self, ops: tuple[DiskOp, ...], records: tuple[DiskRecord, ...], local: tuple[PaxosMessage, ...]) -> int:
        token = self.batch(ops)
        self.batches[token] = (records, local)
        return token

    def command(self, request: LogRequest) -> Command:
        """A new entry of the log."""
        self.commands += 1
        return Command(self.origin, self.commands, request)


def proposer_state(instance: Instance) -> str:
    """The state of the own proposer in that instance."""
    if instance.attempt is not None:
        return instance.attempt.state
    return DONE if instance.done else IDLE
