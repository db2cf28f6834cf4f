"""Nodes of two processes on local hosts: started in order, hit together or one by one, and seen when one ends."""

from __future__ import annotations

import json

import pytest

from dethrone.harness.core.events import FaultEvent, NodeProcess
from dethrone.harness.core.history_files import read_history
from tests.command import dethrone, told
from tests.outside import NODE

pytestmark = [pytest.mark.namespaces, pytest.mark.whole_run]

WATCH = r"""
import socket, sys, time
name, own, store, ends = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
socket.create_connection((own, store), timeout=1).close()  # it starts after the store, or it ends here
listener = socket.create_server((own, 9000))
print("watching", name, flush=True)
began = time.monotonic()
while not ends or name != "n2" or time.monotonic() - began < ends:
    time.sleep(0.05)
print("fatal error: nothing left to watch", flush=True)
sys.exit(9)
"""
TOML = """
[system]
name = "pair"
[node]
member = "{name}={address}"
ports = { http = 8000, peer = 7000, watch = 9000 }
files = { "{run_dir}/node.py" = "node.py", "{run_dir}/watch.py" = "watch.py" }

[[process]]
name = "watch"
command = "python3 {run_dir}/watch.py {name} {address} {http} {ends}"
after = "store"
ready = { log = "^watching n\\\\d$" }

[[process]]
name = "store"
command = "python3 {run_dir}/node.py {name} {address} {members}"
ready = { http = "/status", port = "http" }

[[node.first]]
command = ["/bin/sh", "-c", "echo {name} is new >> {log_dir}/first.txt"]

[setup]
command = ["/bin/sh", "-c", "echo formed by {name} >> {log_dir}/setup.txt"]

[knobs]
ends = 0

[probe]
http = "/status"
port = "http"
role = "role"
term = "term"
leader = "leader"
every = "40ms"

[promise]
election_timeout = "2s"
heartbeat = "50ms"
tolerates = ["kill", "pause", "restart"]
leader_within = "10s"
"""
STEP = """
[[step]]
gap = "300ms"
[[step.fault]]
kind = "%s"
victims = "node:n3"
hold = "%s"
"""
FAULTS = (("kill", "300ms"), ("kill:watch", "500ms"), ("pause:store", "300ms"), ("restart:watch", "0s"))


@pytest.fixture
def pair(root, tmp_path):
    """The words of a run of the pair."""
    (tmp_path / "node.py").write_text(NODE)
    (tmp_path / "watch.py").write_text(WATCH)
    (tmp_path / "pair.toml").write_text(TOML)
    (tmp_path / "plan.toml").write_text('health_bound = "3s"\n' + "".join(STEP % one for one in FAULTS))
    words = ["run", tmp_path / "pair.toml", "--on", "local", "--nodes", "3", "--schedule", tmp_path / "plan.toml"]
    return [
        *words,
        "--workload",
        "election",
        "--time-limit",
        "10s",
        "--out",
        tmp_path / "run",
        "--seed",
        "3",
        "--checker",
        "crash",
    ]


@pytest.mark.slow
def test_faults_hit_all_processes_of_a_node_or_the_one_that_they_name(pair, tmp_path):
    found, _ = told(tmp_path / "state", *pair)
    assert not found["trouble"], found["trouble"]
    assert found["verdict"] == "pass", found
    history = read_history(tmp_path / "run" / "history")
    faults = [(event.kind, event.phase, event.outcome) for event in history.of(FaultEvent)]
    for kind, _hold in FAULTS:
        assert (kind, "begin", "installed") in faults, faults
        assert (kind, "end", "healed") in faults, faults
    assert [
        event.incarnation for event in history.of(NodeProcess) if event.node == "n3" and event.phase == "started"
    ] == [1, 2]
    logs = tmp_path / "run" / "nodes" / "n3"
    watch, store = (logs / "watch.log").read_text(), (logs / "store.log").read_text()
    assert watch.count("watching n3") == 4  # its first start, with the node, after its kill, at its restart
    assert "=== incarnation 2 starts ===" in watch
    assert "beat" in store
    assert "watching" not in store
    assert (logs / "first.txt").read_text() == "n3 is new\n"
    assert (tmp_path / "run" / "nodes" / "n1" / "setup.txt").read_text() == "formed by n1\n"
    assert not (logs / "setup.txt").exists()


def test_a_process_that_ends_by_itself_is_the_nodes_crash_with_its_last_words(pair, tmp_path):
    (tmp_path / "plan.toml").write_text(STEP % ("kill:watch", "200ms"))
    found, code = told(tmp_path / "state", *pair, "--set", "ends=4")
    assert code == 1, found
    assert "crash" in found["reason"]
    assert "watch| fatal error: nothing left to watch" in str(found["checkers"]["crash"])


def test_doctor_shows_in_which_order_a_node_starts_and_that_its_ports_are_served(pair, tmp_path):
    done = dethrone(tmp_path / "state", "doctor", tmp_path / "pair.toml", "--on", "local", "--json")
    rows = {row["what"]: row["seen"] for row in json.loads(done.stdout)["rows"]}
    assert rows["store starts; ready when /status at http answers 200"] == "yes"
    assert rows["n1 listens on watch = 9000"] == "yes"


def test_a_fault_of_a_process_that_there_is_not_is_refused_with_those_that_there_are(pair, tmp_path):
    done = dethrone(tmp_path / "state", "run", tmp_path / "pair.toml", "--on", "local", "--faults", "kill:wach")
    assert done.returncode == 3
    assert "store, watch" in done.stderr
    done = dethrone(tmp_path / "state", "run", "raft", "--on", "local", "--faults", "kill:wach")
    assert "has one process a node" in done.stderr
