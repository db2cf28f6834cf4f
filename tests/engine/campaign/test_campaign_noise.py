"""Runs that noise spoiled are made again, a few times, and counted apart from those that lack evidence."""

from __future__ import annotations

import pytest

from dethrone.harness.engine.campaign import campaign
from dethrone.harness.engine.nightly.night_rows import NightRow
from dethrone.harness.engine.nightly.run_order import Job
from dethrone.harness.engine.run.exit_status import EXIT_PASS, EXIT_UNKNOWN
from dethrone.harness.engine.run.judgement import Judgement, RunResult
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.report import json_objects
from dethrone.harness.report.night import sums
from dethrone.harness.report.terminal import noise_words


class Host:
    """Runs that come to what they are told to, in turn."""

    def __init__(self, *words: str) -> None:
        self.words, self.places = list(words), []

    def __call__(self, options: RunOptions, listener: object) -> RunResult:
        word = self.words.pop(0)
        self.places.append(options.out.name)
        unknown = word != "pass"
        judgement = Judgement(
            outcome="unknown" if unknown else "pass", reason=word, verdicts=(), host_noise=word == "noise"
        )
        return RunResult(
            run_dir=options.out,
            seed=options.seed,
            plan=None,
            judgement=judgement,
            trouble=(),
            interrupted=False,
            exit_code=EXIT_UNKNOWN if unknown else EXIT_PASS,
        )


def rows(monkeypatch, tmp_path, *words: str, seeds=(0,)):
    host = Host(*words)
    monkeypatch.setattr(campaign, "run", host)
    options = RunOptions(system="raft", backend="docker")
    return campaign.run_campaign(options, seeds, tmp_path / "c", Silence(), lambda _: None), host


def test_a_run_that_noise_spoiled_is_repeated_with_its_seed_and_counted(monkeypatch, tmp_path):
    (row,), host = rows(monkeypatch, tmp_path, "noise", "pass")
    assert (row.outcome, row.repeats, row.repeated, row.by_noise) == ("pass", 1, True, False)
    assert host.places == ["seed-0", "seed-0-again"]
    assert row.run_dir.endswith("seed-0-again")


def test_repeats_have_an_end_and_the_row_says_that_noise_was_the_reason(monkeypatch, tmp_path):
    (row,), host = rows(monkeypatch, tmp_path, "noise", "noise", "noise", "pass")
    assert (row.outcome, row.repeats, row.by_noise) == ("unknown", campaign.NOISE_REPEATS, True)
    assert len(set(host.places)) == campaign.NOISE_REPEATS + 1
    assert host.words == ["pass"], "it was asked once more than it may"


def test_a_run_that_lacks_evidence_is_not_repeated(monkeypatch, tmp_path):
    (row,), host = rows(monkeypatch, tmp_path, "no window")
    assert (row.outcome, row.repeats, row.by_noise) == ("unknown", 0, False)
    assert host.places == ["seed-0"]


def test_a_campaign_says_how_many_runs_noise_took(monkeypatch, tmp_path):
    made, _ = rows(monkeypatch, tmp_path, "noise", "noise", "noise", "noise", "pass", "no window", seeds=(0, 1, 2))
    said = json_objects.campaign_object(made, out=tmp_path, exit_code=2)
    assert said["counts"] == {"unknown": 2, "pass": 1}
    assert said["noise"] == {"unknown": 1, "repeated": 3}
    assert noise_words(made) == " (1 of the unknown by noise, 3 repeated because of noise)"
    assert noise_words([]) == ""


@pytest.mark.parametrize(("by_noise", "word"), [(True, "1 unknown by noise"), (False, "1 unknown by evidence")])
def test_a_night_keeps_noise_apart_from_missing_evidence(by_noise, word):
    job = Job(number=1, cell="raft", seed=1, why="due")
    row = NightRow(
        job=job,
        outcome="unknown",
        exit_code=2,
        run_dir="1",
        report="",
        began_ns=0,
        elapsed_ns=1,
        reason="",
        by_noise=by_noise,
    )
    assert word in sums([row], 1)
