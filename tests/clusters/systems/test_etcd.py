from __future__ import annotations

import base64
import http.server
import json
import re
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.systems.etcd import SYSTEM, member_id
from dethrone.clusters.systems.etcd_client import EtcdClient, call_for, understand
from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Unpreloaded, Yes
from dethrone.harness.core.promise import SAFETY
from tests.clusters.systems.specs import at_loopback, specs
from tests.served import served

SECOND = 1_000_000_000
NODES = specs(SYSTEM, network="127.0.1")
NODE = NODES["n1"]


def b64(text):
    return base64.b64encode(text.encode()).decode()


def published(**changes):
    """What ``/debug/vars`` of etcd 3.4.23 said on a real cluster of these addresses, cut to what is read and around."""
    status = {
        "id": "7f910f4b84a4a8c9",
        "term": 2,
        "vote": "f0b95a1eaa2e55",
        "commit": 8,
        "lead": "f0b95a1eaa2e55",
        "raftState": "StateFollower",
        "applied": 8,
        "progress": {},
        "leadtransferee": "0",
    }
    arguments = ["/usr/bin/etcd", "--name=n1", "--cors=http://incarnation.invalid:3", "--logger=zap"]
    return json.dumps({"cmdline": arguments, "memstats": {"Alloc": 1}, "raft.status": {**status, **changes}}).encode()


def test_member_ids_are_those_that_a_real_cluster_gave_itself():
    ids = {name: f"{member_id(address):x}" for name, address in NODE.members.items()}
    assert ids == {"n1": "7f910f4b84a4a8c9", "n2": "f0b95a1eaa2e55", "n3": "79ec8d08bbe02e6e"}


def test_a_followers_variables_name_its_leader_term_and_incarnation():
    reading = SYSTEM.reading(NODE, published())
    assert (reading.role, reading.leads, reading.term, reading.leader) == ("follower", False, 2, "n2")
    assert (reading.commit, reading.incarnation, reading.atomic) == (8, 3, True)
    assert reading.voted_for is None
    assert reading.log_end is None


def test_a_leaders_variables_say_that_it_leads_and_a_candidates_that_nobody_does():
    leader = SYSTEM.reading(NODE, published(raftState="StateLeader", lead="7f910f4b84a4a8c9"))
    assert (leader.leads, leader.leader) == (True, "n1")
    candidate = SYSTEM.reading(NODE, published(raftState="StateCandidate", lead="0", term=19))
    assert (candidate.leads, candidate.leader, candidate.term) == (False, None, 19)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"404 page not found",
        b"{}",
        published(id="f0b95a1eaa2e55"),
        published(id="zz"),
        published(lead="leader"),
        published(term="2"),
        published(raftState="StateKing"),
        published()[:-3],
    ],
)
def test_what_is_no_answer_of_that_member_is_silence(body):
    assert SYSTEM.reading(NODE, body) is None


def test_without_the_mark_the_incarnation_is_not_known():
    body = published().replace(b"--cors=http://incarnation.invalid:3", b"--cors=*")
    assert SYSTEM.reading(NODE, body).incarnation is None


@given(st.binary(max_size=300))
def test_no_bytes_can_raise(raw):
    assert SYSTEM.reading(NODE, raw) is None
    assert understand("append", call_for("append", ["k", 1]), 200, raw, node="n1").status in {"info", "ok"}


def test_the_question_is_one_kept_http_request():
    call = SYSTEM.status_call(NODE)
    assert call.framing == "http"
    assert call.request.startswith(b"GET /debug/vars HTTP/1.1\r\nHost: 127.0.1.1:2379\r\n")
    assert call.request.endswith(b"\r\n\r\n")


def test_a_member_is_started_with_names_addresses_and_its_incarnation():
    command = SYSTEM.command(NODE)
    assert command.argv[0] == "/usr/bin/etcd"
    assert (
        "--initial-cluster=n1=http://127.0.1.1:2380,n2=http://127.0.1.2:2380,n3=http://127.0.1.3:2380" in command.argv
    )
    assert "--cors=http://incarnation.invalid:{incarnation}" in command.argv
    assert "--pre-vote=true" not in command.argv
    assert "--pre-vote=true" in SYSTEM.command(specs(SYSTEM, {"pre_vote": "on"})["n1"]).argv
    assert SYSTEM.image() == "etcd"


def test_what_its_channels_cannot_show_is_named_and_the_rest_is_owed():
    made = SYSTEM.promise(NODE.knobs, profile="etcd", voters=3)
    assert {name for name in SAFETY if made.owes(name)} == {
        "one-leader-per-term",
        "term-never-decreases",
        "commit-never-regresses",
        "acknowledged-survives",
    }
    assert all(made.exempt[name].kind == "not observable" for name in SAFETY if not made.owes(name))
    assert not made.owes("leader-stability")
    assert made.leader_bound_ns == 10 * SECOND
    assert 2 * SECOND < made.step_down_ns < 3 * SECOND
    assert made.tiers == ("T1", "T2")
    assert "clock" in made.tolerates
    assert "clock" in made.tolerated_for_safety
    with_pre_vote = SYSTEM.promise({**NODE.knobs, "pre_vote": "on"}, profile="etcd", voters=3)
    assert with_pre_vote.owes("leader-stability")


def test_the_default_run_exercises_the_bound_with_faults_it_can_suffer():
    defaults = SYSTEM.defaults()
    assert defaults.nemesis_interval_ns > SYSTEM.promise(NODE.knobs, profile="etcd", voters=5).leader_bound_ns
    assert all(SYSTEM.fault_support(kind) == Yes() for kind in defaults.faults)
    assert SYSTEM.fault_support("clock") == Yes()
    assert isinstance(SYSTEM, Unpreloaded)


def test_an_election_time_out_is_at_least_five_heartbeats():
    with pytest.raises(ConfigError, match="at least five times"):
        SYSTEM.knobs({"heartbeat_interval_ms": "500"}, profile=None, variant=None)


# --- the client -------------------------------------------------------------------------------------------------


def test_an_append_creates_a_key_of_its_own_and_a_read_lists_them_in_order_of_creation():
    append = call_for("append", ["k0", 5])
    assert append.body["compare"][0] == {
        "key": b64("list/k0/5"),
        "target": "CREATE",
        "result": "EQUAL",
        "create_revision": "0",
    }
    read = call_for("read", "k0")
    assert (read.body["key"], read.body["range_end"]) == (b64("list/k0/"), b64("list/k00"))
    assert read.body["sort_target"] == "CREATE"
    answer = {"kvs": [{"key": b64("list/k0/5"), "value": b64("5")}, {"key": b64("x"), "value": b64('"a"')}]}
    assert understand("read", read, 200, json.dumps(answer).encode(), node="n1").value == [5, "a"]
    assert understand("read", read, 200, b"{}", node="n1").value == []


def test_a_transfer_names_the_member_by_its_id_and_a_member_that_does_not_lead_refuses_it():
    call = call_for("transfer", "n2", {"n2": 0x8000000000000001})
    assert (call.path, call.body) == ("/v3/maintenance/transfer-leadership", {"targetID": "9223372036854775809"})
    assert understand("transfer", call, 200, b'{"header":{}}', node="n1").status == "ok"
    refused = b'{"error":"etcdserver: not leader","code":9}'
    assert understand("transfer", call, 400, refused, node="n1").status == "fail"
    assert call_for("transfer", "n9", {"n2": 1}) is None


def test_a_swap_compares_the_value_or_its_absence():
    assert call_for("cas", ["r", 1, 2]).body["compare"][0]["value"] == b64("1")
    assert call_for("cas", ["r", None, 2]).body["compare"][0]["target"] == "CREATE"
    for body, value in ((b'{"succeeded":true}', True), (b"{}", False)):
        assert understand("cas", call_for("cas", ["r", 1, 2]), 200, body, node="n1").value is value


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b'{"succeeded":true}', "ok"),
        (200, b"{}", "info"),
        (200, b"not json", "info"),
        (503, b'{"error":"etcdserver: request timed out","code":14}', "info"),
        (503, b'{"error":"etcdserver: leader changed","code":14}', "info"),
        (500, b'{"error":"context deadline exceeded","code":2}', "info"),
        (429, b'{"error":"etcdserver: too many requests","code":8}', "fail"),
        (400, b'{"error":"etcdserver: key is not provided","code":3}', "fail"),
        (502, b"<html>", "info"),
    ],
)
def test_only_an_error_before_the_proposal_is_a_definite_failure(status, body, expected):
    assert understand("append", call_for("append", ["k", 1]), status, body, node="n1").status == expected
    read = understand("read", call_for("read", "k"), status, body, node="n1").status
    assert read == ("fail" if status != 200 or body == b"not json" else "ok")


class Gateway(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.server.asked.append((self.path, json.loads(self.rfile.read(length))))
        mood = self.server.moods.pop(0)
        if mood == "silent":
            time.sleep(1)
            self.close_connection = True
            return
        if mood == "hang up":
            self.close_connection = True
            return
        body = json.dumps(mood).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def gateway():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    server.daemon_threads = True
    server.asked, server.moods = [], []
    with served(server):
        client = EtcdClient({"n1": at_loopback()}, port=server.server_address[1])
        yield server, client
        client.close()


def append(client, seconds=2.0, target="n1"):
    return client.invoke("append", ["k", 1], target=target, timeout_ns=int(seconds * SECOND))


def test_answers_come_over_one_kept_connection(gateway):
    server, client = gateway
    server.moods += [{"succeeded": True}, {"kvs": [{"value": b64("1")}]}]
    assert append(client).status == "ok"
    assert client.invoke("read", "k", target="n1", timeout_ns=SECOND).value == [1]
    assert [path for path, _ in server.asked] == ["/v3/kv/txn", "/v3/kv/range"]


def test_silence_and_hanging_up_are_info_for_a_write(gateway):
    server, client = gateway
    server.moods += ["silent", "hang up", {"succeeded": True}]
    began = time.monotonic()
    assert (append(client, 0.2).status, append(client, 0.2).status) == ("info", "info")
    assert time.monotonic() - began < 1
    assert append(client).status == "ok"


def test_what_never_left_is_a_failure(gateway):
    server, client = gateway
    assert append(client, target="n9").status == "fail"
    assert client.invoke("fly", 1, target="n1", timeout_ns=SECOND).status == "fail"
    assert append(client, 0.0).error == "n1: timeout"
    assert server.asked == []
    closed = EtcdClient({"n1": NODES["n1"]}, port=1)
    assert append(closed).status == "fail"


def transact(client, seconds=2.0, steps=(("append", "x", 1),)):
    return client.invoke("txn", [list(step) for step in steps], target="n1", timeout_ns=int(seconds * SECOND))


EMPTY = {"succeeded": True, "responses": [{"response_range": {}}]}


def test_a_transaction_is_a_failure_until_its_write_was_sent_and_unknown_from_then_on(gateway):
    server, client = gateway
    for moods, status in (
        (["hang up"], "fail"),
        ([EMPTY, "hang up"], "info"),
        ([EMPTY, {"nonsense": 1}, {}], "fail"),
        ([{"responses": [{}]}], "fail"),
        ([EMPTY, {"succeeded": True}], "ok"),
    ):
        server.moods[:] = moods
        assert transact(client).status == status, moods
    server.moods[:] = ["hang up"]
    assert transact(client, steps=[("r", "x", None)]).status == "fail"


def test_a_lock_that_somebody_holds_is_refused_and_the_lease_is_given_back(gateway):
    server, client = gateway
    server.moods += [{"ID": "7", "TTL": "2"}, {}, {}]
    outcome = client.invoke("acquire", ["l", "a", 300], target="n1", timeout_ns=SECOND)
    assert (outcome.status, outcome.error) == ("fail", "held")
    assert [path for path, _ in server.asked] == ["/v3/lease/grant", "/v3/kv/txn", "/v3/lease/revoke"]
    server.moods += [{"ID": "7", "TTL": "2"}, {"succeeded": True, "responses": []}]
    assert client.invoke("acquire", ["l", "a", 300], target="n1", timeout_ns=SECOND).status == "info"


def test_newer_releases_are_binaries_of_ours():
    for name in ("etcd-3.5", "etcd-3.7"):
        system = registry.load(registry.SYSTEMS, name)
        assert system.command(specs(system)["n1"]).argv[0] == f"/opt/dethrone/bin/{name}"


def test_newer_releases_run_with_pre_vote_unless_told_otherwise_and_promise_stability_with_it():
    newer = registry.load(registry.SYSTEMS, "etcd-3.5")
    for settings, said, stable in (({}, "--pre-vote=true", True), ({"pre_vote": "off"}, "--pre-vote=false", False)):
        node = specs(newer, settings)["n1"]
        assert said in newer.command(node).argv
        promise = newer.promise(node.knobs, profile="etcd", voters=3)
        assert (promise.pre_vote, promise.owes("leader-stability")) == (stable, stable)
        assert promise.source.startswith("etcd 3.5 ")
    assert not any(word.startswith("--pre-vote") for word in SYSTEM.command(NODE).argv)


ADDED_S = 1_795_780_000
"""The second in which a member is added again; the clock of who is asked is half an hour further."""


def long_after(reading_of, **changes):
    told = json.loads(published(**changes))
    told["memstats"] = {"LastGC": (ADDED_S + 1800) * 1_000_000_000}
    told["cmdline"][1] = f"--name={reading_of}"
    return json.dumps(told).encode()


def test_a_member_that_was_added_again_is_known_by_its_name_and_to_others_by_when_it_was_added():
    again = f"{member_id(NODE.members['n1'], ADDED_S):x}"
    own = SYSTEM.reading(NODE, long_after("n1", id=again, lead=again, raftState="StateLeader"))
    assert (own.leads, own.leader, own.tells_leader) == (True, "n1", True)
    other = msgspec.structs.replace(NODE, name="n2", address=NODE.members["n2"])
    follows = SYSTEM.reading(other, long_after("n2", id="f0b95a1eaa2e55", lead=again))
    assert (follows.leader, follows.tells_leader) == ("n1", True)
    assert SYSTEM.reading(NODE, long_after("n3", id=again, lead=again)) is None


def test_a_leader_that_cannot_be_known_is_not_said_to_be_none():
    unknown = SYSTEM.reading(NODE, published(lead="1234567890abcdef"))
    assert (unknown.leader, unknown.tells_leader) == (None, False)
    nobody = SYSTEM.reading(NODE, published(lead="0"))
    assert (nobody.leader, nobody.tells_leader) == (None, True)


def test_members_are_listed_removed_by_their_id_and_added_over_the_gateway():
    config = json.loads(SYSTEM.files(NODE)[f"{NODE.run_dir}/membership.json"])
    said = (
        '{"members":[{"ID":"42","peerURLs":["http://%s:2380"]},{"ID":"7","name":"n1","peerURLs":["http://%s:2380"]}]}'
    )
    found = re.search(config["member"], said % (NODE.members["n2"], NODE.address))
    assert found["id"] == "7", "a member that was just added has no name"
    assert re.search(config["member"], said % (NODE.members["n2"], NODE.members["n3"])) is None
    asked = config["others"][0]
    assert {what: asked[what]["path"] for what in asked} == {
        "members": "/v3/cluster/member/list",
        "remove": "/v3/cluster/member/remove",
        "add": "/v3/cluster/member/add",
    }
    assert json.loads(asked["add"]["body"]) == {"peerURLs": [f"http://{NODE.address}:2380"]}
    assert (asked["add"]["address"], config["fresh"]) == (NODE.members["n2"], True)


def test_only_a_node_that_returns_starts_as_a_member_of_an_existing_cluster():
    command = SYSTEM.command(NODE)
    differs = [pair for pair in zip(command.argv, command.rejoining, strict=True) if pair[0] != pair[1]]
    assert differs == [("--initial-cluster-state=new", "--initial-cluster-state=existing")]
