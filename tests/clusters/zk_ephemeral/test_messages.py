from __future__ import annotations

import pytest

from dethrone.clusters.targets.zk_ephemeral.target import TARGET
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError


def test_fencing_and_truncation_follow_the_mode_unless_they_are_given():
    assert (TARGET.knobs({}).fencing, TARGET.knobs({}).truncate) == (False, "hw")
    controller = TARGET.knobs({}, profile="controller")
    assert (controller.fencing, controller.truncate) == (True, "epoch")
    assert not TARGET.knobs({"fencing": "off"}, profile="controller").fencing


def test_kafkas_own_names_are_understood_and_all_times_are_scaled():
    knobs = TARGET.knobs({"zookeeper.session.timeout.ms": "6000", "time_factor": "1/10"})
    assert knobs.session_timeout == 600 * MS
    assert knobs.replica_lag_time_max == 3 * SECOND
    assert knobs.fetch_wait_max == 50 * MS


def test_a_fetch_may_not_wait_longer_than_a_follower_may_lag():
    with pytest.raises(ConfigError, match="replica_fetch_wait_max_ms"):
        TARGET.knobs({"replica_lag_time_max_ms": "400"})


def test_the_service_is_the_last_member_or_the_one_that_is_named():
    knobs = TARGET.knobs({})
    assert type(TARGET.core(node="c", members=("a", "b", "c"), knobs=knobs, variant=None)).__name__ == "ServiceCore"
    named = TARGET.knobs({"coordinator": "a"})
    assert type(TARGET.core(node="a", members=("a", "b", "c"), knobs=named, variant=None)).__name__ == "ServiceCore"
    assert type(TARGET.core(node="c", members=("a", "b", "c"), knobs=named, variant=None)).__name__ == "BrokerCore"
    with pytest.raises(ConfigError, match="coordinator"):
        TARGET.core(node="a", members=("a", "b"), knobs=TARGET.knobs({"coordinator": "z"}), variant=None)
    with pytest.raises(ConfigError, match="more"):
        TARGET.core(node="a", members=("a",), knobs=knobs, variant=None)
