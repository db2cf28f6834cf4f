"""Requests over TLS: who is not who it should be is never asked, and what was sent and not answered stays doubt."""

import json
import queue
import socket
import ssl
import threading
import time

import msgspec
import pytest

from dethrone.clusters.own.changes import files_for_changes
from dethrone.clusters.own.client import OwnClient
from dethrone.clusters.own.system import OwnSystem, described
from dethrone.clusters.systems import membership_host
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.host.description_check import ask
from dethrone.harness.engine.run.runner import prepare_host
from dethrone.harness.engine.run.status_poller import Poller
from tests.clusters.own.certificates import Authority, serving
from tests.clusters.own.described import TEXT, specs, system
from tests.clusters.own.described import described as parsed
from tests.clusters.systems.specs import at_loopback

CA = 'tls = { ca = "ca.pem" }'
NAMED = 'tls = { ca = "ca.pem", server_name = "{name}.example" }'
CLIENT = 'tls = { ca = "ca.pem", cert = "client.pem", key = "client.key" }'
STATUS = b'{"raft": {"state": "leader", "term": 4}}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two authorities, and servers and clients that the first one signed."""
    made = tmp_path_factory.mktemp("certificates")
    authority = Authority(made, "ca")
    Authority(made, "other")
    authority.signed("server", address="127.0.0.1")
    authority.signed("named", names=["n1.example"])
    authority.signed("client")
    authority.signed("locked", passphrase=b"s3cret")
    return made


def put(folder, port, tls, *, key="a", limit=5 * SECOND):
    """How a put and a get ended, over one client."""
    ops = parsed(("[ops]", f"[ops]\n{tls}")).ops
    words = {"n1": {"name": "n1", "address": "127.0.0.1"}}
    client = OwnClient({"n1": at_loopback()}, ops, port=port, words=words, folder=folder)
    try:
        return [client.invoke(*op, target="n1", timeout_ns=limit) for op in (("put", [key, 1]), ("get", key))]
    finally:
        client.close()


@pytest.mark.parametrize(
    ("certificate", "tls"),
    [
        ("server", CA),
        ("named", NAMED),
        ("named", "tls = { verify = false }"),
        ("server", 'tls = { verify = false, server_name = "anything" }'),
    ],
)
def test_operations_are_carried_out_over_one_kept_connection(folder, certificate, tls):
    with serving(folder, certificate, said=b"1") as server:
        done = put(folder, server.server_address[1], tls)
        assert [(one.status, one.value) for one in done] == [("ok", None), ("ok", 1)]
        assert len({port for _, _, port in server.seen}) == 1


@pytest.mark.parametrize(
    ("certificate", "tls", "reason"),
    [
        ("server", 'tls = { ca = "other.pem" }', "CERTIFICATE_VERIFY_FAILED"),
        ("server", "tls = true", "CERTIFICATE_VERIFY_FAILED"),
        ("server", NAMED, "n1.example"),
        ("named", CA, "127.0.0.1"),
        ("named", 'tls = { ca = "ca.pem", server_name = "n2.example" }', "n2.example"),
    ],
)
def test_who_is_not_who_it_should_be_is_not_asked_and_nothing_was_done(folder, certificate, tls, reason):
    with serving(folder, certificate) as server:
        for outcome in put(folder, server.server_address[1], tls):
            assert outcome.status == "fail"
            assert reason in outcome.error
        assert server.seen == []


def test_a_connection_lost_after_the_request_is_doubt(folder):
    with serving(folder, "server") as server:
        done = put(folder, server.server_address[1], CA, key="hang-up")
        assert [one.status for one in done] == ["info", "fail"]
        assert len(server.seen) == 2


def test_a_node_that_does_not_speak_tls_or_says_nothing_is_certainly_not_asked(folder):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        done = put(folder, silent.getsockname()[1], CA, limit=400 * MS)
        assert [one.status for one in done] == ["fail", "fail"]
        assert time.monotonic() - began < 5
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer():
            for _ in range(2):
                connection, _ = plain.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert {one.status for one in put(folder, plain.getsockname()[1], CA)} == {"fail"}
        thread.join()


def test_a_client_shows_its_certificate_where_the_server_asks_for_one(folder):
    with serving(folder, "server", clients="ca", said=b"1") as server:
        assert [one.status for one in put(folder, server.server_address[1], CLIENT)] == ["ok", "ok"]


def test_a_client_without_its_certificate_is_turned_away_in_the_handshake_and_did_nothing(folder):
    with serving(folder, "server", clients="ca", version=ssl.TLSVersion.TLSv1_2) as server:
        assert [one.status for one in put(folder, server.server_address[1], CA)] == ["fail", "fail"]
        assert server.seen == []


def test_a_server_that_turns_a_client_away_after_its_handshake_leaves_doubt(folder):
    with serving(folder, "server", clients="ca", version=ssl.TLSVersion.TLSv1_3) as server:
        done = put(folder, server.server_address[1], CA)
        assert done[0].status in {"info", "fail"}
        assert done[1].status == "fail"
        assert server.seen == []


# --- the probe ---------------------------------------------------------------------------------------------------


def probed(folder, port, tls):
    """A system whose probe has this key, as a file of that folder, and its first node."""
    text = TEXT.replace("[trace]\n", f"{tls}\n[trace]\n", 1).replace("http = 8000", f"http = {port}")
    (folder / "mine.toml").write_text(text)
    of = described(folder / "mine.toml")
    return of, specs(of)["n1"]


@pytest.mark.parametrize(("certificate", "tls"), [("server", CA), ("named", NAMED), ("server", CLIENT)])
def test_the_question_of_doctor_is_answered(folder, certificate, tls):
    with serving(folder, certificate, said=STATUS) as server:
        of, node = probed(folder, server.server_address[1], tls)
        assert of.reading(node, ask("127.0.0.1", of.status_call(node), 5 * SECOND)).term == 4


@pytest.mark.parametrize(
    ("certificate", "tls"), [("server", 'tls = { ca = "other.pem" }'), ("server", NAMED), ("server", "tls = true")]
)
def test_a_node_that_is_not_who_it_should_be_does_not_answer(folder, certificate, tls):
    with serving(folder, certificate, said=STATUS) as server:
        of, node = probed(folder, server.server_address[1], tls)
        with pytest.raises(ssl.SSLCertVerificationError):
            ask("127.0.0.1", of.status_call(node), 5 * SECOND)
        assert server.seen == []


def polled(of, node, wanted):
    """What the poller found until it had so much."""
    here = msgspec.structs.replace(node, address="127.0.0.1")
    inbox, began = queue.SimpleQueue(), time.monotonic_ns()
    poller = Poller(of, {"n1": here}, interval_ns=20 * MS, clock=lambda: time.monotonic_ns() - began, put=inbox.put)
    poller.start()
    found = []
    while len(found) < wanted:
        one = inbox.get(timeout=10)
        found += [one] if hasattr(one, "reading") else []
    poller.stop()
    return found


def test_a_run_polls_over_one_kept_connection(folder):
    with serving(folder, "server", said=STATUS, clients="ca") as server:
        found = polled(*probed(folder, server.server_address[1], CLIENT), 8)
        assert [one.reading.term for one in found if one.reading] == [4] * len([one for one in found if one.reading])
        assert sum(one.reading is not None for one in found) >= 4
        assert len({port for _, _, port in server.seen}) <= 1 + sum(one.reading is None for one in found)


def test_answers_larger_than_a_record_of_tls_are_read_whole(folder):
    padding = json.dumps({"raft": {"state": "leader", "term": 4}, "x": "y" * 100_000}).encode()
    with serving(folder, "server", said=padding) as server:
        found = polled(*probed(folder, server.server_address[1], CA), 4)
        assert any(one.reading is not None for one in found)


def test_a_run_sees_silence_and_its_reason_where_a_node_is_not_who_it_should_be(folder):
    with serving(folder, "server", said=STATUS) as server:
        found = polled(*probed(folder, server.server_address[1], NAMED), 2)
        assert all(one.reading is None for one in found)
        assert any("n1.example" in one.error for one in found)
    of, node = probed(folder, server.server_address[1], CA)
    assert all(one.reading is None for one in polled(of, node, 2))


# --- changes of members ------------------------------------------------------------------------------------------

MEMBERS = """[membership]
port = "http"
members = "GET /members"
member = '"{target}"'
remove = "DELETE /members/{target}"
add = "PUT /members/{target}"
"""


def changing(folder, tls):
    (folder / "members.toml").write_text(TEXT.replace("[promise]", f"{MEMBERS}{tls}\n[promise]"))
    of = described(folder / "members.toml")
    return of, specs(of)["n1"]


def test_a_host_gets_the_files_with_which_it_asks_and_keeps_what_is_secret_private(folder):
    of, node = changing(folder, CLIENT.replace(" }", ', server_name = "{name}.example" }'))
    files = of.files(node)
    asked = json.loads(files["/r/membership.json"])["others"][0]["add"]["tls"]
    assert asked == {
        "ca": "/r/membership-add-ca.pem",
        "cert": "/r/membership-add-cert.pem",
        "key": "/r/membership-add-key.pem",
        "server_name": "n2.example",
        "verify": True,
    }
    assert files["/r/membership-add-key.pem"] == (folder / "client.key").read_bytes()
    private = of.private_files(node)
    assert private == {
        "/r/membership.json",
        *(f"/r/membership-{what}-key.pem" for what in ("members", "remove", "add")),
    }
    assert private <= files.keys()
    assert b"PRIVATE KEY" not in files["/r/membership.json"]
    plain, node = changing(folder, "")
    assert plain.private_files(node) == {"/r/membership.json"}
    assert system().private_files(node) == frozenset()


def test_a_run_places_what_is_secret_so_that_others_on_the_host_cannot_read_it(folder):
    placed = {}

    class Host:
        def write_file(self, path, content, *, private):
            placed[path] = private

        def prepare(self, start, peers, *, dead_man_ns):
            pass

    of, node = changing(folder, CLIENT)
    prepare_host(of, Host(), node)
    assert placed["/r/membership-add-key.pem"]
    assert placed["/r/membership.json"]
    assert not placed["/r/membership.py"]


@pytest.mark.parametrize(
    ("tls", "done"), [(CLIENT, True), ('tls = { ca = "other.pem" }', False), ("tls = true", False), (NAMED, False)]
)
def test_the_host_asks_over_tls(folder, tmp_path, tls, done):
    of, node = changing(folder, tls)
    with serving(folder, "server", said=b'["n1"]', clients="ca") as server:
        question = json.loads(of.files(node)["/r/membership.json"])["others"][0]["members"]
        question |= {"address": "127.0.0.1", "port": server.server_address[1]}
        for path, content in files_for_changes(of._description, node, lambda _: WORDS).items():
            (tmp_path / path.removeprefix("/r/")).write_bytes(content)
        for key in ("ca", "cert", "key"):
            question["tls"][key] = question["tls"][key].replace("/r/", f"{tmp_path}/")
        found, answer = membership_host.asked(question)
        assert found is done
        assert answer == '["n1"]' if done else "CERTIFICATE_VERIFY_FAILED" in answer


WORDS = {"name": "n1", "address": "127.0.0.1", "number": "1", "http": "8000", "peer": "7000"}


# --- what cannot be meant ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tls", "reason"),
    [
        ('tls = { cert = "client.pem" }', "cert without key"),
        ('tls = { key = "client.key" }', "key without cert"),
        ('tls = { ca = "ca.pem", verify = false }', "verify = false trusts any"),
        ('tls = { ca = "" }', "ca is empty"),
        ('tls = { server_name = "a b" }', "no name of a server"),
        ('tls = { server_name = "{nmae}.example" }', "{nmae}"),
        ('tls = "yes"', "wrong form"),
        ('tls = { caa = "x" }', "caa"),
    ],
)
def test_keys_that_contradict_each_other_are_refused_with_their_place(tls, reason):
    for before, place in (("[trace]\n", "[probe]"), ("[promise]\n", "[ops]")):
        with pytest.raises(ConfigError) as refused:
            parsed((before, f"{tls}\n{before}"))
        assert reason in str(refused.value)
        assert place in str(refused.value)


@pytest.mark.parametrize(
    ("tls", "reason"),
    [
        ('{ ca = "gone.pem" }', "No such file"),
        ('{ ca = "client.key" }', "it is no such file"),
        ('{ cert = "client.pem", key = "other.key" }', "it is no such file"),
        ('{ cert = "locked.pem", key = "locked.key" }', "needs a passphrase"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_before_a_run(folder, tls, reason):
    with pytest.raises(ConfigError) as refused:
        probed(folder, 8000, f"tls = {tls}")
    assert reason in str(refused.value)
    assert "[probe] tls" in refused.value.where
    assert "PRIVATE" not in str(refused.value)


def test_commands_logs_and_redis_have_no_tls():
    command = ('put = "PUT /kv/{key} {value}"', 'put = { command = "x", fail_pattern = "y", tls = true }')
    with pytest.raises(ConfigError, match="a command has no headers, and no auth or tls"):
        parsed(command)
    with pytest.raises(ConfigError, match="a probe by command has no headers, and no auth or tls"):
        parsed(('http = "/status"', 'command = "ctl"\ntls = true'))
    redis = TEXT[TEXT.index("[ops]") : TEXT.index("[promise]")]
    with pytest.raises(ConfigError, match="tls belongs to requests over HTTP"):
        parsed((redis, '[ops]\nprotocol = "redis"\nport = "peer"\ntls = true\nget = ["GET", "{key}"]\n'))


def test_one_operation_may_do_without_and_doctor_shows_what_is_encrypted():
    tls = ("[ops]", f"[ops]\n{NAMED}")
    of = OwnSystem(parsed(tls, ('get = "GET /kv/{key}"', 'get = { request = "GET /kv/{key}", tls = false }')))
    assert [line for line in of.started() if "TLS" in line] == [
        "[ops] put, [ops] cas over TLS: {name}.example, verified by ca.pem"
    ]
    lines = OwnSystem(parsed(("[ops]", f"[ops]\n{CLIENT}"), ("[trace]\n", "tls = true\n[trace]\n"))).started()
    assert "[probe] over TLS: its address, verified by the trust store of the machine that asks" in lines
    assert any(line.endswith("; asked as client.pem") for line in lines)
