"""Operations that no workload asks."""

from __future__ import annotations

import pytest

from dethrone.clusters.own.workloads import unasked


@pytest.mark.parametrize(
    ("operations", "said"),
    [
        ({"put", "get"}, {"get, put": "register needs cas, too"}),
        ({"put", "get", "cas"}, {}),
        ({"append", "read", "add"}, {}),
        ({"add", "read", "get"}, {"get": "register needs cas, put, too"}),
        ({"transfer"}, {}),
    ],
)
def test_operations_that_no_workload_asks_are_named_with_what_is_missing(operations, said):
    found = dict(unasked(operations))
    assert found.keys() == said.keys()
    assert all(said[name] in answer.why for name, answer in found.items())
