"""The parts by which a simulated run's time is shown are there, and each function belongs to the one it is part of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.benchmarks.sim_parts import PARTS, ROOT, part_of, sampled


@pytest.mark.parametrize("begin", [begin for _, begins in PARTS for begin in begins])
def test_each_part_names_files_that_are_there(begin: str) -> None:
    place = Path(ROOT) / begin.partition(":")[0]
    assert list(place.parent.glob(f"{place.name}*"))


@pytest.mark.parametrize(
    ("function", "part"),
    [
        ("clusters/sim/clients.py:Observer._arrive", "observer"),
        ("clusters/sim/clients.py:Clients._arrive", "client"),
        ("clusters/sim/delivery.py:Delivering.arrive", "node"),
        ("clusters/targets/raft/witness.py:RaftWitness.sent", "witness"),
        ("clusters/targets/raft/acks.py:on_append_reply", "core"),
        ("harness/engine/run/director.py:Director.step", "director"),
    ],
)
def test_the_first_part_that_fits_counts(function: str, part: str) -> None:
    assert part_of(function) == part


def test_time_outside_the_package_is_counted_as_other() -> None:
    found: Counter[str] = Counter()
    with sampled(found):
        while not found:
            sum(range(1000))
    assert set(found) == {"other"}
