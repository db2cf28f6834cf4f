"""What every checker concludes: whether noise alone is why a verdict is unknown."""

from __future__ import annotations

import pytest

from dethrone.checkers.base import Base
from tests.checkers.histories import Tale


@pytest.mark.parametrize(
    ("doubts", "noise", "by"),
    [((), (), "evidence"), (("a",), (), "evidence"), ((), ("b",), "noise"), (("a",), ("b",), "evidence")],
)
def test_an_unknown_verdict_says_whether_noise_alone_is_why(doubts, noise, by):
    verdict = Base().conclude(
        Tale(3).end(), findings=(), judged=0, nothing="nothing", evidence={}, doubts=doubts, noise=noise
    )
    assert (verdict.outcome, verdict.evidence["unknown_by"]) == ("unknown", by)


def test_a_torn_history_is_not_unknown_by_noise():
    verdict = Base().conclude(Tale(3).torn(), findings=(), judged=1, nothing="", evidence={}, noise=("b",))
    assert verdict.evidence["unknown_by"] == "evidence"
