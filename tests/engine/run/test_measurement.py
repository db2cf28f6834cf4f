"""The time scale of a run: measured on its hosts before the first node starts, or not measured, and why."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.clusters.own.system import OwnSystem
from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import IN_A_CONTAINER, BackendTraits, Scalable
from dethrone.harness.core.timescale import longer, longer_promise
from dethrone.harness.engine.run.measurement import WINDOWS_NS, calibrate
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import at_scale, draft

NODES = ("n1", "n2", "n3", "n4", "n5")


class Gauged:
    """A host that says what it is told to say, window by window: one such stall a second."""

    def __init__(self, name: str, *windows_ms: int, sets_timers: bool = True) -> None:
        self.name, self.address, self.sets_timers = name, f"192.0.2.{name[1:]}", sets_timers
        self._slowest_ms, self.asked, self.places = list(windows_ms), [], IN_A_CONTAINER

    def measure(self, directory, peers, *, window_ns, writes_per_s):
        self.asked.append((directory, peers, window_ns, writes_per_s))
        slowest = self._slowest_ms.pop(0) * MS
        stalls = [(at, slowest) for at in range(0, window_ns, 1000 * MS) if slowest > 20 * MS]
        said = {"wakeups_ns": [MS] * 300, "syncs_ns": [MS] * 199 + [slowest], "trips_ns": [MS] * 60, "lost": 0}
        return {**said, "stalls_ns": stalls, "unreadable": []}


def options(**more) -> RunOptions:
    return RunOptions(**{"system": "raft", "backend": "sim", "nodes": 5, **more})


def calibrated(drafted, *windows_ms: int, **more):
    hosts = {name: Gauged(name, *windows_ms, **more) for name in NODES}
    said: list[str] = []
    return calibrate(drafted, hosts, said.append), hosts, said


def test_a_quiet_machine_is_measured_in_one_window_and_changes_nothing():
    drafted = draft(options(), seed=1)
    found, hosts, _ = calibrated(drafted, 20)
    assert (found.too_slow, found.draft.plan.time_scale) == ("", 1)
    assert found.draft.plan.schedule == drafted.plan.schedule
    assert found.draft.plan.calibration["syncs"] == 5 * 200
    (asked,) = hosts["n2"].asked
    assert sorted(asked[1]) == ["n1", "n3", "n4", "n5"]
    assert asked[2] == WINDOWS_NS[0] <= 2000 * MS


def test_a_slow_machine_is_measured_again_and_the_whole_run_is_slower():
    drafted = draft(options(), seed=1)
    found, hosts, said = calibrated(drafted, 70, 70)
    plan, usual = found.draft.plan, drafted.plan
    assert len(hosts["n1"].asked) == 2
    assert plan.time_scale == 2
    assert plan.knobs["time_factor"] == "2"
    assert plan.promise == longer_promise(usual.promise, 2)
    assert plan.time_limit_ns == 2 * usual.time_limit_ns
    assert plan.usual_limit_ns == usual.time_limit_ns
    assert [step.gap_ns for step in plan.schedule.steps] == [2 * step.gap_ns for step in usual.schedule.steps]
    assert plan.workload.op_timeout_ns == longer(usual.workload.op_timeout_ns, 2)
    assert any("time scale 2" in line for line in said)


def test_an_outlier_of_the_first_window_alone_does_not_slow_the_run_down():
    drafted = draft(options(), seed=1)
    hosts = {name: Gauged(name, 60 if name in {"n1", "n2"} else 10, 10) for name in NODES}
    assert calibrate(drafted, hosts, lambda _: None).draft.plan.time_scale == 1
    assert len(hosts["n1"].asked) == 2


class InMemory:
    """A backend whose hosts have a place in memory."""

    traits = BackendTraits(memory_dir="/memory/data")


def restless(*windows_ms: int, limit_s: int = 60, **more):
    drafted = msgspec.structs.replace(draft(options(time_limit_ns=limit_s * SECOND), seed=1), backend=InMemory())
    hosts = {name: Gauged(name, *windows_ms) for name in NODES}
    said: list[str] = []
    plan = calibrate(drafted, hosts, said.append, **more).draft.plan
    return plan, [directory for directory, *_ in hosts["n1"].asked], said


def test_nodes_keep_their_data_in_memory_where_the_disk_is_restless_and_memory_is_not():
    plan, directories, said = restless(70, 70, 5, 5)
    assert (plan.data_in, plan.time_scale) == ("memory", 1)
    assert directories == [*[IN_A_CONTAINER.data_dir] * 2, *["/memory/data"] * 2]
    assert plan.calibration["on_disk"]["sync_max_ns"] == 70 * MS
    assert plan.calibration["sync_max_ns"] == 5 * MS
    assert any("in memory" in line for line in said)


def test_a_calm_first_window_in_memory_decides_nothing_where_the_disk_showed_a_restless_machine():
    plan, directories, _ = restless(70, 70, 5, 60)
    assert plan.time_scale > 1
    assert len(directories) == 4


def test_data_stays_on_a_disk_that_is_quiet_or_no_worse_than_memory():
    assert restless(5)[0].data_in == "disk"
    plan, directories, _ = restless(70, 70, 70, 70)
    assert (plan.data_in, plan.time_scale, len(directories)) == ("disk", 2, 4)


def test_data_stays_where_it_was_asked_for_and_on_disk_where_a_long_run_would_fill_memory():
    assert restless(70, 70, data_fixed=True)[0].data_in == "disk"
    assert restless(70, 70, limit_s=601)[0].data_in == "disk"


def test_data_in_memory_is_refused_where_hosts_have_no_place_for_it():
    with pytest.raises(ConfigError, match="no place in memory"):
        draft(options(data_in="memory"), seed=1)


def test_a_machine_that_needs_more_than_the_cap_is_too_slow():
    found, _, _ = calibrated(draft(options(), seed=1), 500, 500)
    assert "machine too slow" in found.too_slow
    assert found.draft.plan.time_scale == 1
    assert found.draft.plan.calibration["needed"] > 8


def test_nodes_with_timers_of_their_own_run_at_1_and_the_plan_says_why():
    found, hosts, _ = calibrated(draft(options(), seed=1), 500, sets_timers=False)
    assert not hosts["n1"].asked
    assert found.draft.plan.time_scale == 1
    assert "their own timers" in found.draft.plan.calibration["why"]


def test_the_recorded_scale_draws_the_same_run_as_the_measured_one():
    measured, _, _ = calibrated(draft(options(), seed=7), 70, 70)
    recorded = draft(options(time_scale=2.0), seed=7)
    assert recorded.plan.schedule == measured.draft.plan.schedule
    assert recorded.plan.promise == measured.draft.plan.promise
    assert recorded.plan.knobs == measured.draft.plan.knobs


def test_a_simulated_run_is_at_1_unless_its_options_say_otherwise():
    assert draft(options(), seed=1).plan.time_scale == 1
    assert draft(options(time_scale=1.0), seed=1).plan == draft(options(), seed=1).plan


@pytest.mark.parametrize("scale", [0.5, 9.0])
def test_a_scale_out_of_bounds_is_refused(scale):
    with pytest.raises(ConfigError, match="time scale"):
        at_scale(draft(options(), seed=1), scale)


def _scalable() -> list[str]:
    systems = registry.load_all(registry.SYSTEMS)
    return sorted(name for name, system in systems.items() if isinstance(system, Scalable))


def test_every_system_with_an_adapter_has_its_timers_as_knobs():
    systems = registry.load_all(registry.SYSTEMS)
    assert _scalable() == sorted(name for name, system in systems.items() if not isinstance(system, OwnSystem))


@pytest.mark.parametrize("name", _scalable())
@pytest.mark.parametrize("scale", [1.5, 3.0, 8.0])
def test_knobs_at_a_scale_make_a_system_whose_own_timers_are_as_much_longer(name, scale):
    system = registry.load(registry.SYSTEMS, name)
    profile = next(iter(system.profiles()))
    usual = system.knobs(system.defaults().settings, profile=profile, variant=None)
    slow = system.at_scale(usual, scale)
    changed = {knob: word for knob, word in slow.items() if word != usual[knob]}
    settings = {**system.defaults().settings, **changed}
    assert system.knobs(settings, profile=profile, variant=None) == slow, "no user could ask for the same"
    before = system.promise(usual, profile=profile, voters=5)
    after, bounds = system.promise(slow, profile=profile, voters=5), longer_promise(before, scale)
    assert abs(after.election_timeout_ns - bounds.election_timeout_ns) <= MS
    assert abs(after.heartbeat_ns - bounds.heartbeat_ns) <= MS
    assert after.leader_bound_ns <= bounds.leader_bound_ns + MS, "the run grants less time than the system itself asks"
    assert (after.converge_ns or 0) <= (bounds.converge_ns or 0) + MS
    assert (after.step_down_ns or 0) <= (bounds.step_down_ns or 0) + MS
