from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append, Cas, Get, Learn, Put
from dethrone.clusters.targets.client_api import Propose as Want
from dethrone.clusters.targets.paxos.messages import (
    Accepted,
    Ask,
    Command,
    Given,
    Heartbeat,
    Leader,
    Nack,
    Ping,
    Pong,
    Prepare,
    Promise,
    Propose,
    Told,
    kind_of,
    shown,
)
from dethrone.clusters.targets.paxos.target import TARGET

numbers = st.integers(-(2**50), 2**50)
words = st.text(max_size=4)
json_values = st.recursive(st.none() | st.booleans() | numbers | words, lambda s: st.lists(s, max_size=2), max_leaves=3)
requests = st.one_of(
    st.builds(Append, words, numbers | words),
    st.builds(Put, words, json_values),
    st.builds(Cas, words, json_values, json_values),
    st.builds(Get, words),
)
values = st.one_of(
    st.builds(Given, json_values), st.builds(Leader, words), st.builds(Command, words, numbers, requests)
)
accepted = st.builds(Accepted, numbers, numbers, values)
MESSAGES = {
    Prepare: st.builds(Prepare, numbers, numbers),
    Promise: st.builds(Promise, numbers, numbers, numbers, st.none() | values),
    Nack: st.builds(Nack, numbers, numbers, numbers),
    Propose: st.builds(Propose, numbers, numbers, values),
    Accepted: accepted,
    Ask: st.builds(Ask, numbers, numbers),
    Told: st.builds(Told, numbers, numbers, st.lists(accepted, max_size=3).map(tuple)),
    Ping: st.just(Ping()),
    Pong: st.just(Pong()),
    Heartbeat: st.builds(Heartbeat, numbers),
}
decoder = msgspec.json.Decoder(TARGET.message_type)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_survives_the_wire(kind):
    @given(MESSAGES[kind])
    def check(body):
        assert decoder.decode(msgspec.json.encode(body)) == body

    check()


def test_every_message_is_tested():
    assert set(MESSAGES) == set(TARGET.message_type.__args__)


def test_requests_survive_the_wire():
    for body in (Want(3, {"a": [1]}), Learn(3), Append("k", 1)):
        assert msgspec.json.decode(msgspec.json.encode(body), type=TARGET.request_type) == body


def test_every_instance_message_carries_its_instance():
    for kind in (Prepare, Promise, Nack, Propose, Accepted):
        assert kind.__struct_fields__[:2] == ("instance", "id")


def test_values_are_shown_as_plain_json():
    assert (shown(Given([1])), shown(Leader("A")), shown(None)) == ([1], "A", None)
    told = shown(Command("A-1", 2, Append("k", 3)))
    assert told == {
        "type": "command",
        "origin": "A-1",
        "number": 2,
        "request": {"type": "append", "key": "k", "value": 3},
    }
    assert [kind_of(v) for v in (Given(1), Leader("A"), Command("A", 1, Get("k")))] == ["value", "leader", "command"]
