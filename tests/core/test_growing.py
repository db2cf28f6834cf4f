"""Columns that grow hold what they were given, in as few bytes as it needs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import growing
from dethrone.harness.core.growing import Growing

NUMBERS = st.integers(-100, 100) | st.integers(-(2**15), 2**15) | st.integers(-(2**31), 2**31) | st.just(2**40)


@pytest.fixture(scope="module", autouse=True)
def little_room():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "FIRST", 2)
        yield


@given(st.lists(st.lists(NUMBERS, max_size=9), max_size=9))
def test_a_column_that_grows_holds_the_numbers_of_all_parts_in_order(parts):
    narrow, wide = Growing(counts=True), Growing(counts=False)
    for part in parts:
        narrow.extend(np.array(part, dtype=np.int64))
        wide.extend(np.array(part, dtype=np.int64))
    numbers = [number for part in parts for number in part]
    assert narrow.column().tolist() == wide.column().tolist() == numbers
    assert wide.column().dtype == np.int64


@pytest.mark.parametrize(
    ("numbers", "kind"), [([-1, 127], "int8"), ([-1, 128], "int16"), ([2**15], "int32"), ([-(2**31) - 1], "int64")]
)
def test_numbers_that_only_count_take_no_more_bytes_than_they_need(numbers, kind):
    column = Growing(counts=True)
    column.extend(np.array(numbers, dtype=np.int64))
    assert column.column().dtype == kind


def test_flags_stay_flags_and_a_column_of_nothing_is_empty():
    column = Growing(counts=True)
    column.extend(np.array([True, False]))
    assert column.column().tolist() == [True, False]
    assert column.column().dtype == np.bool_
    assert len(Growing(counts=True).column()) == 0
