"""What nodes in containers may use: limited live by groups below the container's own, which go with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dethrone.clusters.agent.host.groups import NODE_GROUP
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import OF_GROUPS
from tests.clusters.docker.conftest import one_host
from tests.waiting import until

SECOND = 1_000_000_000
NODE = "import time\nkept = b'x' * (8 << 20)\nwhile True: time.sleep(60)"


@pytest.fixture
def host(run_id):
    with one_host(run_id, NODE, OF_GROUPS, limits=tuple(sorted(OF_GROUPS))) as started:
        yield started


@pytest.mark.docker
def test_a_node_in_a_container_is_starved_fed_and_killed_for_lack_of_memory_and_its_groups_go_with_it(
    client, host, run_id
):
    (container,) = client.api.containers(filters={"name": f"dethrone-{run_id}-n1"})
    below = [path for path in Path("/sys/fs/cgroup").rglob(NODE_GROUP) if container["Id"] in str(path)]
    begun = host.converge(HostState(cpu_percent=10))
    assert begun.confirmed, begun.why
    assert begun.detail["cpu"]["throttled_periods"] > 0
    assert begun.detail["cpu"]["spin_used_ns"] <= begun.detail["cpu"]["spin_wall_ns"] // 3
    agent = host.run(["cat", "/proc/1/cgroup"], timeout_ns=SECOND)[1].decode()
    assert NODE_GROUP not in agent
    killed = host.converge(HostState(down="OOM"))
    assert killed.confirmed, killed.why
    assert killed.detail["OOM"]["oom_kills"] >= 1
    healed = host.converge(HEALTHY)
    assert healed.confirmed, healed.why
    assert healed.detail["start"]["ok"]
    client.api.remove_container(container["Id"], force=True)
    until(lambda: not any(path.exists() for path in below))
