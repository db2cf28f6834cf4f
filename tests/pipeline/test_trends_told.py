"""What ``dethrone corpus trends`` and ``dethrone compare`` tell."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections import Counter
from fractions import Fraction
from xml.etree import ElementTree as ET

import msgspec
import pytest
from click.testing import CliRunner

from dethrone.harness.cli.main import main
from dethrone.harness.commands import trends as told
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.pipeline import gathering, known_regressions, trends
from dethrone.harness.report import trends_xml
from dethrone.harness.report.html import trends as page
from tests.pipeline import made_nights as made
from tests.pipeline import nights as stored

POLICY = trends.Policy(resamples=40)
FLAKE = tuple(
    known_regressions.Known(system="etcd", metric="fail/leader-stability", kind=kind, why="flaky")
    for kind in ("standing", "new")
)


def answer(tonight, *, entries=FLAKE, before=(1, 2, 3)):
    facts = made.joined(*(made.night(f"2026-11-0{day}", day, runs=40) for day in before), tonight)
    covered = tuple(
        gathering.Covered(one.run, one.number, one.fault, "led" if one.number else "start", "leader")
        for one in facts.samples
        if one.stage == "elect"
    )
    night = facts.nights()[-1]
    mine, theirs, other = trends.nights_before(facts, night, POLICY)
    return told.answered(
        told.Asked(),
        gathering.Gathered(facts=facts, covered=covered),
        (mine, theirs, (night, other)),
        corpus="night's <corpus>",
        policy=POLICY,
        entries=entries,
    )


@pytest.fixture(scope="module")
def slow():
    return answer(made.night("2026-11-05", 50, runs=40, slower=1.5))


def test_every_command_on_the_page_lists_the_runs_behind_its_numbers(slow):
    text = page.render(slow)
    commands = {html.unescape(one) for one in re.findall(r"<code>(.*?)</code>", text)}
    cells = {words[words.index("--trace") + 1] for one in commands if "--trace" in (words := shlex.split(one))}
    assert {"raft/kill/elect", "coverage/raft/kill/led/leader", "etcd/pause/fail/leader-stability"} <= cells
    for one in commands:
        assert shlex.split(one)[:5] == ["dethrone", "corpus", "trends", "--night", "2026-11-05"]
        assert "night's <corpus>" in shlex.split(one)
    for cell in cells:
        assert told.traced(cell, slow.gathered, slow.side), cell
    # No row of a table is without one.
    for row in re.findall(r"<tr(?: class=red)?><td>.*?</tr>", text):
        assert row.endswith("</code></td></tr>")


def test_the_page_is_offline_and_the_same_each_time(slow):
    text = page.render(slow)
    assert text == page.render(slow)
    assert "http" not in text.replace("http-equiv", "")
    assert "<script" not in text
    assert "<corpus>" not in text
    assert "<svg" in text
    assert "nan" not in " ".join(re.findall(r'(?:points|d)="([^"]*)"', text))


def test_every_number_of_the_page_is_counted_from_the_rows_that_its_command_lists(slow):
    """Not from what made the page: from the rows of ``--trace``, as a user has them."""
    cells = [
        re.findall(r"<td>(.*?)</td>", row)
        for row in re.findall(r"<tr(?: class=red)?>(<td>.*?)</tr>", page.render(slow))
    ]
    seen = Counter()
    for words in cells:
        command = shlex.split(html.unescape(re.sub(r"</?code>", "", words[-1])))
        cell = command[command.index("--trace") + 1]
        rows = told.traced(cell, slow.gathered, slow.side)
        numbers = [html.unescape(word) for word in words[:-1]]
        if cell.startswith("coverage/"):
            seen["coverage"] += 1
            assert numbers[4] == str(len(rows))
        elif numbers[0] == cell and "ns" in rows[0] and len(numbers) == 7 and " / " in numbers[4]:
            seen["times"] += 1
            now, before = ([row for row in rows if row["counted"] == word] for word in ("now", "before"))
            assert numbers[4] == f"{len({row['run'] for row in now})} / {len({row['run'] for row in before})}"
            assert numbers[5] == f"{len(now)} / {len(before)}"
            assert numbers[2].startswith(median(now)), cell
            assert numbers[1].startswith(median(before)), cell
        elif numbers[0] == cell and "ns" in rows[0]:
            seen["version"] += 1
            mine = [row for row in rows if row["version"] == numbers[1]]
            assert numbers[3:6] == [str(len({row["run"] for row in mine})), str(len(mine)), str(cut(mine))]
            assert numbers[2].startswith(median(mine)), cell
        elif numbers[0] == cell:
            seen["rates"] += 1
            for word, side in ((numbers[1], "before"), (numbers[2], "now")):
                mine = [row for row in rows if row["counted"] == side]
                assert word.startswith(f"{sum(row['hit'] for row in mine)} of {len(mine)} (")
        elif len(numbers) == 3:
            seen["flakes"] += 1
            outcomes = {row["run"]: row["outcome"] for row in rows}
            assert {outcomes[run] for run in numbers[2].split()} == {"pass", "fail"}
        elif numbers[3].startswith("run "):
            seen["found"] += 1
            mine = sorted((row for row in rows if row["night"] == numbers[2]), key=lambda row: row["run"])
            first = next(place for place, row in enumerate(mine) if row["outcome"] == "fail")
            assert (numbers[3], numbers[5]) == (f"run {first + 1} of {len(mine)}", mine[first]["run"])
        else:
            seen["worse"] += 1
            assert rows
    assert set(seen) == {"coverage", "times", "version", "rates", "flakes", "found", "worse"}


def test_runs_of_neither_side_are_in_no_number_of_the_page():
    tonight = made.night("2026-11-05", 50, runs=40, slower=1.5)
    night = answer(tonight, before=range(1, 5))
    failed = {one.run for one in night.gathered.facts.judged if one.outcome == "fail"}
    side = {run: mine for run, mine in night.side.items() if run in failed or run.endswith(("1", "2", "3"))}
    text = page.render(msgspec.structs.replace(night, side=side))
    row = r"<tr><td>(\w+)</td><td>([\w-]+)</td><td>([\d-]+)</td><td>run (\d+ of \d+)</td><td>.*?</td><td>(.*?)</td>"
    shown = re.findall(row, text)
    assert shown
    for system, checker, date, found, first in shown:
        rows = told.traced(f"{system}/any/fail/{checker}", night.gathered, side)
        assert found.endswith(f" of {sum(row['night'] == date for row in rows)}")
        assert first in side
    flaky = re.search(r"<h2>Flakes</h2>(.*?)<h2>", text)[1]
    assert set(re.findall(r"etcd-2026-11-0\d-\d{4}", flaky)) <= set(side)


def cut(rows):
    return sum(row["censored"] for row in rows)


def median(rows):
    """Kaplan and Meier's, by hand, as the page writes it."""
    share, left = Fraction(1), len(rows)
    for ns in sorted({row["ns"] for row in rows}):
        here = [row for row in rows if row["ns"] == ns]
        share *= 1 - Fraction(len(here) - cut(here), left)
        left -= len(here)
        if 2 * share <= 1:
            return f"{ns / 1e6:,.1f} ms"
    return "not reached"


def test_a_coverage_number_is_the_number_of_its_rows(slow):
    text = page.render(slow)
    row = re.search(r"<tr><td>raft</td><td>kill</td><td>led</td><td>leader</td><td>(\d+)</td>", text)
    assert int(row[1]) == len(told.traced("coverage/raft/kill/led/leader", slow.gathered, slow.side)) > 0


def test_junit_names_what_became_worse_and_skips_what_is_known(slow):
    assert slow.code == 1
    root = ET.fromstring(trends_xml.render(slow))  # noqa: S314 - our own
    failed = {
        f"{case.get('classname')} {case.get('name')}"
        for case in root.iter("testcase")
        if case.find("failure") is not None
    }
    assert "trends.raft kill/elect" in failed
    assert all(one.startswith("trends.raft ") for one in failed)
    assert int(root.get("failures")) == len(failed) == len(slow.sorted.red)
    text = next(one.text for one in root.iter("failure") if "kill/elect" in one.get("message"))
    assert "slower in 2026-11-05" in text
    assert "knobs.election_timeout_ms: 150 → 225" in text
    assert "--trace raft/kill/elect" in text
    assert "known: flaky" in {one.get("message") for one in root.iter("skipped")}


def test_the_object_carries_what_is_red_and_how_to_trace_it(slow):
    value = json.loads(json.dumps(told.object_of(slow)))
    assert {row["cell"] for row in value["red"]} == {str(one.cell) for one in slow.sorted.red}
    assert all(row["trace"].endswith(f"--trace {row['cell']}") for row in value["red"])
    assert value["against"] == "2026-11-01..2026-11-03"


def test_a_clean_night_passes_and_one_without_others_is_unknown():
    assert answer(made.night("2026-11-05", 60, runs=40)).code == 0
    first = answer(made.night("2026-11-05", 61, runs=40), before=())
    assert first.code == 2
    assert "too few runs of one setup to compare etcd, kraft, raft" in first.why_unknown[0]
    assert "too few runs of one setup" in page.render(first)
    assert 'type="unknown"' in trends_xml.render(first)


def test_runs_that_nobody_judged_keep_a_night_from_passing():
    tonight = made.night("2026-11-05", 60, runs=40)
    del tonight.judged[:3]
    found = answer(tonight)
    assert found.code == 2
    assert "1 runs were not judged" in found.why_unknown[0]


def test_selections_are_nights_stretches_and_values(slow):
    runs = slow.gathered.facts.runs.values()

    def chosen(words):
        return {(run.night, run.attributes["knobs.election_timeout_ms"]) for run in filter(told.picks(words), runs)}

    assert {night for night, _ in chosen("2026-11-02")} == {"2026-11-02"}
    assert {night for night, _ in chosen("2026-11-02..2026-11-05")} == {"2026-11-02", "2026-11-03", "2026-11-05"}
    assert chosen("knobs.election_timeout_ms=225") == {("2026-11-05", "225")}
    assert chosen("2026-11-02,knobs.election_timeout_ms=225") == set()


def test_a_cell_that_does_not_exist_is_told(slow):
    with pytest.raises(ConfigError, match="is not a cell"):
        told.traced("elect", slow.gathered, slow.side)


@pytest.mark.spark
def test_a_corpus_is_compared_night_by_night(spark, tmp_path, monkeypatch, sims):
    from dethrone.harness.pipeline import checking, ingest
    from dethrone.harness.pipeline.corpus import open_corpus

    monkeypatch.chdir(tmp_path)
    honest, bug = sims["honest"], sims["bug"]
    stored.store_run(tmp_path / "a", honest.history, honest.plan, run="raft-a", started_at="2026-11-20T01:00:00Z")
    stored.store_run(tmp_path / "b", bug.history, bug.plan, run="raft-b", started_at="2026-11-21T01:00:00Z")
    corpus = open_corpus("corpus", make=True)
    list(ingest.add(corpus, [tmp_path / "a", tmp_path / "b"], now_ns=1))
    words = ["corpus", "trends", "--variants", "--json"]
    assert "not judged" in CliRunner().invoke(main, words).stdout
    checking.check(corpus, spark, checking.Asked(checkers=("leader-has-majority",)), lambda *_: None)
    done = CliRunner().invoke(main, [*words, "--html", "out/page.html", "--junit-xml", "out/junit.xml"])
    value = json.loads(done.stdout)
    assert (done.exit_code, value["command"], value["verdict"]) == (1, "corpus trends", "fail")
    assert (value["asked"], value["against"]) == ("2026-11-21", "2026-11-20..2026-11-20")
    (red,) = value["red"]
    assert (red["kind"], red["runs"]) == ("new", ["raft-b"])
    assert red["cell"].endswith("fail/leader-has-majority")
    assert red["trace"].split("--trace ")[1] in (tmp_path / "out" / "page.html").read_text()
    assert "<failure" in (tmp_path / "out" / "junit.xml").read_text()
    (tmp_path / "known.toml").write_text('[[known]]\nsystem="raft"\nmetric="fail/leader-has-majority"\nwhy="planted"\n')
    again = CliRunner().invoke(
        main, ["compare", "2026-11-20", "2026-11-21", "--variants", "--known", "known.toml", "--json"]
    )
    value = json.loads(again.stdout)
    assert (value["red"], value["known"][0]["why"], again.exit_code) == ([], "planted", 2)
    assert value["command"] == "compare"
    rows = CliRunner().invoke(main, [*shlex.split(red["trace"])[1:], "--json"])
    assert {"raft-b": True}.items() <= {row["run"]: row["hit"] for row in json.loads(rows.stdout)["rows"]}.items()
    assert "nights here" in CliRunner().invoke(main, ["corpus", "trends", "--night", "2026-01-01"]).stderr
    assert "no run matches" in CliRunner().invoke(main, ["compare", "2026-01-01", "2026-11-21"]).stderr


@pytest.mark.nightly("24 simulated runs; other nights are compared on Spark in make test")
@pytest.mark.spark
def test_a_longer_election_timeout_of_simulated_nights_is_named(spark, tmp_path, monkeypatch):
    from dethrone.harness.pipeline import ingest
    from dethrone.harness.pipeline.corpus import open_corpus

    monkeypatch.chdir(tmp_path)
    longer = {"election_timeout_min_ms": "225", "election_timeout_max_ms": "450"}
    for day, settings in ((19, {}), (20, longer)):
        for number in range(12):
            one = stored.simulated(100 * day + number, faults=("kill", "pause"), settings=settings)
            stored.store_run(
                tmp_path / f"{day}-{number}",
                one.history,
                one.plan,
                run=f"raft-{day}-{number:02}",
                started_at=f"2026-11-{day}T02:00:00Z",
            )
    list(ingest.add(open_corpus("corpus", make=True), ingest.find_runs([tmp_path]), now_ns=1))
    done = CliRunner().invoke(main, ["corpus", "trends", "--json"])
    value = json.loads(done.stdout)
    assert done.exit_code == 1
    named = {(row["cell"], row["kind"], row["night"]) for row in value["red"]}
    assert {(f"raft/{fault}/elect", "slower", "2026-11-20") for fault in ("kill", "pause")} <= named
    (row,) = [row for row in value["red"] if row["cell"] == "raft/kill/elect"]
    assert row["changed"] == ["knobs.election_timeout_max_ms: 300 → 450", "knobs.election_timeout_min_ms: 150 → 225"]
    assert "were not judged" in value["unknown"][0]
