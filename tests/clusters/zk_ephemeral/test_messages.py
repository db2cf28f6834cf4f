from __future__ import annotations

import msgspec
import pytest

from dethrone.clusters.targets.client_api import Append, Put
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral.knobs import KNOBS
from dethrone.clusters.targets.zk_ephemeral.target import TARGET
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError

BODIES = [
    m.Connect(2000, 7),
    m.Connected(1, 7, 1),
    m.Ping(1, 3, 1),
    m.Pong(1, 1),
    *(
        m.Call(1, 2, op, 3, 1)
        for op in (
            m.Create("/x", {"id": "a", "epoch": None}, ephemeral=True),
            m.GetNode("/x", watch=True),
            m.Exists("/x"),
            m.SetNode("/x", {"isr": ["a"]}, 4),
            m.Delete("/x"),
            m.CloseSession(),
        )
    ),
    m.Answer(1, 2, m.OK, 1, {"id": "a"}, 3, 1),
    m.SessionExpired(1),
    m.WatchFired(1, 4, "/x", m.NODE_DELETED, 1),
    m.Fetch(3, 9, 2, 8, 77, 5),
    m.FetchReply(m.FETCH_OK, 3, 5, 8, (m.Record(10, 3, Append("k", 1)), m.Record(11, 3, Put("r", "x"))), in_isr=True),
    m.FetchReply(m.DIVERGING, 3, 5, end=4, end_epoch=2, leader="a"),
    m.LeaderNotice(4),
    m.LeaderAndIsr(2, None, 4, ("a", "b"), 6, 1),
    m.LeaderAndIsrReply(2, 4, 6, m.ACCEPTED),
    m.UpdateMetadata(2, "a", 4, ("a", "b")),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_every_message_survives_the_wire(body):
    assert msgspec.json.decode(msgspec.json.encode(body), type=TARGET.message_type) == body


def test_every_kind_of_message_is_among_those():
    assert {type(body) for body in BODIES} == set(m.ZkMessage.__args__)


def test_the_defaults_are_kafkas():
    knobs = TARGET.knobs({})
    assert knobs.mode == "race"
    assert knobs.session_timeout == 18 * SECOND
    assert knobs.replica_lag_time_max == 30 * SECOND
    assert (knobs.unclean_leader_election, knobs.min_insync_replicas, knobs.acks) == (False, 1, "1")
    assert not knobs.step_down_on_disconnect


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


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"acks": "2"}, "acks"),
        ({"mode": "rase"}, "race"),
        ({"zookeeper_session": "1"}, "zookeeper_session_timeout_ms"),
        ({"min_insync_replicas": "1.5"}, "whole"),
        ({"time_factor": "0"}, "above 0"),
        ({"rewatch": "maybe"}, "on.off"),
        ({"replica_lag_time_max_ms": "400"}, "replica_fetch_wait_max_ms"),
    ],
)
def test_what_cannot_be_is_said_by_name(settings, says):
    with pytest.raises(ConfigError, match=says):
        TARGET.knobs(settings)


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


def test_all_profiles_give_knobs():
    assert {TARGET.knobs({}, profile=name).profile for name in KNOBS.profiles} == set(KNOBS.profiles)
