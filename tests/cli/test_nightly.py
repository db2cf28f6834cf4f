from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

FILE = """
[night]
seeds = 1
time-limit = "20s"
on = "sim"
fail-on = "new"
on-finding = ["tee", "-a", "told.jsonl"]

[[systems]]
system = "raft"
nodes = [3]

[[systems]]
system = "raft"
nodes = [3]
variant = "plain-wants-every-vote"
faults = ["kill"]
"""


@pytest.mark.slow
def test_a_night_of_simulated_runs_finds_the_planted_bug_once_and_is_red_once(call):
    Path("nightly.toml").write_text(FILE, encoding="utf-8")
    done = call("campaign", "nightly.toml", "--json", "--junit-xml", "j.xml")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["verdict"], told["trouble"]) == (1, "fail", [])
    assert told["new"]
    assert {key.split("/")[0] for key in told["new"]} == {"raft:plain-wants-every-vote"}
    assert len(ET.parse("j.xml").getroot()) == 2  # noqa: S314 - our own output
    assert len(Path("told.jsonl").read_text(encoding="utf-8").split("}{")) == len(told["new"])
    page = Path(told["page"]).read_text(encoding="utf-8")
    for run in told["runs"]:
        assert f'href="{run["report"]}"' in page
        assert (Path(told["run_dir"]) / run["report"]).is_file()
    assert "<b>new</b>" in page
    again = json.loads(call("campaign", "nightly.toml", "--json").stdout)
    assert again["run_dir"] != told["run_dir"]
    assert not set(again["new"]) & set(told["new"]), "what was told once is not new in the next night"
    assert again["runs"][0]["job"]["why"] == "failed before"
    assert again["runs"][0]["job"]["seed"] in told["seed"]
    assert again["runs"][0]["outcome"] == "fail", "the seed that failed is run again"


def test_a_night_says_its_seeds_in_its_file(call):
    Path("nightly.toml").write_text(FILE, encoding="utf-8")
    assert call("campaign", "nightly.toml", "--seeds", "0..3").exit_code == 64
    assert call("campaign", "raft", "--seeds", "0..3", "--out", "c", "--budget", "1h").exit_code == 64
    assert call("campaign", "raft").exit_code == 64


def test_an_unknown_key_names_the_nearest(call):
    Path("nightly.toml").write_text(FILE.replace("seeds =", "seds ="), encoding="utf-8")
    done = call("campaign", "nightly.toml")
    assert done.exit_code == 64
    assert "did you mean 'seeds'" in done.stderr


def test_a_night_that_could_not_be_run_is_refused_before_it_begins(call):
    Path("nightly.toml").write_text(FILE.replace('variant = "plain-wants', 'variant = "plain-wnts'), encoding="utf-8")
    done = call("campaign", "nightly.toml")
    assert done.exit_code == 64
    assert "plain-wnts-every-vote" in done.stderr
    assert not Path("nights").exists()
