"""The installed wheel, outside the tree: a foreign ``workloads`` and one in the user's folder change nothing."""

from __future__ import annotations

import json

import pytest

from tests.clusters.ssh import field
from tests.pipeline import standalone

pytestmark = pytest.mark.processes

FIXTURE = """
def test_an_election(chaos):
    chaos("raft", nodes=3, seed=1, time_limit="60s", on="sim").assert_valid()
"""


def test_it_is_the_wheel_that_is_tried(installed):
    place = installed.call("-c", "import dethrone.harness.core as core; print(core.__file__)")
    assert place.startswith(str(installed.site))
    for words in ("import workloads", "import workloads.log"):
        installed.call("-c", words, code=1)


def test_a_demo_in_simulation(installed):
    told = json.loads(installed.call("-m", "dethrone.harness.cli", "demo", "--on", "sim", "--seed", "1", "--json"))
    assert told["exit_code"] == 0


@pytest.mark.slow
def test_the_fixture_of_pytest_in_a_project_that_has_such_a_folder(installed):
    (installed.project / "test_mine.py").write_text(FIXTURE)
    out = installed.call("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py")
    assert "1 passed" in out


@pytest.mark.slow
@pytest.mark.spark
def test_a_campaign_on_spark(installed):
    words = ["campaign", "raft", "--on", "sim", "--seeds", "0..3", "--time-limit", "40s", "--out", "rows"]
    words += ["--engine", "spark", "--master", "local[1]", "--json"]
    told = json.loads(installed.call("-m", "dethrone.harness.cli", *words))
    assert told["exit_code"] == 0


@pytest.mark.slow
@pytest.mark.docker
def test_an_image_and_a_run_in_it(installed):
    installed.call("-m", "dethrone.clusters.docker.image", "node")
    words = ("run", "raft", "--on", "docker", "--nodes", "3", "--time-limit", "30s", "--seed", "1", "--faults", "pause")
    words += ("--time-scale", "1")  # a busy machine would make it longer, and other things stay unknown there
    told = json.loads(installed.call("-m", "dethrone.harness.cli", *words, "--json", code=None))
    assert told["trouble"] == []
    assert told["checkers"]["one-leader-per-term"]["verdict"] == "pass"


@pytest.mark.docker
@pytest.mark.nightly("the same code over the same SSH server as from the tree")
def test_a_run_over_ssh(installed, tmp_path):
    for hosts in field.made(tmp_path):
        words = ("run", "raft", "--on", "ssh", "--hosts", str(hosts.patient_file), "--time-limit", "30s", "--seed", "1")
        told = json.loads(installed.call("-m", "dethrone.harness.cli", *words, "--json", code=None))
        assert told["trouble"] == []
        assert told["checkers"]["one-leader-per-term"]["verdict"] == "pass", (
            "on a busy machine other things stay unknown"
        )
        assert {node: hosts.ours(node) for node in field.NODES} == dict.fromkeys(field.NODES, "")


@pytest.mark.spark
@pytest.mark.nightly("a Spark cluster of its own")
def test_a_campaign_on_a_cluster_whose_workers_lack_the_package(installed, tmp_path):
    bare = standalone.bare_python(tmp_path / "bare")
    with standalone.cluster(tmp_path, workers=1) as (url, _):
        words = ["campaign", "raft", "--on", "sim", "--seeds", "0..3", "--time-limit", "40s", "--out", "cluster-rows"]
        words += ["--engine", "spark", "--master", url, *standalone.spark_conf(), "--json"]
        told = json.loads(installed.call("-m", "dethrone.harness.cli", *words, PYSPARK_PYTHON=str(bare)))
    assert told["exit_code"] == 0
    assert sum(told["counts"].values()) == 4


def test_a_plug_in_of_an_earlier_version_gets_the_new_name(installed):
    info = installed.site / "older-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: older\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dethrone.checkers]\nolder = older:CHECKER\n")
    (installed.site / "older.py").write_text("from harness.core.verdict import Verdict\nCHECKER = None\n")
    try:
        script = "from dethrone.harness.core import registry as r; r.load(r.CHECKERS, 'older')"
        done = installed.call("-c", f"try:\n    exec({script!r})\nexcept Exception as error:\n    print(error)")
    finally:
        (info / "entry_points.txt").unlink()
    assert "harness is dethrone.harness since dethrone 0.2.0" in done
