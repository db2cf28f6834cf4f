from __future__ import annotations

import json

import pytest

from dethrone.clusters.systems.zookeeper import SYSTEM
from dethrone.harness.core.interfaces import Telling, Yes
from dethrone.harness.core.promise import SAFETY
from tests.clusters.systems.specs import specs

NODES = specs(SYSTEM)
NODE = NODES["n2"]


def told(**changes):
    """What n2 tells as a follower in step of n3, in epoch 4."""
    status = {
        "incarnation": 2,
        "atomic": True,
        "zxid": (4 << 32) + 9,
        "id": 2,
        "state": "FOLLOWING",
        "zab": "BROADCAST",
        "leader": 3,
        "accepted": 4,
        "current": 4,
        "serves": True,
    }
    return json.dumps({**status, **changes}).encode()


def test_it_also_tells_what_its_log_says():
    assert isinstance(SYSTEM, Telling)


def test_a_follower_in_step_names_its_leader_in_its_epoch():
    reading = SYSTEM.reading(NODE, told())
    assert (reading.role, reading.leads, reading.term, reading.leader) == ("follower", False, 4, "n3")
    assert (reading.commit, reading.incarnation, reading.atomic) == ((4 << 32) + 9, 2, True)


def test_a_leader_leads_only_once_a_quorum_has_acknowledged_it_and_it_serves():
    leader = {"state": "LEADING", "leader": 2}
    assert SYSTEM.reading(NODE, told(**leader)).leads
    for unready in ({"zab": "DISCOVERY"}, {"zab": "SYNCHRONIZATION"}, {"serves": False}):
        reading = SYSTEM.reading(NODE, told(**leader, **unready))
        assert (reading.leads, reading.leader, reading.role) == (False, None, "prospective")


def test_a_follower_that_is_not_in_step_names_nobody_and_is_in_the_epoch_that_it_accepted():
    reading = SYSTEM.reading(NODE, told(zab="SYNCHRONIZATION", serves=False, accepted=5, current=4, zxid=-1))
    assert (reading.role, reading.leader, reading.term, reading.commit) == ("synchronizing", None, 5, None)


def test_the_first_zxid_of_an_epoch_is_no_commit():
    assert SYSTEM.reading(NODE, told(zxid=4 << 32)).commit is None


def test_a_server_that_has_no_epoch_yet_is_in_none():
    reading = SYSTEM.reading(NODE, told(state="LOOKING", zab="ELECTION", accepted=-1, current=-1, serves=False))
    assert (reading.role, reading.term, reading.leader) == ("looking", 0, None)


@pytest.mark.parametrize("body", [b"", b"{}", b"imok", told(id=3), told(id=9), told(state="DANCING"), told(zxid="1")])
def test_what_is_no_answer_of_that_node_says_nothing(body):
    assert SYSTEM.reading(NODE, body) is None


def test_a_leadership_is_told_by_the_log_with_its_epoch_and_who_supports_it():
    line = (
        b"00:12:01.250 [QuorumPeer[myid=2](plain=[0:0:0:0:0:0:0:0]:2181)(secure=disabled)] INFO "
        b"org.apache.zookeeper.server.quorum.Leader - Have quorum of supporters, sids: [[2, 3],[2, 3]]; "
        b"starting up and setting last processed zxid: 0x1f00000000"
    )
    (found,) = SYSTEM.trace_lines(line)
    assert (found.name, found.term, found.source) == ("elected", 0x1F, "core")
    assert found.data == {"supporters": [2, 3]}
    assert (found.incarnation, found.n, found.mono_ns) == (0, 0, None)
    assert SYSTEM.trace(line) == found


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"00:12:01.250 [main] WARN org.apache.zookeeper.server.quorum.Learner - Unexpected exception, tries=0",
        b"a client wrote: Have quorum of supporters, sids: [ [1] ]",
    ],
)
def test_other_lines_of_the_log_are_none_of_the_trace(line):
    assert SYSTEM.trace_lines(line) == ()
    assert SYSTEM.trace(line) is None


def test_each_server_has_its_own_number_and_all_have_the_same_ensemble():
    configurations = {name: SYSTEM.files(node)[f"{node.run_dir}/zoo.cfg"].decode() for name, node in NODES.items()}
    servers = {
        tuple(line for line in text.splitlines() if line.startswith("server.")) for text in configurations.values()
    }
    assert servers == {tuple(f"server.{i}=10.0.0.{i}:2888:3888" for i in (1, 2, 3))}
    numbers = {name: SYSTEM.command(node).argv[2].split("echo ")[1].split()[0] for name, node in NODES.items()}
    assert numbers == {"n1": "1", "n2": "2", "n3": "3"}


def test_reads_are_promised_linearizable_behind_a_quorum_only():
    for reads, promised in (("quorum", True), ("sync", False)):
        knobs = SYSTEM.knobs({"reads": reads}, profile=None, variant=None)
        assert SYSTEM.promise(knobs, profile="zookeeper", voters=3).linearizable_reads is promised


def test_what_is_promised_and_what_cannot_be_seen():
    promise = SYSTEM.promise(NODE.knobs, profile="zookeeper", voters=3)
    owed = {name for name in SAFETY if promise.owes(name)}
    assert owed == {"one-leader-per-term", "term-never-decreases", "commit-never-regresses", "acknowledged-survives"}
    assert all(found.kind == "not observable" for name, found in promise.exempt.items() if name != "leader-stability")
    assert promise.step_down_ns < promise.leader_bound_ns
    assert SYSTEM.fault_support("clock") == Yes()


def test_the_bound_grows_with_the_timers():
    slow = SYSTEM.knobs({}, profile=None, variant=None)
    bounds = [SYSTEM.promise(knobs, profile="zookeeper", voters=3).leader_bound_ns for knobs in (NODE.knobs, slow)]
    assert bounds[0] == 10_000_000_000
    assert bounds[1] > 100_000_000_000
