"""Operations of several requests: what only reads is certain, the last one decides, and nothing is taken for a word."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.own.client import OwnClient
from dethrone.clusters.own.requests import Earlier, Request, requests_of, said, sequences, whole
from dethrone.clusters.own.spec import OpTable
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.http_answer import Answer
from tests.clusters.own.described import described, specs, system
from tests.clusters.systems.specs import at_loopback
from tests.served import served

CAS = """cas = 'POST /kv/{key} {"old": {old}, "value": {value}}'"""
ENDS = "absent = [404], refused = [409] }"
BY_VERSION = f"""cas = {{ request = ["GET /v/{{key}}", "PUT /v/{{key}}?version={{1.version}} {{value}}"],
held = "1.value", {ENDS}""".replace("\n", " ")
BY_HEADER = f"""cas = {{ request = ["GET /raw/{{key}}", "PUT /raw/{{key}}?index={{1.header:X-Index}} {{value}}"],
{ENDS}""".replace("\n", " ")
BY_MATCH = """cas = { request = ["GET /raw/{key}", "PUT /raw/{key} {value}"],
headers = { If-Match = "{1.header:ETag}" }, refused = [412] }""".replace("\n", " ")


class Store(BaseHTTPRequestHandler):
    """Values with versions; ``busy`` changes between the two requests, ``lost`` is never answered when written."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.seen.append(f"GET {self.path} {self.headers['If-Match']}")
        kind, key = self.path.strip("/").split("/")
        if key == "down":
            return self.say(503, b"")
        if key == "silent":
            self.server.released.wait(20)
        if key == "lost-read":
            self.close_connection = True
            return None
        if key not in self.server.kept:
            return self.say(404, b"")
        value, version = self.server.kept[key]
        if key == "busy":
            self.server.kept[key] = (value, version + 1)
        if kind == "raw":
            return self.say(200, json.dumps(value).encode(), version)
        return self.say(200, json.dumps({"value": value, "version": version}).encode())

    def do_PUT(self):
        held = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append(f"PUT {self.path} {self.headers['If-Match']}")
        path, _, query = self.path.partition("?")
        key = path.split("/")[2]
        _, version = self.server.kept.get(key, (None, 0))
        if key == "lost":
            self.close_connection = True
            return None
        if self.headers["If-Match"] not in {None, f'"{version}"'}:
            return self.say(412, b"")
        if query and query.partition("=")[2] != str(version):
            return self.say(409, b"")
        self.server.kept[key] = (json.loads(held), version + 1)
        return self.say(200, b"true")

    def say(self, code, body, version=None):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        if version is not None:
            self.send_header("X-Index", str(version))
            self.send_header("ETag", f'"{version}"')
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server():
    made = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    made.seen, made.daemon_threads, made.released = [], True, threading.Event()
    made.kept = {"a": (5, 7), "busy": (5, 7), "lost": (5, 7), "odd": ([5], 7)}
    with served(made):
        yield made
        made.released.set()


def cas(server, key, old, new, *, by=BY_VERSION, fresh=True, limit=5 * SECOND):
    ops = described((CAS, by)).ops
    client = OwnClient({"n1": at_loopback()}, ops, port=server.server_address[1], fresh_reads=fresh)
    outcome = client.invoke("cas", [key, old, new], target="n1", timeout_ns=limit)
    client.close()
    return outcome


@pytest.mark.parametrize(
    ("by", "sent"),
    [
        (BY_VERSION, ["GET /v/a None", "PUT /v/a?version=7 None"]),
        (BY_HEADER, ["GET /raw/a None", "PUT /raw/a?index=7 None"]),
        (BY_MATCH, ["GET /raw/a None", 'PUT /raw/a "7"']),
    ],
)
def test_the_last_request_takes_what_it_needs_out_of_the_first_answer(server, by, sent):
    outcome = cas(server, "a", 5, 6, by=by)
    assert (outcome.status, outcome.value, outcome.node) == ("ok", True, "n1")
    assert server.kept["a"] == (6, 8)
    assert server.seen == sent


def test_what_the_register_holds_refuses_a_cas_where_reads_are_promised_to_be_linearizable(server):
    outcome = cas(server, "a", 4, 6)
    assert (outcome.status, outcome.value) == ("ok", False)
    outcome = cas(server, "a", 4, 6, fresh=False)
    assert (outcome.status, outcome.value) == ("fail", None)
    assert "held 5, as far as was read" in outcome.error
    assert all(one.startswith("GET") for one in server.seen)


def test_nothing_at_the_key_refuses_too_and_is_never_a_version(server):
    assert (cas(server, "none", 4, 6).status, cas(server, "none", 4, 6).value) == ("ok", False)
    outcome = cas(server, "none", None, 6)
    assert (outcome.status, outcome.error) == ("fail", "the answer to request 1 has nothing at {1.version}")


def test_a_register_that_was_written_meanwhile_says_nothing_of_what_it_held(server):
    outcome = cas(server, "busy", 5, 6)
    assert (outcome.status, outcome.value) == ("fail", None)
    assert "written after the read" in outcome.error


@pytest.mark.parametrize("key", ["down", "lost-read", "odd"])
def test_what_ends_before_the_last_request_is_certainly_not_done(server, key):
    assert cas(server, key, 5, 6).status == "fail"
    assert all(one.startswith("GET") for one in server.seen)


def test_no_answer_to_a_read_in_time_is_certain_and_no_answer_to_the_last_request_is_doubt(server):
    assert cas(server, "silent", 5, 6, limit=300 * MS).status == "fail"
    assert cas(server, "lost", 5, 6).status == "info"


def test_a_system_promises_what_its_description_says_of_reads():
    of = system((CAS, BY_VERSION), ("[promise]", "[promise]\nlinearizable_reads = true"))
    for fresh, one in ((True, of), (False, system((CAS, BY_VERSION)))):
        client = one.client(specs(one))
        assert client._fresh_reads is fresh
        client.close()
    assert any("what the register holds is at 1.value" in line for line in of.started())


ANSWER = Answer(200, b'{"version": 3, "a.b": ["x y"], "to": {"deep": null}}', keep=True, headers={b"etag": b'W/"1"'})
READ = Earlier().and_then(ANSWER, absent=False)


@pytest.mark.parametrize(
    ("text", "path", "body"),
    [
        ("PUT /x?v={1.version} {1.version}", "/x?v=3", "3"),
        ("PUT /{/1/a.b/0}/{key} {1./}", None, None),
        ("PUT /{/1/a.b/0} {/1/a.b/0}", "/x%20y", '"x y"'),
        ('PUT /{1.header:etag} {"e": {1.header:ETag}}', "/W%2F%221%22", r'{"e": "W/\"1\""}'),
        ('PUT / {"all": {1}}', "/", '{"all": {"version": 3, "a.b": ["x y"], "to": {"deep": null}}}'),
        ("PUT /{1.to.deep}", None, None),
        ("PUT /{1.gone}", None, None),
        ("PUT /{1.header:Gone}", None, None),
    ],
)
def test_places_of_an_earlier_answer_are_filled_in_or_there_is_no_request(text, path, body):
    op = OpTable(request=("GET /", text))
    last = requests_of(op)[-1]
    if path is None:
        with pytest.raises(ValueError, match="has nothing at"):
            said(last, {"key": "k"}, READ)
    else:
        filled = said(last, {"key": "k"}, READ)
        assert (filled.path, filled.body) == (path, body)


@given(st.text(max_size=20))
def test_no_value_is_taken_for_a_word(value):
    full = said(Request("PUT", "/{key}", '{"a": {value}, "b": {1.version}}'), {"key": "k", "value": value}, READ)
    assert json.loads(full.body) == {"a": value, "b": 3}


@pytest.mark.parametrize("evil", ["a\r\nX-Admin: 1", "\x00", "ä"])
def test_an_answer_cannot_smuggle_in_a_header(evil):
    op = OpTable(request=("GET /", "PUT /"), headers={"If-Match": "{1.tag}"})
    read = Earlier().and_then(Answer(200, json.dumps({"tag": evil}).encode(), keep=True), absent=False)
    with pytest.raises(ValueError, match="no value of the header If-Match"):
        whole(requests_of(op)[-1], op, {}, {}, read)


def test_a_header_that_names_an_answer_goes_with_the_last_request_only():
    op = OpTable(request=("GET /", "GET /b", "PUT /"), headers={"If-Match": "{1.version}", "A": "{name}"})
    read, sent = Earlier(), []
    for request in requests_of(op):
        sent.append(dict(whole(request, op, {}, {"name": "n1"}, read).headers))
        read = read.and_then(ANSWER, absent=False)
    assert sent == [{"A": "n1"}, {"A": "n1"}, {"A": "n1", "If-Match": "3"}]


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ('["GET /v/{key}", "PUT /v/{key} {value}"]', "takes nothing out of an earlier answer"),
        ('["PUT /v/{key}", "PUT /v/{key}?v={1.v}"]', "is no GET"),
        ('["GET /v/{key}?v={1.v}", "PUT /v/{key}?v={1.v}"]', "no earlier answer"),
        ('["GET /v/{key}", "PUT /v/{key}?v={2.v}"]', "no earlier answer"),
        ('["GET /v/{key}", "PUT /v/{key}?v={0.v}"]', "is no place in an earlier answer"),
        ('["GET /v/{key}", "PUT /v/{key}?v={1 v}"]', "is no place in an earlier answer"),
        ('["GET /v/{key}", "PUT /v/{key}?v={1.header:}"]', "no name of a header"),
        ('["GET /v/{key}", "PUT /v/{key}?v={1.v}&{kee}"]', "{kee}"),
        ('["GET /v/{key}", "put"]', "is no request"),
        ("[]", "0 requests"),
        ('{ request = ["GET /{key}", "PUT /{1.v}"], held = "3.v" }', "no earlier answer"),
        ('{ request = ["GET /{key}", "PUT /{1.v}"], held = "v" }', "held = 'v'"),
        ('{ request = "PUT /{key}", held = "1" }', "there is one request"),
        ('{ request = "PUT /{key}", headers = { If-Match = "{1.header:ETag}" } }', "there is one request"),
    ],
)
def test_requests_that_cannot_be_meant_are_refused_with_their_place(requests, reason):
    with pytest.raises(ConfigError) as refused:
        described((CAS, f"cas = {requests}"))
    assert reason in str(refused.value)
    assert "[ops] cas" in str(refused.value)


def test_only_a_cas_compares_what_was_read():
    put = 'put = { request = ["GET /{key}", "PUT /{1.v}"], held = "1.v" }'
    with pytest.raises(ConfigError, match="only a cas has it"):
        described(('put = "PUT /kv/{key} {value}"', put))


def test_members_are_changed_by_one_request_each():
    table = '[membership]\nport = "http"\nmember = "{target}"\nmembers = "GET /m"\nremove = "DELETE /m"\n'
    table += 'add = ["GET /m", "PUT /{1}"]\n'
    with pytest.raises(ConfigError, match="add is by one request or a command"):
        described(("[promise]", table + "[promise]"))


def test_doctor_shows_each_request_of_an_operation_and_where_the_register_is_read():
    ops = described(
        (CAS, BY_HEADER), ('put = "PUT', 'put = { request = "PUT'), ('{value}"\nget', '{value}" }\nget')
    ).ops
    (line,) = sequences(ops)
    assert line.startswith("cas: GET /raw/{key}, then PUT /raw/{key}?index={1.header:X-Index} {value}; what the")
    assert line.endswith("is at 1")
