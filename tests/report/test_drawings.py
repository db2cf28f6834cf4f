"""Drawings of findings are well-formed, harmless, and show what the data says."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from dethrone.harness.report.html.drawings import BARS_MAX, drawing
from dethrone.harness.report.html.foreign import page

CYCLE = {
    "kind": "cycle",
    "width": 480,
    "height": 320,
    "nodes": [{"id": "T1", "x": 240, "y": 40, "text": "r x <1> & more"}, {"id": "T2", "x": 240, "y": 280, "text": ""}],
    "edges": [{"from": "T1", "to": "T2", "text": "rw"}, {"from": "T2", "to": "T1", "text": "realtime"}],
}
BAR = {"op": 0, "label": "write <3>", "call": 0, "ret": 4, "status": "ok", "role": "stuck"}
ZONE = {"label": "3", "lo": -1, "hi": 9, "forward": False}


EDGES = [{"from": "T1", "to": "T2", "kind": "rw", "why": "T1 read x without <T2>"}]
GOLDEN = Path(__file__).parent.parent / "golden" / "foreign"
FORMATS = {".jsonl": "jsonl", ".edn": "jepsen-edn", ".log": "jepsen-log"}


def parsed(html):
    return ET.fromstring(f"<body>{html}</body>")  # noqa: S314 - drawn by us a moment ago


def texts(svg):
    return ["".join(node.itertext()) for node in parsed(svg).iter() if node.tag == "text"]


def test_a_cycle_shows_its_transactions_and_edges():
    assert texts(drawing({"drawing": CYCLE})) == ["rw", "realtime", "T1", "r x <1> & more", "T2", ""]


def test_bars_show_operations_zones_and_where_it_is_stuck():
    svg = drawing({"bars": [BAR, {**BAR, "ret": None, "status": "info"}], "zones": [ZONE], "stuck_at": 2})
    assert texts(svg) == ["write <3>", "write <3>"]
    assert "no order gets past this point" in svg
    assert len([node for node in parsed(svg).iter() if node.tag == "rect"]) == 3


def test_each_edge_has_its_sentence_beside_the_graph():
    html = drawing({"drawing": CYCLE, "edges": EDGES, "bars": [{**BAR, "process": 3}]})
    assert [node.text for node in parsed(html).iter("li")] == ["T1 read x without <T2>"]
    assert len(list(parsed(html).iter("svg"))) == 2
    assert "3: write <3>" in texts(html)


def test_what_the_signs_of_a_picture_mean_is_said_under_it():
    bars = [{**BAR, "role": "first"}, {**BAR, "role": "second", "status": "info"}]
    (said,) = (node.text for node in parsed(drawing({"bars": bars, "zones": [ZONE]})).iter("figcaption"))
    assert all(word in said for word in ("two colours", "shaded", "dashed"))
    (said,) = (node.text for node in parsed(drawing({"bars": [{**BAR, "role": ""}]})).iter("figcaption"))
    assert not any(word in said for word in ("two colours", "shaded", "dashed"))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.fail.*")), ids=lambda path: path.name)
def test_every_finding_in_the_history_of_another_tool_is_drawn(path):
    from dethrone.harness.core.operations import ModelOptions
    from dethrone.harness.engine.replay.foreign_history import check_file

    found = check_file(path, form=FORMATS[path.suffix], model=path.name.split(".")[0], options=ModelOptions())
    for verdict in found.judgement.verdicts:
        assert verdict.findings
        for one in verdict.findings:
            html = drawing(one.data)
            assert parsed(html).find("figure/svg") is not None
            assert len(one.data["bars"]) == len({bar["call"] for bar in one.data["bars"]}) >= 1
            assert all("process" in bar for bar in one.data["bars"])


def test_a_runs_page_shows_class_graph_sentences_and_bars(failing):
    from dethrone.harness.core.verdict import Finding, Verdict
    from dethrone.harness.report import html

    data = {"anomaly": "G2", "drawing": CYCLE, "edges": EDGES, "bars": [{**BAR, "process": 3}]}
    found = Finding(sentence="a cycle", certificate=(1, 2), data=data)
    verdict = Verdict(checker="list-append", version=1, kind="safety", outcome="fail", findings=(found,))
    files = msgspec.structs.replace(failing, judgement=msgspec.structs.replace(failing.judgement, verdicts=(verdict,)))
    page_ = html.render(files)
    assert all(text in page_ for text in ("list-append · G2", "T1 read x without &lt;T2&gt;", "3: write &lt;3&gt;"))
    assert page_.count('<svg class="drawing"') == 2


def test_bars_that_are_far_apart_in_a_run_are_still_wide_enough_to_see():
    bars = [{**BAR, "call": 10, "ret": 12}, {**BAR, "call": 90_000, "ret": 90_003}]
    svg = parsed(drawing({"bars": bars, "zones": [{**ZONE, "lo": 12, "hi": 90_000}], "stuck_at": 90_000}))
    zone, *rects = (float(node.get("width")) for node in svg.iter("rect"))
    assert min(zone, *rects) > 50


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

    from dethrone.harness.cli.main import main

    golden = GOLDEN / "list-append.fail.G2.jsonl"
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
