from __future__ import annotations

import pytest

from dethrone.clusters.local import users
from dethrone.harness.core.errors import ClusterError


def test_a_run_has_the_same_two_users_whenever_it_is_asked():
    one = users.of_run("raft-1", taken=lambda _: False)
    assert one == users.of_run("raft-1", taken=lambda _: False)
    assert one.node == one.root + 1
    assert users.FIRST <= one.root < one.node < users.FIRST + 2 * users.PAIRS
    assert one != users.of_run("raft-2", taken=lambda _: False)


def test_users_that_the_machine_has_are_left_alone():
    first = users.of_run("raft-1", taken=lambda _: False)
    other = users.of_run("raft-1", taken=lambda number: number in {first.root, first.node})
    assert not {other.root, other.node} & {first.root, first.node}


def test_a_machine_that_has_them_all_is_an_error():
    with pytest.raises(ClusterError, match="no user"):
        users.of_run("raft-1", taken=lambda _: True)
