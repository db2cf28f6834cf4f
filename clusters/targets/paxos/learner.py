"""The learner: counts acceptances, knows what was chosen, answers waiting clients, asks acceptors for what it missed.

Guarantees: a value is learned once a majority of acceptors accepted it under one number, or from the own disk
(``learner=disk``). A restarted learner asks acceptors; if their answers show acceptances but no majority for one
number, an attempt without a value of its own finds the decision. Out of scope: who proposes (`proposer`).

Source: Lamport, "Paxos Made Simple", 2.3.
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Ok
from dethrone.clusters.targets.paxos import election, log, proposer
from dethrone.clusters.targets.paxos.messages import Accepted, Ask, Command, Told, Value, kind_of, shown
from dethrone.clusters.targets.paxos.node import ASKING, Asking, Instance, Node
from dethrone.clusters.targets.paxos.storage import Chosen


def on_accepted(n: Node, src: str, body: Accepted) -> None:
    """An acceptor accepted: the proposer counts, then the learner does."""
    inst = n.instance(body.instance)
    if inst.chosen is None:
        proposer.on_accepted(n, src, inst, body)
    _count(n, src, inst, body)


def _count(n: Node, src: str, inst: Instance, body: Accepted) -> None:
    inst.seen = max(inst.seen, body.id)
    if inst.number > n.top and isinstance(body.value, Command):
        log.in_use(n, inst.number)
    if inst.chosen is not None:
        return
    held = inst.tally.get(body.id)
    if held is None:
        held = inst.tally[body.id] = (body.value, set())
    held[1].add(src)
    if n.rules.chosen(inst.tally, body.id, majority=n.needed()):
        decide(n, inst, body.id, body.value, sorted(held[1]))


def decide(n: Node, inst: Instance, number: int, value: Value, acceptors: list[str]) -> None:
    """The value is chosen: remember it, answer, continue."""
    if inst.chosen is not None:
        return
    inst.chosen, inst.chosen_id = value, number
    inst.tally = {}
    n.counters["decided"] += 1
    if n.knobs.learner == "disk":
        n.store((Chosen(inst.number, number, value),), ())
    told = {"id": number, "value": shown(value), "kind": kind_of(value), "acceptors": acceptors}
    n.trace("learned", inst.number, told)
    settle(n, inst, acceptors)


def settle(n: Node, inst: Instance, acceptors: list[str]) -> None:
    """What follows from a decision: answers, the log, the epoch."""
    attempt, asking = inst.attempt, inst.asking
    if attempt is not None:
        inst.done = True
        proposer.stop(n, inst)
        for request, own in attempt.waiting.items():
            answer(n, request, inst, own)
    if asking is not None:
        _close(n, inst)
        for request in asking.waiting:
            answer(n, request, inst, None)
    if inst.number > 0:
        log.on_decided(n, inst)
    elif inst.chosen is not None:
        election.on_decided(n, -inst.number, inst.chosen, acceptors)


def answer(n: Node, request: int, inst: Instance, own: Value | None) -> None:
    """Answer a client with what was decided."""
    if inst.chosen is None:
        return
    if request in n.open and own is not None and own == inst.chosen:
        n.trace("write_acked", inst.number, {"id": inst.chosen_id, "value": shown(own)})
    n.reply(request, Ok(shown(n.rules.answer(inst.chosen, own)), inst.number))


# --- asking -----------------------------------------------------------------------------------------------------


def learn(n: Node, number: int, request: int) -> None:
    """A client wants to know what was decided."""
    inst = n.instance(number)
    if inst.chosen is not None:
        answer(n, request, inst, None)
    elif n.knobs.relearn == "attempt":
        proposer.want(n, number, None, request)
    elif inst.asking is not None:
        inst.asking.waiting.append(request)
    else:
        asking = ask(n, inst)
        asking.waiting.append(request)
        if not n.others:
            _conclude(n, inst, asking)


def ask(n: Node, inst: Instance) -> Asking:
    """Ask every acceptor about one instance."""
    asking = inst.asking
    if asking is None:
        asking = inst.asking = Asking()
        if n.accepting:
            asking.answered.add(n.me)
        n.send_acceptors(Ask(inst.number, inst.number))
        n.arm(ASKING + str(inst.number), n.knobs.phase_timeout)
    return asking


def on_told(n: Node, src: str, body: Told) -> None:
    """An acceptor's answer: as if its acceptances had just been sent."""
    for accepted in body.accepted:
        _count(n, src, n.instance(accepted.instance), accepted)
    if body.first != body.last:
        log.catch_up(n)
        return
    inst = n.instance(body.first)
    if inst.asking is None:
        return
    inst.asking.answered.add(src)
    silent = len(inst.asking.answered) >= n.majority and not inst.tally
    if silent or len(inst.asking.answered) == len(n.acceptors):
        _conclude(n, inst, inst.asking)


def on_timer(n: Node, number: int) -> None:
    """Not all answered in time."""
    inst = n.instances.get(number)
    if inst is not None and inst.asking is not None:
        _conclude(n, inst, inst.asking)


def _conclude(n: Node, inst: Instance, asking: Asking) -> None:
    """No majority for one number among the answers: if anything was accepted, an attempt shows what holds."""
    found = bool(inst.tally)
    _close(n, inst)
    for request in asking.waiting:
        if found and request in n.open:
            proposer.want(n, inst.number, None, request)
        else:
            n.reply(request, Ok(None))
    if found and inst.number < 0:
        proposer.want(n, inst.number, None)


def _close(n: Node, inst: Instance) -> None:
    inst.asking = None
    n.timer(ASKING + str(inst.number), None)
