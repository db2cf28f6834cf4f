"""Users' patterns are looked for in logs by a process of its own, which reports, gives up what takes too long, and ends
with its agent.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from dethrone.clusters.agent.host.sightings import SIGHTINGS_MAX, Rate
from dethrone.harness.core.clock import SECOND

from .conftest import AGENT, PYTHON

pytestmark = pytest.mark.processes

RUNAWAY = "(a|a)*b"
LIMIT_S = 60


class Looking:
    """The process over a log of its own."""

    def __init__(self, log, patterns):
        self.log = log
        argv = [PYTHON, "-S", str(AGENT), "lookout", "--socket", "-"]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        sought = [{"name": name, "pattern": pattern} for name, pattern in patterns.items()]
        asked = {"path": str(log), "sought": sought, "frames": [], "figures": [], "own": "::1", "probe_port": 1}
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.flush()
        assert self.said()["what"] == "ready"

    def write(self, text):
        with self.log.open("ab") as file:
            file.write(text.encode())

    def said(self):
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=LIMIT_S)
        return self.process.stdout.read()


@pytest.fixture
def look(tmp_path):
    made = []

    def begin(**patterns):
        made.append(Looking(tmp_path / "node.log", patterns))
        return made[-1]

    yield begin
    for one in made:
        one.process.kill()
        one.process.wait()
        one.process.stdout.close()


def test_lines_written_from_now_on_are_found_once_and_whole(look, tmp_path):
    (tmp_path / "node.log").write_bytes(b"led at 1\n")
    looking = look(leads=r"led at (?P<term>\d+)")
    looking.write("led a")
    looking.write("t 22\nother\nled at 3\n")
    first, second = looking.said(), looking.said()
    assert (first["line"], first["groups"], first["n"] + 1) == ("led at 22", {"term": "22"}, second["n"])
    assert second["line"] == "led at 3"
    assert first["lo"] <= first["hi"] <= second["hi"]
    assert looking.end() == b""


def test_a_log_that_begins_anew_is_searched_from_its_beginning(look, tmp_path):
    (tmp_path / "node.log").write_bytes(b"long ago and far away\n")
    looking = look(leads="led")
    (tmp_path / "node.log").rename(tmp_path / "node.log.1")
    looking.write("led\n")
    assert looking.said()["line"] == "led"


def test_a_pattern_that_runs_away_is_given_up_and_the_others_are_still_looked_for(look):
    looking = look(runaway=RUNAWAY, leads="led")
    looking.write("a" * 60 + "\nled\n" + "a" * 60 + "\nled\n")
    slow = looking.said()
    assert (slow["what"], slow["name"]) == ("slow", "runaway")
    assert [looking.said()["name"] for _ in range(2)] == ["leads", "leads"]
    assert looking.end() == b""


def test_of_a_line_that_comes_too_often_the_rest_is_counted():
    rate = Rate()
    assert [rate.too_many(moment) for moment in range(SIGHTINGS_MAX + 3)] == [False] * SIGHTINGS_MAX + [True] * 3
    assert rate.silent() == {"left_out": 3}
    assert rate.silent() == {}
    assert not rate.too_many(SECOND)


def test_it_ends_with_its_agent(look):
    looking = look(leads="led")
    assert looking.end() == b""
    assert looking.process.returncode == 0
