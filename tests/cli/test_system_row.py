"""What ``list systems`` says of a system, from what the system itself says."""

from __future__ import annotations

import json

import pytest

from dethrone.clusters.own.system import described
from dethrone.harness.commands import system_row
from dethrone.harness.core import registry

OWN = """
[system]
name = "keep"
version = "1.4.2"
{packages}

[node]
command = "{program} --id {{name}} --peers {{members}}"
ports = {{ http = 8000 }}

[knobs]
quick = false
password = "seen by nobody"

[probe]
http = "/status"
role = "role"
term = "term"
leader = "leader"

[ops]
add = "PUT /{{key}}/{{value}}"
read = "GET /{{key}}"

[promise]
election_timeout = "1s"
heartbeat = "100ms"
leader_within = "10s"
durable = false
tolerates = ["partition", "kill", "hold"]
safe_under = ["clock"]
source = "here"
"""


@pytest.fixture
def row(tmp_path):
    def of(program: str = "/bin/sh", packages: str = ""):
        file = tmp_path / "keep.toml"
        file.write_text(OWN.format(program=program, packages=packages))
        return dict(zip(system_row.HEADERS, system_row.of("keep", described(file)), strict=True))

    return of


def test_a_row_says_what_the_description_says_and_hides_secrets(row):
    found = row()
    assert (found["version"], found["settings"]) == ("1.4.2", "quick=false, password=***")
    assert found["promised"] == "leader within 10 s, reads may be old; not that acknowledged writes survive"
    assert found["faults"] == "partition, kill (96 s); bears hold; safe under clock"
    assert found["workloads"] == "set"


@pytest.mark.parametrize(
    ("program", "packages", "said"),
    [
        ("/bin/sh", "", "nothing"),
        ("no-such-program", "", "no-such-program: bring it with --base, or install it for --on local"),
        ("redis", 'packages = ["no-such-package"]', "nothing for Docker; for --on local no-such-package"),
        ("{{run_dir}}/keep", "", "nothing"),
    ],
)
def test_what_is_missing_here_is_what_nobody_brings(row, program, packages, said):
    assert row(program, packages)["missing here"] == said


def test_the_gallery_is_listed_with_version_settings_promise_workloads_and_faults(call):
    rows = json.loads(call("list", "systems", "--json").stdout)["rows"]
    assert {row["system"] for row in rows} == set(registry.names(registry.SYSTEMS))
    [one] = json.loads(call("list", "systems", "--system", "nats-2.12.1", "--json").stdout)["rows"]
    assert (one["version"], one["settings"]) == ("2.12.1", "sync=2m, version=2.12.1")
    assert one["promised"] == "leader within 27 s, gives up within 22 s, in step within 27 s, reads may be old"
    assert one["workloads"] == "log, set"
    assert one["faults"].startswith("partition, kill, pause, stop, restart (3 min 52 s); bears upgrade")
    assert "transfer" in one["faults"]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("etcd", "3.4"),
        ("etcd-3.7", "3.7.3"),
        ("etcd-rolling", "3.4 to 3.7"),
        ("kafka-kraft-3.9", "3.9.1"),
        ("rocketmq-dledger", "0.4.3"),
        ("zookeeper", "3.9.3"),
        ("raft", "-"),
    ],
)
def test_a_release_says_which_it_is(name, version):
    assert system_row.of(name, registry.load(registry.SYSTEMS, name))[1] == version


def test_a_system_that_is_not_there_is_an_error(call):
    done = call("list", "systems", "--system", "natz")
    assert done.exit_code == 64
    assert "nats" in done.stderr
