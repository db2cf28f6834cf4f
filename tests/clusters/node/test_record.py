"""The observer record of nodes with one group and with several."""

from __future__ import annotations

import json

import msgspec

from dethrone.clusters.node.record import Grouped, Persisted, make_record
from dethrone.clusters.systems.records import read_status
from dethrone.clusters.targets.joyqueue.target import TARGET as JOYQUEUE
from dethrone.clusters.targets.raft.target import TARGET as RAFT
from dethrone.harness.core.clock import Clocks
from dethrone.harness.core.machine import CoreStatus, LogEnd


def share(group, term, role="FOLLOWER"):
    return CoreStatus(role=role, term=term, leader="n1", voted_for=None, log_end=LogEnd(term, 3), commit=2, group=group)


def record(*shares):
    made = make_record(
        shares,
        stored={one.group: Persisted(term=one.term) for one in shares},
        node="n1",
        system="s",
        incarnation=1,
        held=0,
        started_at=0,
        now=Clocks(0, 0),
        counters={},
    )
    return msgspec.json.encode({"id": 0, "status": made})


def test_a_node_with_one_group_answers_as_it_always_did():
    body = record(share("", 4))
    assert "groups" not in json.loads(body)["status"]
    found = read_status(body, node="n1", tells_log=True, tells_vote=True)
    assert found is not None
    assert (found.group, found.others) == ("", ())


def test_a_node_with_several_groups_answers_for_each_of_them():
    body = record(share("t/0", 4, "LEADER"), share("t/1", 7))
    found = read_status(body, node="n1", tells_log=True, tells_vote=True)
    assert found is not None
    told = [(one.group, one.term, one.leads) for one in (found, *found.others)]
    assert told == [("t/0", 4, True), ("t/1", 7, False)]
    assert [one["persisted"]["term"] for one in json.loads(body)["status"]["groups"]] == [4, 7]


def test_an_answer_with_a_negative_term_in_any_group_is_none():
    body = record(share("t/0", 4), share("t/1", -1))
    assert read_status(body, node="n1", tells_log=True, tells_vote=True) is None


def test_only_cores_that_tell_all_their_groups_count_as_grouped():
    one = RAFT.core(node="A", members=("A",), knobs=RAFT.knobs({}), variant=None)
    several = JOYQUEUE.core(node="A", members=("A",), knobs=JOYQUEUE.knobs({"groups": "3"}), variant=None)
    assert not isinstance(one, Grouped)
    assert isinstance(several, Grouped)
    assert [status.group for status in several.statuses(Clocks(0, 0))] == ["topic/0", "topic/1", "topic/2"]
