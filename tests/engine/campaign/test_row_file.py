from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.campaign.row_file import ROWS, SeedSet, Tally, stream_rows, writing


def row(seed: int, outcome="pass", **more) -> CampaignRow:
    plain = {"exit_code": 0, "run_dir": "", "elapsed_ns": 1, "elections": 1, "faults": 0, "ops_ok": 0}
    return CampaignRow(seed=seed, outcome=outcome, **(plain | more))


@settings(deadline=None)
@given(st.lists(st.integers(0, 10_000) | st.integers(0, 10**18)), st.lists(st.integers(0, 10_000)))
def test_a_set_of_seeds_is_a_set(added, asked):
    found, plain = SeedSet(), set()
    for seed in added:
        assert found.add(seed) == (seed not in plain)
        plain.add(seed)
    assert len(found) == len(plain)
    assert all((seed in found) == (seed in plain) for seed in (*added, *asked))


@settings(deadline=None)
@given(st.lists(st.sampled_from(["pass", "fail", "unknown"])), st.integers(0, 12))
def test_a_tally_counts_all_and_lists_all_or_the_first_that_did_not_pass(outcomes, most):
    rows = [row(seed, outcome) for seed, outcome in enumerate(outcomes)]
    tally = Tally(listed_max=most)
    for one in rows:
        tally.count(one)
    assert tally.total == len(rows)
    assert all(tally.counts[word] == outcomes.count(word) for word in ("pass", "fail", "unknown"))
    assert tally.whole == (len(rows) <= most)
    telling = [one for one in rows if one.outcome != "pass"]
    assert tally.rows == (rows if len(rows) <= most else telling[:most])


def test_rows_stand_in_the_file_once_they_are_written(tmp_path):
    with writing(tmp_path) as file:
        for seed in range(3):
            file.write(row(seed))
            assert [one.seed for one in stream_rows(tmp_path / ROWS)] == list(range(seed + 1))


@pytest.mark.parametrize("torn", [b"", b'{"seed": 9', b"x" * 200_000])
def test_a_torn_last_line_is_no_row_and_the_next_stands_on_its_own(tmp_path, torn):
    whole = msgspec.json.encode(row(1)) + b"\n"
    (tmp_path / ROWS).write_bytes(whole + torn)
    assert [one.seed for one in stream_rows(tmp_path / ROWS)] == [1]
    with writing(tmp_path) as file:
        file.write(row(2))
        assert [one.seed for one in file.rows()] == [1, 2]
    assert (tmp_path / ROWS).read_bytes() == whole + msgspec.json.encode(row(2)) + b"\n"


def test_two_campaigns_do_not_write_into_one_directory(tmp_path):
    with (
        writing(tmp_path),
        pytest.raises(ConfigError, match="another campaign is using this directory"),
        writing(tmp_path),
    ):
        pass
    with writing(tmp_path):
        pass


def test_rows_of_somebody_else_are_refused(tmp_path):
    (tmp_path / ROWS).write_text('{"seed": "x"}\n')
    with pytest.raises(ConfigError, match="rows are damaged"):
        list(stream_rows(tmp_path / ROWS))
