"""Which findings are news: one that was judged again is none, two that look alike are two."""

from __future__ import annotations

import pytest

from harness.pipeline.known import Known
from harness.pipeline.raising import finding_of, identified, seen_before, why_known


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
    }
    return {**base, **fields}


def names(*rows):
    return [name for name, _ in identified(rows)]


@pytest.mark.parametrize("fields", [{"version": "2", "written_ns": 5}, {"sentence": "other words", "written_ns": 5}])
def test_a_finding_that_is_judged_again_is_the_same(fields):
    assert names(row()) == names(row(**fields))
    first, again = names(row(), row(**fields))
    assert first == again


@pytest.mark.parametrize(
    "fields",
    [
        {"run": "raft-b"},
        {"content": "d"},
        {"checker": "leader-when-owed"},
        {"term": 5},
        {"nodes": ["n1", "n3"]},
        {"certificate": [3, 10]},
        {"sentence": "the same proof, told of something else"},
    ],
)
def test_findings_of_something_else_are_two(fields):
    first, second = names(row(), row(**fields))
    assert first != second
    assert names(row(), row(**fields)) == [first, second]


def test_what_is_excused_is_no_news():
    assert names(row(excused="the disk was full")) == []


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


def news(run="raft-b", date="2026-11-22", signature="raft/log/1", **fields):
    return finding_of(
        "id", row(run=run, date=date, signature=signature, events="", **fields), fault="", known=(), now_ns=1
    )


def test_a_cause_that_an_earlier_run_showed_is_no_news_and_names_that_run():
    causes = {"raft/log/1": {"raft-a": "2026-11-21"}}
    assert seen_before(news(), causes, []).known == "the same cause as in raft-a"
    assert seen_before(news(signature="raft/log/2"), causes, []).known == ""
    assert seen_before(news(signature=None), {"": {"raft-a": "2026-11-21"}}, []).known == "", "rows of older versions"


def test_a_cause_that_many_runs_in_between_did_not_show_is_news_again():
    causes = {"raft/log/1": {"raft-a": "2026-11-01"}}
    between = [("raft", "2026-11-10")]
    one = news(date="2026-11-20")
    assert seen_before(one, causes, [("raft", "2026-11-01"), *between * 10]).known == ""
    assert seen_before(one, causes, [("raft", "2026-11-01"), *between * 9]).known
    assert seen_before(one, causes, [("raft", "2026-11-01")] * 20 + between * 10).known, "one of twenty may be away"
    assert seen_before(one, causes, [("raft", "2026-11-01"), *[("etcd", "2026-11-10")] * 99]).known


def test_an_entry_with_a_signature_covers_that_cause_alone():
    mine = (Known(signature="raft/log/1", why="ours"),)
    assert why_known(row(signature="raft/log/1"), fault="kill", known=mine) == "ours"
    assert why_known(row(signature="raft/log/2"), fault="kill", known=mine) == ""
    assert why_known(row(), fault="kill", known=mine) == ""
