"""Runs of the acceptance are done once, and a run that was stopped is done again."""

from __future__ import annotations

import json

import pytest

from tests.acceptance import kept
from tests.acceptance.simulated import Unfinished


def commands(monkeypatch, *results):
    """What ``dethrone`` answers, in turn; the words that it was given."""
    left, given = list(results), []

    def command(words, *, until):
        given.append([str(word) for word in words])
        return left.pop(0)

    monkeypatch.setattr(kept, "command", command)
    return given


def test_a_result_lies_beside_its_run_whatever_dots_are_in_the_name_and_is_not_made_again(monkeypatch, tmp_path):
    given = commands(monkeypatch, {"verdict": "pass"})
    place = tmp_path / "real" / "etcd-3.5-3-seed-0"
    assert [kept.run(place, ("etcd-3.5",), until=None) for _ in range(2)] == [{"verdict": "pass"}] * 2
    assert given == [["run", "etcd-3.5", "--out", str(place)]]
    assert json.loads((tmp_path / "real" / "etcd-3.5-3-seed-0.json").read_text()) == {"verdict": "pass"}


def test_a_run_that_was_stopped_is_begun_again_in_an_empty_directory(monkeypatch, tmp_path):
    commands(monkeypatch, {"verdict": "unknown", "interrupted": True}, {"verdict": "fail"})
    place = tmp_path / "it"
    with pytest.raises(Unfinished):
        kept.run(place, (), until=None)
    place.mkdir()
    (place / "half").touch()
    assert kept.run(place, (), until=None) == {"verdict": "fail"}
    assert not place.exists()
