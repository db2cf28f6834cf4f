from __future__ import annotations

import json

import pytest

from dethrone.clusters.node.trace import TraceLog
from dethrone.harness.core.clock import Clocks
from dethrone.harness.core.errors import ClusterError


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_lines_are_numbered_and_carry_the_schema(tmp_path):
    log = TraceLog(str(tmp_path / "t"), node="n1", incarnation=2)
    log.note(Clocks(5_000_001, 9_000_000), "vote", 3, "FOLLOWER", {"for": "n2"})
    log.shell(Clocks(6_000_000, 9_000_000), "persisted", {}, term=4)
    log.shell(Clocks(6_000_000, 9_000_000), "stall", {})
    assert (tmp_path / "t").read_bytes() == b""
    log.flush()
    first, second, third = lines(tmp_path / "t")
    assert first == {
        "seq": 1,
        "mono_ns": 5_000_001,
        "mono_ms": 5,
        "wall_ms": 9,
        "node": "n1",
        "incarnation": 2,
        "event": "vote",
        "term": 3,
        "role": "FOLLOWER",
        "source": "core",
        "data": {"for": "n2"},
    }
    assert (second["seq"], second["term"], second["role"], second["source"]) == (2, 4, "FOLLOWER", "shell")
    assert third["term"] == 3


def test_a_torn_last_line_does_not_join_the_next(tmp_path):
    (tmp_path / "t").write_bytes(b'{"seq":1}\n{"se')
    log = TraceLog(str(tmp_path / "t"), node="n1", incarnation=2)
    log.shell(Clocks(0, 0), "boot", {})
    log.close()
    assert (tmp_path / "t").read_bytes().splitlines()[1] == b'{"se'
    assert json.loads((tmp_path / "t").read_bytes().splitlines()[2])["event"] == "boot"


def test_a_place_that_cannot_be_written_is_a_cluster_error(tmp_path):
    with pytest.raises(ClusterError, match="trace"):
        TraceLog(str(tmp_path / "none" / "t"), node="n1", incarnation=1)


def test_a_line_of_one_group_of_several_says_so_and_carries_that_groups_role(tmp_path):
    log = TraceLog(str(tmp_path / "t"), node="n1", incarnation=1)
    log.note(Clocks(0, 0), "elected", 3, "LEADER", {"group": "t/0"})
    log.note(Clocks(0, 0), "step_down", 9, "FOLLOWER", {"group": "t/1"})
    log.shell(Clocks(0, 0), "commit", {"group": "t/0", "index": 1}, term=3)
    log.shell(Clocks(0, 0), "commit", {"group": "t/1", "index": 1}, term=9)
    log.close()
    found = [(line["event"], line["group"], line["term"], line["role"]) for line in lines(tmp_path / "t")]
    assert found[2:] == [("commit", "t/0", 3, "LEADER"), ("commit", "t/1", 9, "FOLLOWER")]
