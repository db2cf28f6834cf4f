"""Columns say what the events say, row by row, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.clock import Span
from dethrone.harness.core.columns import Dictionary, changes, observed_columns
from dethrone.harness.core.events import Observed
from dethrone.harness.core.history import History
from dethrone.harness.core.views import columns


def poll(seq, node="n1", term=1, span=(0, 1), **fields):
    return Observed(
        seq=seq,
        t=0,
        span=Span(*span),
        node=node,
        incarnation=fields.pop("incarnation", 1),
        role="r",
        **{
            "leads": False,
            "term": term,
            **fields,
        },
    )


def test_unknown_values_are_minus_one():
    table = columns(History([poll(0), poll(1, leader="n2", voted_for="n3", log_end=(4, 5), commit=6)]))
    obs, word = table.observed, table.words.word
    assert [word(code) for code in obs.leader.tolist()] == [None, "n2"]
    assert [word(code) for code in obs.voted_for.tolist()] == [None, "n3"]
    assert obs.log_term.tolist() == [-1, 4]
    assert obs.log_index.tolist() == [-1, 5]
    assert obs.commit.tolist() == [-1, 6]


def test_columns_are_built_once_a_history():
    history = History([poll(0)])
    assert columns(history) is columns(history)


def test_numbers_beyond_64_bits_are_cut_not_raised():
    assert columns(History([poll(0, term=2**80)])).observed.term.tolist() == [2**63 - 1]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5) | st.integers(-(2**31), 2**31)), max_size=30))
def test_one_identity_for_each_node_and_incarnation(pairs):
    rows = [poll(seq, node=node, incarnation=incarnation) for seq, (node, incarnation) in enumerate(pairs)]
    found = observed_columns(rows, Dictionary()).identities.tolist()
    assert len(found) == len(pairs)
    cut = [(node, max(-(2**31) + 1, min(2**31 - 1, number))) for node, number in pairs]
    for a, mine in zip(found, cut, strict=True):
        for b, other in zip(found, cut, strict=True):
            assert (a == b) == (mine == other)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_the_order_is_by_process_then_by_the_time_of_asking(rows):
    obs = observed_columns(
        [poll(seq, node=node, span=(lo, lo + more)) for seq, (node, lo, more) in enumerate(rows)], Dictionary()
    )
    order = obs.order
    who, lo = obs.identities[order], obs.lo[order]
    assert sorted(order.tolist()) == list(range(len(rows)))
    for at in range(1, len(rows)):
        assert who[at] > who[at - 1] or (who[at] == who[at - 1] and lo[at] >= lo[at - 1])


@pytest.mark.parametrize(("values", "expected"), [([], []), ([1], [0]), ([1, 1, 2, 2, 1], [0, 2, 4])])
def test_changes(values, expected):
    assert changes(np.array(values, dtype=np.int64)).tolist() == expected
