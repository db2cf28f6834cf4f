"""Operations as Redis commands, at a small server on loopback: refusals are certain, silence and loss are doubt."""

import contextlib
import socketserver
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.own.client import OwnClient
from dethrone.clusters.own.redis_client import REFUSING, understand
from dethrone.clusters.own.resp import BadAnswerError, ErrorReply, Reader, request
from dethrone.clusters.own.spec import OpTable
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from tests.clusters.own.described import described, system
from tests.clusters.own.test_commands import HTTP
from tests.clusters.systems.specs import at_loopback
from tests.served import served

OPS = """protocol = "redis"
put = ["SET", "{key}", "{value}"]
get = ["GET", "{key}"]
cas = ["EVAL", "script", "1", "{key}", "{old}", "{value}"]
read = ["LRANGE", "{key}", "0", "-1"]
append = ["RPUSH", "{key}", "{value}"]
auth = { user = "", password = "{password}" }
fail_pattern = "^NOLEADER"
wait = "{replicas}"
"""
KNOBS = ("[promise]", '[knobs]\npassword = ""\nreplicas = 0\n[promise]')
ERRORS = {"replica": b"-READONLY You can't write", "odd": b"-ERR what", "none": b"-NOLEADER", "nonsense": b"?"}


class Store(socketserver.StreamRequestHandler):
    """SET, GET, RPUSH, LRANGE and AUTH; some keys misbehave."""

    def handle(self):
        with contextlib.suppress(OSError):
            while (command := self.command()) is not None:
                self.server.seen.append(command)
                answer = self.answer(*command)
                if answer is None:
                    return
                self.wfile.write(answer + b"\r\n")

    def command(self):
        head = self.rfile.readline()
        if not head:
            return None
        return [self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2].decode() for _ in range(int(head[1:]))]

    def answer(self, verb, key, *rest):
        kept = self.server.kept
        if verb == "AUTH":
            return b"+OK" if key == "s3cret" else b"-WRONGPASS invalid"
        if key == "lost":
            return None
        if key == "slow":
            self.server.released.wait(30)
            return None
        if key in ERRORS:
            return ERRORS[key]
        if key == "twice":
            return b"+OK\r\n+OK"
        if verb == "WAIT":
            return b":%d" % self.server.replicas
        if verb == "SET":
            kept[key] = rest[0]
            return b"+OK"
        if verb == "GET":
            return b"$-1" if key not in kept else b"$%d\r\n%s" % (len(kept[key]), kept[key].encode())
        if verb == "RPUSH":
            kept.setdefault(key, []).append(rest[0])
            return b":%d" % len(kept[key])
        items = kept.get(key, [])
        return b"\r\n".join([b"*%d" % len(items), *(b"$%d\r\n%s" % (len(one), one.encode()) for one in items)])


@pytest.fixture
def server():
    made = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Store)
    made.seen, made.kept, made.released, made.daemon_threads = [], {}, threading.Event(), True
    made.replicas = 1
    with served(made):
        yield made
        made.released.set()


def client_of(server, signed="s3cret", **knobs):
    ops = described((HTTP, OPS), KNOBS).ops
    words = {"n1": {"password": signed, "replicas": "0", **knobs}}
    return OwnClient({"n1": at_loopback()}, ops, port=server.server_address[1], words=words)


@pytest.fixture
def client(server):
    made = client_of(server)
    yield made
    made.close()


def ask(client, f, value, *, timeout_ns=20 * SECOND):
    out = client.invoke(f, value, target="n1", timeout_ns=timeout_ns)
    return out.status, out.value


def test_commands_are_carried_out_over_one_connection_that_signs_in_once(client, server):
    assert ask(client, "get", "k") == ("ok", None)
    assert ask(client, "put", ["k", 17]) == ("ok", None)
    assert ask(client, "get", "k") == ("ok", 17)
    assert ask(client, "append", ["l", 3]) == ("ok", None)
    assert ask(client, "read", "l") == ("ok", [3])
    assert ask(client, "read", "m") == ("ok", [])
    assert [command[0] for command in server.seen] == ["AUTH", "GET", "SET", "GET", "RPUSH", "LRANGE", "LRANGE"]


def test_a_wrong_password_is_certainly_not_done_and_is_not_shown(server):
    client = client_of(server, signed="hunter2")
    out = client.invoke("put", ["k", 1], target="n1", timeout_ns=20 * SECOND)
    client.close()
    assert out.status == "fail"
    assert "WRONGPASS" in out.error
    assert "hunter2" not in out.error
    assert [command[0] for command in server.seen] == ["AUTH"]


@pytest.mark.parametrize(
    ("key", "status"), [("replica", "fail"), ("none", "fail"), ("odd", "info"), ("lost", "info"), ("nonsense", "info")]
)
def test_refusals_are_certain_and_other_errors_and_lost_connections_are_doubt(client, server, key, status):
    assert ask(client, "put", [key, 1]) == (status, None)
    assert ask(client, "put", ["k", 1]) == ("ok", None)
    assert [command[1] for command in server.seen if command[0] == "SET"] == [key, "k"]


@pytest.mark.parametrize(("wanted", "status"), [("1", "ok"), ("2", "info")])
def test_a_change_counts_once_enough_replicas_confirm_it_and_is_doubt_until_then(server, wanted, status):
    client = client_of(server, replicas=wanted)
    assert ask(client, "put", ["k", 1]) == (status, None)
    assert ask(client, "append", ["l", 1]) == (status, None)
    assert ask(client, "get", "k") == ("ok", 1)
    assert ask(client, "put", ["replica", 1]) == ("fail", None)
    client.close()
    waited = [command[1:] for command in server.seen if command[0] == "WAIT"]
    assert waited == [[wanted, "1000"]] * 2


@pytest.mark.parametrize("wait", ['"{replica}"', '"some"', "-1"])
def test_what_is_no_number_of_replicas_is_refused(wait):
    with pytest.raises(ConfigError, match="replica"):
        described((HTTP, OPS.replace('wait = "{replicas}"', f"wait = {wait}")), KNOBS)


def test_only_redis_has_replicas_that_confirm():
    with pytest.raises(ConfigError, match="belongs to Redis commands"):
        described(("[ops]\n", "[ops]\nwait = 1\n"))


def test_replicas_that_a_setting_asks_for_must_be_a_number():
    with pytest.raises(ConfigError, match="'two' is no number of replicas"):
        system((HTTP, OPS), KNOBS).knobs({"replicas": "two"}, profile=None, variant=None)


def test_silence_ends_with_the_time_of_the_operation_and_is_doubt(client):
    began = time.monotonic()
    assert ask(client, "put", ["slow", 1], timeout_ns=300 * MS) == ("info", None)
    assert time.monotonic() - began < 15


def test_an_answer_that_nobody_asked_for_is_not_taken_for_the_next(client):
    assert ask(client, "put", ["twice", 1]) == ("ok", None)
    assert ask(client, "get", "k") == ("ok", None)


def test_what_was_never_sent_is_certainly_not_done(server):
    server.shutdown()
    server.server_close()
    client = client_of(server)
    assert ask(client, "put", ["k", 1], timeout_ns=SECOND) == ("fail", None)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (1, ("ok", True)),
        (0, ("ok", False)),
        (b"OK", ("ok", True)),
        (None, ("ok", False)),
        (2, ("info", None)),
        ([1], ("info", None)),
        (ErrorReply("CLUSTERDOWN x"), ("fail", None)),
        (ErrorReply("UNBLOCKED x"), ("info", None)),
    ],
)
def test_a_cas_is_done_refused_or_in_doubt(reply, expected):
    out = understand("cas", OpTable(redis=("EVAL",)), reply, node="n1")
    assert (out.status, out.value) == expected


def test_nothing_in_answer_to_a_change_is_doubt():
    assert understand("put", OpTable(redis=("SET",)), None, node="n1").status == "info"


def fed(data, size):
    parts = iter([data[at : at + size] for at in range(0, len(data), size)])

    def more():
        try:
            return next(parts)
        except StopIteration:
            raise ConnectionError("over") from None

    return Reader(more)


def said(reply):
    match reply:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % reply
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(reply), reply)
        case ErrorReply():
            return b"-" + reply.text.encode() + b"\r\n"
    return b"*%d\r\n" % len(reply) + b"".join(map(said, reply))


LEAVES = st.none() | st.integers(-(1 << 62), 1 << 62) | st.binary(max_size=20) | st.builds(ErrorReply, st.just("ERR x"))


@given(LEAVES | st.lists(LEAVES | st.lists(LEAVES, max_size=3), max_size=3), st.integers(1, 9))
def test_an_answer_is_read_whole_however_it_is_cut(reply, size):
    reader = fed(said([reply]), size)
    assert reader.reply() == [reply]
    assert not reader.rest()


@given(st.binary(max_size=60) | st.text("*$:+-0123456789\r\n", max_size=60).map(str.encode), st.integers(1, 9))
def test_hostile_bytes_are_an_answer_a_bad_answer_or_none(data, size):
    with contextlib.suppress(BadAnswerError, ConnectionError):
        fed(data, size).reply()


@pytest.mark.parametrize("data", [b"*1\r\n" * 50, b"$99999999999\r\n", b"*99999999\r\n", b"+" + b"a" * (1 << 17)])
def test_answers_beyond_the_limits_are_refused(data):
    with pytest.raises(BadAnswerError):
        fed(data, 1 << 12).reply()


@given(st.sampled_from(["put", "cas", "append", "add"]), st.text(max_size=20))
def test_no_error_that_is_not_a_refusal_makes_a_change_certainly_not_done(f, text):
    out = understand(f, OpTable(redis=("X",)), ErrorReply(text), node="n1")
    assert (out.status == "fail") == (text.partition(" ")[0] in REFUSING)


def test_words_are_sent_with_their_lengths_in_bytes():
    assert request(["GET", "ä\r\n"]) == b"*2\r\n$3\r\nGET\r\n$4\r\n\xc3\xa4\r\n\r\n"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('protocol = "redis"', 'protocol = "reds"', "protocol"),
        ('protocol = "redis"\n', "", 'Redis commands need protocol = "redis"'),
        ('["GET", "{key}"]', '"GET /{key}"', "is no Redis command"),
        ('["GET", "{key}"]', "[]", "is no Redis command"),
        ('["GET", "{key}"]', '["GET", "{value}"]', "unknown word"),
        ('"^NOLEADER"', '"("', "no regular expression"),
        ('["GET", "{key}"]', '{ redis = ["GET"], auth = { user = "", password = "{password}" } }', "has one user"),
    ],
)
def test_what_is_no_redis_command_is_refused_with_the_description(old, new, error):
    assert old in OPS
    with pytest.raises(ConfigError, match=error):
        described((HTTP, OPS.replace(old, new)), KNOBS)
