"""A node that is removed and added again, on its agent: asked first, then ended; added first, then started."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest

from dethrone.harness.core.hoststate import HEALTHY, HostCommand, HostState, Trouble
from dethrone.harness.core.interfaces import Command
from tests.waiting import until

pytestmark = pytest.mark.processes


@pytest.fixture
def node(box):
    """A node that logs as what it starts, and ends by itself with 0 when a file says that it was removed."""
    box.meet()
    loop = f"while [ ! -e {box.directory}/removed ]; do sleep 0.01; done"
    command = Command(
        argv=("/bin/sh", "-c", f"echo new; {loop}"), rejoining=("/bin/sh", "-c", "echo again; exec sleep 1000")
    )
    start = msgspec.structs.replace(box.start(), command=command, run_dir=str(box.directory), trace_path=None)
    box.host.prepare(start, {}, dead_man_ns=0)
    box.host.start_node()
    until(lambda: (box.directory / "node.log").read_text() == "new\n")
    return box


def removed(box, *, end):
    """Waits until the node has ended by itself, as a member that was removed may."""
    begin = f"touch {box.directory}/removed; sleep 0.3"
    words = {"begin": begin, "check": f"test -e {box.directory}/removed", "end": end}
    command = HostCommand(**{part: ("/bin/sh", "-c", text) for part, text in words.items()})
    trouble = Trouble(kind="member", says="is no member", means=HEALTHY, commands=(command,))
    return HostState(down="SIGKILL", troubles=(trouble,))


def test_it_may_end_by_itself_once_it_is_removed_and_returns_as_a_new_member(node):
    host, place = node.host, node.directory
    begun = host.converge(removed(node, end=f"touch {place}/rejoins; rm -f {place}/removed"))
    assert begun.confirmed, begun.why
    until(lambda: node.kinds("exited"))
    assert [(news.data["code"], news.data["asked"]) for news in node.kinds("exited")] == [(0, True)]
    assert host.converge(HEALTHY).confirmed
    until(lambda: (place / "node.log").read_text() == "new\nagain\n")


def test_it_does_not_start_before_it_is_a_member_again(node):
    host, place = node.host, node.directory
    assert host.converge(removed(node, end=f"test -e {place}/quorum && rm -f {place}/removed")).confirmed
    ended = host.converge(HEALTHY)
    assert not ended.confirmed
    assert "still in force" in ended.why
    assert (place / "node.log").read_text() == "new\n"
    (place / "quorum").touch()
    (place / "rejoins").touch()
    assert host.converge(HEALTHY).confirmed
    until(lambda: (place / "node.log").read_text() == "new\nagain\n")


def test_without_an_agent_it_is_added_again_and_a_second_time_nothing_happens(node):
    place = node.directory
    end = f"test ! -e {place}/removed || (rm {place}/removed && echo added >> {place}/asked)"
    assert node.host.converge(removed(node, end=end)).confirmed
    node.agent.kill()
    node.agent.wait()
    for _ in range(2):
        argv = node.command(sys.executable, "-S", node.AGENT, "heal", "--socket", node.socket, "--stop")
        said = json.loads(subprocess.run(argv, capture_output=True, check=True, timeout=30).stdout)
        assert (said["confirmed"], said["commands"]) == (True, "taken back")
    assert (place / "asked").read_text() == "added\n"
