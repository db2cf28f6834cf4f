"""Headers and basic authentication: they are sent as written, and no secret stands in a description."""

import base64
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from dethrone.clusters.own.client import OwnClient
from dethrone.clusters.own.headers import over
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.http_answer import Answer
from tests.clusters.own.described import described, specs, system
from tests.clusters.systems.specs import at_loopback
from tests.served import served

AUTH = 'auth = { user = "root", password = "{root_password}" }\n'
KNOBS = '[knobs]\nroot_password = ""\ntenant = "blue"\n'
PROBE = ("[trace]\n", AUTH + 'headers = { X-Tenant = "{tenant}", accept = "text/plain" }\n[trace]\n')
OPS = ("[promise]\n", AUTH + 'headers = { X-Node = "{name}", content-type = "text/plain" }\n' + KNOBS + "[promise]\n")
PAIR = "Basic " + base64.b64encode(b"root:s3cret").decode()


class Guarded(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append(self.headers)
        self.send_response(200 if self.headers["Authorization"] == PAIR else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def server():
    made = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    made.seen, made.daemon_threads = [], True
    with served(made):
        yield made


@pytest.mark.parametrize(("password", "status"), [("s3cret", "ok"), ("wrong", "info")])
def test_an_operation_carries_its_headers_and_the_password_of_the_settings(server, password, status):
    words = {"n1": {"name": "n1", "root_password": password}}
    client = OwnClient({"n1": at_loopback()}, described(OPS).ops, port=server.server_address[1], words=words)
    assert client.invoke("put", ["a", 1], target="n1", timeout_ns=5 * SECOND).status == status
    client.close()
    assert server.seen[0]["X-Node"] == "n1"
    assert server.seen[0].get_all("Content-Type") == ["text/plain"]


def test_a_client_takes_the_password_from_the_knobs_of_its_run(monkeypatch):
    of = system(OPS)
    nodes = {
        name: msgspec.structs.replace(node, knobs=of.knobs({"root_password": "s3cret"}, profile=None, variant=None))
        for name, node in specs(of).items()
    }
    client, seen = of.client(nodes), []

    def ask(*_, headers, **__):
        seen.append(headers)
        return Answer(200, b"", keep=True)

    monkeypatch.setattr(client._kept, "ask", ask)
    assert client.invoke("put", ["a", 1], target="n2", timeout_ns=SECOND).status == "ok"
    assert seen == [{"X-Node": "n2", "content-type": "text/plain", "Authorization": PAIR}]


def test_a_probe_carries_them_too():
    of = system(PROBE, OPS)
    knobs = of.knobs({"root_password": "s3cret"}, profile=None, variant=None)
    node = msgspec.structs.replace(specs(of)["n1"], knobs=knobs)
    head = of.status_call(node).request.decode()
    assert head.startswith("GET /status HTTP/1.1\r\nHost: ")
    assert head.endswith(f"X-Tenant: blue\r\naccept: text/plain\r\nAuthorization: {PAIR}\r\n\r\n")
    assert "Accept:" not in head


def test_given_headers_replace_the_usual_ones_whatever_their_case():
    assert over({"Accept": "*/*", "A": "1"}, {"accept": "x"}) == {"A": "1", "accept": "x"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('auth = { user = "root", password = "hunter2" }', "the password stands in the description"),
        ('auth = { user = "root", password = "{tenant}" }', "the password stands in the description"),
        ('auth = { user = "a:b", password = "{root_password}" }', "colon"),
        ('headers = { Authorization = "Bearer hunter2" }', "header Authorization stands in the description"),
        ('headers = { X-Api-Key = "hunter2" }', "header X-Api-Key stands in the description"),
        ('headers = { Host = "x" }', "cannot be set"),
        ('headers = { "a b" = "x" }', "cannot be set"),
        ('headers = { X = "a\\r\\nY: b" }', "control character"),
        ('headers = { X = "{nobody}" }', "unknown word"),
        ('headers = { Authorization = "Bearer {root_password}" }\n' + AUTH, "both auth and"),
    ],
)
def test_a_secret_in_the_file_and_a_header_that_cannot_be_sent_are_refused(line, said):
    for before in ("[trace]\n", "[promise]\n"):
        with pytest.raises(ConfigError) as refused:
            described((before, f"{line}\n{before}"), ("[promise]\n", KNOBS + "[promise]\n"))
        assert said in str(refused.value)
        assert "hunter2" not in str(refused.value)


def test_a_setting_cannot_smuggle_in_a_header_and_is_not_shown():
    of = system(PROBE, OPS)
    with pytest.raises(ConfigError) as refused:
        of.knobs({"tenant": "blue\r\nX-Admin: hunter2"}, profile=None, variant=None)
    assert "tenant" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_commands_and_logs_have_no_headers():
    command = ('put = "PUT /kv/{key} {value}"', 'put = { command = "x", fail_pattern = "y", headers = { A = "b" } }')
    with pytest.raises(ConfigError, match="a command has no headers"):
        described(command)
    with pytest.raises(ConfigError, match="a probe by command has no headers"):
        described(('http = "/status"', 'command = "ctl"\nheaders = { A = "b" }'))
