"""Which findings of a corpus are new, and what becomes of those that its command does not take."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pyarrow as pa
import pytest

from dethrone.harness.pipeline.known_regressions import Known
from dethrone.harness.pipeline.places import LocalPlace
from dethrone.harness.pipeline.raising import key_of, raise_new, why_known


def row(**fields):
    base = {
        "run": "raft-a",
        "date": "2026-11-21",
        "system": "raft",
        "checker": "one-leader-per-term",
        "version": "1",
        "content": "c",
        "number": 0,
        "sentence": "n1 and n2 led term 4",
        "excused": None,
        "term": 4,
        "nodes": ["n1", "n2"],
        "certificate": [3, 9],
        "written_ns": 1,
        "events": '{"type": "trace"}',
        "signature": "",
    }
    return {**base, **fields}


@pytest.mark.parametrize(
    ("entry", "known"),
    [
        ({}, True),
        ({"kind": "new"}, True),
        ({"kind": "standing"}, True),
        ({"kind": "more-often"}, False),
        ({"fault": "kill"}, True),
        ({"fault": "pause"}, False),
        ({"until": "2026-11-21"}, True),
        ({"until": "2026-11-20"}, False),
        ({"system": "etcd"}, False),
        ({"metric": "fail/leader-when-owed"}, False),
    ],
)
def test_a_finding_is_known_as_comparisons_know_it(entry, known):
    words = {"system": "raft", "metric": "fail/one-leader-per-term", "why": "ours", **entry}
    assert why_known(row(), fault="kill", known=(Known(**words),)) == ("ours" if known else "")


def test_an_entry_with_a_signature_covers_that_cause_alone():
    mine = (Known(signature="raft/log/1", why="ours"),)
    assert why_known(row(signature="raft/log/1"), fault="kill", known=mine) == "ours"
    assert why_known(row(signature="raft/log/2"), fault="kill", known=mine) == ""
    assert why_known(row(), fault="kill", known=mine) == ""


class Made:
    """A corpus with these runs (name → day) and findings."""

    def __init__(self, path, runs, *findings):
        self.place = LocalPlace(path)
        self._runs, self._findings = runs, findings

    def runs(self, *columns):
        return [{"run": run, "date": day, "system": "raft", "path": f"no/{run}"} for run, day in self._runs.items()]

    def verdicts(self, *columns):
        return pa.Table.from_pylist([{"run": run, "outcome": "pass"} for run in self._runs])

    def findings(self):
        return pa.Table.from_pylist(list(self._findings))


def heard(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


@pytest.fixture
def hook(tmp_path):
    path = tmp_path / "heard"
    return path, ("/bin/sh", "-c", f"cat >> {path}; echo >> {path}")


ONE = row(signature="raft/log/1")
SAME = row(signature="raft/log/1", run="raft-b", date="2026-11-22")


def test_each_cause_is_handed_over_once_however_many_runs_show_it(tmp_path, hook):
    path, command = hook
    other = row(signature="raft/log/2", run="raft-b", date="2026-11-22")
    corpus = Made(tmp_path, {"raft-a": "2026-11-21", "raft-b": "2026-11-22"}, ONE, SAME, other)
    assert raise_new(corpus, command, known=()).raised == ("raft/log/1", "raft/log/2")
    assert raise_new(corpus, command, known=()).raised == ()
    told = heard(path)
    assert [one["key"] for one in told] == ["raft/log/1", "raft/log/2"]
    assert (told[0]["run"], told[0]["certificate"], told[0]["events"]) == ("raft-a", [3, 9], [{"type": "trace"}])


def test_a_finding_that_the_command_did_not_take_is_handed_over_again(tmp_path, hook):
    path, command = hook
    corpus = Made(tmp_path, {"raft-a": "2026-11-21"}, ONE)
    failed = raise_new(corpus, ("/bin/sh", "-c", "exit 7"), known=())
    assert (failed.raised, len(failed.trouble)) == ((), 1)
    assert "ended with 7" in failed.trouble[0]
    assert raise_new(corpus, command, known=()).raised == ("raft/log/1",)
    assert len(heard(path)) == 1


def test_excused_and_known_findings_are_not_handed_over(tmp_path, hook):
    path, command = hook
    corpus = Made(tmp_path, {"raft-a": "2026-11-21"}, ONE, row(signature="raft/log/3", excused="a clock fault"))
    done = raise_new(corpus, command, known=(Known(signature="raft/log/1", why="ours"),))
    assert (done.raised, done.known, heard(path)) == ((), ("raft/log/1",), [])


def test_a_cause_that_many_runs_did_not_show_is_new_again_when_it_returns(tmp_path, hook):
    path, command = hook
    runs = {"raft-a": "2026-11-21"}
    assert raise_new(Made(tmp_path, runs, ONE), command, known=()).raised == ("raft/log/1",)
    day = date(2026, 11, 22)
    for number in range(12):
        runs[f"clean-{number}"] = (day + timedelta(number)).isoformat()
    assert raise_new(Made(tmp_path, runs, ONE), command, known=()).raised == ()
    back = row(signature="raft/log/1", run="raft-z", date="2026-12-24")
    runs["raft-z"] = "2026-12-24"
    assert raise_new(Made(tmp_path, runs, ONE, back), command, known=()).raised == ("raft/log/1",)
    assert raise_new(Made(tmp_path, runs, ONE, back), command, known=()).raised == ()
    assert [one["run"] for one in heard(path)] == ["raft-a", "raft-z"]


def test_a_finding_without_a_signature_goes_by_its_system_and_checker():
    assert key_of(row()) == "raft/one-leader-per-term"
