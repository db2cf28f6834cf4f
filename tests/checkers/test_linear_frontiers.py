"""Histories longer than an oracle can judge: two engines that share no code must agree."""

from __future__ import annotations

import numpy as np
import pytest

from dethrone.checkers.linearizability import queues, zones
from dethrone.checkers.linearizability.search import Bounds, Fits, GaveUp, Stuck, search
from dethrone.checkers.models import model
from dethrone.checkers.models.ops import Op, encode
from tests.benchmarks.linear_histories import rows
from tests.checkers.linear_differential import frontiers


def history(kind, *, n=200, clients=6, unknown=0.0, violation=False, seed=0):
    return encode(
        [Op(**row) for row in rows(kind, n, clients=clients, unknown=unknown, violation=violation, seed=seed)]
    )


@pytest.mark.parametrize("violation", [False, True])
@pytest.mark.parametrize("unknown", [0.0, 0.02])
@pytest.mark.parametrize("narrow", [False, True])
def test_zones_and_search_agree_on_hundreds_of_operations(violation, unknown, narrow):
    for seed in range(2):
        ops = history("register", unknown=unknown, violation=violation, seed=seed)
        quick = zones.judge(ops, initial=0, strict=False)
        assert len(quick.undecided) == 0
        assert bool(len(quick.bad)) is violation
        with frontiers(narrow=narrow):
            slow = search(ops, model("register"), Bounds(steps=400_000))
        assert isinstance(slow, Stuck if violation else Fits) or (narrow and isinstance(slow, GaveUp))


@pytest.mark.parametrize("violation", [False, True])
def test_queues_and_search_agree_on_dozens_of_operations(violation):
    for seed in range(4):
        ops = history("queue", n=60, clients=2, violation=violation, seed=seed)
        quick = queues.judge(ops)
        slow = search(ops, model("fifo-queue"), Bounds(steps=100_000))
        assert (quick is True) is isinstance(slow, Fits)
        assert quick is True or isinstance(slow, Stuck)


@pytest.mark.parametrize("violation", [False, True])
def test_long_queues_are_judged_as_they_were_made(violation):
    for seed in range(3):
        found = queues.judge(history("queue", n=5000, clients=10, violation=violation, seed=seed))
        assert (found is True) is not violation


@pytest.mark.parametrize("violation", [False, True])
@pytest.mark.parametrize("unknown", [0.0, 0.02])
def test_a_search_over_few_values_is_decided_in_few_steps(violation, unknown):
    ops = history("cas", n=1000, clients=8, unknown=unknown, violation=violation)
    found = search(ops, model("cas-register"), Bounds(steps=60_000))
    assert isinstance(found, Stuck if violation else Fits)
    if violation:
        assert found.returns_done > 900 * len(np.flatnonzero(ops.status == 0)) // 1000
