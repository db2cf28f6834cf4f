"""The coverage table of a list of cuts: of a run in virtual time, and of a campaign."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.campaign.virtual_seeds import rehearse_seeds
from dethrone.harness.engine.run import runner
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.report import cut_table
from dethrone.harness.report.report_files import write_run
from dethrone.harness.report.rundir import read_run

OPTIONS = RunOptions(
    system="raft", backend="sim", nodes=3, strategy="orbits", time_limit_ns=45 * SECOND, nemesis_interval_ns=4 * SECOND
)


@pytest.fixture(scope="module")
def rows():
    return rehearse_seeds(OPTIONS, (0, 1))


def test_a_campaign_shows_what_each_graph_did(rows):
    assert [row.outcome for row in rows] == ["pass", "pass"]
    told = {line[0]: line for line in cut_table.campaign_table(rows)}
    assert list(told) == ["3:1", "3:2", "3:3", "3:4", "3:5"]
    assert all(line[1] == "1 of 1" for line in told.values())
    by_cut = {one["cut"]: one for row in rows for one in row.cuts}
    # 3:2 cuts the two followers from each other: the leader has both, so nothing changes and writes continue
    calm = next(one for one in by_cut.values() if one["leader"] not in one["links"])
    assert (cut_table.then(calm), calm["elections"], calm["terms"]) == ("kept", 0, 0)
    assert calm["writes"] > 20
    assert (calm["majority"], calm["exposed_ns"]) == (True, 0)
    assert calm["silent_ns"] < calm["held_ns"] / 10
    # without any link there is no leader any more, and almost nothing is written
    assert cut_table.then(by_cut["3:5"]) == "none"
    assert by_cut["3:5"]["writes"] < 10
    assert not by_cut["3:5"]["majority"]
    assert by_cut["3:5"]["silent_ns"] > by_cut["3:5"]["held_ns"] / 2
    # a leader that is cut off from both is replaced
    alone = next(one for one in by_cut.values() if one["links"].count("–") == 2 and one["elections"])
    assert alone["leader_after"] not in {"", alone["leader"]}
    assert alone["terms"] >= 1
    assert alone["majority"]


def test_the_row_of_a_seed_reads_back(rows):
    row = msgspec.json.decode(msgspec.json.encode(rows[0]), type=CampaignRow)
    assert cut_table.campaign_table([row]) == cut_table.campaign_table(rows[:1])


def test_a_cut_that_did_not_happen_is_listed_as_such():
    row = {"cut": "5:3", "step": 1, "outcome": "skipped", "why": "no leader is known"}
    seed = CampaignRow(seed=1, outcome="pass", exit_code=0, run_dir="", elapsed_ns=1, elections=0, faults=0, ops_ok=0)
    assert cut_table.campaign_table([msgspec.structs.replace(seed, cuts=[row])]) == [
        ["5:3", "0 of 1", "0", "0", "0", "–", "–", "–"]
    ]
    assert cut_table.campaign_table([seed]) == []


def test_the_page_of_a_run_has_the_table_and_the_recoveries(tmp_path):
    ran = runner.run(msgspec.structs.replace(OPTIONS, seed=1, out=tmp_path / "run"), Silence())
    text = write_run(read_run(ran.run_dir)).read_text("utf-8")
    assert "What each cut did" in text
    assert "<td>3:5</td>" in text
    assert "Recovery after the heal of cuts" in text, "no leader was left without any link"
