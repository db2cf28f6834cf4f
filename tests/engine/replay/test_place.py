"""The options that a stored run has where it is run again."""

from __future__ import annotations

import pytest

from dethrone.harness.engine.replay.place import Place, options_at
from dethrone.harness.engine.replay.stored_run import Stored
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft


def stored(**changes):
    """A run on Docker; nothing else of it is looked at."""
    options = RunOptions(system="raft", backend="docker", settings={"docker.x": "1", "pre_vote": "on"}, **changes)
    return Stored(options=options, plan=None, planned=None, realised=None)


@pytest.mark.parametrize(
    ("data_in", "backend", "there"),
    [
        ("memory", "docker", "memory"),
        ("memory", "local", "memory"),
        ("memory", "sim", None),
        ("disk", "sim", "disk"),
        (None, "sim", None),
    ],
)
def test_data_stay_in_memory_where_hosts_have_a_place_for_it(data_in, backend, there):
    assert options_at(stored(data_in=data_in), backend, Place()).data_in == there


def test_settings_of_another_backend_stay_behind_and_the_plan_can_be_made():
    options = options_at(stored(data_in="memory"), "sim", Place(backend="sim"))
    assert options.settings == {"pre_vote": "on"}
    assert draft(options, seed=1).plan.data_in == "disk"
