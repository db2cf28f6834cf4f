"""What explains a stall of the node's own loop, as the kernel counts it."""

from __future__ import annotations

import os
import time

import msgspec
import pytest

from dethrone.clusters.node import waits
from dethrone.clusters.node.config import NodeConfig, load_config
from dethrone.clusters.node.disk import DirectoryWriter
from dethrone.clusters.systems.raft import RaftSystem
from dethrone.harness.core.clock import MS
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import NodeSpec
from dethrone.harness.core.machine import Disk, Fsync, Write

pytestmark = pytest.mark.processes


def test_the_kernels_figures_are_parsed_and_what_is_none_is_none():
    assert waits.run_delay(b"12 34 5\n") == 34
    assert waits.run_delay(b"0 0 0\n") is None
    assert waits.run_delay(b"") is None
    assert waits.stolen("cpu 1 1 1 1 1 1 1 40 0 0\n", ticks_per_s=100, processors=2) == 200 * MS
    assert waits.stolen("intr 1", ticks_per_s=100, processors=2) is None
    assert waits.throttled("nr_periods 1\nthrottled_time 9\n") == 9
    assert waits.throttled("nr_throttled 1\nthrottled_usec 9\n") == 9000
    assert waits.throttled("") is None


def test_a_thread_that_sleeps_has_not_waited_for_a_processor():
    figures = waits.Waits()
    figures.look()
    figures.mark(time.monotonic_ns())
    time.sleep(0.1)
    found = figures.since_mark()
    if "run_delay_ns" not in found:
        pytest.skip("this kernel does not count how long threads wait")
    assert found["run_delay_ns"] < 100 * MS


def test_figures_that_cannot_be_read_are_left_out(monkeypatch):
    monkeypatch.setattr(waits, "CPU_STATS", ())

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(os, "open", refused)
    monkeypatch.setattr(waits, "_head", refused)
    figures = waits.Waits()
    figures.look()
    figures.mark(time.monotonic_ns())
    assert figures.since_mark() == {}


def test_the_longest_sync_of_a_batch_is_known_with_its_begin(tmp_path, monkeypatch):
    real, pauses = os.fsync, iter((0.0, 0.06))

    def slow(fd):
        time.sleep(next(pauses, 0))
        real(fd)

    monkeypatch.setattr(os, "fsync", slow)
    writer = DirectoryWriter(tmp_path)
    before = time.monotonic_ns()
    done = writer.carry_out(Disk(1, (Write("a", b"1"), Fsync("a"), Write("a", b"2"), Fsync("a"))))
    after = time.monotonic_ns()
    assert done.error is None
    assert 60 * MS <= done.longest_ns <= done.sync_ns
    assert before <= done.longest_at <= after - done.longest_ns


def spec(**more):
    return NodeSpec(
        name="n1",
        address="127.0.0.1",
        members={"n1": "127.0.0.1", "n2": "127.0.0.2", "n3": "127.0.0.3"},
        knobs=RaftSystem().knobs({}, profile=None, variant=None),
        profile="raft",
        variant=None,
        seed=1,
        data_dir="/d",
        log_dir="/l",
        **more,
    )


def test_the_promises_limit_travels_in_the_nodes_configuration():
    for limit in (20 * MS, 130 * MS):
        [content] = RaftSystem().files(spec(noise_max_ns=limit)).values()
        assert msgspec.json.decode(content, type=NodeConfig).noise_max_ns == limit


def test_a_limit_that_is_none_is_refused(tmp_path):
    [content] = RaftSystem().files(spec()).values()
    raw = msgspec.json.decode(content)
    path = tmp_path / "node.json"
    path.write_bytes(msgspec.json.encode({**raw, "noise_max_ns": 0}))
    with pytest.raises(ConfigError, match="noise_max_ns"):
        load_config(path)
