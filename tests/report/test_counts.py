"""Every sentence that says pass, none, nothing or zero carries the count of what was judged, on each surface."""

from __future__ import annotations

import html
import re

import msgspec
import pytest

from dethrone.harness.core.verdict import merge
from dethrone.harness.engine.host.healing import HealReport
from dethrone.harness.engine.nightly.night_file import Entry
from dethrone.harness.engine.nightly.night_rows import Drawn
from dethrone.harness.engine.nightly.run_order import Job, cells_of
from dethrone.harness.engine.run.judge import judge
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.report import github, junit, night, page_data
from dethrone.harness.report.html import sections
from dethrone.harness.report.words import verdict_parts

CLAIM = re.compile(r"\b(no|none|nothing|nobody|zero|0|pass|passed|held|every|all)\b", re.IGNORECASE)
NO_CLAIM = re.compile(r"nothing (was|could be) judged|no verdict|not one of", re.IGNORECASE)
"""What says outright that there is no verdict claims nothing."""


def sentences(page: str) -> list[str]:
    """The paragraphs and headings of a page as text."""
    found = re.findall(r"<(?:p|h1|li)\b[^>]*>(.*?)</(?:p|h1|li)>", page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]+>", "", one)).strip() for one in found]


def uncounted(said: list[str]) -> list[str]:
    return [one for one in said if CLAIM.search(one) and not NO_CLAIM.search(one) and not re.search(r"\d", one)]


def trends_of_unjudged_nights() -> list[str]:
    from dethrone.harness.commands import trends as told
    from dethrone.harness.pipeline import gathering, trends
    from dethrone.harness.pipeline.nights import Facts, Run
    from dethrone.harness.report.html import trends as page

    runs = {
        name: Run(run=name, night=day, system="raft", setup="s", faults=frozenset(), attributes={})
        for day in ("2026-11-01", "2026-11-02")
        for name in (f"{day}-a", f"{day}-b")
    }
    facts, policy = Facts(runs, (), ()), trends.Policy(resamples=10)
    mine, theirs, other = trends.nights_before(facts, "2026-11-02", policy)
    answer = told.answered(
        told.Asked(),
        gathering.Gathered(facts=facts, covered=()),
        (mine, theirs, ("2026-11-02", other)),
        corpus="corpus",
        policy=policy,
    )
    assert answer.outcome == "unknown"
    return sentences(page.render(answer))


def night_without_runs() -> list[str]:
    (cell,) = cells_of((Entry(system="raft"),))
    jobs = (Job(number=1, cell=cell, seed=1, why="due"), Job(number=2, cell=cell, seed=2, why="due"))
    drawn = Drawn(name="2026-11-22", began_ns=0, version="1", entries=(Entry(system="raft"),), jobs=jobs)
    return [*sentences(night.page(drawn, [], [])), night.sums([], len(jobs))]


def run_that_passed(files) -> list[str]:
    verdicts = files.judgement.verdicts
    passed = judge(files.history, files.plan, {})  # no checker: nothing is judged, and that is never a pass
    assert passed.outcome == "unknown"
    from dethrone.harness.engine.run.headline import headline

    judgement = Judgement(
        outcome=merge(verdicts), reason=headline("pass", verdicts, damage=None, trouble=()), verdicts=verdicts
    )
    whole = msgspec.structs.replace(files, judgement=judgement)
    drawn = page_data.drawn(whole)
    return [
        "".join(text for text, _ in verdict_parts(judgement)),
        *sentences(sections.header(whole, drawn, [])),
        *sentences(sections.noise(whole, drawn)),
        *sentences(sections.faults(msgspec.structs.replace(whole, plan=None), drawn)),
        github.summary(judgement, whole, [], report=None).split("| property")[0],
    ]


def test_the_rule_finds_a_sentence_without_a_count():
    assert uncounted(["No run failed, and none was unknown.", "None of 4 runs was judged."]) == [
        "No run failed, and none was unknown."
    ]


@pytest.mark.parametrize("surface", [trends_of_unjudged_nights, night_without_runs])
def test_pages_of_what_was_never_judged_count_it(surface):
    said = surface()
    assert any(CLAIM.search(one) for one in said)
    assert uncounted(said) == []


def test_a_run_that_passed_counts_the_properties_that_were_judged(passing):
    said = run_that_passed(passing)
    assert any("promised properties were judged and held" in one for one in said)
    assert uncounted(said) == []


def test_nights_that_were_never_judged_do_not_say_that_no_run_failed():
    said = trends_of_unjudged_nights()
    assert not any("No run failed" in one for one in said)
    assert any(one == "None of 4 runs was judged: what they would have shown is not known." for one in said)


def test_a_suite_of_what_was_never_judged_is_an_error():
    assert 'errors="1"' in junit.render([junit.Suite(name="run", judgement=None)])


def test_heal_counts_what_it_looked_at(monkeypatch):
    from click.testing import CliRunner

    from dethrone.harness.cli.main import main

    monkeypatch.setattr(
        "dethrone.harness.engine.host.healing.heal", lambda **_: HealReport(asked=("docker", "local"), ledgers=0)
    )
    done = CliRunner().invoke(main, ["heal"])
    assert "no leftovers found: 2 backends checked (docker, local), 0 ledgers read" in done.output
