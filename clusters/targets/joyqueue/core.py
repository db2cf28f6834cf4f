"""One node of JoyQueue's election as a pure core: its partition groups, the start, and which rule handles which event.

Guarantees: deterministic; every group has its own election, log and timers, and a client's key belongs to one group;
send tasks run at the end of the event that submitted them unless a knob defers them. A disk error stops the node; with
``persist_errors=swallow`` a metadata error is only noted and the effects behind it leave all the same, as in the
original. An unreadable file stops the node at its start. After ``Halt`` the core does nothing.

Out of scope: membership changes, rebalancing, consume positions.

Source: docs/sources.md, joyqueue: ``RaftLeaderElection``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from dethrone.clusters.targets.client_api import ClientRequest, Transfer
from dethrone.clusters.targets.joyqueue import election, replication, responding, storage, transfer
from dethrone.clusters.targets.joyqueue.group import LEADER, Group
from dethrone.clusters.targets.joyqueue.knobs import Knobs
from dethrone.clusters.targets.joyqueue.messages import (
    AppendEntriesRequest,
    JoyQueueAnswer,
    JoyQueueMessage,
    TimeoutNowRequest,
    VoteRequest,
)
from dethrone.clusters.targets.joyqueue.node import TASKS, Node
from dethrone.clusters.targets.joyqueue.rules import Rules
from dethrone.clusters.targets.joyqueue.status import glance_of, group_status
from dethrone.clusters.targets.joyqueue.storage import METADATA, Stored, group_names, label_of
from dethrone.clusters.targets.joyqueue.swallow import Shadow
from dethrone.clusters.targets.kit.core import FAR, KitCore
from dethrone.clusters.targets.kit.files import file_of
from dethrone.harness.core.clock import Clocks
from dethrone.harness.core.machine import Await, CoreStatus, DiskDone, DiskImage, DiskOp, Fsync, Glance, SendFailed


class JoyQueueCore(KitCore[Node[Group]]):
    """One node. ``members``: all nodes of every group, learners included."""

    def __init__(self, node: str, members: tuple[str, ...], knobs: Knobs, rules: Rules) -> None:
        self.node: Node[Group] = Node(node, knobs, rules)
        self.groups = tuple(
            Group(self.node, members, name=name, label=label_of(name)) for name in group_names(knobs.groups)
        )
        self._by_name = {group.name: group for group in self.groups}
        self._timers: dict[str, tuple[Callable[[Group], None], Group]] = {}
        for group in self.groups:
            self._timers[group.election_timer] = (election.on_election_timer, group)
            self._timers[group.vote_timer] = (election.handle_vote_timeout, group)
            self._timers[group.heartbeat_timer] = (replication.on_heartbeat_timer, group)
            self._timers[group.transfer_timer] = (transfer.on_transfer_timer, group)
        self._shadow = Shadow() if rules.on_persist_error() == "swallow" else None

    def load(self, disk: DiskImage) -> None:
        """Start every group from what the disk holds."""
        # Answers to an earlier life of this node must not pass for answers to this one.
        self.node.next_id = self.node.rng.below(1 << 30) << 20
        for group in self.groups:
            _load(group, disk)
        for group in self.groups:
            _start(group, disk)

    def rings(self, timer: str) -> None:
        """Hand a timer to its group."""
        if timer == TASKS:
            self.node.tasks_at = FAR
            return
        found = self._timers.get(timer)
        if found is not None:
            found[0](found[1])

    def status(self, now: Clocks) -> CoreStatus:
        """The first group's share of the observer record."""
        return group_status(self.groups[0], now)

    def glance(self) -> Glance:
        """The main fields of the first group's status."""
        return glance_of(self.groups[0])

    def statuses(self, now: Clocks) -> tuple[CoreStatus, ...]:
        """Every group's share, in the order of their numbers."""
        return tuple(group_status(group, now) for group in self.groups)

    def group_of(self, key: str) -> Group:
        """The group that a client's key belongs to."""
        return self.groups[zlib.crc32(key.encode()) % len(self.groups)]

    # --- events -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Run the send tasks that are due."""
        n = self.node
        if n.ready or n.later:
            for task in n.take_tasks():
                kind = task.kind
                if kind == "heartbeat":
                    replication.run_heartbeat_task(task)
                else:
                    election.run_vote_task(task, kind)
            n.arm_tasks()
        if self._shadow is not None:
            self._shadow.record(n.out)

    def hears(self, src: str, body: JoyQueueMessage) -> None:
        """Hand a message to its group; one of a group that is not here is dropped."""
        group = self._by_name.get(body.topic_partition_group)
        if group is None:
            return
        if isinstance(body, AppendEntriesRequest):
            responding.handle_append_entries(group, src, body)
        elif isinstance(body, VoteRequest):
            if body.pre_vote:
                responding.handle_pre_vote_request(group, src, body)
            else:
                responding.handle_vote_request(group, src, body)
        elif isinstance(body, TimeoutNowRequest):
            transfer.handle_timeout_now(group, src, body, election.elect_self)
        else:
            self._answer(src, body)

    def _answer(self, src: str, body: JoyQueueAnswer) -> None:
        call = self.node.answered(body.id)
        if call is None or call.peer != src:
            return  # not waited for: too late, doubled, or of another life
        if call.kind == "heartbeat":
            replication.handle_heartbeat_response(call.group, body)
        elif call.kind == "append":
            replication.handle_append_response(call.group, body.id, call, body)
        elif call.kind == "timeout_now":
            transfer.handle_timeout_now_response(call.group, body)
        else:
            election.vote_request_callback(call.group, call, body)

    def on_request(self, request: int, body: ClientRequest) -> None:
        """Handle a client's request in the group of its key."""
        if isinstance(body, Transfer):
            led = next((group for group in self.groups if group.role == LEADER), self.groups[0])
            transfer.on_transfer(led, request, body.target)
            return
        replication.on_request(self.group_of(getattr(body, "key", "")), request, body)

    def send_failed(self, event: SendFailed) -> None:
        """A transport error is only logged; an append is sent again at the next heartbeat."""
        call = self.node.answered(getattr(event.body, "id", 0))
        if call is None:
            return
        call.group.note("send_failed", {"peer": event.to, "kind": call.kind, "error": event.error})
        replica = call.group.replicas.get(event.to)
        if replica is not None and replica.inflight == event.body.id:
            replica.inflight = 0

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded or failed."""
        n = self.node
        found = n.batches.pop(done.token, None)
        if found is None:
            return
        group, what = found
        if isinstance(what, Stored):
            group.writing -= 1
        if done.error is None:
            if self._shadow is not None:
                self._shadow.released(done.token)
            if isinstance(what, Stored):
                group.durable = what
            else:
                replication.on_log_durable(group, what)
            return
        file = METADATA if isinstance(what, Stored) else storage.LOG
        group.note("persist_failed", {"file": file, "error": done.error})
        if isinstance(what, Stored) and self._shadow is not None:
            n.out.extend(self._shadow.dropped(done.token))
            return
        n.halt(f"{file} file: {done.error}")


# --- the start ----------------------------------------------------------------------------------------------------


def _load(group: Group, disk: DiskImage) -> None:
    """Term, vote and log; `Unreadable` if this node must not start from them. The stored leader is not used."""
    content = file_of(disk, group.log.path)
    if content is not None:
        group.log.load(storage.read_log(content))
    stored = group.rules.load(disk.get(f"{group.name}/{METADATA}"), node=group.me)
    group.term, group.voted_for = stored.term, stored.voted_for
    group.durable = stored


def _start(group: Group, disk: DiskImage) -> None:
    """Metadata, state FOLLOWER, the election timer.

    Nothing leaves before what was read is certainly durable: the last life may have died before its fsync.
    """
    path = f"{group.name}/{METADATA}"
    ops: list[DiskOp] = list(group.log.take_ops())
    if group.log.path in disk and group.rules.syncs_log():
        ops.append(Fsync(group.log.path))
    if ops:
        token = group.node.start_batch(group, tuple(ops), group.log.end)
        group.node.out.append(Await(token))
    if path not in disk:
        group.persist("first")
    else:
        stored = Stored(group.term, group.voted_for)
        token = group.node.start_batch(group, (Fsync(path),), stored)
        group.writing += 1
        group.node.out.append(Await(token))
        group.note("persisted", {"term": stored.term, "voted_for": stored.voted_for})
    group.started = True
    group.note(
        "start",
        {
            "term": group.term,
            "voted_for": group.voted_for,
            "log": group.own_log(),
            "voters": list(group.voters),
            "learners": list(group.learners),
        },
    )
    if group.rules.arms_timer_at_start():
        group.reset_election_timer()
    stored = Stored(group.term, group.voted_for)
    if group.rules.resumes_leadership(node=group.me, stored=stored, last_log_term=group.log.last_term):
        election.become_leader(group, voters=())
