"""init: questions and answers make a file that can be used; nothing is written over."""

import pytest

from dethrone.harness.core import registry

ANSWERS = {
    "name of the system": "",
    "program to copy": "prog",
    "command that starts": "",
    "one member": "",
    "TCP ports": "",
    "how a node is asked": "",
    "path that answers": "",
    "name of the port it is": "",
    "holds the role": "",
    "says at a leader": "",
    "holds the term": "",
    "whom the node follows": "leader",
    "commit index": "",
    "what it calls a node": "",
    "trace lines": "elected, vote_granted",
    "tell the voters": "y",
    "what clients do": "register",
    "request of put": "",
    "request of get": "",
    "request of cas": "",
    "port that clients": "",
    "longest election": "",
    "heartbeat": "",
    "faults": "partition, kill",
    "a leader within": "5s",
    "stops claiming": "",
    "follows one leader": "",
    "linearizable": "y",
    "always of the term": "",
    "pre-votes": "",
}


@pytest.fixture
def init(tmp_path, call):
    (tmp_path / "prog").write_text("#!/bin/sh\n")

    def run(*words, **changed):
        from click.testing import CliRunner

        from dethrone.harness.cli.main import main

        answers = {**ANSWERS, **changed}
        said = "".join(f"{answer}\n" for answers_of in answers.values() for answer in answers_of.split("|"))
        return CliRunner().invoke(main, ["init", *words], input=said)

    return run


def test_answers_become_a_description_that_loads(init, tmp_path):
    done = init("mine.toml")
    assert done.exit_code == 0, done.stderr
    of = registry.load(registry.SYSTEMS, str(tmp_path / "mine.toml"))
    assert of.name == "mine"
    assert of.told() == ("elected", "vote_granted")
    assert of.operations() == {"put", "get", "cas"}
    promise = of.promise({}, profile="own", voters=3)
    assert promise.linearizable_reads
    assert set(promise.tolerates) == {"partition", "kill"}
    assert "dethrone doctor mine.toml" in done.stderr
    assert "step-down-without-quorum will not be judged" in done.stderr


def test_an_answer_that_cannot_be_read_is_asked_for_again(init, tmp_path):
    done = init(**{"TCP ports": "http|http=8000", "longest election": "1|2s"})
    assert done.exit_code == 0, done.stderr
    assert "'http' is not name=number" in done.stderr
    assert 'election_timeout = "2s"' in (tmp_path / "my.toml").read_text()


def test_a_description_that_does_not_fit_together_is_written_and_told(init, tmp_path):
    done = init("mine.toml", **{"program to copy": "absent"})
    assert done.exit_code == 64
    assert (tmp_path / "mine.toml").exists()
    assert "build it first" in done.stderr


def test_a_file_that_is_there_stays_unless_it_is_forced(init, tmp_path):
    (tmp_path / "mine.toml").write_text("kept")
    assert init("mine.toml").exit_code == 64
    assert (tmp_path / "mine.toml").read_text() == "kept"
    assert init("mine.toml", "--force").exit_code == 0
    assert init("mine.json").exit_code == 64


def test_every_way_to_ask_a_node_makes_a_file_that_loads(init, tmp_path):
    without = {key: None for key in ANSWERS if key in (
        "path that answers", "name of the port it is", "holds the role", "says at a leader", "holds the term",
        "whom the node follows", "commit index", "what it calls a node")}  # fmt: skip
    ways = {"metrics": 4, "log": 2, "command": 6}
    for way, questions in ways.items():
        answers = {}
        for key, answer in ANSWERS.items():
            if key == "how a node is asked":
                answers[key] = "|".join([way, *[""] * questions])
            elif key not in without:
                answers[key] = answer
        from click.testing import CliRunner

        from dethrone.harness.cli.main import main

        said = "".join(f"{one}\n" for answer in answers.values() for one in answer.split("|"))
        done = CliRunner().invoke(main, ["init", f"{way}.toml"], input=said)
        assert done.exit_code == 0, done.stderr
        assert registry.load(registry.SYSTEMS, str(tmp_path / f"{way}.toml")).name == way


def test_an_interrupted_init_writes_nothing(tmp_path):
    from click.testing import CliRunner

    from dethrone.harness.cli.main import main

    done = CliRunner().invoke(main, ["init", "mine.toml"], input="mine\n")
    assert done.exit_code == 130
    assert not (tmp_path / "mine.toml").exists()


def test_doctor_tells_trace_lines_of_any_output_and_its_exit_code_says_whether_they_are_well_formed(tmp_path, call):
    lines = tmp_path / "out"
    lines.write_text('hello\n{"dethrone": 1, "event": "elected", "term": 1}\n')
    assert call("doctor", "--lines", str(lines)).exit_code == 0
    lines.write_text('{"dethrone": 1, "event": "elected"}\n')
    done = call("doctor", "--lines", str(lines), "--json")
    assert done.exit_code == 3
    assert "the field 'term' is missing" in done.stdout


@pytest.mark.parametrize("verb", [("run", "absent.toml"), ("doctor", "absent.toml"), ("run", "x/y")])
def test_a_description_that_is_not_there_is_wrong_usage(call, verb):
    done = call(*verb)
    assert done.exit_code == 64
    assert "dethrone" in done.stderr
