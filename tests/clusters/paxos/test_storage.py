"""What is on disk after a crash anywhere, and what a node makes of it."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.paxos.storage import FILE, Chosen, Counted, Promised, Stored, framed, load, records_in
from dethrone.harness.core.machine import Await, Disk, Fsync, Halt, Note, Send, Write
from tests.clusters.paxos.spec import One, disk, stored, val
from tests.world.effects import halted


def test_later_records_win():
    image = disk(Promised(1, 4), Counted(2), Stored(1, 7, 7, val("x")), Promised(1, 9), Counted(3))
    loaded = load(image)
    assert loaded.cnt == 3
    held = loaded.acceptors[1]
    assert (held.max_id, held.accepted_id, held.accepted_value) == (9, 7, val("x"))


@pytest.mark.parametrize("image", [{FILE: "unreadable"}, {FILE: b"\xff" * 64}])
def test_a_file_that_says_nothing_sure_stops_the_node(image):
    one = One(image=image)
    assert [type(e) for e in one.booted] == [Halt]
    assert one.want() == []


def test_a_torn_tail_is_cut_before_anything_is_said():
    whole = framed(Promised(1, 4))
    out = One(image={FILE: whole + framed(Counted(9))[:7]}, alone=True).booted
    assert isinstance(out[0], Disk)
    assert out[0].ops == (Write(FILE, b"", offset=len(whole), truncate=True), Fsync(FILE))
    assert isinstance(out[1], Await)
    assert all(isinstance(e, Note | Send) for e in out[2:])


def test_what_was_read_is_synced_before_anything_is_said():
    out = One(stored(4)).booted
    assert (out[0].ops, type(out[1])) == ((Fsync(FILE),), Await)


def test_a_disk_error_stops_the_node_and_takes_the_answer_with_it():
    one = One(slow=True)
    one.prepare(4)
    out = one.done("no space left")
    assert halted(out) == ["paxos file: no space left"]
    assert one.prepare(8) == []


RESTARTS = {
    "a promise": (lambda one: one.prepare(4), (4, 0, None)),
    "an acceptance": (lambda one: (one.prepare(4), one.proposal(4, "x")), (4, 4, "x")),
    "a higher promise over an acceptance": (
        lambda one: (one.prepare(4), one.proposal(4, "x"), one.prepare(8)),
        (8, 4, "x"),
    ),
    "its own number": (lambda one: one.want("x"), (3, 0, None)),
    "its own acceptance": (lambda one: (one.want("x"), one.promise(3)), (3, 3, "x")),
}


@pytest.mark.parametrize("name", RESTARTS)
@pytest.mark.parametrize("persist", ["true", "false"])
def test_what_survives_a_restart(name, persist):
    act, want = RESTARTS[name]
    one = One(persist=persist)
    act(one)
    content = one.disk.shown.get(FILE, b"")
    if persist == "false":
        assert content == b""
        return
    again = One(*records_in(content)[0])
    assert again.acceptor() == want
    assert again.node.cnt == one.node.cnt
    again.want("later")
    assert again.id() > max(one.node.instances[1].seen, 0), "a number is never used twice"


def test_a_learner_on_disk_knows_after_a_restart_what_one_in_memory_must_ask():
    known = One(Chosen(1, 4, val("x")), learner="disk")
    assert known.chosen() == "x"
    assert known.node.frontier == 2
    assert One(stored(4, 4, "x")).chosen() is None
    one = One(learner="disk", slow=True)
    one.accepted(4, "x", src="B")
    out = one.accepted(4, "x", src="C")
    assert any(isinstance(e, Disk) and b"chosen" in e.ops[0].data for e in out)
