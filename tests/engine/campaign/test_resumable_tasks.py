"""Rows that outlive an interruption."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.campaign.resumable_tasks import keep_rows, read_kept


class Row(msgspec.Struct, frozen=True):
    key: int
    square: int = 0


def work(number):
    return Row(number, number * number)


def test_the_row_after_a_torn_one_can_be_read_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"key":1,"square":1}\n{"key":2,"sq')
    seen = []
    wanted = {number: number for number in (1, 2, 3)}
    rows, interrupted = keep_rows(
        work, wanted, read_kept(path, Row, what="these"), path, jobs=1, on_row=lambda *told: seen.append(told)
    )
    assert (rows, interrupted) == ([Row(1, 1), Row(2, 4), Row(3, 9)], False)
    assert [done for _, done, _ in seen] == [2, 3]
    assert read_kept(path, Row, what="these") == rows


def test_an_interruption_keeps_the_rows_that_came(tmp_path):
    def stopped(number):
        if number == 2:
            raise KeyboardInterrupt
        return work(number)

    path = tmp_path / "rows.jsonl"
    rows, interrupted = keep_rows(stopped, {1: 1, 2: 2}, [], path, jobs=1, on_row=lambda *_: None)
    assert (rows, interrupted) == ([Row(1, 1)], True)
    assert read_kept(path, Row, what="these") == rows


def test_a_file_of_something_else_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"other":1}\n')
    with pytest.raises(ConfigError, match="these rows are damaged"):
        read_kept(path, Row, what="these")
