"""Runs with several partition groups: every group is polled, and judged by itself."""

from __future__ import annotations

import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.events import Observed
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.rehearsal import rehearse

pytestmark = pytest.mark.slow


def test_a_poll_tells_of_every_group_of_its_node():
    options = RunOptions(
        system="joyqueue",
        backend="sim",
        nodes=3,
        settings={"time_factor": "0.05", "groups": "2"},
        strategy="triggered",
        time_limit_ns=30 * SECOND,
        nemesis_interval_ns=3 * SECOND,
    )
    done = rehearse(options, load_checkers(), seed=1)
    rows = done.history.of(Observed)
    assert {row.group for row in rows} == {"topic/0", "topic/1"}
    assert {row.group for row in rows if row.leads} == {"topic/0", "topic/1"}
    assert len({(row.group, row.span, row.node) for row in rows}) == len(rows)
    judged = {verdict.checker: verdict.outcome for verdict in done.judgement.verdicts}
    assert judged["leader-when-owed"] == judged["convergence-after-heal"] == "pass"
