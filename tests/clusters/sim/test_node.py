from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, DiskTrouble
from dethrone.harness.core.machine import (
    SHUTDOWN,
    Await,
    Disk,
    DiskDone,
    Fired,
    Fsync,
    Halt,
    Message,
    Note,
    Rename,
    Reply,
    Request,
    Send,
    SetTimer,
    Write,
)
from dethrone.harness.core.world import Converge, StartNodes
from tests.clusters.sim.toy import MS, SECOND, ToyWorld, note, quiet

DOWN = msgspec.structs.replace(HEALTHY, down="SIGKILL")
FROZEN = msgspec.structs.replace(HEALTHY, frozen=True)


def state(**fields):
    return msgspec.structs.replace(HEALTHY, **fields)


def doing(*effects):
    """A script: each request makes these effects."""

    def script(core, event, now, out):
        if type(event) is Request:
            out.extend(effects)

    return script


def write(token, *, path="f", data=b"x"):
    return Disk(token, (Write(path, data), Fsync(path)))


# --- life -------------------------------------------------------------------------------------------------------


def test_a_process_starts_with_its_next_incarnation_and_what_its_disk_holds():
    world = ToyWorld(doing(write(1, data=b"kept")))
    world.poke("n1", "x").on(5 * MS)
    world.converge(n1=DOWN)
    world.converge(n1=HEALTHY)
    world.on(50 * MS)
    assert world.node("n1")._core.disk == {"f": b"kept"}
    assert [news.data["incarnation"] for news in world.news("started") if news.host == "n1"] == [1, 2]
    exited = world.news("exited")
    assert [(news.host, news.data["code"], news.data["asked"]) for news in exited] == [("n1", -9, True)]


def test_a_node_serves_nobody_before_the_batches_of_its_start_are_done():
    def script(core, event, now, out):
        if event is None:
            out.extend([write(1), Await(1), note("started")])

    world = ToyWorld(script, sync_us="40000", start=False)
    world.world.submit(StartNodes())
    world.at(45 * MS)
    assert all(poll.reading is None for poll in world.polls("n1"))
    assert world.notes("n1") == []
    world.at(SECOND)
    assert world.polls("n1")[-1].reading is not None
    assert world.notes("n1") == ["started"]


def test_a_graceful_stop_finishes_the_disk_and_ends_with_0():
    world = ToyWorld(doing(write(1, data=b"late")), sync_us="30000")
    world.poke("n1", "x")
    world.converge(n1=state(down="SIGTERM"))
    assert [news.data["code"] for news in world.news("exited")] == [0]
    assert "stopped" in [name for name, _ in world.lines("n1")]
    assert world.node("n1").disk.image() == {"f": b"late"}


def test_a_graceful_core_is_told_of_a_stop_and_its_last_words_leave_when_the_disk_has_them():
    told = []

    def script(core, event, now, out):
        if event == Fired(SHUTDOWN):
            told.append(core.node)
            out.extend([write(9, data=b"last"), Await(9), Send("n2", "farewell"), note("gone")])

    world = ToyWorld(script, sync_us="30000", graceful=True)
    world.converge(n1=state(down="SIGTERM"))
    world.on(10 * MS)
    assert told == ["n1"]
    assert world.notes("n1") == ["gone"]
    assert world.node("n1").disk.image() == {"f": b"last"}
    assert "farewell" in [event.body for event in world.got("n2", Message)]
    assert [news.data["code"] for news in world.news("exited")] == [0]


def test_a_killed_core_is_told_nothing():
    world = ToyWorld(doing(note("x")), graceful=True)
    world.converge(n1=state(down="SIGKILL"))
    assert world.got("n1", Fired) == []


def test_a_halt_ends_the_process_with_70_and_nothing_behind_it_happens():
    world = ToyWorld(doing(note("before"), Halt("enough"), note("after")))
    world.poke("n1", "x").on(5 * MS)
    assert [news.data["code"] for news in world.news("exited")] == [70]
    assert world.news("exited")[0].data["asked"] is False
    assert world.notes("n1") == ["before"]
    assert ("halt", {"reason": "enough"}) in world.lines("n1")


def test_a_core_that_raises_ends_its_process_with_71_and_leaves_a_log():
    def script(core, event, now, out):
        if type(event) is Request:
            raise RuntimeError("broken rule")

    world = ToyWorld(script).poke("n1", "x").on(5 * MS)
    assert [news.data["code"] for news in world.news("exited")] == [71]
    assert ("crashed", {"where": "handle(Request)", "error": "RuntimeError('broken rule')"}) in world.lines("n1")
    assert b"broken rule" in world.world.logs()["n1"]


def test_healing_starts_whatever_is_down():
    world = ToyWorld(doing(Halt("enough"))).poke("n1", "x").on(5 * MS)
    world.converge(n1=HEALTHY)
    world.on(50 * MS)
    assert world.node("n1").incarnation == 2


# --- effects and barriers ---------------------------------------------------------------------------------------


def test_what_follows_an_await_waits_for_its_batch_while_events_go_on():
    def script(core, event, now, out):
        if type(event) is Request and event.body == "write":
            out.extend([note("first"), write(1), Await(1), note("second"), Send("n2", "held")])
        elif type(event) is Request:
            out.append(note(event.body))

    world = ToyWorld(script, sync_us="5000")
    world.poke("n1", "write").on(MS).poke("n1", "third").on(2 * MS)
    assert world.notes("n1") == ["first"]
    world.on(5 * MS)
    assert world.notes("n1") == ["first", "second", "third"]
    assert world.got("n2", Message) == [Message("n1", "held")]
    assert world.got("n1", DiskDone) == [DiskDone(1)]


def test_a_failed_batch_drops_what_is_held_behind_it_and_is_told():
    def script(core, event, now, out):
        if type(event) is Request:
            out.extend([write(1), Await(1), note("never")])
        elif type(event) is DiskDone:
            out.append(note("told"))

    world = ToyWorld(script)
    world.converge(n1=state(disk=DiskTrouble(kind="eio")))
    world.poke("n1", "x").on(10 * MS)
    assert world.notes("n1") == ["told"]
    assert world.got("n1", DiskDone) == [DiskDone(1, "write: [Errno 5] Input/output error")]


def test_a_full_disk_fails_writes_and_nothing_else():
    world = ToyWorld(doing(Disk(1, (Write("a", b""), Rename("a", "b"))), Disk(2, (Write("c", b"12345678"),))))
    world.converge(n1=state(disk=DiskTrouble(kind="full")))
    world.poke("n1", "x").on(10 * MS)
    assert world.got("n1", DiskDone) == [DiskDone(1), DiskDone(2, "write: [Errno 28] No space left on device")]
    assert b"12345678".startswith(world.node("n1").disk.image().get("c", b""))


@pytest.mark.parametrize(
    ("trouble", "errors"),
    [
        (DiskTrouble(kind="readonly"), ["write: [Errno 30] Read-only file system", None]),
        (DiskTrouble(kind="eio", of="writes"), ["write: [Errno 5] Input/output error", None]),
        (DiskTrouble(kind="eio", of="syncs"), [None, "fsync: [Errno 5] Input/output error"]),
        (DiskTrouble(kind="eio", of="reads"), [None, None]),
    ],
)
def test_only_those_operations_fail_that_the_trouble_names(trouble, errors):
    world = ToyWorld(doing(Disk(1, (Write("a", b"1"),)), Disk(2, (Fsync("a"),))))
    world.converge(n1=state(disk=trouble))
    world.poke("n1", "x").on(10 * MS)
    assert world.got("n1", DiskDone) == [DiskDone(place, error) for place, error in enumerate(errors, 1)]


def test_a_share_of_the_operations_fails():
    count = 400
    world = ToyWorld(doing(*(Disk(place, (Write("a", b"1"),)) for place in range(count))))
    world.converge(n1=state(disk=DiskTrouble(kind="eio", of="writes", percent=25)))
    world.poke("n1", "x").on(SECOND)
    failed = [done for done in world.got("n1", DiskDone) if done.error]
    assert 60 <= len(failed) <= 140


def test_a_process_that_starts_while_reads_fail_cannot_read_its_files():
    world = ToyWorld(doing(write(1, data=b"kept")))
    world.poke("n1", "x").on(5 * MS)
    unread = DiskTrouble(kind="eio", of="reads")
    world.converge(n1=msgspec.structs.replace(DOWN, disk=unread))
    world.converge(n1=state(disk=unread))
    world.on(50 * MS)
    assert world.node("n1")._core.disk == {"f": "unreadable"}
    assert world.node("n1").disk.image() == {"f": b"kept"}


def test_a_slow_disk_takes_its_time_and_says_so():
    world = ToyWorld(doing(write(1)))
    world.converge(n1=state(disk=DiskTrouble(kind="slow", latency_ns=200 * MS)))
    world.poke("n1", "x").on(199 * MS)
    assert world.got("n1", DiskDone) == []
    world.on(5 * MS)
    assert world.got("n1", DiskDone) == [DiskDone(1)]
    assert ("fsync_slow", {"ms": 200, "token": 1}) in world.lines("n1")


def test_a_hanging_disk_goes_on_as_soon_as_it_is_well_again():
    world = ToyWorld(doing(write(1)))
    world.converge(n1=state(disk=DiskTrouble(kind="slow", latency_ns=60_000 * MS)))
    world.poke("n1", "x").on(3000 * MS)
    assert world.got("n1", DiskDone) == []
    world.converge(n1=state())
    world.on(30 * MS)
    assert world.got("n1", DiskDone) == [DiskDone(1)]


def test_a_process_killed_while_its_disk_hangs_is_told_nothing():
    world = ToyWorld(doing(write(1)))
    world.converge(n1=state(disk=DiskTrouble(kind="slow", latency_ns=60_000 * MS)))
    world.poke("n1", "x").on(100 * MS)
    world.converge(n1=state(down="SIGKILL", disk=DiskTrouble(kind="slow", latency_ns=60_000 * MS)))
    world.on(30 * MS)
    world.converge(n1=state())
    world.on(500 * MS)
    assert world.got("n1", DiskDone) == []


def test_a_message_is_witnessed_when_it_leaves_and_before_it_is_handled():
    def script(core, event, now, out):
        if type(event) is Request:
            out.extend([note("a"), Send("n2", "x"), note("b")])
        elif type(event) is Message:
            out.append(note("got it"))

    world = ToyWorld(script).poke("n1", "go").on(5 * MS)
    mine = [name for name, _ in world.lines("n1") if name != "boot"]
    assert mine == ["a", "sent", "b"]
    assert [name for name, _ in world.lines("n2") if name != "boot"] == ["received", "got it"]


def test_the_trace_counts_from_1_in_each_incarnation():
    world = ToyWorld(doing(note("a")))
    world.poke("n1", "x").on(5 * MS)
    world.converge(n1=DOWN)
    world.converge(n1=HEALTHY)
    world.on(50 * MS)
    told = [
        (one.incarnation, n) for one in world.told if hasattr(one, "lines") and one.node == "n1" for n, *_ in one.lines
    ]
    assert told == [(1, 1), (1, 2), (2, 1)]


def test_a_kill_falls_behind_every_prefix_of_a_steps_effects():
    prefixes = Counter()
    for seed in range(120):
        world = ToyWorld(doing(note("1"), note("2"), note("3"), Send("n2", "4")), seed=seed, kill_ms="10")
        world.world.submit(Converge(9, {"n1": HEALTHY}, {"n1": DOWN}))
        world.on(MS // 2).poke("n1", "x").on(30 * MS)
        prefixes[(*world.notes("n1"), *(event.body for event in world.got("n2", Message)))] += 1
    assert set(prefixes) == {(), ("1",), ("1", "2"), ("1", "2", "3"), ("1", "2", "3", "4")}


def test_a_kill_leaves_every_prefix_of_the_batch_that_was_under_way():
    found = set()
    for seed in range(60):
        batch = Disk(1, (Write("a", b"1"), Write("b", b"2"), Rename("a", "c")))
        world = ToyWorld(doing(batch), seed=seed, write_us="1000", sync_us="20000", kill_ms="0")
        world.poke("n1", "x")
        world.converge(n1=DOWN)
        found.add(tuple(sorted(world.node("n1").disk.image())))
    assert found == {(), ("a",), ("a", "b"), ("b", "c")}


def test_a_loss_of_power_takes_what_was_not_synced():
    world = ToyWorld(doing(Disk(1, (Write("kept", b"1"), Fsync("kept"), Write("lost", b"2"), Write("kept", b"3")))))
    world.poke("n1", "x").on(10 * MS)
    world.converge(n1=state(down="POWER"))
    assert world.node("n1").disk.image() == {"kept": b"1"}


def test_a_torn_write_survives_in_part():
    found = set()
    for seed in range(40):
        world = ToyWorld(doing(Disk(1, (Write("f", b"1"), Fsync("f"), Write("f", b"abcd")))), seed=seed)
        world.poke("n1", "x").on(10 * MS)
        world.converge(n1=state(down="POWER", disk=DiskTrouble(kind="torn")))
        found.add(world.node("n1").disk.image()["f"])
    assert found == {b"1a", b"1ab", b"1abc"}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("wiped", lambda image: image == {}),
        ("unreadable", lambda image: image == {"f": "unreadable"}),
        ("truncated", lambda image: b"12345678".startswith(image["f"]) and len(image["f"]) < 8),
        ("emptied", lambda image: image == {"f": b""}),
        ("removed", lambda image: image == {}),
        ("flipped", lambda image: sum((a ^ b).bit_count() for a, b in zip(image["f"], b"12345678", strict=True)) == 1),
    ],
)
def test_a_disk_is_damaged_once_while_its_process_is_down(kind, expected):
    world = ToyWorld(doing(write(1, data=b"12345678")))
    world.poke("n1", "x").on(10 * MS)
    down = state(down="SIGKILL", disk=DiskTrouble(kind=kind))
    evidence = world.converge(n1=down).evidence["n1"]
    assert evidence.confirmed
    assert evidence.detail["damaged"]
    image = world.node("n1").disk.image()
    assert expected(image)
    world.converge(n1=msgspec.structs.replace(down, cuts=("n2",)))
    assert world.node("n1").disk.image() == image
    world.converge(n1=HEALTHY)
    world.on(50 * MS)
    assert world.node("n1")._core.disk == image


@pytest.mark.parametrize("path", ["nowhere", ""])
def test_damage_that_finds_no_file_is_not_confirmed_but_the_process_is_down(path):
    world = ToyWorld(doing(write(1)))
    if path:
        world.poke("n1", "x").on(10 * MS)
    down = state(down="SIGKILL", disk=DiskTrouble(kind="flipped", path=path))
    evidence = world.converge(n1=down).evidence["n1"]
    assert not evidence.confirmed
    assert "to damage" in evidence.why
    assert world.news("exited")
    assert world.converge(n1=HEALTHY).evidence["n1"].confirmed


# --- freezing ---------------------------------------------------------------------------------------------------


def test_a_thawed_process_handles_timers_then_batches_then_messages():
    def script(core, event, now, out):
        if type(event) is Request and event.body == "go":
            out.extend([SetTimer("t", now.mono + 20 * MS), write(1)])
        elif type(event) is Request:
            out.append(Send("n1", event.body))

    world = ToyWorld(script, sync_us="15000")
    world.poke("n1", "go")
    world.converge(n1=FROZEN)
    world.poke("n2", "early").on(200 * MS)
    assert world.got("n1") == [Request(1, "go")]
    world.converge(n1=HEALTHY)
    assert world.got("n1")[1:] == [Fired("t"), DiskDone(1), Message("n2", "early")]
    assert [name for name, _ in world.lines("n1")].count("stall") == 1


def test_a_frozen_process_does_not_answer_and_the_span_of_a_late_answer_holds_the_freeze():
    world = ToyWorld()
    world.converge(n1=FROZEN)
    frozen = world.now
    world.on(SECOND)
    silent = [poll for poll in world.polls("n1") if poll.span.lo > frozen]
    assert {(poll.reading, poll.error) for poll in silent} == {(None, "no answer in time")}
    thawing = world.now
    world.converge(n1=HEALTHY)
    world.on(200 * MS)
    late = next(poll for poll in world.polls("n1") if poll.reading is not None and poll.span.hi > thawing)
    assert late.span.lo < thawing < late.span.hi


def test_a_process_killed_while_frozen_loses_what_had_arrived():
    def script(core, event, now, out):
        if type(event) is Request:
            out.append(Send("n1", event.body))

    world = ToyWorld(script)
    world.converge(n1=FROZEN)
    world.poke("n2", "lost").on(10 * MS)
    world.converge(n1=DOWN)
    world.converge(n1=HEALTHY)
    world.on(SECOND)
    assert world.got("n1", Message) == []


# --- timers and clocks ------------------------------------------------------------------------------------------


def ticking(core, event, now, out):
    """A request ``name ms`` arms that timer on the monotonic clock, ``name ms wall`` on the wall clock."""
    if type(event) is Request:
        name, after, *clock = event.body.split()
        wall = bool(clock)
        at = (now.wall if wall else now.mono) + int(after) * MS
        out.append(SetTimer(name, None if after == "0" else at, "wall" if wall else "mono"))


def fired(world, name="n1"):
    return [event.timer for event in world.got(name, Fired)]


def test_timers_fire_at_their_moment_in_order():
    world = ToyWorld(ticking)
    world.poke("n1", "b 20").poke("n1", "a 10").on(9 * MS)
    assert fired(world) == []
    world.on(2 * MS)
    assert fired(world) == ["a"]
    assert fired(world.on(10 * MS)) == ["a", "b"]


def test_a_replaced_or_cancelled_timer_does_not_fire():
    world = ToyWorld(ticking)
    world.poke("n1", "a 10").poke("n1", "a 30").poke("n1", "b 10").poke("n1", "b 0").on(20 * MS)
    assert fired(world) == []
    assert fired(world.on(11 * MS)) == ["a"]


def test_a_timer_armed_for_the_past_fires_at_once_and_lets_messages_in():
    def script(core, event, now, out):
        if type(event) is Request or (type(event) is Fired and len(core.got) < 50):
            out.append(SetTimer("again", now.mono - 1))

    world = ToyWorld(script).poke("n1", "x").on(MS)
    assert len(fired(world)) >= 40


def test_a_step_of_the_wall_clock_reaches_wall_timers_soon_and_leaves_the_others_alone():
    world = ToyWorld(ticking)
    world.poke("n1", "wall 60000 wall").poke("n1", "mono 60000")
    world.converge(n1=state(clock=ClockSkew(offset_ns=120 * SECOND)))
    assert fired(world.on(30 * MS)) == ["wall"]
    world.converge(n1=HEALTHY)
    assert fired(world.at(59 * SECOND)) == ["wall"]
    assert fired(world.at(61 * SECOND)) == ["wall", "mono"]


def test_a_wall_clock_that_is_set_back_delays_wall_timers():
    world = ToyWorld(ticking)
    world.poke("n1", "wall 1000 wall")
    world.converge(n1=state(clock=ClockSkew(offset_ns=-5 * SECOND)))
    assert fired(world.at(5 * SECOND)) == []
    assert fired(world.at(7 * SECOND)) == ["wall"]


def test_a_fast_monotonic_clock_brings_timers_forward():
    world = ToyWorld(ticking)
    world.converge(n1=state(clock=ClockSkew(mono_rate_ppm=500_000)))
    since = world.now
    world.poke("n1", "a 1500").at(since + 999 * MS)
    assert fired(world) == []
    assert fired(world.at(since + 1001 * MS)) == ["a"]


def test_evidence_tells_the_measured_skew():
    world = ToyWorld(quiet)
    done = world.converge(n1=state(clock=ClockSkew(offset_ns=-7 * SECOND)))
    assert done.evidence["n1"].detail["skew_ns"] == -7 * SECOND
    assert done.span.lo <= done.evidence["n1"].span.lo <= done.evidence["n1"].span.hi <= done.span.hi


def test_replies_go_to_clients_once():
    world = ToyWorld(doing(Reply(1, "never asked by a client")))
    world.poke("n1", "x").on(10 * MS)
    assert world.got("n1", Request) == [Request(1, "x")]


def test_a_note_with_a_group_carries_it():
    world = ToyWorld(doing(Note("a", 3, "LEADER", {"group": "g1"}), Note("b", 4, "FOLLOWER", {})))
    world.poke("n1", "x").on(5 * MS)
    lines = [line for told in world.told if hasattr(told, "lines") and told.node == "n1" for line in told.lines]
    assert [(name, group, role) for _, name, _, role, _, _, group in lines[1:]] == [
        ("a", "g1", "LEADER"),
        ("b", "", "FOLLOWER"),
    ]
