"""Systems of the gallery whose programs users bring: what their descriptions and clients make of documented answers."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import sys
import types
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from dethrone.clusters import gallery
from dethrone.clusters.gallery.consul.client import Client as Consul
from dethrone.clusters.gallery.consul.client import NotDoneError as ConsulDidNothingError
from dethrone.clusters.gallery.mongodb import bridge
from dethrone.clusters.gallery.rqlite import client as rqlite
from dethrone.clusters.own.system import described
from tests.clusters.own.answering import answering
from tests.clusters.systems.specs import specs
from tests.served import served

FOLDER = Path(gallery.__path__[0])


def system(place):
    return described(FOLDER / f"{place}.toml")


# --- how they start, and what they say ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "program"),
    [
        ("consul/consul", "consul"),
        ("rqlite/rqlite", "rqlited"),
        ("mongodb/mongodb", "mongod"),
        ("opensearch/elasticsearch", "/usr/share/elasticsearch/bin/elasticsearch"),
    ],
)
def test_the_program_that_users_bring_is_named(place, program):
    assert system(place).needed().programs == (program,)


def test_servers_of_consul_expect_as_many_as_there_are_and_join_all():
    for count in (3, 5):
        node = specs(system("consul/consul"), count=count)["n2"]
        (text,) = [text for name, text in system("consul/consul").files(node).items() if name.endswith("consul.json")]
        said = json.loads(text)
        assert (said["node_name"], said["bootstrap_expect"]) == ("n2", count)
        assert said["retry_join"] == [f"10.0.0.{number}:8301" for number in range(1, count + 1)]


def test_nodes_of_rqlite_expect_as_many_as_there_are_and_join_all():
    of = system("rqlite/rqlite")
    (text,) = [text for name, text in of.files(specs(of)["n1"]).items() if name.endswith("supervisor.json")]
    (argv,) = [one["argv"] for one in json.loads(text)["processes"]]
    assert " ".join(argv[:-1]).endswith("-bootstrap-expect 3 -join 10.0.0.1:4002,10.0.0.2:4002,10.0.0.3:4002")


CONSUL = {
    "Config": {"NodeName": "n1", "Server": True},
    "Stats": {
        "consul": {"leader": "false", "leader_addr": "10.0.0.3:8300", "server": "true"},
        "raft": {"state": "Follower", "term": "4", "commit_index": "27", "last_log_term": "4", "last_log_index": "28"},
    },
}
RQLITE = {
    "store": {
        "node_id": "n1",
        "leader": {"addr": "10.0.0.3:4002", "node_id": "n3"},
        "raft": {"state": "Follower", "term": 4, "commit_index": 27, "last_log_index": 28},
    }
}
MONGODB = {"state": "SECONDARY", "term": 4, "primary": "10.0.0.3:27017"}


@pytest.mark.parametrize(
    ("place", "answer"), [("consul/consul", CONSUL), ("rqlite/rqlite", RQLITE), ("mongodb/mongodb", MONGODB)]
)
def test_a_node_is_understood_from_the_status_that_is_documented(place, answer):
    of = system(place)
    found = of.reading(specs(of)["n1"], json.dumps(answer).encode())
    assert found is not None
    assert (found.leads, found.term, found.leader) == (False, 4, "n3")
    leads = json.loads(json.dumps(answer).replace("Follower", "Leader").replace("SECONDARY", "PRIMARY"))
    assert of.reading(specs(of)["n3"], json.dumps(leads).encode()).leads


# --- Consul ---------------------------------------------------------------------------------------------------------

consul = partial(answering, Consul)
ABSENT = (404, b"")


def held(value, index=12):
    return (200, [{"Key": "r", "Value": base64.b64encode(json.dumps(value).encode()).decode(), "ModifyIndex": index}])


def test_a_key_of_consul_is_read_from_the_leader_and_set_where_nobody_has_set_it_since():
    with consul((200, True), held(5), ABSENT, held(5), (200, True), held(5)) as (client, asked):
        client.put("n1", "r", 5)
        assert (client.get("n1", "r"), client.get("n1", "x")) == (5, None)
        assert client.cas("n1", "r", 5, 6) is True
        assert client.cas("n1", "r", 4, 6) is False
    assert asked == [
        ("PUT /v1/kv/r", 5),
        ("GET /v1/kv/r?consistent", None),
        ("GET /v1/kv/x?consistent", None),
        ("GET /v1/kv/r?consistent", None),
        ("PUT /v1/kv/r?cas=12", 6),
        ("GET /v1/kv/r?consistent", None),
    ]


def test_a_key_of_consul_that_was_set_in_between_is_no_claim_about_what_it_held():
    with consul(held(5), (200, False)) as (client, _), pytest.raises(ConsulDidNothingError):
        client.cas("n1", "r", 5, 6)


def test_an_error_of_consul_is_doubt_where_something_was_to_change():
    with consul((500, b"leadership lost while committing log")) as (client, _), pytest.raises(ValueError, match="500"):
        client.put("n1", "r", 5)
    with consul((500, b"No cluster leader")) as (client, asked), pytest.raises(ConsulDidNothingError):
        client.cas("n1", "r", 5, 6)
    assert len(asked) == 1


def test_elements_are_keys_of_their_own():
    with consul((200, True), (200, ["s/5", "s/7"]), ABSENT) as (client, asked):
        client.add("n1", "s", 5)
        assert (client.read("n1", "s"), client.read("n1", "s")) == ([5, 7], [])
    assert [path for path, _ in asked] == ["PUT /v1/kv/s/5", *["GET /v1/kv/s/?keys&consistent"] * 2]


@pytest.mark.parametrize(("client", "error"), [(Consul, ConsulDidNothingError), (rqlite.Client, rqlite.NotDoneError)])
def test_a_node_that_cannot_be_reached_did_nothing(client, error):
    with pytest.raises(error):
        client({"n1": {"address": "127.0.0.1", "http": 1}}).add("n1", "s", 7)


# --- rqlite ---------------------------------------------------------------------------------------------------------

sqlite = partial(answering, rqlite.Client)


def changed(rows):
    return (200, {"results": [{"last_insert_id": 1, "rows_affected": rows}]})


def found(*values):
    rows = {"values": [[json.dumps(value)] for value in values]} if values else {}
    return (200, {"results": [{"columns": ["value"], "types": ["text"], **rows}]})


def test_a_cas_of_rqlite_is_done_if_a_row_was_changed():
    with sqlite(changed(1), changed(1), changed(0), changed(1), changed(0)) as (client, asked):
        client.put("n1", "r", 5)
        assert [client.cas("n1", "r", 5, 6), client.cas("n1", "r", 5, 7)] == [True, False]
        assert [client.cas("n1", "x", None, 1), client.cas("n1", "x", None, 2)] == [True, False]
    assert asked[1] == ("POST /db/execute", [[rqlite.REPLACE, "r", "6", "5"]])
    assert asked[3] == ("POST /db/execute", [[rqlite.CREATE, "x", "1"]])


def test_reads_of_rqlite_go_through_the_log():
    with sqlite(found(5), found(), found(1, 2)) as (client, asked):
        assert [client.get("n1", "r"), client.get("n1", "x"), client.read("n1", "s")] == [5, None, [1, 2]]
    assert {path for path, _ in asked} == {"POST /db/query?level=strong"}


@pytest.mark.parametrize("answer", [(200, {"results": [{"error": "no such table"}]}), (503, b"leader not found")])
def test_an_error_of_rqlite_is_doubt_also_where_its_status_says_that_all_is_well(answer):
    with sqlite(answer) as (client, _), pytest.raises(ValueError, match=r"no such table|leader not found"):
        client.put("n1", "r", 5)


# --- MongoDB --------------------------------------------------------------------------------------------------------


class MongoError(Exception):
    """As pymongo's: what the server answered, if it did."""

    def __init__(self, code=None):
        super().__init__(f"code {code}")
        self.details = None if code is None else {"code": code}
        self.code = code


class Mongo:
    """A client of MongoDB whose server answers each command with the next of these."""

    def __init__(self, *answers):
        self.left, self.asked = list(answers), []
        self.admin = self.keep = self

    def command(self, name, value=None, **more):
        self.asked.append(name if isinstance(name, dict) else {name: value, **more})
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def mongo(monkeypatch):
    """A bridge in front of such a server: yields what asks it, and what the server was asked."""
    servers = contextlib.ExitStack()

    def make(*answers):
        client = Mongo(*answers)
        pymongo, errors = types.ModuleType("pymongo"), types.ModuleType("pymongo.errors")
        pymongo.MongoClient = lambda *_, **words: client if not words["retryWrites"] else None
        pymongo.errors, errors.OperationFailure = errors, MongoError
        monkeypatch.setitem(sys.modules, "pymongo", pymongo)
        monkeypatch.setitem(sys.modules, "pymongo.errors", errors)
        server = ThreadingHTTPServer(("127.0.0.1", 0), bridge.handler(bridge.Server("127.0.0.1", 1, "majority")))
        servers.enter_context(served(server))

        def ask(method, path, body=None):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            try:
                return answer.status, json.loads(answer.read())
            finally:
                connection.close()

        return ask, client.asked

    with servers:
        yield make


def one(*documents):
    return {"cursor": {"firstBatch": list(documents)}}


def test_a_member_says_state_term_and_primary_of_one_moment(mongo):
    members = [{"stateStr": "SECONDARY", "name": "a:1", "self": True}, {"stateStr": "PRIMARY", "name": "b:1"}]
    ask, asked = mongo({"term": 4, "members": members})
    assert ask("GET", "/status") == (200, {"state": "SECONDARY", "term": 4, "primary": "b:1"})
    assert [next(iter(command)) for command in asked] == ["replSetGetStatus"]


def test_registers_and_lists_are_read_linearizably_and_written_to_a_majority(mongo):
    ask, asked = mongo({"n": 1}, one({"_id": "r", "value": 5}), one(), {"n": 1}, one({"value": [1]}), one())
    assert ask("PUT", "/registers/r", 5) == (200, {"changed": 1})
    assert (ask("GET", "/registers/r"), ask("GET", "/registers/x")) == ((200, 5), (200, None))
    assert ask("POST", "/lists/l", 1) == (200, {"changed": 1})
    assert (ask("GET", "/lists/l"), ask("GET", "/lists/m")) == ((200, [1]), (200, []))
    assert {command["writeConcern"]["w"] for command in asked if "update" in command} == {"majority"}
    assert {command["readConcern"]["level"] for command in asked if "find" in command} == {"linearizable"}


def test_a_cas_is_done_if_a_document_was_changed_and_refused_by_what_a_majority_has(mongo):
    ask, asked = mongo({"n": 1}, {"n": 0}, one({"value": 5}), one(), {"n": 1})
    assert [ask("POST", "/registers/r", [5, 6]), ask("POST", "/registers/r", [5, 7])] == [
        (200, {"done": True}),
        (200, {"done": False}),
    ]
    assert ask("POST", "/registers/r", [None, 7]) == (200, {"done": False})
    assert ask("POST", "/registers/x", [None, 7]) == (200, {"done": True})
    assert asked[0]["updates"][0]["q"] == {"_id": "r", "value": 5}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (MongoError(10107), 421),
        (MongoError(11602), 504),
        (MongoError(), 504),
        ({"n": 1, "writeConcernError": {"code": 64}}, 504),
        ({"n": 0, "writeErrors": [{"code": 10107}]}, 504),
    ],
)
def test_only_a_server_that_is_no_primary_certainly_did_nothing(mongo, answer, status):
    ask, _ = mongo(answer)
    assert ask("PUT", "/registers/r", 5)[0] == status


def test_a_replica_set_is_initiated_once(mongo):
    mongo(None)
    server = bridge.Server("127.0.0.1", 1, "majority")
    server.client.left = [{"ok": 1}, MongoError(bridge.INITIALIZED), MongoError(93)]
    bridge.set_up(server, "a:1,b:1,c:1", "2000")
    bridge.set_up(server, "a:1,b:1,c:1", "2000")
    with pytest.raises(MongoError, match="93"):
        bridge.set_up(server, "a:1,b:1,c:1", "2000")
    assert [one["host"] for one in server.client.asked[0]["replSetInitiate"]["members"]] == ["a:1", "b:1", "c:1"]
