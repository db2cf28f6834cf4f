"""Zones in a whole run: where they come from, what the plan holds, and what history and realised schedule say."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.clusters.ssh.backend import SshBackend
from dethrone.clusters.ssh.hosts import parse_hosts
from dethrone.clusters.ssh.permissions import refuse_run
from dethrone.harness.core import store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.history_files import read_history
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.schedule import PlannedFault, RealisedSchedule, Schedule, Step
from dethrone.harness.engine.run import runner
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.report.words import begun_line
from tests.clusters.own.described import system as described

HOSTS = """\
expendable = ["n1", "n2", "n3"]
[hosts.n1]
address = "192.0.2.11"
zone = "a"
[hosts.n2]
address = "192.0.2.12"
zone = "a"
[hosts.n3]
address = "192.0.2.13"
"""


def options(**changes):
    return RunOptions(system="raft", backend="sim", nodes=5, zones=("a", "a", "b", "b", "c"), **changes)


@pytest.mark.slow
def test_a_run_in_zones_loses_whole_zones_and_says_so_in_plan_history_and_realised_schedule(tmp_path):
    ran = runner.run(
        options(faults=("kill", "partition"), time_limit_ns=40 * SECOND, seed=3, out=tmp_path / "run"), Silence()
    )
    assert ran.judgement.outcome == "pass"
    plan = store.read_json(tmp_path / "run" / store.PLAN, Plan)
    assert plan.zones == {"n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "c"}
    zonal = {f.kind for step in plan.schedule.steps for f in step.faults if f.victims.startswith("zone:")}
    assert zonal
    begun = [event for event in read_history(tmp_path / "run" / store.HISTORY).of(FaultEvent) if event.phase == "begin"]
    hit = [event for event in begun if len(event.victims) == 2 and event.evidence.get("zones")]
    assert {plan.zones[victim] for event in hit for victim in event.victims} <= {"a", "b"}
    assert all(f"· zone {event.evidence['zones'][0]}" in begun_line(event) for event in hit)
    realised = store.read_json(tmp_path / "run" / store.REALISED, RealisedSchedule)
    assert [fault.zones for fault in realised.faults if fault.zones] == [
        tuple(event.evidence["zones"]) for event in begun if event.evidence.get("zones")
    ]
    assert hit


def test_the_slowness_of_a_zone_can_be_simulated():
    drawn = [draft(options(faults=("link",), time_limit_ns=90 * SECOND), seed=seed).plan.schedule for seed in range(4)]
    ends = {fault.params.get("of") for schedule in drawn for step in schedule.steps for fault in step.faults}
    assert "outside" in ends


def test_wrong_numbers_of_zones_are_refused_before_the_run():
    with pytest.raises(ConfigError, match="2 zones for 5 nodes"):
        draft(msgspec.structs.replace(options(), zones=("a", "b")), seed=1)


def test_a_hosts_file_names_zones():
    file = parse_hosts(HOSTS, source="hosts.toml")
    assert {name: host.zone for name, host in file.hosts.items()} == {"n1": "a", "n2": "a", "n3": ""}
    assert SshBackend(file).traits.lending.zones == {"n1": "a", "n2": "a"}
    with pytest.raises(ConfigError, match=r"hosts.toml:4"):
        parse_hosts(HOSTS.replace('zone = "a"', 'zone = "leader"', 1), source="hosts.toml")


def test_the_loss_of_a_zone_with_a_majority_is_refused_on_machines_of_others():
    file = parse_hosts(HOSTS, source="hosts.toml")
    fault = PlannedFault(kind="kill", victims="zone:a", hold_ns=SECOND)
    schedule = Schedule(seed=1, strategy="x", steps=(Step(faults=(fault,), gap_ns=0),))
    plan = msgspec.structs.replace(
        draft(RunOptions(system="raft", backend="sim", nodes=3, zones=("a", "a", "b")), seed=1).plan, schedule=schedule
    )
    with pytest.raises(ConfigError, match="kill of zone:a stops 2 of 3"):
        refuse_run(file, plan)


def test_a_description_names_zones_and_repeats_them():
    told = described(('name = "mine"', 'name = "mine"\nzones = ["a", "b", "c"]'))
    assert told.zones(("n1", "n2", "n3", "n4")) == {"n1": "a", "n2": "b", "n3": "c", "n4": "a"}
    assert described().zones(("n1",)) == {}
    with pytest.raises(ConfigError, match="no label"):
        described(('name = "mine"', 'name = "mine"\nzones = ["other"]'))
