"""The proposer: one attempt per instance, from a fresh number to a majority of acceptances, and again.

    IDLE -PREPARE-> PREPARING -majority of promises-> PROPOSING -majority of acceptances-> DONE
    PREPARING, PROPOSING -refusal or timeout-> IDLE, a wait, a higher number

Guarantees: a number is stored before it is used; an abandoned attempt ignores late answers to its number; it ends when
no client waits for it. Out of scope: what acceptors and learners do.

Source: Lamport, "Paxos Made Simple", 2.2 (phases 1a, 2a), 2.4 (progress).
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Ok
from dethrone.clusters.targets.paxos import acceptor, learner
from dethrone.clusters.targets.paxos.messages import Accepted, Nack, Ping, Promise, Propose, Value, kind_of, shown
from dethrone.clusters.targets.paxos.node import ATTEMPT, IDLE, PREPARING, PROPOSING, Attempt, Instance, Node
from dethrone.clusters.targets.paxos.storage import Counted, DiskRecord


def want(n: Node, number: int, own: Value | None, request: int | None = None) -> None:
    """Bring about a decision of the instance; ``own`` is proposed if the choice is free. The request is answered."""
    inst = n.instance(number)
    if inst.chosen is not None:
        if request is not None:
            learner.answer(n, request, inst, own)
        return
    attempt = inst.attempt
    fresh = attempt is None
    if attempt is None:
        attempt = inst.attempt = Attempt(own)
        n.attempts_open += 1
        inst.done = False
    elif attempt.own is None:
        attempt.own = own
    if request is None:
        attempt.kept = True
    else:
        attempt.waiting[request] = own
    if fresh:
        _start(n, inst, attempt)


def _start(n: Node, inst: Instance, attempt: Attempt) -> None:
    """A new number, unless too few acceptors can be reached: then ask who is there, and wait."""
    if not n.may_start():
        n.unreached.add(inst.number)
        n.send_acceptors(Ping())
        n.arm(ATTEMPT + str(inst.number), n.knobs.phase_timeout)
        return
    n.unreached.discard(inst.number)
    n.counters["attempts"] += 1
    place, nodes = n.place, len(n.members)
    if attempt.failures == 0 and attempt.own is not None:
        held = n.rules.resumes(inst.acceptor, place=place, nodes=nodes)
        if held:
            attempt.id = held
            _propose(n, inst, attempt, attempt.own, 0)
            return
    n.cnt = n.rules.next_counter(n.cnt, seen=inst.seen, place=place, nodes=nodes)
    number = attempt.id = n.rules.number(n.cnt, place=place, nodes=nodes)
    attempt.state = PREPARING
    attempt.promises, attempt.accepts, attempt.val = {}, set(), None
    counter: tuple[DiskRecord, ...] = (Counted(n.cnt),) if n.knobs.id_scheme == "unique" else ()
    # One batch stores the counter and the own promise; the requests to the others wait for it.
    if n.accepting:
        acceptor.promise(n, n.me, inst, number, before=counter)
    else:
        n.store(counter, ())
    n.trace("prepare_sent", inst.number, {"id": number})
    n.send_acceptors(n.rules.prepare(inst.number, number, attempt.own))
    n.arm(ATTEMPT + str(inst.number), n.knobs.phase_timeout)


def heard_somebody(n: Node) -> None:
    """A peer answers again: attempts that wait for a majority may continue."""
    if n.may_start():
        for number in sorted(n.unreached):
            inst = n.instances[number]
            if inst.attempt is not None:
                _start(n, inst, inst.attempt)
        n.unreached.clear()


def on_promise(n: Node, src: str, body: Promise) -> None:
    """Count a promise of the number under way; a majority of them lets the proposer propose."""
    report = None if body.accepted_value is None else (body.accepted_id, body.accepted_value)
    _promised(n, src, n.instance(body.instance), body.id, report)


def _promised(n: Node, src: str, inst: Instance, number: int, report: tuple[int, Value] | None) -> None:
    attempt = inst.attempt
    if attempt is None or attempt.state != PREPARING or not n.rules.counts_promise(number, current=attempt.id):
        return
    attempt.promises.setdefault(src, report)
    if len(attempt.promises) < n.needed():
        return
    val, accepted_id = n.rules.select(attempt.promises, attempt.own)
    if val is None:  # a learner's attempt: nothing was accepted, so nothing can have been chosen
        _abandon(n, inst, attempt, "nothing to propose")
        _finish(n, inst, attempt)
        return
    _propose(n, inst, attempt, val, accepted_id)


def _propose(n: Node, inst: Instance, attempt: Attempt, val: Value, accepted_id: int) -> None:
    """Phase 2a."""
    n.trace(
        "value_selected",
        inst.number,
        {
            "id": attempt.id,
            "source": "adopted" if accepted_id else "own",
            "accepted_id": accepted_id,
            "value": shown(val),
        },
    )
    attempt.val, attempt.state = val, PROPOSING
    attempt.own_sent = attempt.own_sent or val == attempt.own
    number = n.rules.propose_number(attempt.id)
    body = Propose(inst.number, number, val)
    n.trace("propose_sent", inst.number, {"id": number, "value": shown(val)})
    for _ in range(n.rules.copies()):
        n.send_acceptors(body)
    n.arm(ATTEMPT + str(inst.number), n.knobs.phase_timeout)
    if n.rules.promises_choose():
        learner.decide(n, inst, number, val, sorted(attempt.promises))
        return
    if n.accepting:
        acceptor.on_propose(n, n.me, body)


def on_accepted(n: Node, src: str, inst: Instance, body: Accepted) -> None:
    """Count an acceptance of the proposal under way; a majority of them has chosen the value."""
    attempt = inst.attempt
    if attempt is None or attempt.state != PROPOSING or body.id != attempt.id:
        return
    attempt.accepts.add(src)
    if len(attempt.accepts) >= n.needed() and attempt.val is not None:
        told = {
            "id": attempt.id,
            "value": shown(attempt.val),
            "kind": kind_of(attempt.val),
            "acceptors": sorted(attempt.accepts),
        }
        n.trace("chosen", inst.number, told)
        learner.decide(n, inst, attempt.id, attempt.val, sorted(attempt.accepts))


def on_nack(n: Node, src: str, body: Nack) -> None:
    """A refusal of the number under way: give it up, wait, try a higher one."""
    inst = n.instance(body.instance)
    inst.seen = max(inst.seen, body.max_id)
    attempt = inst.attempt
    if attempt is None or attempt.state == IDLE or body.id != attempt.id:
        return
    if attempt.state == PREPARING and n.rules.nack_is_promise():
        _promised(n, src, inst, body.id, None)
        return
    _failed(n, inst, attempt, "nack")


def on_timer(n: Node, number: int) -> None:
    """A phase took too long, or the wait before the next number is over."""
    inst = n.instances.get(number)
    if inst is None or inst.attempt is None:
        return
    if inst.attempt.state == IDLE:
        _start(n, inst, inst.attempt)
    else:
        _failed(n, inst, inst.attempt, "timeout")


def _failed(n: Node, inst: Instance, attempt: Attempt, cause: str) -> None:
    _abandon(n, inst, attempt, cause)
    attempt.failures += 1
    if not n.rules.retries:
        return
    wait = n.rules.backoff(n.rng, attempt.failures)
    if wait:
        n.arm(ATTEMPT + str(inst.number), wait)
    else:
        _start(n, inst, attempt)


def _abandon(n: Node, inst: Instance, attempt: Attempt, cause: str) -> None:
    n.counters["abandoned"] += 1
    n.trace("attempt_abandoned", inst.number, {"id": attempt.id, "cause": cause})
    attempt.state = IDLE


def drop(n: Node, inst: Instance, request: int) -> bool:
    """A client's patience ended. Whether its own value was certainly never proposed."""
    attempt = inst.attempt
    if attempt is None:
        return True
    own = attempt.waiting.pop(request, None)
    proposed = own is not None and own == attempt.own and attempt.own_sent
    if not attempt.waiting and not attempt.kept:
        if attempt.state != IDLE:
            _abandon(n, inst, attempt, "nobody waits")
        stop(n, inst)
    elif not attempt.own_sent and own == attempt.own:
        attempt.own = next((value for value in attempt.waiting.values() if value is not None), None)
    return not proposed


def stop(n: Node, inst: Instance) -> None:
    """The attempt is over."""
    n.attempts_open -= inst.attempt is not None
    inst.attempt = None
    n.unreached.discard(inst.number)
    n.timer(ATTEMPT + str(inst.number), None)


def _finish(n: Node, inst: Instance, attempt: Attempt) -> None:
    """There is nothing to learn: answer the waiting clients so."""
    stop(n, inst)
    for request in attempt.waiting:
        n.reply(request, Ok(None))
