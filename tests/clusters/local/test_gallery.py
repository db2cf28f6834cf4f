"""Systems of the gallery on hosts of this machine: they start, serve, and two releases are told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dethrone.clusters import gallery
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.history_files import read_history
from tests.command import dethrone

pytestmark = pytest.mark.namespaces
FILE = Path(gallery.__path__[0]) / "pysyncobj" / "pysyncobj.toml"


@pytest.mark.slow
def test_a_system_of_the_gallery_starts_answers_and_returns_after_a_kill(root, tmp_path):
    done = dethrone(tmp_path / "state", "doctor", FILE, "--on", "local", "--json")
    rows = {row["what"]: row["seen"] for row in json.loads(done.stdout)["rows"]}
    assert rows["n1 leads"] == "yes", done.stderr
    assert rows["read 'doctor-list' at n1: [1]"] == "yes", rows
    assert rows["n1 answers after kill -9, in term 1"] == "yes", rows


@pytest.mark.nightly("three minutes each; CI starts one of the gallery")
@pytest.mark.parametrize(
    ("system", "failing"), [("pysyncobj-0.3.14", {"one-leader-per-term", "term-never-decreases"}), ("pysyncobj", set())]
)
def test_restarts_of_all_nodes_tell_the_release_that_forgets_its_term_from_the_one_that_stores_it(
    root, tmp_path, system, failing
):
    words = ("--strategy", "restarts", "--nemesis-interval", "6s", "--time-limit", "150s", "--seed", "0")
    out = ("--json", "--out", tmp_path / "run")
    done = dethrone(tmp_path / "state", "run", system, "--on", "local", "--nodes", "3", *words, *out)
    checkers = json.loads(done.stdout)["checkers"]
    safety = {name for name, of in checkers.items() if of["kind"] == "safety" and of["verdict"] == "fail"}
    assert safety >= failing if failing else not safety, done.stderr
    assert checkers["term-never-decreases"]["evidence"]["judged"] > 100


@pytest.mark.nightly("two Go programs are built, and elections of nats take half a minute")
@pytest.mark.parametrize(("system", "interval", "limit"), [("hashicorp-raft", "11s", "30s"), ("nats", "30s", "80s")])
def test_systems_that_say_how_are_asked_to_move_leadership_and_do(root, tmp_path, system, interval, limit):
    words = ("--faults", "transfer", "--nemesis-interval", interval, "--time-limit", limit, "--seed", "1")
    out = ("--json", "--out", tmp_path / "run")
    done = dethrone(tmp_path / "state", "run", system, "--on", "local", "--nodes", "3", *words, *out)
    assert json.loads(done.stdout)["verdict"] != "fail", done.stderr
    found = [event for event in read_history(tmp_path / "run" / "history").of(FaultEvent) if event.phase == "begin"]
    assert "installed" in {event.outcome for event in found}, [event.why for event in found]
