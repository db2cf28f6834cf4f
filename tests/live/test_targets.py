"""Every protocol target as real processes: each verdict is the one that its specification says."""

from __future__ import annotations

import pytest

from dethrone.harness.core import store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.events import NodeProcess, Traced
from dethrone.harness.core.history_files import read_history
from dethrone.harness.core.schedule import RealisedSchedule
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import run

pytestmark = [pytest.mark.docker, pytest.mark.nightly("raft runs on Docker in make test")]

SAFETY = {
    "one-leader-per-term",
    "one-vote-per-term",
    "term-never-decreases",
    "leader-has-majority",
    "leader-completeness",
    "log-matching",
    "commit-never-regresses",
    "acknowledged-survives",
    "agreement",
    "members-only",
    "vote-is-durable",
}


def judged(tmp_path, system, **changes):
    settings = {"nodes": 3, "seed": 1, "time_limit_ns": 30 * SECOND, "out": tmp_path / "run"}
    result = run(RunOptions(system=system, **{**settings, **changes}), Silence())
    assert result.trouble == ()
    assert result.figures["elections"] >= 1 or system == "master-slave"
    assert result.figures["faults"] >= 1
    return result, {verdict.checker: verdict.outcome for verdict in result.judgement.verdicts}


@pytest.mark.parametrize(
    ("system", "settings"),
    [
        ("kraft", {}),
        ("dledger", {"time_factor": "0.1"}),
        ("joyqueue", {}),
        ("paxos", {}),
    ],
)
def test_a_sound_election_breaks_no_safety_property_as_real_processes(tmp_path, state, system, settings):
    _, outcomes = judged(tmp_path, system, settings=settings)
    assert not {name for name, outcome in outcomes.items() if outcome == "fail"} & SAFETY
    assert sum(outcome == "pass" for name, outcome in outcomes.items() if name in SAFETY) >= 2


def test_kafka_by_ephemeral_nodes_elects_one_leader_an_epoch_among_real_processes(tmp_path, state):
    _, outcomes = judged(tmp_path, "zk-ephemeral", nodes=4, settings={"acks": "all"}, profile="controller")
    assert outcomes["one-leader-per-term"] == "pass"


STOPPED = """
[[step]]
gap = "1s"
[[step.fault]]
kind = "stop"
victims = "leader"
hold = "4s"
"""


def test_a_stopped_kraft_leader_resigns_before_it_goes_and_its_journal_is_whole(tmp_path, state):
    schedule = tmp_path / "stopped.toml"
    schedule.write_text(STOPPED)
    result, outcomes = judged(tmp_path, "kraft", schedule=schedule, time_limit_ns=20 * SECOND)
    assert not {name for name, outcome in outcomes.items() if outcome == "fail"} & SAFETY
    (fault,) = store.read_json(result.run_dir / store.REALISED, RealisedSchedule).faults
    (victim,) = fault.victims
    history = read_history(result.run_dir / "history")
    said = [event.name for event in history.of(Traced) if event.node == victim and event.incarnation == 1]
    assert said.index("shutdown") < said.index("stopped")
    exits = [event for event in history.of(NodeProcess) if event.node == victim and event.phase == "exited"]
    assert [event.code for event in exits] == [0]
    later = [e for e in history.of(Traced) if e.name == "elected" and e.span.hi > fault.begin.lo]
    assert later
    assert later[0].node != victim
    for node in result.plan.nodes:
        journal = (result.run_dir / "nodes" / node / "journal.jsonl").read_text()
        assert '"reason":"stopped"' in journal.splitlines()[-1]


def test_a_dead_master_is_not_replaced_and_never_passes(tmp_path, state):
    result, _ = judged(tmp_path, "master-slave", faults=("kill",))
    assert result.judgement.outcome != "pass"
