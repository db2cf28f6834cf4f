from __future__ import annotations

from dethrone.clusters.targets.client_api import Append, Get
from dethrone.clusters.targets.paxos.messages import Command, Given, Leader, kind_of, shown


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
