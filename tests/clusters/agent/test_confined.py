"""What a node may do on its host: a user of its own, no capabilities, no word with the agent."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.agent.host.confinement import CAPABILITIES
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.interfaces import Command
from tests.waiting import until

from .conftest import Box

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a node a user of its own"),
    pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="that user needs a Python that it can reach"),
    pytest.mark.processes,
]

OWN = 64007
NODE = r"""
import json, os, socket, sys, time
place, agent = sys.argv[1:3]
def attempt(what):
    try: return what() or "done"
    except OSError as error: return error.strerror
def ask():
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(5); one.connect(agent)
        try:
            one.sendall(b'{"id": 1, "do": "now"}\n')
            return "served" if one.recv(100) else "hung up"
        except ConnectionError: return "hung up"
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
sets = ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")
found = {key: status[key] for key in ("Uid", "Gid", "Groups", "NoNewPrivs", *sets)}
found["agent"] = attempt(ask)
found["replace"] = attempt(lambda: os.rename(agent, agent + ".old"))
found["raw"] = attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255).close())
found["home"] = os.environ.get("HOME", "")
found["data"] = attempt(lambda: open(place + "/data/of-mine", "w").close())
with open(place + "/run/found.new", "w") as file: json.dump(found, file)
os.rename(place + "/run/found.new", place + "/run/found")
while True: time.sleep(60)
"""


def begin(box: Box, **command: object) -> dict[str, str]:
    """Start the node as that command, and what it found."""
    box.directory.chmod(0o755)
    argv = ("/usr/bin/python3", "-S", "-c", NODE, str(box.directory), box.socket)
    start = msgspec.structs.replace(
        box.start(),
        command=msgspec.structs.replace(Command(argv=argv), **command),
        trace_path=None,
        log_path=str(box.directory / "log" / "node.log"),
        run_dir=str(box.directory / "run"),
    )
    box.meet().prepare(start, {"n1": "127.0.0.1"}, dead_man_ns=0)
    box.host.start_node()
    found = box.directory / "run" / "found"
    until(found.exists)
    return json.loads(found.read_text())


@pytest.fixture
def tmp_path(reachable):
    """For the fixtures that put agents there: nodes of other users reach it."""
    return reachable


@pytest.fixture
def apart(tmp_path: Path):
    """An agent that has a user for nodes."""
    one = Box("n1", tmp_path / "n1")
    one.serve("--probe-port", "0", "--node-user", str(OWN))
    yield one
    one.end()


def bits(*names: str) -> int:
    return sum(1 << CAPABILITIES.index(name) for name in names)


def test_a_node_has_a_user_of_its_own_and_no_capabilities_and_cannot_get_any(apart):
    found = begin(apart)
    assert found["Uid"].split() == found["Gid"].split() == [str(OWN)] * 4
    assert found["Groups"].split() == []
    assert {key: int(found[key], 16) for key in found if key.startswith("Cap")} == dict.fromkeys(
        ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"), 0
    )
    assert found["NoNewPrivs"] == "1"
    assert found["raw"] == "Operation not permitted"
    assert found["data"] == "done"
    assert found["home"] == str(apart.directory / "run")
    assert apart.host.shares_user == ""


def test_a_node_cannot_speak_to_the_agent_nor_put_something_in_its_place(apart):
    apart.raw().close()
    Path(apart.socket).chmod(0o777)  # whatever the file allows, the agent looks who it is
    found = begin(apart)
    assert (found["agent"], found["replace"]) == ("hung up", "Permission denied")


def test_a_node_has_the_capabilities_that_it_asks_for_and_no_others(apart):
    found = begin(apart, capabilities=("NET_RAW",))
    assert found["Uid"].split() == [str(OWN)] * 4
    assert int(found["CapEff"], 16) == int(found["CapBnd"], 16) == bits("NET_RAW")
    assert found["raw"] == "done"


def test_a_node_that_asks_to_be_root_has_no_power_over_the_network_nor_over_the_agent(apart):
    found = begin(apart, user="root")
    assert found["Uid"].split() == ["0"] * 4
    assert int(found["CapBnd"], 16) & bits("NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_PTRACE") == 0
    assert found["agent"] == "hung up"
    assert apart.host.shares_user == "the node asks to be root"


def test_where_no_user_is_set_apart_a_node_shares_the_agents_without_its_capabilities(box):
    found = begin(box)
    assert found["Uid"].split() == ["0"] * 4
    assert int(found["CapEff"], 16) == int(found["CapBnd"], 16) == 0
    assert found["agent"] == "hung up"
    assert "no user was set apart" in box.host.shares_user


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ({"capabilities": ("FLY",)}, "no capability is called 'FLY'"),
        ({"user": "no-such-user"}, "there is no user 'no-such-user'"),
    ],
)
def test_what_a_node_cannot_have_is_refused_before_it_starts(apart, command, why):
    with pytest.raises(ClusterError, match=why):
        begin(apart, **command)


def test_a_log_that_the_node_made_a_link_of_is_not_written_to(apart, tmp_path):
    begin(apart)
    secret = tmp_path / "not-the-nodes"
    secret.write_text("as it was")
    log = apart.directory / "log" / "node.log"
    log.unlink()
    log.symlink_to(secret)
    apart.host.stop_node()
    with pytest.raises(ClusterError, match=r"node\.log|symbolic"):
        apart.host.start_node()
    assert secret.read_text() == "as it was"


def test_a_program_that_the_nodes_user_cannot_reach_is_an_error_of_its_start(apart):
    box = apart
    hidden = box.directory.parent / "hidden"
    hidden.mkdir(mode=0o700)
    program = hidden / "program"
    program.symlink_to(sys.executable)
    start = msgspec.structs.replace(box.start(), command=Command(argv=(str(program), "-c", "")), trace_path=None)
    box.meet().prepare(start, {"n1": "127.0.0.1"}, dead_man_ns=0)
    with pytest.raises(ClusterError, match="ermission"):
        box.host.start_node()
