"""Known findings: what is listed does not fail, all else does, and a typing error is an error."""

from __future__ import annotations

import pytest

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.known_findings import Known, line_of, mended, read, why_known
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.engine.run.judge import acknowledged
from dethrone.harness.engine.run.judgement import Judgement

MINE = "raft/one-vote-per-term/0123456789"
OTHER = "raft/one-vote-per-term/9876543210"


def written(tmp_path, text):
    path = tmp_path / "known.toml"
    path.write_text(text)
    return path


def test_both_forms_of_entries_are_read(tmp_path):
    text = (
        f'[[known]]\nsignature = "{MINE}"\nwhy = "ours"\n[[known]]\nsystem = "raft"\nmetric = "fail/log"\nwhy = "x"\n'
    )
    one, two = read(written(tmp_path, text))
    assert (one.signature, one.why, two.system, two.metric) == (MINE, "ours", "raft", "fail/log")


@pytest.mark.parametrize(
    "text",
    [
        '[[known]]\nsignature = "a"\n',
        '[[known]]\nwhy = "nothing is named"\n',
        '[[known]]\nsignature = "a"\nsystem = "raft"\nmetric = "fail/log"\nwhy = "both"\n',
        '[[known]]\nsignatur = "a"\nwhy = "x"\n',
        '[[known]]\nsignature = "a"\nwhy = "x"\nuntil = "tomorrow"\n',
        "[[known\n",
    ],
)
def test_what_cannot_be_meant_is_an_error_that_names_the_file(tmp_path, text):
    with pytest.raises(ConfigError) as error:
        read(written(tmp_path, text))
    assert "known.toml" in error.value.where


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        read(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("entry", "known"),
    [
        (Known(signature=MINE, why="w"), True),
        (Known(signature=OTHER, why="w"), False),
        (Known(signature=MINE, until="2026-11-30", why="w"), True),
        (Known(signature=MINE, until="2026-11-01", why="w"), False),
        (Known(system="raft", metric="fail/one-vote-per-term", why="w"), True),
        (Known(system="raft", metric="fail/log", why="w"), False),
        (Known(system="etcd", metric="fail/one-vote-per-term", why="w"), False),
        (Known(system="raft", metric="fail/one-vote-per-term", fault="kill", why="w"), False),
        (Known(system="raft", metric="fail/one-vote-per-term", kind="slower", why="w"), False),
    ],
)
def test_an_entry_covers_its_findings_until_it_runs_out(entry, known):
    found = why_known([entry], signature=MINE, system="raft", checker="one-vote-per-term", day="2026-11-23")
    assert bool(found) is known


@pytest.mark.parametrize("signature", [MINE, 'own:say "hi"\\n/crash/0123456789', "größe\n/crash/0123456789"])
def test_the_line_of_a_signature_means_the_same_in_the_file(tmp_path, signature):
    path = written(tmp_path, f'[[known]]\n{line_of(signature)}\nwhy = "ours"\n')
    assert [entry.signature for entry in read(path)] == [signature]


@pytest.mark.parametrize(
    ("clean", "hits", "of", "certain"),
    [(9, 1, 1, False), (10, 1, 1, True), (29, 2, 20, False), (30, 2, 20, True), (1000, 0, 20, False)],
)
def test_a_finding_is_mended_after_so_many_clean_runs_that_chance_does_not_explain_them(clean, hits, of, certain):
    assert mended(clean=clean, hits=hits, of=of) is certain


def verdict(checker, outcome, *findings, kind="safety", **evidence):
    return Verdict(
        checker=checker, version="1", kind=kind, outcome=outcome, findings=findings, evidence=evidence, reason="because"
    )


def finding(signature, excused=None):
    return Finding(sentence=f"{signature} broke", certificate=(1,), signature=signature, excused=excused)


def judgement(*findings, **evidence):
    verdicts = (
        verdict("one-vote-per-term", "fail", *findings, **evidence),
        verdict("leader-when-owed", "pass", kind="liveness"),
    )
    return Judgement(outcome="fail", reason="one-vote-per-term: it broke", verdicts=verdicts)


def after(before, *signatures):
    known = [Known(signature=one, why="ours") for one in signatures]
    return acknowledged(before, known, system="raft", day="2026-11-23")


def test_a_run_with_known_findings_alone_passes_and_its_headline_says_so():
    found = after(judgement(finding(MINE), findings=1), MINE)
    assert (found.outcome, found.verdicts[0].outcome) == ("pass", "pass")
    assert "1 promised properties were judged and held" in found.reason
    assert found.reason.endswith("; 1 known finding (see --known)")
    assert (found.verdicts[0].findings[0].known, found.verdicts[0].reason) == ("ours", "1 known finding(s): ours")


def test_a_fresh_finding_beside_a_known_one_fails_and_comes_first():
    found = after(judgement(finding(MINE), finding(OTHER), findings=2), MINE)
    assert found.outcome == "fail"
    assert found.reason == f"one-vote-per-term: {OTHER} broke; 1 known finding (see --known)"
    assert [one.fails for one in found.verdicts[0].findings] == [False, True]


def test_findings_that_are_not_listed_cannot_be_known():
    found = after(judgement(finding(MINE), findings=30), MINE)
    assert found.outcome == "fail"
    assert "other findings are not listed" in found.verdicts[0].reason


def test_without_a_match_nothing_changes_and_excused_findings_stay_excused():
    before = judgement(finding(MINE), findings=1)
    assert after(before, OTHER) is before
    assert after(before) is before
    mixed = after(judgement(finding(MINE), finding(OTHER, excused="clock"), findings=1), MINE)
    assert mixed.outcome == "pass"
    assert mixed.verdicts[0].findings[1].known == ""


def test_known_findings_do_not_turn_an_unknown_into_a_pass():
    before = judgement(finding(MINE), findings=1)
    verdicts = (*before.verdicts, verdict("coverage", "unknown", kind="coverage"))
    found = after(Judgement(outcome="fail", reason="x", verdicts=verdicts), MINE)
    assert found.outcome == "unknown"
    assert "1 known finding" in found.reason
