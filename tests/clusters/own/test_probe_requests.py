"""A probe of several requests: all are answered or it is silence, places name the request, and moments stay apart."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dethrone.clusters.own.answers import explain, reading
from dethrone.clusters.own.spec import ProbeTable
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import No
from dethrone.harness.engine.host.description_check import ask
from dethrone.harness.engine.run.status_poller import status_reader
from tests.clusters.own.described import TEXT, described, specs, system
from tests.served import served

PROBE = TEXT[TEXT.index("[probe]") : TEXT.index("[trace]")]
TWO = '[probe]\nport = "http"\nhttp = ["/status", "/raft"]\nrole = "1.role"\nterm = "2.term"\nleader = "1.leader"\n'
SPLIT = ProbeTable(http=("/status", "/raft"), role="1.role", term="2.term * 10 + 1.epoch", commit="/2/a.b")
LEADER = b'{"role": "leader", "epoch": 1}'
TERM = b'{"term": 4, "a.b": 7}'
PAIR = LEADER + b"\0" + TERM


def refused(probe, *more):
    with pytest.raises(ConfigError) as error:
        described((PROBE, probe), *more)
    return str(error.value)


def test_fields_are_found_in_the_answer_to_the_request_that_they_name():
    found = reading(SPLIT, {}, PAIR, own="n1")
    assert (found.leads, found.term, found.commit) == (True, 41, 7)
    assert any(what == "commit: /2/a.b holds 7" for what, _ in explain(SPLIT, {}, PAIR))


@pytest.mark.parametrize("body", [LEADER, LEADER + b"\0", LEADER + b"\0<html>", TERM + b"\0" + LEADER])
def test_an_answer_that_is_missing_or_no_json_makes_the_state_unknown(body):
    assert reading(SPLIT, {}, body, own="n1") is None
    assert any(isinstance(answer, No) for _, answer in explain(SPLIT, {}, body))


@pytest.mark.parametrize("place", ["role", "0.role", "3.role", "01.role", "/role", "/3/role", "", "2x.role"])
def test_a_place_that_names_none_of_the_requests_is_refused(place):
    assert "does not say which of the 2 requests" in refused(TWO.replace("1.role", place))


def test_each_part_of_a_sum_and_each_condition_names_its_request():
    assert "term = 'term'" in refused(TWO.replace("2.term", "2.epoch * 10 + term"))
    assert "leads = 'term'" in refused(TWO.replace('role = "1.role"', 'leads = ["1.role is leader", "term is 3"]'))
    assert described((PROBE, TWO.replace("2.term", "2.epoch * 10 + /1/term"))).probe.http == ("/status", "/raft")


@pytest.mark.parametrize("field", ['role = "2.role"', 'leads = ["1.role is leader", "2.ready"]'])
def test_fields_of_two_requests_are_not_of_one_moment(field):
    probe = TWO.replace('role = "1.role"', field).replace("2.term", "1.term")
    described((PROBE, probe))
    assert "atomic = true, and the fields are of different requests" in refused(probe + "atomic = true\n")
    bound = ("[promise]", "[promise]\nleader_bound_to_term = true")
    assert "leader_bound_to_term" in refused(probe, bound)
    for one in (probe.replace("2.r", "1.r"),):
        described((PROBE, one + "atomic = true\n"), bound)


def test_the_end_of_a_log_is_of_one_answer():
    assert "a log's end" in refused(TWO + 'log_term = "1.t"\nlog_index = "2.i"\n')
    described((PROBE, TWO + 'log_term = "2.t"\nlog_index = "2.i"\n'))


def test_requests_must_be_paths():
    assert "no path of a URL" in refused(TWO.replace('"/raft"', '"raft"'))
    assert "no path of a URL" in refused(TWO.replace('["/status", "/raft"]', "[]"))


class Status(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.seen.append((self.path, self.headers["X-A"]))
        body = json.dumps({"/status": {"role": "leader"}, "/raft": {"term": 5}}.get(self.path, {})).encode()
        self.send_response(self.server.codes.get(self.path, 200))
        self.send_header("Content-Length", str(len(body)))
        if self.path in self.server.closing:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server():
    made = ThreadingHTTPServer(("127.0.0.1", 0), Status)
    made.seen, made.codes, made.closing, made.daemon_threads = [], {}, set(), True
    with served(made):
        yield made


def asked(server):
    port = f"http = {server.server_address[1]}"
    of = system((PROBE, TWO + 'headers = { X-A = "b" }\n'), ("http = 8000", port))
    node = specs(of)["n1"]
    return of.reading(node, ask("127.0.0.1", of.status_call(node), 2 * SECOND))


def test_all_requests_are_sent_in_their_order_over_one_connection_with_all_headers(server):
    found = asked(server)
    assert server.seen == [("/status", "b"), ("/raft", "b")]
    assert (found.leads, found.term) == (True, 5)


@pytest.mark.parametrize("path", ["/status", "/raft"])
def test_one_that_is_refused_is_silence(server, path):
    server.codes[path] = 503
    with pytest.raises(ValueError, match="HTTP 503"):
        asked(server)


def test_a_server_that_hangs_up_between_the_answers_is_named(server):
    server.closing.add("/status")
    with pytest.raises(ValueError, match="the connection ends after 1 of 2 answers"):
        asked(server)


def test_the_last_answer_may_end_the_connection():
    of = system((PROBE, TWO))
    reader = status_reader(of.status_call(specs(of)["n1"]))
    one = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    assert reader.feed(one + one.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")) == b"{}\0{}"
    assert not reader.keep
