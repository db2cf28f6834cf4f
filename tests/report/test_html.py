from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser

import msgspec
import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.known_findings import read as read_known
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.engine.run.judge import signed
from dethrone.harness.report import html
from dethrone.harness.report.failover import failovers
from dethrone.harness.report.html.dots import _round_up
from dethrone.harness.report.rundir import read_run
from dethrone.harness.report.screens import failover_lines
from tests import stored

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028'\"&@@data@@"


class Shape(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.data = ""
        self._in_data = False

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in_data = ("id", "data") in attrs

    def handle_endtag(self, tag):
        self._in_data = False

    def handle_data(self, data):
        if self._in_data:
            self.data += data


def shape(text: str) -> Shape:
    out = Shape()
    out.feed(text)
    return out


def test_the_page_is_one_file_that_reaches_for_no_network(passing, failing):
    for files in (passing, failing):
        page = html.render(files)
        assert not re.search(r"https?:|//[a-z]+\.[a-z]", page)
        for tag, attrs in shape(page).tags:
            assert tag not in ("link", "img", "iframe", "object")
            assert "src" not in attrs
            assert attrs.get("href", "#").startswith("#")


def test_the_page_carries_its_data_and_every_property(failing):
    page = html.render(failing)
    data = json.loads(shape(page).data)
    assert data["nodes"] == ["n1", "n2", "n3", "n4", "n5"]
    assert [proof for proof in data["proofs"] if "one-leader-per-term-0" in proof["of"]]
    for verdict in failing.judgement.verdicts:
        assert verdict.checker in page
    assert "n2 and n4 were both elected leader of term 7" in page
    assert "excused: its disk was wiped" in page
    assert "<summary>1 more findings</summary>" in page
    assert "not observable: this system keeps no log" in page


def test_the_page_says_what_share_of_the_run_noise_may_excuse(failing):
    told = {"stretches": 3, "longest_ns": 310_000_000, "excused_percent": 4.2, "unwatched": ["n3"]}
    verdict = Verdict(checker="coverage", version="1", kind="coverage", outcome="pass", evidence={"noise": told})
    judgement = msgspec.structs.replace(failing.judgement, verdicts=(verdict,))
    page = html.render(msgspec.structs.replace(failing, judgement=judgement))
    assert "Noise may excuse 4.2 % of the run" in page
    assert "3 stretches above the limit, the longest of 310 ms" in page
    assert "No source of noise could be read on n3." in page
    assert "Noise may excuse" not in html.render(failing)


def test_failover_figures_leave_out_what_noise_touched(failing):
    rows = failovers(failing.history)
    assert rows
    verdict = Verdict(
        checker="failover", version="1", kind="metric", outcome="n/a", metrics={"noisy_faults": [rows[0].fault]}
    )
    judgement = msgspec.structs.replace(failing.judgement, verdicts=(verdict,))
    noisy = msgspec.structs.replace(failing, judgement=judgement)
    assert f"1 of {len(rows)} omitted: host noise affected them." in html.render(noisy)
    assert "1 of them excluded because of noise" in failover_lines(noisy)[0].plain
    assert "excluded" not in failover_lines(failing)[0].plain


def test_hostile_texts_stay_texts(tmp_path, synthetic):
    files = read_run(synthetic.failing_run(tmp_path / "run", hostile=HOSTILE))
    plain = html.render(read_run(synthetic.failing_run(tmp_path / "plain")))
    page = html.render(files, trouble=[HOSTILE])
    assert "<script>alert" not in page
    assert "<img" not in page
    assert (
        sum(tag == "script" for tag, _ in shape(page).tags) == sum(tag == "script" for tag, _ in shape(plain).tags) == 2
    )
    assert json.loads(shape(page).data)["nodes"] == ["n1", "n2", "n3", "n4", "n5"]


def with_signatures(files, **changes):
    """The same run with the signatures that a judge gives its findings. ``changes``: of the findings that fail."""
    verdicts = []
    for verdict in files.judgement.verdicts:
        named = signed(verdict, files.history, files.plan)
        findings = [msgspec.structs.replace(one, **changes) if one.fails else one for one in named.findings]
        verdicts.append(msgspec.structs.replace(named, findings=tuple(findings)))
    judgement = msgspec.structs.replace(files.judgement, verdicts=tuple(verdicts))
    return msgspec.structs.replace(files, judgement=judgement)


def blocks(page):
    """Finding (id on the page) → its part of the page."""
    return {part.partition('"')[0]: part for part in re.split(r'<div class="finding[^"]*" id="', page)[1:]}


def test_each_finding_shows_the_line_that_a_file_of_known_findings_takes(failing, tmp_path):
    files = with_signatures(failing)
    shown = blocks(html.render(files))
    for verdict in files.judgement.verdicts:
        for index, finding in enumerate(verdict.findings):
            lines = re.findall(r"<code>(signature = .*?)</code>", shown[f"{verdict.checker}-{index}"])
            assert bool(lines) is finding.fails
            if lines:
                entry = tmp_path / "known.toml"
                entry.write_text(f'[[known]]\n{unescape(lines[0])}\nwhy = "ours"\n')
                assert [one.signature for one in read_known(entry)] == [finding.signature]


def test_a_finding_that_is_known_keeps_its_signature_on_the_page(failing):
    files = with_signatures(failing, known="being mended")
    block = blocks(html.render(files))["one-leader-per-term-0"]
    assert "known: being mended" in block
    assert "signature = " in block


def test_a_finding_of_an_older_version_has_no_line_to_copy(failing):
    assert not any(finding.signature for verdict in failing.judgement.verdicts for finding in verdict.findings)
    assert "known.toml" not in html.render(failing)


def test_a_signature_cannot_become_markup(failing):
    page = html.render(with_signatures(failing, signature=HOSTILE))
    assert "<script>alert" not in page
    assert "<img" not in page


def test_embedded_json_survives_every_character():
    value = {"text": HOSTILE + "\u2029\x00\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")}
    text = html.embed(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")


def test_the_page_is_the_same_each_time_and_names_no_path(failing, failing_dir):
    assert html.render(failing) == html.render(failing)
    assert str(failing_dir) not in html.render(failing)


def test_planned_and_realised_faults_stand_side_by_side(passing, failing):
    page = html.render(passing)
    assert "partition of minority with leader" in page
    assert "partition of n1 (leader), n2 (follower)" in page
    assert "not reached" in html.render(failing)


def test_a_history_alone_makes_a_page_too(tmp_path, failing_dir):
    alone = tmp_path / "history.jsonl"
    alone.write_bytes(stored.lines(failing_dir))
    page = html.render(read_run(alone))
    assert "NO VERDICT" in page
    assert "plan.json does not exist" in page


def test_a_damaged_history_is_said_on_the_page(tmp_path, failing_dir):
    cut = tmp_path / "history.jsonl"
    cut.write_bytes(stored.lines(failing_dir)[:-400])
    assert "the history is damaged" in html.render(read_run(cut))


@pytest.mark.parametrize("time", [1, 7, 99, 10**9, 1_234_567_890, 30 * SECOND])
def test_the_axis_of_failover_times_holds_all_of_them(time):
    assert time <= _round_up(time) <= 2 * time + 1
