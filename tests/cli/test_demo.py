from __future__ import annotations

import json
from pathlib import Path

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.interfaces import BackendTraits, No, Yes


class Made:
    """A backend as the demo asks it."""

    def __init__(self, answer, able=("signals", "iptables", "faketime")):
        self.available = lambda: answer
        self.traits = BackendTraits(capabilities=frozenset(able))


@pytest.fixture(autouse=True)
def backends(monkeypatch):
    """What this machine can do, as far as the demo asks."""
    known = {"docker": Made(Yes()), "local": Made(Yes())}
    load = registry.load
    monkeypatch.setattr(registry, "load", lambda group, name: known[name] if name in known else load(group, name))
    return known


def shown(done):
    return [line for line in done.stdout.splitlines() if line.startswith(("Both", "This", "  raft", "  nacos", "Seed"))]


def test_the_demo_exits_0_when_both_went_as_told(call, engine):
    engine.stories = {"raft": ["pass"], "nacos": ["fail"]}
    done = call("demo", "--seed", "1", "--out", "d")
    assert done.exit_code == 0, done.output
    assert "Both runs ended as announced." in done.stdout
    for name in ("raft", "nacos-1"):
        assert f"d/{name}/report.html" in done.stdout
        assert Path("d", name, "report.html").exists()
    raft, nacos = engine.asked
    assert raft.faults == ("partition", "kill", "pause", "clock")
    assert nacos.stop_at_first_failure is True
    assert nacos.schedule is None


def test_a_nacos_run_without_a_finding_is_followed_by_the_next_drawn_seed_and_that_is_said(call, engine):
    engine.stories = {"raft": ["pass"], "nacos": ["pass", "fail"]}
    done = call("demo", "--seed", "1", "--out", "d")
    assert done.exit_code == 0
    assert len({options.seed for options in engine.asked}) == 3
    assert "ended without a finding (try 1 of 3)" in done.stdout


def test_nacos_that_never_fails_is_not_as_told(call, engine):
    engine.stories = {"raft": ["pass"], "nacos": ["pass", "pass", "pass"]}
    done = call("demo", "--seed", "1", "--out", "d")
    assert done.exit_code == 1
    assert "NOT both runs ended as announced" in done.stdout
    assert len(engine.asked) == 4


def test_raft_that_fails_is_not_as_told(call, engine):
    engine.stories = {"raft": ["fail"], "nacos": ["fail"]}
    value = json.loads((done := call("demo", "--seed", "1", "--json")).stdout)
    assert done.exit_code == value["exit_code"] == 1
    assert [run["as_told"] for run in value["runs"]] == [False, True]


def test_trouble_is_said_as_such(call, engine):
    engine.trouble = ("the engine is gone",)
    done = call("demo", "--seed", "1")
    assert done.exit_code == 3
    assert "the result proves nothing about either system" in done.stdout
    assert len(engine.asked) == 1


def test_the_same_demo_seed_draws_the_same_runs(call, engine):
    for out in ("a", "b"):
        engine.stories = {"raft": ["pass"], "nacos": ["fail"]}
        call("demo", "--seed", "9", "--out", out)
    seeds = [options.seed for options in engine.asked]
    assert seeds[:2] == seeds[2:]


@pytest.mark.parametrize(
    ("docker", "local", "runs_on", "said"),
    [
        (Made(Yes()), Made(Yes()), "docker", ()),
        (Made(No(why="no engine answers")), Made(Yes()), "local", ("docker: no engine answers",)),
        (
            Made(No(why="no engine answers")),
            Made(Yes(), able=("signals",)),
            "sim",
            ("docker: no engine answers", "local: this machine lacks faketime, iptables", "in simulation"),
        ),
        (
            Made(No(why="no engine answers")),
            Made(No(why="no namespaces")),
            "sim",
            ("docker: no engine answers", "local: no namespaces", "in simulation"),
        ),
    ],
)
def test_without_an_engine_it_runs_on_what_there_is_and_says_so(
    call, engine, backends, docker, local, *, runs_on, said
):
    backends.update(docker=docker, local=local)
    engine.stories = {"raft": ["pass"], "nacos": ["fail"]}
    done = call("demo", "--seed", "1", "--out", "d")
    assert done.exit_code == 0, done.output
    assert {options.backend for options in engine.asked} == {runs_on}
    assert all(words in done.output for words in said)
    assert ("cannot run on" in done.output) is bool(said)


def test_a_backend_that_is_named_is_taken_whatever_the_machine_can_do(call, engine, backends):
    backends.update(docker=Made(No(why="no engine answers")))
    engine.stories = {"raft": ["pass"], "nacos": ["fail"]}
    assert call("demo", "--seed", "1", "--on", "sim", "--out", "d").exit_code == 0
    assert {options.backend for options in engine.asked} == {"sim"}
