from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.systems import zookeeper_wire as wire
from dethrone.clusters.systems.zookeeper import SYSTEM
from dethrone.clusters.systems.zookeeper_client import ZooKeeperClient
from dethrone.clusters.systems.zookeeper_wire import Reader
from tests.clusters.systems.specs import specs
from tests.clusters.systems.zookeeper_server import Server

SECOND = 1_000_000_000
SOON = SECOND // 5


@pytest.fixture
def server():
    with Server() as made:
        yield made


@pytest.fixture(params=["quorum", "sync"])
def reads(request):
    return request.param


@pytest.fixture
def clients(server):
    """Makes clients of the one server, which is n1."""
    made = []

    def make(reads="quorum"):
        client = ZooKeeperClient({"n1": specs(SYSTEM, network="127.0.0")["n1"]}, port=server.port, reads=reads)
        made.append(client)
        return lambda f, value, limit=10 * SECOND: client.invoke(f, value, target="n1", timeout_ns=limit)

    yield make
    for client in made:
        client.close()


def test_a_list_is_read_in_the_order_of_its_appends_whatever_the_values_look_like(clients, reads):
    ask = clients(reads)
    assert ask("read", "k").value == []
    items = [3, "a/b.", 1, "", "ä 7", 2]
    for item in items:
        assert ask("append", ["k", item]).status == "ok"
    assert ask("read", "k").value == items


def test_a_register_is_written_read_and_set_only_from_what_it_holds(clients, reads):
    ask = clients(reads)
    assert ask("get", "r").value is None
    assert ask("cas", ["r", 1, 2]).value is False
    assert ask("cas", ["r", None, 5]).value is True
    assert ask("cas", ["r", None, 6]).value is False
    assert ask("put", ["r", 7]).status == "ok"
    assert ask("cas", ["r", 7, 8]).value is True
    assert ask("get", "r").value == 8


def test_a_read_of_the_quorum_follows_a_write_of_its_session_and_a_synced_one_a_sync(clients, server):
    clients("quorum")("read", "k")
    assert server.asked[-2:] == [wire.SET_DATA, wire.GET_CHILDREN]
    clients("sync")("read", "k")
    assert server.asked[-2:] == [wire.SYNC, wire.GET_CHILDREN]


def test_a_lock_has_one_holder_its_token_rises_and_it_goes_with_its_release(clients):
    one, two = clients(), clients()
    first = one("acquire", ["l", "a", 500])
    assert first.status == "ok"
    held = two("acquire", ["l", "b", 500])
    assert (held.status, held.error) == ("fail", "held")
    assert one("release", ["l", "a"]).value == first.value
    assert one("release", ["l", "a"]).status == "fail"
    second = two("acquire", ["l", "b", 500])
    assert second.value > first.value


def test_a_lock_whose_session_ended_cannot_be_released(clients, server):
    ask = clients()
    assert ask("acquire", ["l", "a", 500]).status == "ok"
    server.nodes = {path: node for path, node in server.nodes.items() if not node[3]}
    assert ask("release", ["l", "a"]).status == "fail"


def test_a_session_that_is_shorter_than_the_lock_is_to_last_is_refused(clients, server):
    server.longest_ms = 400
    refused = clients()("acquire", ["l", "a", 500])
    assert (refused.status, refused.error) == ("fail", "a session of 400 ms only")
    assert not any(path.startswith("/lock-l/") for path in server.nodes)


def test_a_guard_rises_and_refuses_what_is_older(clients):
    ask = clients()
    assert [ask("use", ["l", token]).status for token in (4, 4, 9, 5)] == ["ok", "ok", "ok", "fail"]
    assert ask("use", ["l", 9]).value == 9


@pytest.mark.parametrize(
    ("f", "value", "kind"),
    [
        ("append", ["k", 1], wire.CREATE),
        ("put", ["r", 1], wire.SET_DATA),
        ("acquire", ["l", "a", 500], wire.CREATE2),
        ("release", ["l", "a"], wire.DELETE),
    ],
)
def test_a_change_that_nobody_answers_is_unknown(clients, server, f, value, kind):
    ask = clients("sync")
    ask("append", ["k", 0])
    ask("put", ["r", 0])
    ask("acquire", ["l", "a", 500])
    if f == "acquire":
        ask("release", ["l", "a"])
    server.mute.add(kind)
    assert ask(f, value, SOON).status == "info"


def test_a_lock_that_was_made_and_never_looked_at_is_unknown(clients, server):
    server.mute.add(wire.GET_CHILDREN)
    assert clients()("acquire", ["l", "a", 500], SOON).status == "info"


@pytest.mark.parametrize(("f", "value"), [("read", "k"), ("get", "r"), ("cas", ["r", 1, 2])])
@pytest.mark.parametrize("kind", [wire.SET_DATA, wire.GET_CHILDREN, wire.GET_DATA])
def test_a_question_that_nobody_answers_changed_nothing(clients, server, f, value, kind):
    ask = clients()
    ask("put", ["r", 1])
    ask("append", ["k", 1])
    ask("get", "r")
    silent = {wire.SET_DATA} if kind == wire.SET_DATA else {wire.GET_CHILDREN, wire.GET_DATA}
    server.mute |= silent
    assert ask(f, value, SOON).status == "fail"


def test_what_never_left_failed(clients, server):
    server.deaf.add("connect")
    for f, value in (("append", ["k", 1]), ("read", "k"), ("acquire", ["l", "a", 500]), ("nonsense", 1)):
        assert clients()(f, value, SOON).status == "fail"


@pytest.mark.parametrize(
    ("error", "status"), [(-112, "fail"), (-127, "fail"), (-4, "info"), (-7, "info"), (-1, "info")]
)
def test_an_error_that_does_not_say_that_nothing_happened_is_unknown(clients, server, error, status):
    ask = clients()
    ask("append", ["k", 0])
    server.errors[wire.CREATE] = error
    assert ask("append", ["k", 1]).status == status


def test_after_an_answer_is_missed_the_next_operation_has_a_session_of_its_own(clients, server):
    ask = clients()
    ask("append", ["k", 1])
    server.mute.add(wire.CREATE)
    ask("append", ["k", 2], SOON)
    server.mute.clear()
    before = server.sessions
    assert ask("read", "k").value == [1, 2]
    assert server.sessions == before + 1


@given(st.binary(max_size=64))
def test_bytes_that_are_no_record_are_no_answer(data):
    for read in (Reader.header, Reader.stat, Reader.texts, Reader.session):
        try:
            read(Reader(data))
        except ValueError:
            continue


@given(st.lists(st.integers(0, 10**9), unique=True))
def test_names_are_ordered_by_their_numbers(numbers):
    names = [f"x{number % 7}.{number:010}" for number in numbers]
    assert [int(name[-10:]) for name in wire.in_sequence(names)] == sorted(numbers)
