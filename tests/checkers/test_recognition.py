"""Whose leadership counts as recognised."""

from __future__ import annotations

import pytest

from dethrone.checkers.recognition import recognition
from dethrone.harness.core.clock import MS
from tests.checkers.histories import Tale, plan, promise


@pytest.mark.parametrize(("nodes", "recognised"), [(1, True), (3, False)])
def test_only_a_group_of_one_leads_in_term_0(nodes, recognised):
    tale = Tale(nodes).up().polls(1000, 0, "n1")
    seen = recognition(tale.end(), promise(), plan(nodes), "")
    assert bool(seen.points(0, tale.now * MS)) == recognised
