"""The log: Paxos repeated, one instance per entry.

A node proposes one command at a time, in the lowest instance that it does not know to be decided; where another value
was chosen, it continues in the next one. So no instance is skipped, and no command is decided twice. Reads are
commands, too. Guarantees: the same decisions give the same answers on every node. Out of scope: what Multi-Paxos saves
by a stable leader: each entry takes both phases.

Source: Lamport, "Paxos Made Simple", 3.
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Failed, Get, Ok, Unknown
from dethrone.clusters.targets.kit.machine import Refusal
from dethrone.clusters.targets.paxos import proposer
from dethrone.clusters.targets.paxos.acceptor import ASK_MAX
from dethrone.clusters.targets.paxos.messages import Ask, Command, LogRequest
from dethrone.clusters.targets.paxos.node import CATCH_UP, Instance, Node


def submit(n: Node, request: int, body: LogRequest) -> None:
    """A client's command."""
    n.log_used = True
    n.queue.append((request, n.command(body)))
    _pump(n)


def in_use(n: Node, number: int) -> None:
    """A command was accepted in that instance: all below it is decided, or soon will be."""
    n.log_used = True
    n.top = max(n.top, number)
    _watch(n)


def on_decided(n: Node, inst: Instance) -> None:
    """Carry out what is decided without a gap, answer, and continue."""
    n.log_used = n.log_used or isinstance(inst.chosen, Command)
    n.top = max(n.top, inst.number)
    while True:
        entry = n.instances.get(n.frontier)
        if entry is None or entry.chosen is None:
            break
        _apply(n, entry)
        n.frontier += 1
    _pump(n)
    _watch(n)


def _apply(n: Node, entry: Instance) -> None:
    value = entry.chosen
    mine = n.active is not None and n.active[0] == entry.number
    result = n.machine.apply(entry.number, value.request) if isinstance(value, Command) else None
    if not mine or n.active is None:
        return
    _, request, command = n.active
    n.active = None
    if isinstance(value, Command) and (value.origin, value.number) == (command.origin, command.number):
        if request in n.open and not isinstance(command.request, Get):
            n.trace("write_acked", entry.number, {"index": entry.number, "id": entry.chosen_id})
        n.reply(request, Failed(result.why) if isinstance(result, Refusal) else Ok(result, entry.number))
    else:
        n.queue.appendleft((request, command))


def drop(n: Node, request: int) -> None:
    """A client's patience ended: its command stays only where it was already proposed."""
    if n.active is None or n.active[1] != request:
        n.queue = type(n.queue)(entry for entry in n.queue if entry[0] != request)
        n.reply(request, Failed("not proposed in time"))
        return
    inst = n.instance(n.active[0])
    attempt = inst.attempt
    if attempt is not None and attempt.own == n.active[2] and not attempt.own_sent:
        attempt.own = None
        n.active = None
        n.reply(request, Failed("not proposed in time"))
        _pump(n)
    else:
        n.reply(request, Unknown("not decided in time"))


def _pump(n: Node) -> None:
    """Propose the next command, unless decisions below are still to be learned."""
    if n.active is not None or not n.queue:
        return
    if n.top > n.frontier and n.asked_at != n.frontier:
        _ask(n)
        return
    if n.top <= n.frontier:
        _propose(n)


def _propose(n: Node) -> None:
    while n.queue:
        request, command = n.queue.popleft()
        if request in n.open:
            n.active = (n.frontier, request, command)
            proposer.want(n, n.frontier, command)
            return


# --- catching up ------------------------------------------------------------------------------------------------


def _watch(n: Node) -> None:
    """Look after a gap in a phase's time."""
    if n.log_used and n.top >= n.frontier and not n.catching:
        n.catching = True
        n.arm(CATCH_UP, n.knobs.phase_timeout)


def _ask(n: Node) -> None:
    n.asked_at = n.frontier
    n.send_acceptors(Ask(n.frontier, min(n.top, n.frontier + ASK_MAX - 1)))
    _watch(n)


def catch_up(n: Node) -> None:
    """An answer came: ask on if it helped."""
    if n.top > n.frontier and n.frontier != n.asked_at:
        _ask(n)


def on_timer(n: Node) -> None:
    """There is still a gap: ask; where asking did not help, an attempt shows what holds."""
    n.catching = False
    if n.top < n.frontier or not n.log_used:
        return
    if n.asked_at != n.frontier:
        _ask(n)
        return
    if n.active is None:
        _propose(n)
    if n.active is None:
        proposer.want(n, n.frontier, None)
    _watch(n)
