"""The load generator loads, and leaves nothing running."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import load_generator
from tests.load_generator import Load
from tests.waiting import until


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_every_kind_of_worker_runs_within_the_block_and_none_behind_it(tmp_path):
    with Load(cpu=1, fsync=1, memory_mib=1, limit_s=30, directory=tmp_path) as load:
        assert load.alive == 3
        time.sleep(0.3)
        assert load.alive == 3
    assert load.alive == 0
    assert list(tmp_path.iterdir()) == []


def test_workers_end_at_their_deadline():
    with Load(cpu=1, limit_s=0.3) as load:
        assert until(lambda: load.alive == 0)


def test_workers_end_when_whoever_started_them_is_killed(tmp_path):
    words = [sys.executable, load_generator.__file__, "--cpu", "1", "--fsync", "1", "--for", "60"]
    parent = subprocess.Popen([*words, "--in", str(tmp_path)])
    try:
        assert until(lambda: len(children(parent.pid)) == 2)
        workers = children(parent.pid)
    finally:
        parent.kill()
        parent.wait()
    assert until(lambda: not any(running(worker) for worker in workers))


def test_a_load_without_a_limit_is_refused():
    with pytest.raises(ValueError, match="limit"):
        Load(cpu=1, limit_s=0)
