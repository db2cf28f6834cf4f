"""The shell of a core: lookup, the order of steps, and that after a halt nothing happens any more."""

from typing import Any

import pytest

from dethrone.clusters.targets.kit.core import KitCore, KitNode
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.harness.core.clock import Clocks
from dethrone.harness.core.machine import Disk, DiskDone, Fired, Fsync, Halt, Message, Note, Request, SendFailed
from dethrone.harness.core.rng import Rng


class Wrong(Exception):  # noqa: N818 - reads as the state that it reports
    """What the toy must not do."""


class Toy(KitCore[KitNode]):
    """Writes down which step came."""

    __slots__ = ("node", "steps")

    def __init__(self) -> None:
        self.node = KitNode()
        self.steps: list[Any] = []

    MESSAGES = {int: lambda n, src, body: n.send(src, body + 1), str: lambda *_: (_ for _ in ()).throw(Wrong("no"))}  # noqa: RUF012
    TIMERS = {"tick": lambda n: n.count("ticks")}  # noqa: RUF012
    ILLEGAL = (Wrong,)

    def load(self, disk):
        if "bad" in disk:
            raise Unreadable("bad: damaged")
        self.steps.append("load")

    def on_request(self, request, body):
        self.steps.append((request, body))

    def disk_done(self, done):
        self.steps.append(done.token)

    def send_failed(self, event):
        self.steps.append(event.to)

    def late(self, timer):
        self.steps.append(f"late {timer}")

    def violation(self, data):
        self.node.out.append(Note("violation", 0, "", data))

    def settle(self):
        self.steps.append("settle")


def booted(disk=None):
    toy, out = Toy(), []
    toy.boot(disk or {}, Clocks(1, 2), Rng(1), out)
    toy.steps.clear()
    return toy, out


def handled(toy, event, at=5):
    out: list[Any] = []
    toy.handle(event, Clocks(at, 2 * at), Rng(1), out)
    return out


EVENTS = [
    Message("n2", 1),
    Fired("tick"),
    Request(1, "get"),
    DiskDone(1),
    SendFailed("n2", 1, "gone"),
]


def test_a_boot_loads_and_settles():
    toy, out = Toy(), []
    toy.boot({}, Clocks(1, 2), Rng(1), out)
    assert (toy.steps, out, toy.node.mono, toy.node.wall) == (["load", "settle"], [], 1, 2)


def test_an_unreadable_file_halts_at_the_start():
    toy, out = booted({"bad": b""})
    assert out == [Halt("unreadable: bad: damaged")]
    assert [handled(toy, event) for event in EVENTS] == [[]] * len(EVENTS)
    assert toy.steps == []


def test_events_reach_their_handlers():
    toy, _ = booted()
    (sent,) = handled(toy, EVENTS[0])
    assert (sent.to, sent.body) == ("n2", 2)
    for event in EVENTS[1:]:
        handled(toy, event)
    assert toy.node.counters == {"ticks": 1}
    assert toy.steps == ["settle", "settle", (1, "get"), "settle", 1, "settle", "n2", "settle"]
    assert (toy.node.mono, toy.node.wall) == (5, 10)


def test_an_unknown_message_is_a_violation_and_an_unknown_timer_is_nothing():
    toy, _ = booted()
    (note,) = handled(toy, Message("n2", 1.5))
    assert note.data == {"what": "unknown message", "from": "n2"}
    assert handled(toy, Fired("other")) == []


def test_what_breaks_the_protocol_halts():
    toy, _ = booted()
    note, halt = handled(toy, Message("n2", "x"))
    assert (note.data, halt) == ({"what": "no"}, Halt("no"))
    assert toy.steps == []
    assert handled(toy, EVENTS[0]) == []


@pytest.mark.parametrize(("event", "shown"), list(zip(EVENTS, ["", "tick", "", "", ""], strict=True)))
def test_what_is_overdue_comes_first(event, shown):
    toy, _ = booted()
    toy.node.overdue_at = 5
    handled(toy, event, at=4)
    assert not any(str(step).startswith("late") for step in toy.steps)
    toy.steps.clear()
    handled(toy, event)
    assert toy.steps[0] == f"late {shown}"


def test_batches_are_numbered():
    toy, out = booted()
    assert [toy.node.batch((Fsync("a"),)), toy.node.batch((Fsync("b"),))] == [1, 2]
    assert out == [Disk(1, (Fsync("a"),)), Disk(2, (Fsync("b"),))]
