from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dethrone.harness.engine.host import healing as heal_engine


def test_a_campaign_runs_each_seed_once_and_goes_on_where_it_stopped(call, engine):
    done = call("campaign", "raft", "--seeds", "0..1", "--out", "c", "--nodes", "3", "--json")
    assert done.exit_code == 0
    assert [options.seed for options in engine.asked] == [0, 1]
    done = call("campaign", "raft", "--seeds", "0..2", "--out", "c", "--nodes", "3", "--json")
    assert [options.seed for options in engine.asked] == [0, 1, 2]
    value = json.loads(done.stdout)
    assert [run["seed"] for run in value["runs"]] == [0, 1, 2]
    assert value["verdict"] == "pass"
    assert all((Path("c") / f"seed-{seed}" / "report.html").exists() for seed in range(3))


def test_a_campaign_exits_with_the_worst_and_shows_a_table(call, engine):
    engine.stories["nacos"] = ["pass", "fail"]
    done = call("campaign", "nacos", "--seeds", "4,5", "--out", "c", "--junit-xml", "j.xml", "--github")
    assert done.exit_code == 1
    assert "1 pass, 1 fail, 0 unknown" in done.stdout
    assert "::error" in done.stdout
    assert len(ET.parse("j.xml").getroot()) == 2  # noqa: S314 - our own output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine", "spark"), "only simulate"),
        (("--corpus", "c"), "dethrone corpus add"),
        (("--on", "sim", "--engine", "spark", "--jobs", "2"), "remove --jobs"),
        (("--on", "sim", "--master", "local[2]"), "add --engine spark"),
        (("--on", "sim", "--spark-conf", "spark.x=1"), "add --engine spark"),
    ],
)
def test_flags_that_do_not_fit_are_said_before_anything_starts(call, engine, words, said):
    done = call("campaign", "raft", "--seeds", "0..1", "--out", "c", *words)
    assert done.exit_code == 64
    assert said in done.stderr
    assert engine.asked == []
    assert not Path("c").exists()


def test_a_simulated_campaign_goes_into_a_corpus_without_spark(call):
    words = ("campaign", "nacos", "--on", "sim", "--nodes", "3", "--time-limit", "20s", "--workload", "election")
    done = call(*words, "--seeds", "0..2", "--out", "c", "--corpus", "d", "--keep-failing", "0", "--json")
    value = json.loads(done.stdout)
    assert (value["listed"], sum(value["counts"].values())) == (3, 3)
    assert value["corpus"]["rows"] == 3
    assert list(Path("d/seeds").glob("*.parquet"))


def test_an_interrupted_campaign_exits_130_and_keeps_its_rows(call, engine):
    call("campaign", "raft", "--seeds", "0", "--out", "c")
    engine.interrupted = True
    done = call("campaign", "raft", "--seeds", "0..3", "--out", "c", "--json")
    assert done.exit_code == 130
    assert [run["seed"] for run in json.loads(done.stdout)["runs"]] == [0]


def test_heal_tells_what_it_did(call, monkeypatch):
    asked = {}

    def heal(*, dry_run, kept, progress, **_):
        asked.update(dry_run=dry_run, kept=kept)
        progress("raft-1: container x")
        return heal_engine.HealReport(healed=("raft-1",), skipped_live=("raft-2",), skipped_kept=("raft-3",))

    monkeypatch.setattr(heal_engine, "heal", heal)
    done = call("heal", "--json")
    value = json.loads(done.stdout)
    assert (value["healed"], value["skipped_live"], value["exit_code"]) == (["raft-1"], ["raft-2"], 0)
    assert asked == {"dry_run": False, "kept": False}
    shown = call("heal", "--all", "--dry-run").stdout
    assert asked == {"dry_run": True, "kept": True}
    assert "skipped, still running: raft-2" in shown


def test_heal_that_leaves_something_exits_3(call, monkeypatch):
    monkeypatch.setattr(heal_engine, "heal", lambda **_: heal_engine.HealReport(left=("raft-1: no engine",)))
    assert call("heal").exit_code == 3
    assert "would be healed: raft-1" in (done := call("heal", "--dry-run")).stdout
    assert done.exit_code == 0


def test_doctor_exits_3_without_any_backend(call, monkeypatch):
    from dethrone.harness.core.interfaces import No, Yes
    from dethrone.harness.engine.host import doctor

    rows = [("machine", "Linux", Yes()), ("backend docker", "engine", No(why="none runs", what_to_do="start one"))]
    monkeypatch.setattr(doctor, "rows", lambda **_: rows)
    done = call("doctor", "--json")
    value = json.loads(done.stdout)
    assert done.exit_code == value["exit_code"] == 3
    assert {
        "section": "backend docker",
        "name": "engine",
        "usable": False,
        "why": "none runs",
        "what_to_do": "start one",
    } in (value["rows"])
