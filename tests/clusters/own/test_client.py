"""Operations over HTTP: requests are said as written, and an answer that nobody named is doubt."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.own.client import OwnClient, understand, words_for
from dethrone.clusters.own.requests import Request, said
from dethrone.clusters.own.spec import OpTable
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from tests.clusters.own.described import described, specs, system
from tests.clusters.systems.specs import at_loopback
from tests.served import served

PUT, GET = OpTable(request="PUT /k/{key} {value}"), OpTable(request="GET /k/{key}", absent=(404,))
CAS = OpTable(request="POST /k/{key} x", refused=(409,))
TOLD = OpTable(request="POST /k/{key} x", value="done")
PUT_BY_COMMAND = 'put = { command = "ctl {key} {value}", fail_pattern = "no", served_by = "node" }'


def test_words_are_quoted_in_a_path_and_json_in_a_body():
    request = Request("POST", "/kv/{key}?to={value}", '{"old": {old}, "value": {value}, "name": {key}}')
    filled = said(request, words_for("cas", ["a/b", None, "x y"]))
    assert filled.path == "/kv/a%2Fb?to=x%20y"
    assert filled.body == '{"old": null, "value": "x y", "name": "a/b"}'


@pytest.mark.parametrize(
    ("f", "op", "status", "body", "expected"),
    [
        ("put", PUT, 200, b"anything", ("ok", None)),
        ("put", PUT, 421, b"", ("fail", None)),
        ("put", PUT, 500, b"", ("info", None)),
        ("put", PUT, 302, b"", ("info", None)),
        ("get", GET, 200, b"5", ("ok", 5)),
        ("get", GET, 200, b"null", ("ok", None)),
        ("get", GET, 200, b"<html>", ("fail", None)),
        ("get", GET, 404, b"", ("ok", None)),
        ("get", GET, 500, b"", ("fail", None)),
        ("cas", CAS, 200, b"", ("ok", True)),
        ("cas", CAS, 409, b"", ("ok", False)),
        ("cas", TOLD, 200, b'{"done": true}', ("ok", True)),
        ("cas", TOLD, 200, b'{"done": "yes"}', ("info", None)),
        ("cas", TOLD, 200, b"{}", ("info", None)),
        ("read", GET, 200, b"[1, 2]", ("ok", [1, 2])),
        ("read", GET, 404, b"", ("ok", [])),
        ("read", GET, 200, b'{"a": 1}', ("fail", None)),
        ("append", PUT, 200, b'{"index": 3, "term": 1}', ("ok", {"index": 3, "term": 1})),
        ("append", PUT, 200, b"done", ("ok", None)),
        ("append", PUT, 503, b"", ("info", None)),
    ],
)
def test_an_answer_is_done_certainly_not_done_or_doubt(f, op, status, body, expected):
    outcome = understand(f, op, status, body, node="n1")
    assert (outcome.status, outcome.value) == expected


@given(st.sampled_from(["put", "cas", "append", "add"]), st.integers(100, 599), st.binary(max_size=30))
def test_no_answer_that_is_not_named_as_a_failure_makes_a_change_certainly_not_done(f, status, body):
    outcome = understand(f, OpTable(request="PUT /x", fail=(421, 503)), status, body, node="n1")
    assert (outcome.status == "fail") == (status in (421, 503))


class Answerer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_PUT(self):
        held = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, held))
        if self.path == "/kv/hang-up":
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("x-served-by", "second")
        self.send_header("Content-Length", str(len(held)))
        self.end_headers()
        self.wfile.write(held)

    do_GET = do_POST = do_PUT  # noqa: N815 - the base class calls them so


@pytest.fixture
def server():
    made = ThreadingHTTPServer(("127.0.0.1", 0), Answerer)
    made.seen, made.daemon_threads = [], True
    with served(made):
        yield made


@pytest.fixture
def client(server):
    made = OwnClient({"n1": at_loopback()}, described().ops, port=server.server_address[1])
    yield made
    made.close()


def test_a_request_is_sent_once_over_a_kept_connection(client, server):
    for value in (1, 2):
        assert client.invoke("put", ["a", value], target="n1", timeout_ns=5 * SECOND).status == "ok"
    assert server.seen == [("PUT", "/kv/a", b"1"), ("PUT", "/kv/a", b"2")]


def test_a_change_that_was_sent_and_not_answered_is_unknown_and_is_not_sent_again(client, server):
    outcome = client.invoke("put", ["hang-up", 1], target="n1", timeout_ns=5 * SECOND)
    assert outcome.status == "info"
    assert len(server.seen) == 1
    assert client.invoke("put", ["a", 1], target="n1", timeout_ns=5 * SECOND).status == "ok"


def test_what_was_never_sent_is_certainly_not_done(client, server):
    server.shutdown()
    server.server_close()
    assert client.invoke("put", ["a", 1], target="n1", timeout_ns=SECOND).status == "fail"
    assert client.invoke("put", ["a", 1], target="n9", timeout_ns=SECOND).status == "fail"
    assert client.invoke("txn", [], target="n1", timeout_ns=SECOND).status == "fail"
    assert client.invoke("put", "no pair", target="n1", timeout_ns=SECOND).status == "fail"


SERVED = OpTable(request="PUT /k {value}", value="held", served_by="by.node")
BY_HEADER = OpTable(request="PUT /k {value}", served_by="header:X-Served-By")


@pytest.mark.parametrize(
    ("op", "value", "node"),
    [
        (SERVED, {"held": 1, "by": {"node": "second"}}, "n2"),
        (SERVED, {"held": 1, "by": {"node": "third"}}, "n1"),
        (SERVED, {"held": 1}, "n1"),
        (SERVED, "no object", "n1"),
        (BY_HEADER, 1, "n2"),
        (PUT, 1, "n1"),
    ],
)
def test_an_outcome_is_of_the_node_behind_a_front_that_the_answer_names(server, op, value, node):
    nodes = {"n1": at_loopback()}
    client = OwnClient(nodes, {"put": op}, port=server.server_address[1], ids={"first": "n1", "second": "n2"})
    outcome = client.invoke("put", ["k", value], target="n1", timeout_ns=5 * SECOND)
    client.close()
    assert (outcome.status, outcome.node) == ("ok", node)


def test_answers_call_nodes_as_the_probe_does(server):
    made = system(("[ops]", '[ops]\nserved_by = "header:X-Served-By"'), ("[probe]", '[probe]\nmember_id = "{name}!"'))
    client = made.client(specs(made))
    assert client._ids == {"n1!": "n1", "n2!": "n2", "n3!": "n3"}
    client.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[ops]", '[ops]\nserved_by = "header:X Served"'), "no name of a header"),
        (('put = "PUT /kv/{key} {value}"', PUT_BY_COMMAND), "belongs to operations over HTTP"),
    ],
)
def test_served_by_that_cannot_be_meant_is_refused(change, said):
    with pytest.raises(ConfigError, match=said):
        described(change)
