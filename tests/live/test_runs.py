"""The main job on real clusters: one election passes, another fails, trouble is never a verdict."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import docker
import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.history_files import read_history
from dethrone.harness.engine.run.judge import check_path
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import run
from tests import stored
from tests.command import dethrone, started, told
from tests.waiting import until

pytestmark = pytest.mark.docker
VERIFY = Path(__file__).parent.parent / "clusters" / "nacos" / "verify_certificate.py"


def options(tmp_path, system="raft", **changes):
    settings = {
        "nodes": 3,
        "seed": 1,
        "time_limit_ns": 30 * SECOND,
        "out": tmp_path / "run",
        **changes,
    }
    return RunOptions(system=system, **settings)


def failing(result):
    return {verdict.checker for verdict in result.judgement.verdicts if verdict.outcome == "fail"}


def test_raft_survives_partitions_kills_pauses_and_clock_steps_with_evidence(tmp_path, state):
    result = run(options(tmp_path, nodes=5), Silence())
    if result.judgement is not None and result.judgement.host_noise:
        result = run(options(tmp_path, nodes=5, out=tmp_path / "again"), Silence())
    assert result.trouble == ()
    assert failing(result) == set()
    verdicts = {verdict.checker: verdict for verdict in result.judgement.verdicts}
    assert verdicts["one-vote-per-term"].outcome == "pass"
    assert verdicts["acknowledged-survives"].outcome == "pass"
    assert result.figures["faults"] >= 2
    assert [path.suffix for path in (result.run_dir / "history").iterdir()] == [".parquet"]
    for node in ("n1", "n5"):
        assert (result.run_dir / "nodes" / node / "trace.jsonl").stat().st_size > 0
    judged, _, _ = check_path(result.run_dir)
    assert judged == result.judgement


@pytest.mark.nightly("a run of two minutes; simulated runs find the same")
def test_nacos_fails_by_a_certificate_that_an_independent_script_confirms(tmp_path, state):
    printed, _ = told(state, "run", "--scenario", "nacos-b1", "--on", "docker", "--out", tmp_path / "run")
    assert printed["scenario"]["deviations"] == []
    lines = stored.as_file(tmp_path / "run", tmp_path / "lines.jsonl")
    again = subprocess.run([sys.executable, VERIFY, lines], capture_output=True, check=False)
    assert again.returncode == 1, again.stderr.decode()


@pytest.mark.nightly("two other planted bugs run on Docker in make test")
def test_a_leader_that_does_not_step_down_is_caught_by_the_checker_named_for_it(tmp_path, state):
    result = run(options(tmp_path, variant="28-never-steps-down", faults=("partition",)), Silence())
    assert "step-down-without-quorum" in failing(result)
    assert result.exit_code == 1


@pytest.mark.nightly("another run on Docker; simulated clients of locks show the same anomaly")
def test_a_guard_that_takes_any_token_is_caught_by_what_clients_of_locks_saw(tmp_path, state):
    changes = {"workload": "lock", "faults": ("kill", "pause"), "nemesis_interval_ns": 2 * SECOND}
    result = run(options(tmp_path, variant="clients-any-token-passes", time_limit_ns=12 * SECOND, **changes), Silence())
    assert failing(result) == {"lock"}
    (verdict,) = (verdict for verdict in result.judgement.verdicts if verdict.checker == "lock")
    assert verdict.findings[0].data["anomaly"] == "fencing"


def test_a_node_that_does_not_start_is_trouble_that_shows_the_end_of_its_log(tmp_path, state, monkeypatch):
    system = registry.load(registry.SYSTEMS, "raft")
    real = type(system).command

    def broken(self, node):
        command = real(self, node)
        if node.name != "n2":
            return command
        return type(command)(argv=("sh", "-c", "echo no such quorum file; exit 7"))

    monkeypatch.setattr(type(system), "command", broken)
    result = run(options(tmp_path), Silence())
    assert result.exit_code == 3
    text = "\n".join(result.trouble)
    assert "n2 exited with code 7" in text
    assert "no such quorum file" in text
    assert result.judgement.outcome != "pass"


def start(tmp_path, state, *words, out="run"):
    given = ("run", "raft", "--nodes", "3", "--time-limit", "60s", "--out", tmp_path / out)
    return started(state, *given, *words)


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly("SIGINT takes the same way out"))],
)
def test_a_signal_in_the_middle_of_a_fault_heals_keeps_the_history_and_exits_130(tmp_path, state, number):
    process = start(tmp_path, state, "--faults", "pause", "--seed", "1")
    until(lambda: '"outcome":"installed"' in stored.text(tmp_path / "run"), 60)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    history = read_history(tmp_path / "run" / "history")
    assert history.complete
    assert history.end.reason == "interrupted"
    realised = json.loads((tmp_path / "run" / "schedule.realised.json").read_text())
    assert all(fault["healed"] for fault in realised["faults"])
    assert (tmp_path / "run" / "report.html").exists()


RULE = ("INPUT", "-s", "198.51.100.7", "-j", "DROP")
"""Somebody else's."""


def test_after_kill_nine_heal_leaves_nothing_and_disturbs_nobody(tmp_path, state):
    client = docker.from_env()
    image = client.images.list(name="dethrone/host")
    foreign = client.containers.run(
        image[0].id,
        ["sh", "-c", f"iptables -A {' '.join(RULE)}; sleep 600"],
        detach=True,
        cap_add=["NET_ADMIN"],
    )
    bystander = start(tmp_path, tmp_path / "other-state", "--faults", "kill", "--seed", "2", out="other")
    victim = start(tmp_path, state, "--faults", "partition", "--seed", "1")
    try:
        for out in ("run", "other"):
            until(lambda out=out: '"outcome":"installed"' in stored.text(tmp_path / out), 90)
        victim.kill()
        victim.communicate()
        for _ in range(2):
            healed = dethrone(state, "heal")
            assert healed.returncode == 0, healed.stderr
        assert bystander.poll() is None
        foreign.reload()
        assert foreign.status == "running", (foreign.attrs["State"], foreign.attrs["Config"], foreign.logs())
        assert foreign.exec_run(["iptables", "-C", *RULE]).exit_code == 0
        assert len(read_history(tmp_path / "run" / "history")) > 100
        bystander.send_signal(signal.SIGINT)
        _, errors = bystander.communicate(timeout=60)
        assert bystander.returncode == 130, errors
    finally:
        for process in (bystander, victim):
            if process.poll() is None:
                process.kill()
                process.communicate()
        foreign.remove(force=True)
        client.close()


def test_no_engine_is_said_with_the_next_command_and_exits_3(tmp_path):
    nothing = {"DOCKER_HOST": f"unix://{tmp_path}/nothing.sock"}
    done = dethrone(tmp_path / "state", "run", "raft", "--out", tmp_path / "run", **nothing)
    assert done.returncode == 3
    assert "next:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("CI"), reason="mounting a small disk needs root")
def test_a_disk_that_fills_under_the_history_is_trouble_and_everything_is_healed(tmp_path, state, monkeypatch):
    monkeypatch.setattr(
        "dethrone.harness.engine.run.artifacts.FREE_MIN", 0
    )  # as if somebody else filled it faster than we look
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", small], check=True)
    try:
        result = run(options(tmp_path, out=small / "run"), Silence())
        assert result.exit_code == 3
        assert any("No space left" in line for line in result.trouble)
        history = read_history(small / "run" / "history")
        assert not history.complete
        assert len(history) > 50
        assert result.judgement is None or result.judgement.outcome != "pass"
    finally:
        subprocess.run(["umount", small], check=True)
