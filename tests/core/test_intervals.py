"""What several spans cover."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.intervals import union

spans = st.tuples(st.integers(0, 400), st.integers(0, 60)).map(lambda one: (one[0], one[0] + one[1]))


@given(st.lists(spans, max_size=10))
def test_a_union_has_the_same_points_and_no_two_parts_touch(intervals):
    joined = union(intervals)
    assert all(one[1] < two[0] for one, two in pairwise(joined))
    assert {t for lo, hi in joined for t in range(lo, hi + 1)} == {t for lo, hi in intervals for t in range(lo, hi + 1)}
