"""A described system gone through step by step: each thing that can be wrong with it has its row."""

import contextlib
import json
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.clock import Span
from dethrone.harness.core.errors import ClusterError, ConfigError
from dethrone.harness.core.hoststate import HEALTHY
from dethrone.harness.core.interfaces import IN_A_CONTAINER, BackendTraits, Evidence, HostNews, No, Yes
from dethrone.harness.engine.host.description_check import examine
from dethrone.harness.engine.host.line_check import examine_lines
from dethrone.harness.engine.run.options import RunOptions
from tests.served import served

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="hosts are Linux machines")

TEXT = """
[system]
name = "mine"
[node]
command = "/opt/mine"
ports = {{ http = {port} }}
[probe]
http = "/status"
role = "role"
term = "term"
leader = "leader"
[trace]
events = ["elected", "vote_granted"]
[ops]
put = "PUT /kv/{{key}} {{value}}"
[promise]
election_timeout = "1s"
heartbeat = "100ms"
tolerates = ["kill"]
leader_within = "250ms"
"""


class Node(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.unready -= 1
        self.answer(200, self.server.status if self.server.unready < 0 else b'{"role": "joining"}')

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(self.server.puts.pop() if self.server.puts else self.server.put, b"{}")

    def answer(self, code, body):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class OneHost:
    """A host that is this process: its node is a web server, killed and started with ``converge``."""

    places, shares_user = IN_A_CONTAINER, ""

    def __init__(self, number, world, news):
        self.name, self.address = f"n{number}", f"127.0.0.{number}"
        self.world, self.news, self.server, self.starts = world, news, None, 0

    def prepare(self, start, peers, *, dead_man_ns):
        pass

    def write_file(self, path, content, *, private=False):
        pass

    def read_file(self, path, *, most=None):
        return b"panic: no such flag"

    def run(self, argv, *, timeout_ns):
        return (1 if argv[-1] in self.world.lacks else 0), b"", b""

    def start_node(self):
        self.starts += 1
        if self.world.exits:
            self.tell("exited", {"incarnation": 1, "code": 2, "asked": False})
            return
        self.server = ThreadingHTTPServer((self.address, self.world.port), Node)
        more = self.world.shards.get(self.name, {})
        status = self.world.status | {"term": self.world.terms[self.starts - 1], "shards": more}
        if status["leader"] in {f"n{number}" for number in range(1, self.world.nodes + 1)} - {self.name}:
            status["role"] = "follower"
        self.server.status, self.server.unready = json.dumps(status).encode(), self.world.unready.get(self.name, 0)
        self.server.put, self.server.puts = self.world.put, self.world.puts
        self.server.daemon_threads = True
        self.serving = contextlib.ExitStack()
        self.serving.enter_context(served(self.server))
        self.tell("started", {"incarnation": self.starts, "asked": True})
        lines = [line.encode() for line in self.world.lines]
        self.tell("trace", {"lines": lines, "incarnation": self.starts, "offset": (0, 0)})

    def converge(self, want):
        if want == HEALTHY:
            self.start_node()
        else:
            self.stop_node()
            self.tell("exited", {"incarnation": self.starts, "code": -9, "asked": True})
        return Evidence(host=self.name, span=Span(0, 0), state=want, confirmed=True)

    def tell(self, kind, data):
        self.news(HostNews(host=self.name, kind=kind, span=Span(0, 0), data=data))

    def stop_node(self):
        if self.server is not None:
            self.serving.close()
            self.server = None

    def close(self):
        pass


class World:
    """The backend."""

    name = "here"
    traits = BackendTraits()

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.status = {"role": "leader", "leader": "n1"}
        self.nodes = 1
        self.terms, self.put, self.exits, self.refuses, self.gone = [3, 3], 200, False, False, []
        self.lacks, self.unready, self.shards, self.puts = (), {}, {}, []
        self.lines = ['{"dethrone": 1, "event": "elected", "term": 3}', "started"]

    def available(self):
        return No("no engine", "start it") if self.refuses == "all" else Yes()

    def deploy(self, spec, *, origin_ns, news, progress):
        if self.refuses:
            raise ClusterError("no hosts", cause="no room", next_step="make room")
        return {f"n{number}": OneHost(number, self, news) for number in range(1, self.nodes + 1)}

    def destroy(self, run_id):
        self.gone.append(run_id)


@pytest.fixture
def world(monkeypatch, tmp_path):
    made = World()
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path / "state"))
    loads = registry.load
    monkeypatch.setattr(registry, "load", lambda group, name: made if name == "here" else loads(group, name))
    monkeypatch.setattr("dethrone.harness.engine.host.description_check.START_LIMIT_NS", 500_000_000)
    monkeypatch.setattr("dethrone.harness.engine.run.phase_bounds.ANSWER_BOUND_NS", 500_000_000)
    monkeypatch.setattr("dethrone.harness.engine.run.phase_bounds.START_BOUND_NS", 500_000_000)
    monkeypatch.setattr("dethrone.harness.engine.host.description_check.SETTLE_NS", 0)
    made.file = tmp_path / "my.toml"
    made.text = TEXT.format(port=made.port)
    return made


@pytest.fixture
def patient(world, monkeypatch):
    """Where what is waited for comes, however slow the machine is."""
    monkeypatch.setattr("dethrone.harness.engine.host.description_check.START_LIMIT_NS", 20_000_000_000)
    monkeypatch.setattr("dethrone.harness.engine.run.phase_bounds.ANSWER_BOUND_NS", 20_000_000_000)
    world.text = world.text.replace('leader_within = "250ms"', 'leader_within = "20s"')
    return world


def rows(world, progress=lambda line: None):
    world.file.write_text(world.text)
    options = RunOptions(system=str(world.file), nodes=world.nodes, backend="here", faults=())
    return examine(options, progress)


def bad(world):
    return {row.what: row for row in rows(world) if row.seen == "no"}


def test_a_system_that_does_all_it_should_has_no_failed_step_and_is_removed(world):
    found = rows(world)
    assert [row for row in found if row.seen == "no"] == []
    steps = [row.step for row in found]
    assert list(dict.fromkeys(steps)) == ["file", "hosts", "start", "probe", "ops", "restart", "trace"]
    seen = {row.what: row.seen for row in found if row.step == "trace"}
    assert seen == {"elected: 2 lines": "yes", "vote_granted": "not seen"}
    assert len(world.gone) == 1


def test_what_will_not_be_judged_is_told_first(world):
    assert any("log-matching will not be judged" in row.what for row in rows(world) if row.seen == "not seen")


def test_a_probe_that_asks_at_two_moments_is_an_open_question_and_no_error(world):
    asked = 'command = ["/bin/sh", "-c", "ctl role; ctl term"]\natomic = true'
    world.text = world.text.replace('http = "/status"', asked)
    world.refuses = "all"
    (row,) = [row for row in rows(world) if row.step == "probe"]
    assert (row.seen, row.what) == ("not seen", "role and term are of one moment")
    assert "atomic = true in [probe]" in row.why
    assert row.what_to_do


def test_a_process_that_ends_at_once_is_told_with_its_last_words(world):
    world.exits = True
    (row,) = bad(world).values()
    assert "ended with code 2" in row.why
    assert "no such flag" in row.why
    assert len(world.gone) == 1


def test_a_program_that_the_host_lacks_is_named_with_the_key_that_executes_it(world):
    (program,) = [row.what.removesuffix(" is there") for row in rows(world) if row.what.endswith(" is there")]
    world.lacks = (program,)
    (row,) = [row for row in rows(world) if row.seen == "no"]
    assert row.what == f"{program} is there"
    assert "[node] command" in row.why
    assert "packages of [system]" in row.what_to_do


def test_a_port_that_nobody_listens_at_is_named(world):
    world.text = world.text.replace("http =", "peer = 1, http =", 1)
    said = []
    assert "n1 listens on peer = 1" in {row.what for row in rows(world, said.append) if row.seen == "no"}
    assert [line for line in said if "does not listen" in line] == ["n1 does not listen on peer = 1 yet; waiting 0 s"]


def test_a_first_node_that_joins_later_than_another_one_leads_is_waited_for(patient):
    patient.nodes, patient.status, patient.unready = 3, {"role": "leader", "leader": "n2"}, {"n1": 3}
    found = [row for row in rows(patient) if row.step == "probe"]
    assert [row.what for row in found if row.seen == "no"] == []
    assert found[0].what == "role: role holds 'follower'"
    assert found[-1].what == "n2 leads"


@pytest.mark.parametrize(
    ("status", "what"),
    [({"role": "follower", "leader": "n1"}, "one node leads"), ({"role": "leader", "leader": "n7"}, "leader")],
)
def test_a_probe_that_answers_something_else_than_expected_is_told_by_its_field(world, status, what):
    world.status = status
    assert any(name.startswith(what) for name in bad(world))


def test_a_node_that_is_not_in_every_group_is_told(world):
    world.text, world.nodes = world.text.replace('role = "role"', 'groups = "shards"\nrole = "role"'), 2
    follows = {"role": "follower", "term": 3, "leader": "n1"}
    world.shards = {"n1": {name: follows | {"role": "leader"} for name in "ab"}, "n2": {"a": follows}}
    assert bad(world)["each node is in every group"].why.startswith("n2 is not in the group b, in which n1 is")
    world.shards["n2"]["b"] = follows
    found = {row.what: row.seen for row in rows(world)}
    assert "each node is in every group" not in found
    assert found["groups: shards holds 2: a, b"] == "yes"


def test_a_leader_in_term_0_is_refused_with_the_remedy(world, monkeypatch):
    monkeypatch.setattr("dethrone.harness.engine.host.description_check.TERM_LIMIT_NS", 100_000_000)
    world.terms = [0, 0]
    (row,) = bad(world).values()
    assert (row.step, row.what) == ("probe", "n1 leads in a term")
    assert "term 0, which is not a valid term" in row.why
    assert "term in [probe]" in row.what_to_do


def test_nonsense_is_no_leader_and_is_shown(world):
    world.text = world.text.replace('term = "term"', 'term = "epoch"')
    assert any("epoch holds nothing" in name for name in bad(world))


def test_an_operation_that_ends_in_doubt_is_told_with_the_answer(world):
    world.put = 500
    (row,) = bad(world).values()
    assert row.step == "ops"
    assert "info: HTTP 500" in row.why


def test_an_operation_that_ends_in_doubt_is_invoked_again(patient):
    patient.puts = [504, 504]
    assert not bad(patient)
    assert not patient.puts


def test_a_term_that_a_restart_loses_is_told(world):
    world.terms = [3, 1]
    (row,) = bad(world).values()
    assert (row.step, row.why) == ("restart", "term 1 after term 3")


def test_malformed_trace_lines_and_lines_that_the_file_does_not_name_are_told(world):
    world.lines = ['{"dethrone": 1, "event": "elected"}', '{"dethrone": 1, "event": "stepped_down"}']
    found = rows(world)
    assert any("malformed" in row.what and "'term' is missing" in row.why for row in found if row.seen == "no")
    assert any(row.what == "stepped_down" and "add 'stepped_down'" in row.what_to_do for row in found)


def test_a_trace_without_any_line_fails(world):
    world.lines = ["started"]
    assert "any line" in bad(world)


@pytest.mark.parametrize(("refuses", "why"), [("all", "no engine"), ("deploy", "no room")])
def test_where_no_hosts_can_be_had_nothing_else_is_tried(world, refuses, why):
    world.refuses = refuses
    found = rows(world)
    assert why in found[-1].why
    assert found[-1].step == "hosts"


def test_a_system_that_no_file_describes_is_refused(world):
    with pytest.raises(ConfigError, match="not a description file"):
        examine(RunOptions(system="etcd", nodes=3, backend="here", faults=()), lambda line: None)


def test_output_is_looked_through_line_by_line():
    good, wrong = (
        b'{"dethrone": 1, "event": "elected", "term": 1}\r\n',
        b'{"dethrone": 1, "event": "elect", "term": 1}\n',
    )
    found = examine_lines([b"hello\n", good, good, wrong])
    assert [(row.what.split(":")[0], row.seen) for row in found] == [("elected", "yes"), ("line 4 is malformed", "no")]
    assert examine_lines([])[0].why == "no trace line found in 0 lines of output"
