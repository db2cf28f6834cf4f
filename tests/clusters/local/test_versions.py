"""A rolling upgrade on local hosts, of a system of two versions and one that lies about its own."""

from __future__ import annotations

import json

import pytest

from dethrone.harness.core.events import FaultEvent, NodeProcess
from dethrone.harness.core.history_files import read_history
from tests.command import dethrone, told
from tests.outside import NODE

pytestmark = [pytest.mark.namespaces, pytest.mark.whole_run]

TOML = """
[system]
name = "rolling"
[node]
command = "python3 {run_dir}/{version}/node.py {name} {address} {members}"
ports = { http = 8000, peer = 7000 }
[probe]
http = "/status"
port = "http"
role = "role"
term = "term"
leader = "leader"
version = "version"
every = "40ms"
[promise]
election_timeout = "2s"
heartbeat = "50ms"
tolerates = ["partition", "kill", "restart", "upgrade"]
leader_within = "4s"
[versions."1.0"]
files = { "{run_dir}/{version}/node.py" = "old.py" }
[versions."1.1"]
files = { "{run_dir}/{version}/node.py" = "new.py" }
[versions."1.2"]
files = { "{run_dir}/{version}/node.py" = "new.py" }
"""


@pytest.fixture
def rolling(root, tmp_path):
    """The words of a run."""
    for file, version in (("old.py", "1.0"), ("new.py", "1.1")):
        node = NODE.replace('"commit": beats', f'"commit": beats, "version": "{version}"')
        node = node.replace("term = 1\n", "term = int(time.time())\n")  # it stores none, and may lead in none twice
        assert version in node
        assert "time.time" in node
        (tmp_path / file).write_text(node)
    (tmp_path / "rolling.toml").write_text(TOML)
    return ["run", tmp_path / "rolling.toml", "--on", "local", "--seed", "3", "--out", tmp_path / "run"]


def ran(found):
    return [(one["node"], one["version"], one["reported"]) for one in found["versions"]]


@pytest.mark.slow
def test_node_after_node_is_upgraded_under_faults_and_says_so_itself(rolling, tmp_path):
    found, _ = told(tmp_path / "state", *rolling, "--scenario", "rolling-upgrade", "--time-limit", "20s")
    assert not found["trouble"], found["trouble"]
    assert found["scenario"]["as_expected"], found["scenario"]
    assert found["version"] == "1.0"
    history = read_history(tmp_path / "run" / "history")
    upgrades = [one for one in history.of(FaultEvent) if one.kind == "upgrade"]
    assert [(one.victims, one.outcome) for one in upgrades if one.phase == "begin"] == [
        ((node,), "installed") for node in ("n1", "n2", "n3")
    ]
    for one in upgrades:
        if one.phase == "end":
            assert one.outcome == "healed", one
            assert one.evidence["versions"] == {one.victims[0]: {"wanted": "1.1", "version": "1.1"}}
    assert set(ran(found)) == {(node, version, version) for node in ("n1", "n2", "n3") for version in ("1.0", "1.1")}
    # Healing took no version back, and neither did a kill.
    assert {one.node: one.version for one in history.of(NodeProcess) if one.phase == "ready"} == dict.fromkeys(
        ("n1", "n2", "n3"), "1.1"
    )
    kinds = [one.kind for one in history.of(FaultEvent) if one.phase == "begin" and one.outcome == "installed"]
    assert kinds.count("kill") == 2
    assert "partition" in kinds


def test_doctor_shows_which_versions_there_are_and_whether_a_node_says_which_one_it_is(rolling, tmp_path):
    done = dethrone(tmp_path / "state", "doctor", tmp_path / "rolling.toml", "--on", "local", "--json")
    rows = {row["what"]: row["seen"] for row in json.loads(done.stdout)["rows"]}
    assert rows["versions, from the oldest: 1.0, 1.1, 1.2; --set version=NAME chooses the first"] == "yes", rows
    assert rows["the version is 1.2"] == "yes"
    assert rows["it reports version 1.2"] == "no"
