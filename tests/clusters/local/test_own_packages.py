"""A described system whose program is a Python package: on local hosts, without a package index."""

from __future__ import annotations

import json

import pytest

from tests.clusters.own.packaged import describe_package
from tests.command import dethrone
from tests.outside import NODE, TOML

pytestmark = [pytest.mark.namespaces, pytest.mark.whole_run]


@pytest.mark.slow
def test_a_node_that_is_a_python_package_and_has_a_directory_runs_on_a_host_of_this_machine(root, tmp_path):
    path, index = describe_package(tmp_path)
    done = dethrone(tmp_path / "state", "doctor", path, "--on", "local", "--json", **index)
    rows = {row["what"]: row["seen"] for row in json.loads(done.stdout)["rows"]}
    assert rows["the directory {run_dir}/app: 1 file"] == "yes", done.stderr
    assert rows["n1 listens on http = 8000"] == "yes", rows
    assert rows["n1 leads"] == "yes", rows
    assert "tiny_node==1.0 --hash=sha256:" in (tmp_path / "tiny.lock").read_text()


def test_doctor_names_the_program_that_a_host_lacks(root, tmp_path):
    (tmp_path / "node.py").write_text(NODE)
    text = TOML.format(python="python3", every="40ms")
    text = text.replace("[probe]", '[node.first]\ncommand = "no-such-program"\n\n[probe]', 1)
    (tmp_path / "tiny.toml").write_text(text)
    done = dethrone(tmp_path / "state", "doctor", tmp_path / "tiny.toml", "--on", "local", "--json")
    rows = {row["what"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["python3 is there"]["seen"] == "yes"
    assert rows["no-such-program is there"]["seen"] == "no"
    assert "[node.first] command" in rows["no-such-program is there"]["why"]
    assert "no-such-program cannot be started" in str(rows["n1 stays up"])
