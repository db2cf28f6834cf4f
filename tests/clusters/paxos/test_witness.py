"""The witness sees what was sent, received and synced, whatever the core says."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Propose as Want
from dethrone.clusters.targets.paxos.messages import Accepted, Heartbeat, Leader, Nack, Prepare, Promise, Told
from dethrone.clusters.targets.paxos.storage import FILE, Counted, Promised, Stored, append_ops
from dethrone.clusters.targets.paxos.target import TARGET
from dethrone.harness.core.machine import Fsync, Witnessed
from tests.clusters.paxos.spec import World, disk, stored, val


def witness(image=None):
    made = TARGET.witness(node="A", members=("A", "B", "C"))
    made.booted(image or {})
    return made


def test_an_acceptance_is_told_once():
    seen = witness()
    body = Accepted(3, 7, val("x"))
    told = [Witnessed("accepted", 3, {"instance": 3, "id": 7, "value": "x", "kind": "value"})]
    assert seen.sent("B", body) == told
    assert seen.sent("C", body) == []
    assert seen.sent("C", Told(3, 3, (body,))) == []
    assert seen.sent("C", Accepted(3, 7, val("y")))[0].data["value"] == "y", (
        "another value under the same number is news"
    )


def test_a_promise_is_told_once_and_a_refusal_never():
    seen = witness()
    assert [w.name for w in seen.sent("B", Promise(1, 4))] == ["promised"]
    assert seen.sent("B", Promise(1, 4)) == []
    assert seen.sent("B", Nack(1, 4, 5)) == seen.sent("B", Prepare(1, 9)) == []


def test_an_election_is_the_first_heartbeat_with_those_who_accepted_under_one_number():
    seen = witness()
    seen.received("B", Accepted(-2, 7, Leader("A")))
    seen.received("C", Accepted(-2, 8, Leader("A")))
    seen.received("B", Accepted(-2, 8, Leader("A")))
    seen.received("D", Accepted(-2, 8, Leader("D")))
    assert seen.sent("B", Heartbeat(2)) == [Witnessed("elected", 2, {"voters": ["B", "C"]})]
    assert seen.sent("C", Heartbeat(2)) == []


def test_what_it_accepted_itself_counts_over_a_restart():
    seen = witness(disk(Stored(-1, 4, 4, Leader("A"))))
    seen.received("B", Told(-1, -1, (Accepted(-1, 4, Leader("A")),)))
    assert seen.sent("B", Heartbeat(1))[0].data == {"voters": ["A", "B"]}


def test_only_what_was_synced_is_persisted():
    seen = witness()
    records = (Counted(1), Promised(1, 4), Stored(2, 5, 5, val("x")))
    assert seen.synced(append_ops(records, sync=False)) == []
    told = seen.synced((Fsync(FILE),))
    assert [(w.term, w.data) for w in told] == [
        (1, {"instance": 1, "max_id": 4}),
        (2, {"instance": 2, "max_id": 5, "accepted_id": 5, "value": "x"}),
    ]


def test_a_damaged_file_says_nothing():
    assert witness({FILE: b"\xff" * 50}).sent("B", Heartbeat(1))[0].data == {"voters": []}
    assert witness(disk(stored(4))) is not None


def test_a_variant_that_accepts_what_it_should_not_is_seen_by_its_witness():
    world = World("ABC", variant="56-answers-own-value")
    world.request("A", Want(1, "x"))
    world.propose("B", 1, "y")
    world.run(500)
    chosen = {key[2] for key, who in world.judge.tally.items() if len(who) >= 2}
    assert len(chosen) == 1
    assert world.problems, "and what clients were told is not it"
