"""Which processes on a machine are the target's."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest

from dethrone.clusters.ssh.hosts import Pattern, PidFile, Target, Unit
from dethrone.clusters.ssh.processes import answer, question
from dethrone.harness.core.errors import ClusterError

pytestmark = pytest.mark.processes

LISTING = """\
    1     0 /sbin/init etcd
    2     0 [kthreadd]
   33     2 [etcd-kernel]
  410     1 /usr/bin/etcd --name n1
  411   410 /usr/bin/etcd --name n1 --child
  500     1 python3 -S /var/tmp/dethrone/r/agent.py serve --socket /var/tmp/dethrone/r/s --run etcd
"""


def ask(target: Target, out: str, code: int = 0, err: str = "", **more: object) -> tuple[int, ...]:
    return answer(target, code, out, err, where="n1", **more)


def test_a_pattern_finds_every_match_but_init_kernel_threads_and_our_own():
    assert ask(Pattern("etcd"), LISTING) == (410, 411)
    assert ask(Pattern("etcd"), LISTING, ours=[411]) == (410,)


def test_a_pattern_that_matches_nothing_is_an_error():
    with pytest.raises(ClusterError, match="matches no process"):
        ask(Pattern("zookeeper"), LISTING)
    with pytest.raises(ClusterError, match="matches no process"):
        ask(Pattern("--child"), LISTING, ours=[411])


def test_a_pattern_is_looked_for_in_the_command_not_in_the_process_ids():
    with pytest.raises(ClusterError):
        ask(Pattern("410"), LISTING)


RUNAWAY = "(a|a)*b"


def test_a_pattern_that_runs_away_is_an_error_at_once_and_holds_nothing_else_up():
    listing = f"{LISTING}  700     1 {'a' * 60}\n"
    beats = []
    ended = threading.Event()

    def beat():
        while not ended.wait(0.01):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat)
    thread.start()
    began = time.monotonic()
    with pytest.raises(ClusterError, match="needs longer than 50 ms for 'aaa") as caught:
        ask(Pattern(RUNAWAY), listing)
    ended.set()
    thread.join()
    assert (caught.value.where, "target.pattern" in caught.value.next_step) == ("n1", True)
    assert time.monotonic() - began < 15
    assert beats, "other threads of the harness went on"


def test_a_pattern_meets_only_the_beginning_of_a_command_line_without_end():
    listing = f"{LISTING}  700     1 {'x' * 100_000}etcd\n  701     1 {'x' * 10_000} etcd\n"
    assert ask(Pattern("etcd"), listing) == (410, 411, 701)


def test_a_process_that_matches_patterns_is_never_the_target():
    listing = f"{LISTING}  700     1 python3 -S /var/tmp/dethrone/r/agent.py match --socket - etcd\n"
    assert ask(Pattern("etcd"), listing) == (410, 411)


def test_a_pid_file_gives_the_one_process():
    assert ask(PidFile("/run/x.pid"), "410\n") == (410,)


@pytest.mark.parametrize("content", ["", "abc", "1", "0", "-1", "410 411", "99999999999"])
def test_a_pid_file_without_a_process_id_is_an_error(content):
    with pytest.raises(ClusterError, match="holds no process id"):
        ask(PidFile("/run/x.pid"), content)


def test_a_pid_file_that_cannot_be_read_is_an_error_with_the_reason():
    with pytest.raises(ClusterError) as caught:
        ask(PidFile("/run/x.pid"), "", 1, "cat: /run/x.pid: No such file or directory")
    assert "No such file" in caught.value.cause


def test_a_unit_gives_its_main_process_and_an_error_when_it_has_none():
    up = "LoadState=loaded\nActiveState=active\nMainPID=410\nControlGroup=/system.slice/etcd.service\n"
    assert ask(Unit("etcd.service"), up) == (410,)
    with pytest.raises(ClusterError, match="no process") as caught:
        ask(Unit("etcd.service"), "LoadState=loaded\nActiveState=failed\nMainPID=0\n")
    assert "failed" in caught.value.cause
    with pytest.raises(ClusterError, match="there is no unit"):
        ask(Unit("etcdd.service"), "LoadState=not-found\nActiveState=inactive\nMainPID=0\n")


def test_this_very_process_is_found_by_the_real_listing():
    first = Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode()
    said = subprocess.run(question(Pattern("x")), capture_output=True, text=True, check=True)
    assert os.getpid() in ask(Pattern(re.escape(first)), said.stdout)
