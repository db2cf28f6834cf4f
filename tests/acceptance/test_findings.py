"""Findings found again: which finding of a run counts, and what the page says of it."""

from __future__ import annotations

import pytest

from tests.acceptance.findings import KNOWN, PAGE, Known, Shown, block, shown_by
from tests.acceptance.tables import Block

ONE = Known("one", ("keep", "--nodes", "3"), ("log", "crash"))


def judgement(**findings):
    return {"verdicts": [{"checker": name, "findings": found} for name, found in findings.items()]}


def finding(certificate=(1, 2), excused=None, sentence="It is so."):
    return {"certificate": list(certificate), "excused": excused, "sentence": sentence}


@pytest.mark.parametrize(
    ("found", "checker"),
    [
        (judgement(crash=[finding()], log=[finding()]), "log"),
        (judgement(log=[finding(certificate=())], crash=[finding()]), "crash"),
        (judgement(log=[finding(excused="a fault")]), ""),
        (judgement(other=[finding()]), ""),
    ],
)
def test_a_finding_counts_by_its_checkers_with_a_certificate_and_unexcused(found, checker):
    assert shown_by(ONE, 1, found).checker == checker
    assert shown_by(ONE._replace(excused=True), 1, judgement(log=[finding(excused="a fault")])).checker == "log"


def test_the_page_shows_the_first_run_that_has_it_and_how_many_do():
    found = [Shown(1), Shown(2, "log", finding()), Shown(3, "log", finding())]
    assert block(ONE, found, day="2026-11-27", lines=["n1  n2"]) == [
        "```",
        "log: It is so.",
        "n1  n2",
        "```",
        "",
        "Found again in 2 of 3 runs (seeds 1, 2, 3; 2026-11-27): `dethrone run keep --nodes 3 --seed 2`.",
    ]
    assert block(ONE, found[:1], day="2026-11-27", lines=[]) == [
        "Found again in 0 of 1 runs (seeds 1; 2026-11-27): `dethrone run keep --nodes 3 --seed 1`."
    ]


def test_the_page_has_a_place_for_each_finding():
    page = PAGE.read_text(encoding="utf-8")
    for known in KNOWN:
        assert Block(known.name).put(page, Block(known.name).lines(page)) == page
