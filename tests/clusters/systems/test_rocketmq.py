from __future__ import annotations

import base64
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.node.frames import frame
from dethrone.clusters.systems import rocketmq_client
from dethrone.clusters.systems.rocketmq import SYSTEM
from dethrone.clusters.systems.rocketmq_client import APPEND, GET, HEART_BEAT, Answer, RocketmqClient, refused
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.promise import SAFETY
from tests.clusters.systems.framed_server import FramedServer
from tests.clusters.systems.specs import at_loopback, specs

SECOND = 1_000_000_000
NODES = specs(SYSTEM, network="127.0.1")
NODE = NODES["n1"]


def told(**changes):
    """What Beside told of DLedger 0.4.3 on a real cluster."""
    status = {"incarnation": 1, "state": "FOLLOWER", "term": 2, "leader": "n3", "vote": "n3"}
    return json.dumps({**status, "committed": 57, "end_index": 60, "end_term": 1, **changes}).encode()


# --- the adapter ------------------------------------------------------------------------------------------------


def test_a_status_tells_role_term_vote_and_log_of_one_moment_counted_from_1():
    reading = SYSTEM.reading(NODE, told())
    assert (reading.role, reading.leads, reading.term, reading.leader) == ("follower", False, 2, "n3")
    assert (reading.log_end, reading.commit, reading.voted_for, reading.atomic) == ((1, 61), 58, "n3", True)
    empty = SYSTEM.reading(NODE, told(committed=-1, end_index=-1, end_term=-1, leader=None, vote=None))
    assert (empty.log_end, empty.commit, empty.leader, empty.voted_for) == ((0, 0), 0, None, None)
    assert SYSTEM.reading(NODE, told(state="LEADER", leader="n1")).leads


@given(st.binary(max_size=200))
def test_no_bytes_are_a_status_by_chance(raw):
    assert SYSTEM.reading(NODE, raw) is None


def test_a_server_is_started_with_its_peers_its_timers_and_its_store():
    argv = SYSTEM.command(NODE).argv
    assert "n1-127.0.1.1:20911;n2-127.0.1.2:20911;n3-127.0.1.3:20911" in argv
    assert "heartBeatTimeIntervalMs=500" in argv
    assert f"{NODE.data_dir}/dledger" in argv
    assert "/run/dethrone/java/DLedgerNode.java" in SYSTEM.files(NODE)


def test_what_is_owed_follows_from_its_timers():
    made = SYSTEM.promise(NODE.knobs, profile="dledger", voters=3)
    assert {name for name in SAFETY if made.owes(name)} == {
        "one-leader-per-term",
        "one-vote-per-term",
        "term-never-decreases",
        "leader-completeness",
        "commit-never-regresses",
        "acknowledged-survives",
    }
    slow = SYSTEM.knobs({}, profile=None, variant=None)
    assert SYSTEM.promise(slow, profile="dledger", voters=3).step_down_ns > 4 * made.step_down_ns / 2
    assert not made.linearizable_reads


def test_the_shortest_wait_for_votes_is_below_the_longest():
    with pytest.raises(ConfigError, match="set them together"):
        SYSTEM.knobs({"min_vote_interval_ms": "1000"}, profile=None, variant=None)


# --- the client -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "index", "status"),
    [
        (404, -1, "fail"),
        (404, 7, "info"),
        (503, -1, "fail"),
        (506, -1, "fail"),
        (502, 7, "info"),
        (502, -1, "info"),
        (501, 7, "info"),
        (403, -1, "info"),
        (500, -1, "info"),
        (999, -1, "info"),
    ],
)
def test_only_codes_that_come_before_the_append_are_definite_failures(code, index, status):
    assert refused("append", Answer(code=code, index=index), node="n1").status == status
    assert refused("read", Answer(code=code, index=index), node="n1").status == "fail"


class Server(FramedServer):
    """A DLedger member over a list of entries; ``moods`` are answers to appends that differ, None: hangs up."""

    def __init__(self, *, numbers):
        self.numbers, self.term, self.entries, self.asked, self.moods = numbers, 4, [], [], []
        super().__init__(self.converse)

    def converse(self, request):
        length = int.from_bytes(request[1:4], "big")
        header, body = json.loads(request[4 : 4 + length]), json.loads(request[4 + length :])
        self.asked.append((header["code"], body))
        reply = self.answer(header["code"], body)
        if reply is None:
            return None
        head = json.dumps({"code": 0, "flag": 1, "opaque": header["opaque"], "version": 1}).encode()
        return frame(frame(head) + json.dumps(reply).encode())

    def answer(self, code, body):
        if code == HEART_BEAT:
            return {"code": 403, "term": self.term, "leaderId": None}
        if code == GET:
            at = body["beginIndex"]
            if at >= len(self.entries):
                return {"code": 410, "index": -1}
            entry = {"index": at, "term": self.term, "body": self.entries[at], "magic": 1, "pos": 9}
            return {"code": 200, "entries": [entry], "group": "g"}
        assert code == APPEND
        if self.moods:
            return self.moods.pop(0)
        assert isinstance(body["body"], list if self.numbers else str)
        self.entries.append(body["body"])
        return {"code": 200, "index": len(self.entries) - 1, "term": self.term, "pos": 0}


@pytest.fixture(params=[True, False], ids=["numbers", "base64"])
def server(request):
    made = Server(numbers=request.param)
    client = RocketmqClient(
        {"n1": at_loopback(), "n2": at_loopback()}, port=made.port, group="g", numbers=request.param
    )
    yield made, client
    client.close()
    made.close()


def append(client, key="k", item=1, seconds=2.0, target="n1"):
    return client.invoke("append", [key, item], target=target, timeout_ns=int(seconds * SECOND))


def read(client, key="k"):
    return client.invoke("read", key, target="n1", timeout_ns=4 * SECOND)


def test_a_write_tells_its_place_and_a_read_the_values_of_its_list_in_order(server):
    _, client = server
    outcomes = [append(client, key, item) for key, item in (("k", 1), ("other", 2), ("k", "drei"))]
    assert [one.value for one in outcomes] == [{"index": n, "term": 4} for n in (1, 2, 3)]
    assert read(client).value == [1, "drei"]
    assert read(client, "other").value == [2]


def test_what_was_read_of_a_leader_is_kept_only_within_its_term_and_for_a_while(server, monkeypatch):
    member, client = server
    append(client)
    assert read(client).value == [1]
    replaced = json.dumps(["k", 7]).encode()
    member.entries[0] = list(replaced) if member.numbers else base64.b64encode(replaced).decode()
    assert read(client).value == [1]
    member.term += 1
    assert read(client).value == [7]
    member.entries.clear()
    assert read(client).value == [7]
    monkeypatch.setattr(rocketmq_client, "KEPT_NS", 0)
    assert read(client).value == []


def test_more_entries_than_are_asked_for_at_once_are_read(server, monkeypatch):
    _, client = server
    monkeypatch.setattr(rocketmq_client, "WINDOW", 4)
    for item in range(11):
        append(client, item=item)
    assert read(client).value == list(range(11))


def test_a_follower_names_its_leader_and_the_operation_goes_there_once(server):
    member, client = server
    member.moods += [{"code": 404, "leaderId": "n2", "index": -1}]
    assert append(client).node == "n2"
    member.moods += [{"code": 404, "leaderId": "n2"}, {"code": 404, "leaderId": "n1"}]
    assert append(client).status == "fail"


def test_silence_is_info_for_a_write_and_what_never_left_a_failure(server):
    member, client = server
    member.moods += [None, {"code": 502, "index": 5, "term": 4}]
    assert [append(client).status for _ in range(3)] == ["info", "info", "ok"]
    asked = len(member.asked)
    assert append(client, target="n9").status == "fail"
    assert client.invoke("fly", 1, target="n1", timeout_ns=SECOND).status == "fail"
    began = time.monotonic()
    fresh = RocketmqClient({"n1": NODES["n1"]}, port=1, group="g", numbers=True)
    assert append(fresh).status == "fail"
    assert time.monotonic() - began < 2
    assert len(member.asked) == asked
