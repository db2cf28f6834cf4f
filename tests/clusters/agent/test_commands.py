"""Faults by commands on a host that is made up: begun once, put back, taken back, also without the agent."""

from __future__ import annotations

import json

import pytest

from dethrone.clusters.agent.host.commands import Commands, deeds
from dethrone.clusters.agent.host.common import Refused
from dethrone.clusters.agent.host.healing import heal_alone
from dethrone.clusters.agent.host.requests import clean_state

TROUBLE = {
    "kind": "toy",
    "commands": [
        {
            "begin": ["set", "{address}", "{run}"],
            "check": ["is", "{address}", "{run}"],
            "end": ["unset", "{address}", "{run}"],
            "of": ["n1"],
        }
    ],
}


class Tools:
    """A host that knows three commands. ``deaf``: it begins nothing; ``stuck``: it ends nothing."""

    def __init__(self, *, deaf=False, stuck=False, check=None):
        self.there, self.ran, self.deaf, self.stuck, self.check = set(), [], deaf, stuck, check

    def tool(self, argv, **_):
        verb, *what = argv
        self.ran.append(verb)
        if verb == "is":
            return self.check or int(tuple(what) not in self.there), b"", b""
        if verb == "set" and not self.deaf:
            self.there.add(tuple(what))
        if verb == "unset" and not self.stuck:
            self.there.discard(tuple(what))
        return 0, b"", b"no such thing"


def wanted(ways=("10.0.0.1", "10.0.0.2")):
    troubles = clean_state({"troubles": [TROUBLE]})["troubles"]
    return deeds(troubles, words={"run": "r1"}, ways=lambda _: ways)


def test_each_address_has_its_commands_and_begins_once():
    tools, kept = Tools(), []
    commands = Commands(tools, lambda: kept.append(list(commands.held)))
    why, found = commands.apply(wanted())
    assert not why
    assert tools.there == {("10.0.0.1", "r1"), ("10.0.0.2", "r1")}
    assert found["ran"] == ["set 10.0.0.1 r1", "set 10.0.0.2 r1"]
    assert kept[0] == wanted(), "the undo is stored before the fault begins"
    assert commands.apply(wanted())[0] == ""
    assert tools.ran.count("set") == 2
    assert commands.apply([])[0] == ""
    assert not tools.there
    assert kept[-1] == []


def test_what_was_lost_is_put_back_and_told():
    tools = Tools()
    commands = Commands(tools, lambda: None)
    commands.apply(wanted())
    assert commands.put_back()[0] == ""
    tools.there.clear()
    assert commands.lapsed([]) == ["toy was not in force"] * 2
    assert commands.put_back()[0] == "toy was no longer in force; toy was no longer in force"
    assert len(tools.there) == 2
    assert len(commands.lost) == 2


def test_a_begin_without_effect_and_an_end_without_effect_are_no_success():
    assert "is not in force" in Commands(Tools(deaf=True), lambda: None).apply(wanted())[0]
    commands = Commands(Tools(stuck=True), lambda: None)
    commands.apply(wanted())
    assert "still in force" in commands.apply([])[0]
    assert commands.held, "the next convergence tries again"


def test_a_check_that_cannot_be_run_and_a_host_without_address_are_refused():
    with pytest.raises(Refused, match="could not be started"):
        Commands(Tools(check=127), lambda: None).apply(wanted())
    with pytest.raises(Refused, match="no address of n1"):
        wanted(ways=())


@pytest.mark.parametrize(
    "raw", [5, [5], [{"kind": 1}], [{"kind": "x", "commands": 5}], [{"kind": "x", "commands": [{"begin": []}]}]]
)
def test_commands_that_make_no_sense_are_refused(raw):
    with pytest.raises(Refused):
        clean_state({"troubles": raw})


def test_commands_are_taken_back_without_an_agent_and_twice(tmp_path):
    tools, path = Tools(), tmp_path / "agent.state"
    commands = Commands(tools, lambda: path.write_text(json.dumps({"commands": commands.held})))
    commands.apply(wanted())
    for _ in range(2):
        assert heal_alone(tools, "r1", str(path))["commands"] == "taken back"
        assert not tools.there


def test_a_check_that_cannot_be_run_is_told_and_keeps_the_process_from_nothing(tmp_path):
    path = tmp_path / "agent.state"
    path.write_text(json.dumps({"commands": wanted(), "node": {}}))
    answer = heal_alone(Tools(check=124), "r1", str(path))
    assert not answer["confirmed"]
    assert "ran out of time" in answer["why"]
