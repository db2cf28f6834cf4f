from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.campaign import campaign
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.campaign.virtual_seeds import rows_of
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions


def options(**fields):
    plain = {"system": "nacos", "backend": "sim", "nodes": 3, "time_limit_ns": 20 * SECOND, "workload": "election"}
    return RunOptions(**(plain | fields))


def told(row: CampaignRow):
    """The row without how long it took."""
    return msgspec.structs.replace(row, elapsed_ns=0, run_dir="", findings=tuple(row.findings))


def go(out, seeds, **more):
    shown, progress = [], []
    more = {"on_progress": progress.append} | more
    rows = campaign.run_campaign(options(), seeds, out, Silence(), shown.append, **more)
    return rows, shown, progress


@pytest.mark.slow
def test_rows_come_in_the_order_of_the_seeds_whatever_the_number_of_workers(tmp_path):
    seeds = (7, 3, 5, 1, 2, 4)
    alone = [told(row) for row in rows_of(options(), seeds, jobs=1)]
    assert [row.seed for row in alone] == list(seeds)
    assert [told(row) for row in rows_of(options(), seeds, jobs=2)] == alone


@pytest.mark.slow
def test_the_first_failing_seeds_are_kept_whole_and_the_rest_is_a_row(tmp_path):
    rows, shown, progress = go(tmp_path, range(8), keep_failing=2)
    failing = [row for row in rows if row.outcome == "fail"]
    assert len(failing) > 2
    kept = [row for row in rows if row.run_dir]
    assert kept == failing[:2]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["campaign.json", "rows.jsonl", *(f"seed-{row.seed}" for row in kept)]
    )
    assert all((tmp_path / f"seed-{row.seed}" / "verdict.json").exists() for row in kept)
    assert [row.seed for row in shown] == [row.seed for row in failing]
    assert (progress[-1].done, progress[-1].total, progress[-1].failing) == (8, 8, len(failing))


def test_a_kept_run_has_the_verdict_of_its_rehearsal(tmp_path):
    from dethrone.harness.engine.run.judge import check_path

    rows, _, _ = go(tmp_path, range(4), keep_failing=1)
    row = next(row for row in rows if row.run_dir)
    judgement, _, _ = check_path(tmp_path / f"seed-{row.seed}")
    assert (judgement.outcome, judgement.reason) == (row.outcome, row.reason)


def test_a_campaign_goes_on_where_it_stopped(tmp_path, monkeypatch):
    def stopping(*given, **more):
        yield from list(rows_of(*given, **more))[:3]
        raise KeyboardInterrupt

    monkeypatch.setattr(campaign, "rows_of", stopping)
    first, _, _ = go(tmp_path, range(6), keep_failing=0)
    assert [row.seed for row in first] == [0, 1, 2]
    monkeypatch.undo()
    rows, _, progress = go(tmp_path, range(6), keep_failing=0)
    assert [row.seed for row in rows] == list(range(6))
    assert [told(row) for row in rows[:3]] == [told(row) for row in first]
    assert progress[-1].total == 6
    assert [told(row) for row in campaign.read_rows(tmp_path)] == [told(row) for row in rows]


def test_options_that_make_no_run_are_said_once(tmp_path):
    with pytest.raises(ConfigError, match="no-such"):
        list(rows_of(options(workload="no-such"), range(100), jobs=2))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_seeds(tmp_path):
    def peak(count):
        def source(_options, seeds, *, count, on_the_way):
            for seed in seeds:
                yield CampaignRow(
                    seed=seed, outcome="pass", exit_code=0, run_dir="", elapsed_ns=10**7 + seed, elections=1, faults=2,
                    ops_ok=3, reason=f"held in {seed}",
                )  # fmt: skip

        tracemalloc.start()
        try:
            tally = campaign.run_virtual(
                options(), range(count), tmp_path / str(count), Silence(), print, source=source
            )
            again = campaign.run_virtual(
                options(), range(count), tmp_path / str(count), Silence(), print, source=source
            )
            assert tally.counts == again.counts == {"pass": count}
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(24_000) < 1.2 * peak(12_000)
