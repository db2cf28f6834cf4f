"""Cuts of zones, of single links by graph, and of new connections only, in one run on real hosts."""

from __future__ import annotations

import pytest

from dethrone.harness.core import store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.events import Converged
from dethrone.harness.core.history_files import read_history
from dethrone.harness.core.schedule import RealisedSchedule
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import run

pytestmark = pytest.mark.docker

SCHEDULE = """
[[step]]
gap = "1s"
[[step.fault]]
kind = "partition"
victims = "zone:leader"
params = { shape = "halves" }
hold = "2s"

[[step]]
gap = "1s"
[[step.fault]]
kind = "partition"
victims = "leader"
params = { graph = "3:1" }
hold = "2s"

[[step]]
gap = "1s"
[[step.fault]]
kind = "partition"
victims = "leader"
params = { shape = "isolate", way = "new-only" }
hold = "2s"
"""


@pytest.mark.nightly("a run of half a minute; namespaces prove the cuts, simulated runs the schedules")
def test_zones_graphs_and_new_connections_are_cut_and_healed_with_evidence(tmp_path, state):
    (tmp_path / "cuts.toml").write_text(SCHEDULE)
    asked = RunOptions(
        system="raft",
        nodes=3,
        zones=("a", "b", "c"),
        seed=1,
        schedule=tmp_path / "cuts.toml",
        time_limit_ns=20 * SECOND,
        out=tmp_path / "run",
    )
    result = run(asked, Silence())
    assert result.trouble == ()
    assert not [verdict for verdict in result.judgement.verdicts if verdict.outcome == "fail"]
    zone, graph, new_only = store.read_json(result.run_dir / store.REALISED, RealisedSchedule).faults
    assert [(one.outcome, one.healed, one.why) for one in (zone, graph, new_only)] == [("installed", True, "")] * 3
    assert zone.zones == (dict(zip(("n1", "n2", "n3"), "abc", strict=True))[zone.victims[0]],)
    assert len(graph.params["cuts"]) == 2
    refused = [one for one in read_history(result.run_dir / store.HISTORY).of(Converged) if one.after.refuses]
    assert {one.host for one in refused} == {"n1", "n2", "n3"}
    assert all(one.evidence["connections"]["refused"] for one in refused)
    recovered = [row["fault"] for row in result.judgement.recoveries]
    assert recovered == [zone.fault, graph.fault, new_only.fault]
