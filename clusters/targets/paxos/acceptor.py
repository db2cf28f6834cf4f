"""The acceptor: what it promises, what it accepts, what it reports to a learner that asks.

Guarantees: the answer leaves after the record that it rests on is on disk; a refusal changes nothing. Out of scope:
counting the answers (`proposer`, `learner`).

Source: Lamport, "Paxos Made Simple", 2.2, phases 1b and 2b.
"""

from __future__ import annotations

from dethrone.clusters.targets.paxos.messages import Accepted, Ask, Nack, Prepare, Promise, Propose, Told, shown
from dethrone.clusters.targets.paxos.node import Instance, Node
from dethrone.clusters.targets.paxos.storage import DiskRecord
from dethrone.harness.core.machine import Send

ASK_MAX = 256
"""Instances that one question may cover."""


def on_prepare(n: Node, src: str, body: Prepare) -> None:
    """Phase 1b."""
    if not n.accepting:
        return
    promise(n, src, n.instance(body.instance), body.id, before=())


def promise(n: Node, src: str, inst: Instance, number: int, *, before: tuple[DiskRecord, ...]) -> None:
    """Promise ``number`` to ``src``, or refuse. ``before``: records to be stored with it, answer or not."""
    acceptor = inst.acceptor
    old = acceptor.max_id
    inst.seen = max(inst.seen, number)
    if not n.rules.promises(number, max_id=old):
        n.store(before, ())
        _refuse(n, "nack", src, inst, number)
        return
    acceptor.max_id = n.rules.promised(number, max_id=old)
    report = n.rules.reports(acceptor)
    accepted_id, value = (0, None) if report is None else report
    answer = Promise(inst.number, number, accepted_id, value)
    record = n.rules.promised_record(inst.number, acceptor)
    wait = n.rules.waits_for_disk("promise")
    records = before if record is None else (*before, record)
    told = {
        "to": src,
        "id": number,
        "max_before": old,
        "max_after": acceptor.max_id,
        "accepted_id": accepted_id,
        "accepted_value": shown(value),
    }
    own = src == n.me
    if not own and not wait:
        n.send(src, answer)
    n.store(records, (answer,) if own else (), wait=wait)
    n.trace("promise", inst.number, told)
    if not own and wait:
        n.send(src, answer)


def on_propose(n: Node, src: str, body: Propose) -> None:
    """Phase 2b: report an acceptance to the proposer and every learner, this node's own included."""
    if not n.accepting:
        return
    inst = n.instance(body.instance)
    acceptor = inst.acceptor
    inst.seen = max(inst.seen, body.id)
    if not n.rules.accepts(body.id, acceptor):
        _refuse(n, "refused", src, inst, body.id)
        return
    previous = (acceptor.accepted_id, acceptor.accepted_value)
    acceptor.accepted_id, acceptor.accepted_value = body.id, body.value
    acceptor.max_id = n.rules.max_after_accept(body.id, max_id=acceptor.max_id)
    answer = Accepted(inst.number, body.id, body.value)
    record = n.rules.accepted_record(inst.number, acceptor)
    wait = n.rules.waits_for_disk("accepted")
    to = [name for name in n.rules.tells(n.members, src) if name != n.me]
    if not wait:
        n.out.extend(Send(name, answer) for name in to)
    n.store(() if record is None else (record,), (answer,), wait=wait)
    n.trace(
        "accepted",
        inst.number,
        {
            "from": src,
            "id": body.id,
            "value": shown(body.value),
            "max_after": acceptor.max_id,
            "previous_id": previous[0],
            "previous_value": shown(previous[1]),
        },
    )
    if wait:
        n.out.extend(Send(name, answer) for name in to)


def _refuse(n: Node, name: str, src: str, inst: Instance, number: int) -> None:
    n.counters["nacks"] += 1
    max_id = inst.acceptor.max_id
    n.trace(name, inst.number, {"to": src, "id": number, "max_before": max_id, "max_after": max_id})
    if n.rules.nacks():
        n.send(src, Nack(inst.number, number, max_id))


def on_ask(n: Node, src: str, body: Ask) -> None:
    """Report to a learner what was accepted here."""
    if not n.accepting:
        return
    last = min(body.last, body.first + ASK_MAX - 1)
    found = []
    for number in range(body.first, last + 1):
        inst = n.instances.get(n.rules.instance(number))
        if inst is not None and inst.acceptor.accepted_value is not None:
            found.append(Accepted(number, inst.acceptor.accepted_id, inst.acceptor.accepted_value))
    n.send(src, Told(body.first, last, tuple(found)))
