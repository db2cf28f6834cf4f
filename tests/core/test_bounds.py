from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.plan import Plan
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft


def plan() -> dict:
    return msgspec.to_builtins(draft(RunOptions(system="raft", backend="sim", nodes=3), seed=1).plan)


def test_a_drawn_plan_can_be_meant():
    assert msgspec.convert(plan(), Plan).nodes == ("n1", "n2", "n3")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("time_limit_ns",), -1),
        (("observe_interval_ns",), -80_000_000),
        (("final_read_ns",), 1 << 62),
        (("workload", "op_timeout_ns"), -5),
        (("workload", "processes"), -1),
        (("workload", "rate_per_s"), -1),
        (("promise", "leader_bound_ns"), -1),
        (("promise", "step_down_ns"), -1),
        (("promise", "rounds_max"), -1),
        (("schedule", "steps", 0, "gap_ns"), -1),
        (("schedule", "steps", 0, "faults", 0, "hold_ns"), -1),
        (("schedule", "steps", 0, "faults", 0, "delay_ns"), -1),
        (("schedule", "health_bound_ns"), -1),
        (("voters",), ["n1", "n9"]),
        (("nodes",), ["n1", "n1"]),
    ],
    ids=str,
)
def test_a_stored_plan_with_what_cannot_be_meant_is_refused(path, value):
    stored = plan()
    place = stored
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    what = "schedule" if path[0] == "schedule" else "plan"
    with pytest.raises(msgspec.ValidationError, match=f"invalid {what}: "):
        msgspec.convert(stored, Plan)


@pytest.mark.parametrize(
    "options", [{"time_limit_ns": -1}, {"nemesis_interval_ns": -1}, {"rate_per_s": -1}, {"processes": -1}]
)
def test_options_that_do_not_come_from_the_command_line_are_checked_as_well(options):

    with pytest.raises(ConfigError, match="invalid options"):
        draft(RunOptions(system="raft", backend="sim", nodes=3, **options), seed=1)
