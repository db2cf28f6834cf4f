from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.nightly.night_file import is_night, parse_night, read_night

BASE = Path("/somewhere")


def parsed(text: str):
    return parse_night(tomllib.loads(text), where="night.toml", base=BASE)


def test_a_system_takes_from_the_night_what_it_leaves_out():
    night = parsed(
        """
        [night]
        seeds = 4
        strategies = ["random", "mixed"]
        budget = "6h"
        keep = "24h"
        corpus = "corpus"
        [[systems]]
        system = "etcd"
        versions = ["3.4", "3.5"]
        seeds = 1
        set = { quick = true, factor = 2 }
        [[systems]]
        system = "raft"
        """
    )
    etcd, raft = night.entries
    assert (etcd.seeds, etcd.strategies, etcd.versions) == (1, ("random", "mixed"), ("3.4", "3.5"))
    assert dict(etcd.settings) == {"quick": "true", "factor": "2"}
    assert (raft.seeds, raft.versions, raft.faults) == (4, (None,), (None,))
    assert (night.budget_ns, night.keep_ns) == (6 * 3600 * SECOND, 24 * 3600 * SECOND)
    assert night.corpus == str(BASE / "corpus")
    assert night.out == BASE / "nights"


@pytest.mark.parametrize(("word", "scale"), [('"auto"', None), ("2", 2.0), ("1.5", 1.5), ('"3"', 3.0)])
def test_a_night_says_the_time_scale_for_all_systems_and_a_system_for_itself(word, scale):
    night = parsed(
        f"""
        [night]
        time-scale = {word}
        [[systems]]
        system = "etcd"
        [[systems]]
        system = "raft"
        time-scale = 4
        [[systems]]
        system = "nacos"
        time-scale = "auto"
        """
    )
    assert [entry.time_scale for entry in night.entries] == [scale, 4.0, None]


@pytest.mark.parametrize("word", ["0.5", "9", "true", "'fast'", "[2]", "nan", "inf", "1" * 400])
def test_a_time_scale_that_no_run_could_have_is_refused_with_its_place(word):
    with pytest.raises(ConfigError, match="time-scale") as caught:
        parsed(f"[night]\ntime-scale = {word}\n[[systems]]\nsystem = 'raft'")
    assert "from 1 to 8" in caught.value.cause


def test_a_corpus_that_is_an_address_stays_one():
    assert parsed('[night]\ncorpus = "s3a://b/c"\n[[systems]]\nsystem = "raft"').corpus == "s3a://b/c"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no system was named"),
        ("[night]\nseed = 3\n[[systems]]\nsystem = 'raft'", "did you mean 'seeds'"),
        ("[nigth]\n[[systems]]\nsystem = 'raft'", "did you mean 'night'"),
        ("[[systems]]\nversion = ['1']\nsystem = 'raft'", "did you mean 'versions'"),
        ("[[systems]]\nnodes = 3", "a system has no name"),
        ("[[systems]]\nsystem = 'raft'\nseeds = 0", "whole number from 1"),
        ("[[systems]]\nsystem = 'raft'\ntime-limit = '60'", "is not a valid value for time-limit"),
        ("[[systems]]\nsystem = 'raft'\nfaults = []", "expected a list of words"),
        ("[night]\nfail-on = 'red'\n[[systems]]\nsystem = 'raft'", "unknown, violation, excused or new"),
        ("systems = 3", "tables [[systems]]"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text, said):
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    assert said in f"{caught.value.what} {caught.value.cause} {caught.value.next_step}"
    assert "night.toml" in caught.value.where


def test_a_file_is_a_night_if_it_names_systems(tmp_path):
    (tmp_path / "night.toml").write_text("[[systems]]\nsystem = 'raft'\n")
    (tmp_path / "own.toml").write_text("name = 'mine'\n")
    assert is_night(tmp_path / "night.toml")
    assert not is_night(tmp_path / "own.toml")
    assert not is_night(tmp_path / "missing.toml")


def test_a_file_that_is_not_there_and_one_that_is_no_toml_say_so(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the night"):
        read_night(tmp_path / "missing.toml")
    (tmp_path / "bad.toml").write_text("= 3")
    with pytest.raises(ConfigError, match="not TOML"):
        read_night(tmp_path / "bad.toml")


def test_the_night_in_the_documentation_can_be_read():
    text = (Path(__file__).resolve().parents[3] / "docs" / "nightly.md").read_text(encoding="utf-8")
    night = parsed(text.split("```toml\n")[1].split("```")[0])
    assert [entry.system for entry in night.entries] == ["etcd", "raft"]
    assert night.fail_on == "new"
    assert night.on_finding == ("./tell-the-team.sh",)
