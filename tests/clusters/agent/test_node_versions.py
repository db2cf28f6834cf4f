"""A node of several versions on its agent: each start is of the version that it has, and nothing else changes it."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import Command
from tests.waiting import until

pytestmark = pytest.mark.processes


@pytest.fixture
def versioned(box):
    """A node that logs as which version it was started."""
    box.meet()
    versions = {
        name: Command(argv=("/bin/sh", "-c", f"echo I am {name}; exec sleep 1000"), env={"V": name})
        for name in ("1", "2")
    }
    start = msgspec.structs.replace(box.start(), versions=versions, version="1", trace_path=None)
    box.host.prepare(start, {}, dead_man_ns=0)
    box.host.start_node()
    return box


def started(box):
    return [(news.data["incarnation"], news.data["version"]) for news in box.kinds("started")]


def test_a_node_starts_as_its_first_version_and_stays_what_it_became(versioned):
    host, log = versioned.host, versioned.directory / "node.log"
    until(lambda: log.read_text() == "I am 1\n")
    down = host.converge(HostState(down="SIGTERM", version="2"))
    assert down.confirmed, down.why
    assert down.detail["version"]["next"] == "2"
    assert host.converge(HEALTHY).confirmed
    until(lambda: log.read_text() == "I am 1\nI am 2\n")  # it is killed only once it has said so
    assert host.converge(HostState(down="SIGKILL")).confirmed
    assert host.converge(HEALTHY).confirmed
    until(lambda: log.read_text() == "I am 1\nI am 2\nI am 2\n")
    until(lambda: started(versioned) == [(1, "1"), (2, "2"), (3, "2")])


def test_a_running_process_changes_no_version_and_one_that_is_not_there_is_refused(versioned):
    up = versioned.host.converge(HostState(version="2"))
    assert not up.confirmed
    assert "changes its version only at a start" in up.why
    unknown = versioned.host.converge(HostState(down="SIGKILL", version="3"))
    assert not unknown.confirmed
    assert "no 3" in unknown.why
    assert versioned.host.converge(HEALTHY).confirmed
    until(lambda: started(versioned)[-1] == (2, "1"))


def test_the_first_version_must_be_among_those_that_are_there(box):
    box.meet()
    start = msgspec.structs.replace(box.start(), versions={"1": Command(argv=("true",))}, version="2")
    with pytest.raises(ClusterError, match="no version is called '2'"):
        box.host.prepare(start, {}, dead_man_ns=0)
