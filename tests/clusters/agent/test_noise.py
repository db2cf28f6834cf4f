"""What the agent tells of noise: syncs that hang, threads that wait, sources that cannot be read, totals."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.agent.host import noise, threads
from dethrone.clusters.agent.host.common import MS, SECOND, STARVED_NS, boot_id
from dethrone.clusters.agent.host.news import News
from dethrone.clusters.agent.host.noise import (
    SYNC_FILE_BYTES,
    SYNC_GAP_S,
    Canary,
    Gap,
    Hanging,
    Totals,
    cpu_stat_places,
    parse_pressure,
    parse_steal,
    parse_throttled,
)
from dethrone.clusters.agent.host.processes import descendants
from dethrone.clusters.agent.host.threads import (
    IDLE_EVERY,
    Blocked,
    NodeWatch,
    Starved,
    Stretch,
    parse_schedstat,
    parse_state,
    sample_ns,
)
from tests.waiting import until

pytestmark = [pytest.mark.processes, pytest.mark.measures]


def said(news, kind):
    """The noise of that kind that is kept as news: (lo, hi, data)."""
    lines = [json.loads(line) for line in news.after(0, 1 << 30)[1].splitlines()]
    return [(line["lo"], line["hi"], line["data"]) for line in lines if line["data"].get("kind") == kind]


# --- the canary's sync ---------------------------------------------------------------------------------------------


def test_a_sync_that_hangs_is_reported_while_it_hangs_and_once_more_at_its_end(tmp_path):
    news, let_go, hang = News(lambda: None), threading.Event(), threading.Event()
    hang.set()

    def slow(_):
        if hang.is_set():
            hang.clear()
            let_go.wait(10)

    canary = Canary(news, sync=slow)
    canary.watch_disk(str(tmp_path))
    assert until(lambda: len(said(news, "fsync")) >= 3), "it hangs, and is reported at doubling lengths"
    reports = said(news, "fsync")
    assert all(data["hanging"] for _, _, data in reports)
    assert {lo for lo, _, _ in reports} == {reports[0][0]}
    lengths = [data["value_ns"] for _, _, data in reports]
    assert lengths[0] > STARVED_NS
    assert all(later >= 2 * earlier for earlier, later in itertools.pairwise(lengths))
    let_go.set()
    assert until(lambda: "hanging" not in said(news, "fsync")[-1][2])
    lo, hi, data = said(news, "fsync")[-1]
    assert (lo, data["id"]) == (reports[0][0], reports[0][2]["id"])
    assert hi - lo == data["value_ns"] >= lengths[-1]


def test_the_next_sync_starts_soon_after_the_last(tmp_path):
    moments = []
    canary = Canary(News(lambda: None), sync=lambda _: moments.append(time.monotonic()))
    canary.watch_disk(str(tmp_path))
    assert until(lambda: len(moments) > 20)
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(moments))
    assert gaps[len(gaps) // 2] < 10 * SYNC_GAP_S, "a loaded machine is slower, but no second passes unwatched"


def test_the_canarys_file_stays_small_and_has_no_name(tmp_path):
    sizes = []
    canary = Canary(News(lambda: None), sync=lambda fd: sizes.append(os.fstat(fd).st_size))
    before, noise.SYNC_BYTES = noise.SYNC_BYTES, 16 << 10
    try:
        canary.watch_disk(str(tmp_path))
        assert until(lambda: len(sizes) > 6)
    finally:
        noise.SYNC_BYTES = before
    assert max(sizes) <= SYNC_FILE_BYTES
    assert sizes[0] < sizes[1]
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_be_probed_is_unreadable_and_not_quiet(tmp_path):
    def broken(_):
        raise OSError(errno.EIO, "Input/output error")

    changes = []
    canary = Canary(News(lambda: None), sync=broken)
    assert canary.sources()["sync"].startswith("unreadable: ")
    canary.changed = lambda: changes.append(canary.sources()["sync"])
    canary.watch_disk(str(tmp_path))
    assert until(lambda: changes[-1:] == ["unreadable: Input/output error"])
    assert canary.sources()["wakeup"] == "read"


def test_a_directory_that_is_not_there_is_unreadable(tmp_path):
    canary = Canary(News(lambda: None))
    canary.watch_disk(str(tmp_path / "nowhere"))
    assert canary.disk_known.wait(10)
    assert canary.sources()["sync"] == "unreadable: No such file or directory"


def test_something_in_flight_is_due_past_its_limit_and_at_each_doubling():
    hanging = Hanging(1000, 50)
    assert [at for at in range(1000, 1500, 10) if hanging.due(at)] == [1060, 1130, 1270]


# --- the node's threads --------------------------------------------------------------------------------------------


def test_a_wait_that_the_kernel_adds_at_its_end_is_one_stretch():
    starved = Starved(0, 50 * MS)
    assert [starved.step(at * MS, 0) for at in (25, 50, 75)] == [None] * 3
    assert starved.step(100 * MS, 80 * MS) is None
    assert starved.step(125 * MS, 0) == Stretch(20 * MS, 100 * MS, 80 * MS)
    assert starved.step(150 * MS, 0) is None


@pytest.mark.parametrize(
    ("state", "limit_ns", "shortest_ns", "longest_ns"),
    [("S", 200 * MS, 0, 0), ("S", 50 * MS, 0, 150 * MS), ("R", 200 * MS, 39 * SECOND, 40 * SECOND)],
)
def test_a_thread_that_was_seen_asleep_did_not_wait_then_whatever_the_kernel_counts(
    monkeypatch, state, limit_ns, shortest_ns, longest_ns
):
    clock, seen = [0], [(0, 0)]
    monkeypatch.setattr(threads, "now_ns", lambda: clock[0])
    monkeypatch.setattr(threads.Watched, "_schedstat", lambda _: seen[0])
    monkeypatch.setattr(threads.Watched, "_look", lambda _: state)
    watched = threads.Watched(os.getpid(), threading.get_native_id(), limit_ns)
    try:
        for clock[0] in range(25 * MS, 40 * SECOND, 25 * MS):
            assert watched.sample() == []
        seen[0] = (40 * SECOND, 1)
        clock[0] = 40 * SECOND
        told = [*watched.sample(), *watched.sample(), *watched.sample()]
    finally:
        watched.close()
    assert shortest_ns <= max((stretch.hi - stretch.lo for _, stretch in told), default=0) <= longest_ns


def test_short_waits_with_progress_between_them_are_no_stretch():
    starved = Starved(0, 50 * MS)
    assert all(starved.step(at * 25 * MS, 12 * MS) is None for at in range(1, 200))


def test_waiting_through_at_least_half_of_a_stretch_is_one():
    starved = Starved(0, 50 * MS)
    assert [starved.step(at * MS, 13 * MS) for at in (25, 50, 75)] == [None] * 3
    assert starved.step(100 * MS, 0) == Stretch(0, 75 * MS, 39 * MS)


def test_a_stretch_that_does_not_end_is_told_in_pieces():
    starved = Starved(0, 50 * MS)
    found = [stretch for at in range(1, 101) if (stretch := starved.step(at * 25 * MS, 25 * MS))]
    assert [(one.lo, one.hi) for one in found] == [(0, SECOND), (SECOND, 2 * SECOND)]


def test_no_piece_of_a_stretch_is_too_short_to_be_told_however_long_the_limit():
    starved, blocked = Starved(0, 2 * SECOND), Blocked(0, 2 * SECOND, blocked=True)
    moments = [at * 100 * MS for at in range(1, 101)]
    waits = [stretch for at in moments if (stretch := starved.step(at, 100 * MS))]
    blocks = [stretch for at in moments if (stretch := blocked.step(at, blocked=True))]
    assert [(one.lo, one.hi) for one in waits] == [(0, 4 * SECOND), (4 * SECOND, 8 * SECOND)]
    assert blocks == waits


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 400)), max_size=60))
def test_every_stretch_is_longer_than_the_limit_and_was_waited_through_at_least_half(steps):
    starved, at = Starved(0, 50), 0
    for length, waited in steps:
        at += length
        stretch = starved.step(at, waited)
        if stretch is not None:
            assert stretch.hi - stretch.lo > 50
            assert 2 * stretch.waited >= stretch.hi - stretch.lo
            assert stretch.hi <= at


@given(st.lists(st.tuples(st.integers(1, 100 * MS), st.booleans()), min_size=1, max_size=60))
def test_a_blocked_stretch_lies_between_the_samples_that_saw_it(steps):
    at, seen = 0, [(0, False)]
    blocked = Blocked(0, 50 * MS, blocked=False)
    for length, state in steps:
        at += length
        seen.append((at, state))
        stretch = blocked.step(at, blocked=state)
        if stretch is not None:
            assert stretch.hi - stretch.lo > 50 * MS
            inside = [state for moment, state in seen if stretch.lo <= moment <= stretch.hi]
            assert all(inside)


def test_what_the_kernel_says_of_threads_and_totals_is_parsed():
    assert parse_schedstat(b"1177395 97902 2\n") == (97902, 2)
    assert parse_schedstat(b"0 0 0\n") is None, "a kernel that does not count says so by zeros"
    assert parse_schedstat(b"") is None
    assert parse_schedstat(b"a b c") is None
    assert parse_state(b"17 (a) b) D 1 2") == "D"
    assert parse_state(b"") == ""
    text = "some avg10=0.71 avg60=1.99 avg300=4.63 total=39619372\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
    assert parse_pressure(text) == 39_619_372_000
    assert parse_pressure("") is None
    assert parse_steal("cpu  94708 4794 25217 168735 2205 0 1755 4257 0 0\ncpu0 1", 100) == 42_570 * MS
    assert parse_steal("cpu 1 2 3\n", 100) is None
    assert parse_throttled("nr_periods 0\nthrottled_time 17\n") == 17
    assert parse_throttled("usage_usec 1\nthrottled_usec 17\n") == 17_000
    assert parse_throttled("") is None


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("0::/\n", "/sys/fs/cgroup/cpu.stat"),
        ("0::/system.slice/x\n", "/sys/fs/cgroup/system.slice/x/cpu.stat"),
        ("4:cpu,cpuacct:/docker/1\n0::/docker/1\n", "/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.stat"),
        ("1:cpu:/\n0::/\n", "/sys/fs/cgroup/cpu/cpu.stat"),
    ],
)
def test_a_control_groups_figures_are_looked_for_in_every_layout(text, first):
    places = cpu_stat_places(text)
    assert places[0] == first
    assert len(places) == len(set(places))


def test_control_groups_without_a_processor_controller_lead_nowhere():
    assert cpu_stat_places("9:name=systemd:/\n5:devices:/x\n") == []


BURN = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


def test_a_node_that_waits_for_the_processor_is_told_with_how_long_it_waited():
    """All on one processor, the node with the least weight: it waits far longer than it runs."""
    processor = min(os.sched_getaffinity(0))

    def there(nice):
        def set_up():
            os.sched_setaffinity(0, {processor})
            os.nice(nice)

        return set_up

    news = News(lambda: None)
    node = subprocess.Popen([sys.executable, "-c", BURN.format(20)], preexec_fn=there(19))  # noqa: PLW1509
    others = [
        subprocess.Popen([sys.executable, "-c", BURN.format(20)], preexec_fn=there(0))  # noqa: PLW1509
        for _ in range(2)
    ]
    try:
        watch = NodeWatch(news, lambda: (node.pid,))
        assert until(lambda: said(news, "process"), 18)
        assert watch.sources() == {"schedstat": "read", "dstate": "read"}
    finally:
        for process in (node, *others):
            process.kill()
            process.wait()
    lo, hi, data = said(news, "process")[0]
    assert (data["source"], data["pid"]) == ("schedstat", node.pid)
    assert hi - lo == data["value_ns"] > STARVED_NS
    assert 2 * data["delay_ns"] >= hi - lo


def test_a_node_that_only_sleeps_or_is_stopped_is_not_told_of():
    """But for what it really waits for the processor, as on a busy machine when it starts."""
    news = News(lambda: None)
    node = subprocess.Popen(["sleep", "60"])
    try:
        NodeWatch(news, lambda: (node.pid,))
        time.sleep(0.5)
        os.kill(node.pid, signal.SIGSTOP)
        time.sleep(0.5)
        waited_ns = int(Path(f"/proc/{node.pid}/schedstat").read_text().split()[1])
    finally:
        node.kill()
        node.wait()
    assert sum(data["value_ns"] for _, _, data in said(news, "process")) <= 2 * waited_ns


def test_threads_that_cannot_be_read_are_unreadable_and_not_quiet(monkeypatch):
    def refused(*_args, **_more):
        raise PermissionError(errno.EACCES, "Permission denied")

    changed = threading.Event()
    watch = NodeWatch(News(lambda: None), lambda: (os.getpid(),))
    assert until(lambda: bool(watch._threads))
    monkeypatch.setattr(threads, "Watched", refused)
    watch = NodeWatch(News(lambda: None), lambda: (os.getpid(),))
    watch.changed = changed.set
    assert changed.wait(10)
    assert set(watch.sources().values()) == {"unreadable: Permission denied"}


def test_children_of_a_node_are_watched_with_it():
    parent = subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60 & wait"])
    try:
        assert until(lambda: len(descendants(parent.pid)) == 2)
        assert descendants(descendants(parent.pid)[0]) == []
    finally:
        for child in descendants(parent.pid):
            os.kill(child, signal.SIGKILL)
        parent.kill()
        parent.wait()


# --- totals, and what is declared ----------------------------------------------------------------------------------


def test_totals_are_told_by_window_and_what_cannot_be_read_is_left_out(monkeypatch):
    news = News(lambda: None)
    totals = Totals(news)
    steal = iter((5, 8))
    monkeypatch.setattr(totals, "_last", {"steal_ns": 5, "throttled_ns": "unreadable: no"})
    monkeypatch.setattr(totals, "_read", lambda: {"steal_ns": next(steal) + 3, "throttled_ns": 7})
    totals.report()
    lo, hi, data = said(news, "load")[0]
    assert lo <= hi
    assert (data["steal_ns"], "throttled_ns" in data) == (3, False)


def test_a_host_declares_its_sources_before_its_node_starts(box):
    box.meet()
    box.host.prepare(box.start(), {}, dead_man_ns=0)
    box.host.start_node()
    until(lambda: box.kinds("started"))
    declared = [news for news in box.kinds("noise") if news.data["kind"] == "sources"]
    assert box.news.index(declared[0]) < box.news.index(box.kinds("started")[0])
    assert set(declared[0].data["sources"]) == {
        "wakeup",
        "sync",
        "schedstat",
        "dstate",
        "pressure",
        "steal",
        "throttled",
    }
    assert (declared[0].data["sources"]["wakeup"], declared[0].data["sources"]["sync"]) == ("read", "read")
    assert declared[0].data["boot"] == boot_id()


def test_dropped_news_say_which_time_they_were_of(monkeypatch):
    monkeypatch.setattr("dethrone.clusters.agent.host.news.NEWS_MAX", 10)
    news = News(lambda: None)
    for number in range(15):
        news.noise("stall", number * 10, number * 10 + 5, number)
    news.acknowledge(15)
    news.noise("stall", 900, 905, 99)
    [(lo, hi, data)] = said(news, "news-dropped")
    assert (lo, hi, data["count"]) == (0, 45, 5)


def test_a_thread_that_watches_reports_when_it_could_not():
    gap = Gap()
    assert gap.end(9 * SECOND, 0, 50 * MS) is None, "nothing was watched before"
    gap.begin(SECOND + 25 * MS, 0)
    assert gap.end(SECOND + 75 * MS, 0, 50 * MS) is None
    assert gap.end(SECOND + 76 * MS, 0, 50 * MS) == (SECOND + 25 * MS, SECOND + 76 * MS)
    assert gap.end(SECOND + 125 * MS, 51 * MS, 50 * MS) is None, "it was at work itself"


def test_a_wait_beyond_the_limit_is_noticed_at_every_distance_of_samples_that_is_no_gap():
    for limit_ns in (50 * MS, 90 * MS, 200 * MS, 500 * MS):
        for idle, late in itertools.product((1, IDLE_EVERY), range(0, limit_ns, MS)):
            period = idle * sample_ns(limit_ns) + late
            starved = Starved(0, limit_ns)
            assert starved.step(period, limit_ns + MS) is None
            assert starved.step(2 * period, 0) is not None
