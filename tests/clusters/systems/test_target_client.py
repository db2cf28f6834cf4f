from __future__ import annotations

import json
import time

import pytest

from dethrone.clusters.node.frames import frame
from dethrone.clusters.systems.raft import SYSTEM
from dethrone.clusters.systems.target_client import TargetClient
from tests.clusters.systems.framed_server import FramedServer
from tests.clusters.systems.specs import specs

SECOND = 1_000_000_000


class Server(FramedServer):
    """A node's client port: ``script(request)`` gives the reply, or bytes as they are; ``Hangup`` hangs up."""

    def __init__(self, host, port, script):
        self.script = script
        self.requests = []
        super().__init__(self.answer, host=host, port=port)

    def answer(self, payload):
        ask = json.loads(payload)
        self.requests.append(ask["request"])
        answer = self.script(ask["request"])
        if answer is Hangup or isinstance(answer, bytes):
            return None if answer is Hangup else answer
        return frame(json.dumps({"id": ask["id"], **answer}).encode())


Hangup = object()


def reply(kind, **fields):
    return {"reply": {"type": kind, **fields}}


@pytest.fixture
def cluster():
    servers, clients = [], []

    def make(**scripts):
        """Servers for these nodes on one port, each at its own loopback address; and a client."""
        nodes = specs(SYSTEM, network="127.0.9")
        port = 0
        made = {}
        for name, script in scripts.items():
            made[name] = Server(nodes[name].address, port, script)
            port = made[name].port
        servers.extend(made.values())
        clients.append(TargetClient(nodes, port=port))
        return clients[-1], made

    yield make
    for each in (*clients, *servers):
        each.close()


def invoke(client, f="append", value=("k", 1), target="n1", seconds=2):
    return client.invoke(
        f, list(value) if isinstance(value, tuple) else value, target=target, timeout_ns=int(seconds * SECOND)
    )


def test_an_acknowledged_append_tells_its_entry(cluster):
    client, servers = cluster(n1=lambda _: reply("ok", value=9, index=9, term=3))
    outcome = invoke(client)
    assert (outcome.status, outcome.value, outcome.node) == ("ok", {"index": 9, "term": 3}, "n1")
    assert servers["n1"].requests == [{"type": "append", "key": "k", "value": 1}]


def test_an_append_without_a_position_tells_none(cluster):
    client, _ = cluster(n1=lambda _: reply("ok"))
    assert invoke(client).value is None


def test_reads_give_lists_and_an_absent_list_is_empty(cluster):
    answers = iter([[1, 2], None, {"no": "list"}])
    client, _ = cluster(n1=lambda _: reply("ok", value=next(answers)))
    assert invoke(client, "read", "k").value == [1, 2]
    assert invoke(client, "read", "k").value == []
    assert invoke(client, "read", "k").status == "fail"


def test_a_redirection_is_followed_for_nothing_happened(cluster):
    client, servers = cluster(n1=lambda _: reply("not_leader", leader="n2"), n2=lambda _: reply("ok", index=1, term=1))
    outcome = invoke(client)
    assert (outcome.status, outcome.node) == ("ok", "n2")
    assert len(servers["n2"].requests) == 1


def test_redirections_in_a_circle_and_to_nowhere_end_as_failures(cluster):
    client, servers = cluster(
        n1=lambda _: reply("not_leader", leader="n2"), n2=lambda _: reply("not_leader", leader="n1")
    )
    assert invoke(client).status == "fail"
    assert len(servers["n1"].requests) + len(servers["n2"].requests) == 4
    client, _ = cluster(n1=lambda _: reply("not_leader", leader=None))
    assert invoke(client).error == "not the leader, knows no leader"
    client, _ = cluster(n1=lambda _: reply("not_leader", leader="elsewhere"))
    assert invoke(client).status == "fail"


@pytest.mark.parametrize(
    ("kind", "write", "read"),
    [("unknown", "info", "fail"), ("failed", "fail", "fail"), ("refused", "fail", "fail")],
)
def test_answers_in_doubt_are_info_for_writes_only(cluster, kind, write, read):
    client, _ = cluster(n1=lambda _: reply(kind, why="because"))
    assert (invoke(client).status, invoke(client).error) == (write, "because")
    assert invoke(client, "read", "k").status == read


def test_a_request_that_the_node_does_not_understand_certainly_failed(cluster):
    client, _ = cluster(n1=lambda _: {"error": "what?"})
    outcome = invoke(client)
    assert (outcome.status, outcome.error) == ("fail", "what?")


def test_a_refused_connection_is_a_failure_for_nothing_was_sent(cluster):
    client, _ = cluster(n1=lambda _: reply("ok"))
    outcome = invoke(client, target="n3")
    assert outcome.status == "fail"
    assert "refused" in outcome.error.lower()


def test_silence_is_info_within_the_bound_and_the_next_request_gets_its_own_answer(cluster):
    answers = iter([b"", reply("ok", index=2, term=1)])
    client, _ = cluster(n1=lambda _: next(answers))
    began = time.monotonic()
    outcome = invoke(client, seconds=0.3)
    assert 0.25 < time.monotonic() - began < 1
    assert (outcome.status, outcome.error) == ("info", "n1: timeout")
    assert invoke(client).value == {"index": 2, "term": 1}


@pytest.mark.parametrize("answer", [Hangup, frame(b"garbage"), b"\xff\xff\xff\xff"])
def test_a_connection_that_breaks_under_a_request_is_info(cluster, answer):
    client, _ = cluster(n1=lambda _: answer)
    assert invoke(client).status == "info"
    assert invoke(client, "read", "k").status == "fail"


def test_a_connection_that_was_hung_up_meanwhile_is_made_anew_before_anything_is_sent(cluster):
    answers = iter([frame(b'{"id":1,"reply":{"type":"ok"}}'), Hangup, reply("ok")])
    client, servers = cluster(n1=lambda _: next(answers))
    assert invoke(client).status == "ok"
    assert invoke(client).status == "info"
    assert invoke(client).status == "ok"
    assert len(servers["n1"].requests) == 3


def test_unknown_operations_values_and_nodes_never_leave(cluster):
    client, servers = cluster(n1=lambda _: reply("ok"))
    for f, value, target in (("fly", "k", "n1"), ("append", "k", "n1"), ("read", ["k"], "n1"), ("read", "k", "n9")):
        assert client.invoke(f, value, target=target, timeout_ns=SECOND).status == "fail"
    assert servers["n1"].requests == []


def test_registers_are_put_got_and_swapped(cluster):
    client, servers = cluster(n1=lambda request: reply("ok", value=request["type"] == "cas"))
    assert invoke(client, "put", ("r", 1)).value is None
    assert invoke(client, "get", "r").value is False
    assert invoke(client, "cas", ("r", 1, 2)).value is True
    assert servers["n1"].requests[2] == {"type": "cas", "key": "r", "old": 1, "to": 2}
