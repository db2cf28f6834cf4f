"""Drawings of findings are well-formed, harmless, and show what the data says."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.report.html.drawings import BARS_MAX, drawing
from harness.report.html.foreign import page

CYCLE = {
    "kind": "cycle",
    "width": 480,
    "height": 320,
    "nodes": [{"id": "T1", "x": 240, "y": 40, "text": "r x <1> & more"}, {"id": "T2", "x": 240, "y": 280, "text": ""}],
    "edges": [{"from": "T1", "to": "T2", "text": "rw"}, {"from": "T2", "to": "T1", "text": "realtime"}],
}
BAR = {"op": 0, "label": "write <3>", "call": 0, "ret": 4, "status": "ok", "role": "stuck"}
ZONE = {"label": "3", "lo": -1, "hi": 9, "forward": False}


def parsed(svg):
    return ET.fromstring(svg)  # noqa: S314 - drawn by us a moment ago


def texts(svg):
    return ["".join(node.itertext()) for node in parsed(svg).iter() if node.tag == "text"]


def test_a_cycle_shows_its_transactions_and_edges():
    assert texts(drawing({"drawing": CYCLE})) == ["rw", "realtime", "T1", "r x <1> & more", "T2", ""]


def test_bars_show_operations_zones_and_where_it_is_stuck():
    svg = drawing({"bars": [BAR, {**BAR, "ret": None, "status": "info"}], "zones": [ZONE], "stuck_at": 2})
    assert texts(svg) == ["write <3>", "write <3>"]
    assert "no order gets past this point" in svg
    assert len([node for node in parsed(svg).iter() if node.tag == "rect"]) == 3


def test_very_many_bars_are_cut():
    assert len(texts(drawing({"bars": [BAR] * 500}))) == BARS_MAX


@pytest.mark.parametrize(
    "data",
    [{}, {"drawing": {"kind": "cycle"}}, {"drawing": 7}, {"bars": [{"call": "x"}]}, {"bars": []}, {"bars": [7]}],
)
def test_what_is_no_drawing_draws_nothing(data):
    assert drawing(data) == ""


def test_the_page_of_a_foreign_history_stands_alone(tmp_path):
    from click.testing import CliRunner

    from harness.cli.main import main

    golden = Path(__file__).parent.parent / "golden" / "foreign" / "list-append.fail.G2.jsonl"
    out = tmp_path / "page.html"
    words = ["check", str(golden), "--format", "jsonl", "--model", "list-append", "--json", "--report", str(out)]
    done = CliRunner().invoke(main, words)
    text = out.read_text()
    assert (done.exit_code, "<svg" in text) == (1, True)
    assert not any(word in text for word in ("<script", "http:", "https:", "src=", "@import"))
    for edge in json.loads(done.stdout)["checkers"]["list-append"]["findings"][0]["data"]["edges"]:
        assert escape(edge["why"]) in text


def test_texts_of_a_history_stay_texts():
    row = {
        "verdict": "fail",
        "reason": "<script>x</script>",
        "trouble": ["<bad-b>"],
        "path": "<bad-i>",
        "format": "jsonl",
        "model": "set",
        "operations": 3,
        "checkers": {
            "set": {
                "findings": [
                    {
                        "sentence": "<bad-u>",
                        "data": {"anomaly": "lost", "bars": [BAR]},
                        "events": [{"line": 1, "process": 0, "text": "<bad-s>"}],
                    }
                ],
                "evidence": {"a": "<bad-em>"},
                "metrics": {},
            }
        },
    }
    text = page([row])
    assert not any(tag in text for tag in ("<script", "<bad-b>", "<bad-i>", "<bad-u>", "<bad-s>", "<bad-em>"))
