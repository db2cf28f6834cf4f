"""Work over worker processes: every answer comes, whatever the number of workers."""

from __future__ import annotations

import os

import pytest

from harness.core.errors import HarnessError
from harness.engine.spreading import spread


def doubled(number):
    return 2 * number


def died(number):
    os._exit(number)


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_is_answered_once(jobs):
    answers = []
    spread(doubled, range(9), jobs=jobs, keep=answers.append)
    assert sorted(answers) == [2 * number for number in range(9)]
    if jobs == 1:
        assert answers == sorted(answers)


def test_a_worker_that_dies_is_told():
    with pytest.raises(HarnessError, match="worker process died"):
        spread(died, [3, 4], jobs=2, keep=lambda _: None)


def test_what_the_caller_raises_ends_the_work():
    def keep(answer):
        raise KeyboardInterrupt(str(answer))

    with pytest.raises(KeyboardInterrupt):
        spread(doubled, range(50), jobs=2, keep=keep)
