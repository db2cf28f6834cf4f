from __future__ import annotations

import contextlib
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.cli import run_options, setting_table, settings, value_readers
from dethrone.harness.core.errors import ConfigError


def merged(flags=None, env=None, toml: str | None = None):
    path = None
    if toml is not None:
        path = Path("other.toml")
        path.write_text(toml)
    return settings.merge(flags or {}, env or {}, path)


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default():
    toml = "[run]\nnodes = 3\non = 'ssh'\nseed = 1\nstrategy = 'a'\n"
    env = {"DETHRONE_SEED": "2", "DETHRONE_STRATEGY": "b"}
    found = merged({"strategy": "c"}, env, toml)
    assert {key: (found[key].value, found[key].origin) for key in ("fail-on", "nodes", "seed", "strategy")} == {
        "fail-on": ("unknown", "default"),
        "nodes": (3, "other.toml"),
        "seed": (2, "DETHRONE_SEED"),
        "strategy": ("c", "flag"),
    }


def test_knobs_are_merged_one_by_one():
    toml = "[run.set]\na = 1\nb = true\nc = 0.1\n"
    found = merged({"set": ("c=3", "d=4")}, {"DETHRONE_SET": "b=2"}, toml)
    assert found["set"].value == {"a": "1", "b": "2", "c": "3", "d": "4"}


def test_dethrone_toml_of_this_directory_is_read():
    Path("dethrone.toml").write_text("[run]\nnodes = 7\ntime_limit = '30s'\nfaults = ['kill']\nkeep-cluster = true\n")
    options = run_options.run_options("raft", settings.merge({}, {}, None))
    assert (options.nodes, options.time_limit_ns, options.faults, options.keep_cluster) == (
        7,
        30 * 10**9,
        ("kill",),
        True,
    )


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[run]\nnode = 3\n", ["unknown key 'node'", "did you mean 'nodes'?", "other.toml: [run]"]),
        ("[rum]\n", ["unknown key 'rum'", "did you mean 'run'?"]),
        ("nodes = 3\n", ["unknown key 'nodes'"]),
        ("run = 3\n", ["[run] must be a table"]),
        ("[run\n", ["not TOML"]),
        ("[run]\nnodes = 'many'\n", ["'many' is not a valid value for nodes", "other.toml"]),
        ("[run]\nnodes = true\n", ["True is not a valid value for nodes"]),
        ("[run]\ntime-limit = 60\n", ["60 is not a valid value for time-limit", "a number and a unit"]),
        ("[run]\nfaults = [1]\n", ["not a valid value for faults"]),
        ("[run]\nkeep-cluster = 'perhaps'\n", ["true or false"]),
        ("[run.set]\na = [1]\n", ["the value of a knob"]),
    ],
)
def test_a_bad_file_is_told_with_its_place(toml, words):
    with pytest.raises(ConfigError) as caught:
        merged(toml=toml)
    assert caught.value.exit_code == 64
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        ("nodes", "0"), ("nodes", "100"), ("nodes", "5.5"), ("seed", "-1"), ("time-limit", "10"), ("time-limit", "0s"),
        ("time-limit", "-5s"), ("nemesis-interval", "soon"), ("set", "a"), ("set", "=1"), ("concurrency", "0"),
        ("concurrency", "2x"), ("rate", "-1"), ("fail-on", "never"), ("workload", " "), ("first-failure", "maybe"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused(key, raw):
    with pytest.raises(ConfigError, match="is not a valid value for"):
        setting_table.read(key, raw, where="--x")


def test_no_faults_can_be_asked_for():
    assert setting_table.read("faults", "none", where="") == ()
    assert setting_table.read("faults", "kill, pause,kill", where="") == ("kill", "pause")


@pytest.mark.parametrize(("text", "count"), [("10", 10), ("2n", 6), ("n", 3)])
def test_clients_may_be_a_multiple_of_the_nodes(text, count):
    assert value_readers.client_count(text, nodes=3) == count


@pytest.mark.parametrize(("text", "found"), [("0..3", (0, 1, 2, 3)), ("7", (7,)), ("5,1..2,5", (5, 1, 2))])
def test_seeds(text, found):
    assert tuple(value_readers.seeds(text)) == found


@pytest.mark.parametrize("text", ["", "9..1", "a", "1..", "-3", "0..99999999", "1,,2"])
def test_no_seeds(text):
    with pytest.raises(ConfigError):
        value_readers.seeds(text)


@given(st.text())
def test_any_text_for_seeds_is_read_or_refused(text):
    with contextlib.suppress(ConfigError):
        assert value_readers.seeds(text)


def test_a_misspelt_variable_is_said():
    assert settings.misspelt_env({"DETHRONE_NODE": "3", "DETHRONE_STATE_DIR": "x", "DETHRONE_OTHER_THING": "y"}) == [
        "DETHRONE_NODE is not a known variable and is ignored; did you mean DETHRONE_NODES?"
    ]


def test_what_show_config_prints_is_a_configuration_itself():
    found = merged({"faults": "kill,pause", "set": ("a=1",), "nodes": "3"})
    text = settings.show(found)
    again = tomllib.loads(text)["run"]
    assert again["faults"] == ["kill", "pause"]
    assert again["set"] == {"a": "1"}
    assert merged(toml=text)["nodes"].value == 3


@pytest.mark.parametrize(("word", "scale"), [("auto", None), ("1", 1), ("1.5", 1.5), ("8", 8)])
def test_the_time_scale_is_measured_or_pinned(word, scale):
    assert run_options.run_options("raft", merged({"time-scale": word})).time_scale == scale


@pytest.mark.parametrize("word", ["0", "0.5", "9", "fast", "nan", "-1"])
def test_a_time_scale_that_no_run_could_have_is_refused(word):
    with pytest.raises(ConfigError, match="time-scale"):
        merged({"time-scale": word})
