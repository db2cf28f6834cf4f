"""What hosts need of a described system, in containers: Debian packages in the image, Python packages on the node."""

import json
import re
from pathlib import Path

import pytest

from tests.clusters.own.packaged import describe_package
from tests.command import dethrone

pytestmark = pytest.mark.docker

PAGE = Path(__file__).parents[3] / "docs" / "own-system.md"
REST = """
[probe]
command = "redis-cli -h {address} -p {redis} info replication"
pattern = 'role:(?P<role>\\w+)\\s+connected_slaves:(?P<term>\\d+)'
leader_role = "master"
[promise]
election_timeout = "4s"
heartbeat = "1s"
tolerates = ["kill"]
leader_within = "15s"
"""
"""As a term, the number of replicas: it shows that the other nodes follow the first one."""


def rows_of(done):
    return {row["what"]: row["seen"] for row in json.loads(done.stdout)["rows"]}


def test_redis_with_sentinel_starts_as_the_reference_describes_it_and_the_others_follow(client, tmp_path):
    (redis,) = re.findall(r"^```toml\n(# Redis.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "redis.toml").write_text(redis + REST)
    words = ["doctor", tmp_path / "redis.toml", "--on", "docker", "--nodes", "3", "--json"]
    done = dethrone(tmp_path / "state", *words)
    rows = rows_of(done)
    for what in ("redis-server is there", "redis-sentinel is there", "n1 listens on sentinel = 26379", "n1 leads"):
        assert rows.get(what) == "yes", (what, rows, done.stderr)


@pytest.mark.slow
def test_a_node_that_is_a_python_package_runs_in_a_container_without_an_index(client, tmp_path):
    path, index = describe_package(tmp_path)
    done = dethrone(tmp_path / "state", "doctor", path, "--on", "docker", "--json", **index)
    rows = rows_of(done)
    assert rows.get("n1 leads") == "yes", (rows, done.stderr)
