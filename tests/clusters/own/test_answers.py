"""Status answers in four forms: what they say, and that nonsense is no observation."""

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.own.answers import MISSING, at, explain, reading
from dethrone.clusters.own.spec import ProbeTable
from dethrone.harness.core.interfaces import No, Yes
from tests.clusters.own.described import TEXT, described

JSON = ProbeTable(
    http="/s", role="raft.state", term="raft.term", leader="raft.leader", commit="raft.commit", incarnation="life"
)
METRICS = ProbeTable(metrics="/m", leads='raft_state{state="leader"}', term="raft_term", commit="raft_commit")
COMMAND = ProbeTable(command="ctl status", role="role", term="term")
PATTERN = ProbeTable(command="ctl status", pattern=r"role=(?P<role>\w+) term=(?P<term>\d+)(?: leader=(?P<leader>\w+))?")
LOG = ProbeTable(log="/l", became={"leader": r"lead (?P<term>\d+)", "follower": "follow"})
GROUPED = (
    ProbeTable(http="/s", groups="", role="role", term="term"),
    ProbeTable(command="ctl", groups="", group="id", role="role", term="term"),
)
IDS = {"n1": "n1", "n2": "n2", "7": "n3"}


def body(**raft):
    return json.dumps(
        {"raft": {"state": "Leader", "term": 3, "leader": "n1", "commit": 9, **raft}, "life": "2"}
    ).encode()


def test_json_is_read_by_paths():
    found = reading(JSON, IDS, body(), own="n1")
    assert (found.role, found.leads, found.term, found.leader, found.commit) == ("Leader", True, 3, "n1", 9)
    assert (found.incarnation, found.atomic) == (2, False)


def test_a_member_is_known_by_its_id_and_a_stranger_is_nobody():
    assert reading(JSON, IDS, body(leader=7), own="n1").leader == "n3"
    assert reading(JSON, IDS, body(leader="n9"), own="n1").leader is None
    assert reading(JSON, IDS, body(leader=None), own="n1").leader is None


@pytest.mark.parametrize(
    "nonsense",
    [
        *(b"", b"<html>", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 100000),
        *(body(term=term) for term in (None, -1, "x", True, 1.5)),
        *(body(state=state) for state in (None, 4, "")),
    ],
)
def test_an_answer_that_is_nonsense_is_no_observation(nonsense):
    assert reading(JSON, IDS, nonsense, own="n1") is None


@given(st.binary(max_size=100), st.sampled_from([JSON, METRICS, COMMAND, PATTERN, LOG, *GROUPED]))
def test_any_bytes_are_a_reading_with_a_term_or_none_and_can_be_explained(data, probe):
    found = reading(probe, IDS, data, own="n1")
    assert found is None or found.term >= 0
    assert explain(probe, IDS, data)


def test_numbers_may_be_written_as_text():
    assert reading(JSON, IDS, body(term="12"), own="n1").term == 12


def test_metrics_are_found_by_name_and_labels():
    text = b"""# HELP raft_term the term
raft_term 5
raft_state{node="a",state="follower"} 0
raft_state{node="a",state="leader"} 1
raft_commit 1.2e+01
"""
    found = reading(METRICS, IDS, text, own="n2")
    assert (found.leads, found.term, found.commit, found.role) == (True, 5, 12, "leader")
    assert (found.leader, found.tells_leader) == ("n2", False)
    other = reading(METRICS, IDS, text.replace(b'"leader"} 1', b'"leader"} 0'), own="n2")
    assert (other.leads, other.role, other.leader) == (False, "other", None)
    assert reading(METRICS, IDS, text.replace(b"raft_term 5", b"raft_term NaN"), own="n2") is None


def told(**more):
    return json.dumps({"code": 0, "out": "", "incarnation": 4, **more}).encode()


EPOCHS = ProbeTable(http="/s", role="role", term="timeline * 1000 + ha.epoch + 1")


@pytest.mark.parametrize(
    ("timeline", "epoch", "term"),
    [(3, 2, 3003), ("3", "0", 3001), (0, 0, 1), (3, None, None), (3, -1, None), (1 << 62, 0, None), (3, 2.5, None)],
)
def test_a_term_may_be_a_sum_of_products_of_which_every_part_must_be_a_count(timeline, epoch, term):
    answer = json.dumps({"role": "leader", "timeline": timeline, "ha": {"epoch": epoch}}).encode()
    found = reading(EPOCHS, IDS, answer, own="n1")
    assert (found.term if found else None) == term


def test_a_sum_of_metrics_finds_each_of_them_and_a_sign_in_a_label_is_none():
    probe = ProbeTable(metrics="/m", leads="leads", term='epoch{of="a*b+c"} + 1')
    found = reading(probe, IDS, b'leads 1\nepoch{of="x"} 9\nepoch{of="a*b+c"} 4\n', own="n1")
    assert found.term == 5


def test_explaining_names_the_part_of_a_sum_that_is_not_there():
    shown = explain(EPOCHS, IDS, b'{"role": "leader", "timeline": 3}')
    ((what, seen),) = [row for row in shown if row[0].startswith("term")]
    assert what == "term: ha.epoch holds nothing"
    assert isinstance(seen, No)
    assert ("term: timeline * 1000 + ha.epoch + 1 holds 3003", Yes()) in explain(
        EPOCHS, IDS, b'{"role": "leader", "timeline": 3, "ha": {"epoch": 2}}'
    )


def test_a_line_of_metrics_costs_linear_time_however_it_is_made():
    for evil in (
        b"raft_term{" + b"} " * 25_000,
        b"raft_term " + b"1 " * 25_000,
        b'raft_term{a="' + b'\\"' * 25_000,
        b"raft_term{" + b'a="b",' * 10_000,
        b"raft_term" + b" " * 50_000 + b"x x x",
        b"r" * 50_000 + b"{",
    ):
        began = time.process_time()
        assert reading(METRICS, IDS, evil + b'\nraft_state{state="leader"} 1\n', own="n1") is None
        assert time.process_time() - began < 1


def test_labels_may_hold_braces_quotes_and_a_time_may_follow_the_value():
    text = b'raft_term{a="}",b="x\\" 9"} 7 1700000000000\nraft_state{ state = "leader" , } 1\nraft_commit 3\n'
    found = reading(METRICS, IDS, text, own="n1")
    assert (found.term, found.leads, found.commit) == (7, True, 3)
    assert reading(METRICS, IDS, text.replace(b" 7 ", b" 7 8 "), own="n1") is None


def test_metrics_without_the_ones_that_are_named_are_told_from_what_is_no_metrics():
    assert next(what for what, _ in explain(METRICS, IDS, b"other 1\n")).startswith("leads")
    assert [what for what, _ in explain(METRICS, IDS, b"<html>")] == ["the answer"]


def test_a_commands_output_is_json_or_matches_the_pattern():
    found = reading(COMMAND, IDS, told(out='{"role": "leader", "term": 2}'), own="n1")
    assert (found.leads, found.term, found.incarnation) == (True, 2, 4)
    groups = {"role": "follower", "term": "3", "leader": "n2"}
    found = reading(PATTERN, IDS, told(groups=groups), own="n1")
    assert (found.role, found.term, found.leader) == ("follower", 3, "n2")
    assert reading(PATTERN, IDS, told(groups={**groups, "leader": None}), own="n1").leader is None
    assert reading(PATTERN, IDS, told(groups=None), own="n1") is None
    assert reading(PATTERN, IDS, told(slow=True), own="n1") is None
    assert "too long" in explain(PATTERN, IDS, told(slow=True))[0][1].why
    for wrong in (told(code=1, out='{"role": "leader", "term": 2}'), told(out="no idea"), told(code=124)):
        assert reading(COMMAND, IDS, wrong, own="n1") is None


def test_a_log_tells_nothing_before_its_first_line():
    assert reading(LOG, IDS, b'{"incarnation": 1}', own="n1") is None
    found = reading(LOG, IDS, b'{"incarnation": 1, "role": "leader", "term": "4", "leader": null}', own="n1")
    assert (found.leads, found.term, found.leader, found.incarnation) == (True, 4, "n1", 1)


def test_places_lead_into_objects_lists_and_names_with_dots():
    value = {"a.b": [{"c": 1}], "a": {"b": None}}
    assert at(value, "/a.b/0/c") == 1
    assert at(value, "a.b") is None
    assert at(value, "a.b.c") is MISSING
    assert at([1], "1") is MISSING
    assert at([1], "²") is MISSING
    assert at(5, "") == 5


def test_explaining_tells_each_field_and_what_is_wrong_with_it():
    rows = dict(explain(JSON, IDS, body(leader="10.0.0.3:7000", commit="many")))
    wrong = {what: answer.why for what, answer in rows.items() if isinstance(answer, No)}
    assert any("10.0.0.3:7000" in what and "members are called n1" in why for what, why in wrong.items())
    assert any(what.startswith("commit") and "whole number" in why for what, why in wrong.items())
    assert len(rows) == 5
    assert len(wrong) == 2


BY_NAME = ProbeTable(
    http="/s", groups="shards", role="role", term="term", leader="leader", incarnation="life", version="build"
)
BY_PLACE = ProbeTable(http="/s", groups="shards", group="id.n", role="role", term="term", leader="leader")


def shard(**fields):
    return {"role": "follower", "term": 3, "leader": "n2", **fields}


def test_each_of_several_groups_is_read_by_the_same_places_and_the_process_by_its_own():
    shards = {"p10": shard(term=9), "p2": shard(role="Leader", leader="n1"), "p1": shard()}
    found = reading(BY_NAME, IDS, json.dumps({"shards": shards, "life": 4, "build": "2.0"}).encode(), own="n1")
    assert [(one.group, one.leads, one.term, one.leader) for one in (found, *found.others)] == [
        ("p1", False, 3, "n2"),
        ("p2", True, 3, "n1"),
        ("p10", False, 9, "n2"),
    ]
    assert (found.incarnation, found.version) == (4, "2.0")


def test_groups_may_be_a_list_whose_items_name_themselves():
    shards = [shard(id={"n": 7}), shard(id={"n": 0}, leader=7)]
    found = reading(BY_PLACE, IDS, json.dumps({"shards": shards}).encode(), own="n1")
    assert [(one.group, one.leader) for one in (found, *found.others)] == [("0", "n3"), ("7", "n2")]


@pytest.mark.parametrize(
    "shards",
    [
        *(None, 4, "p1", {}, [], [shard()], [shard(id={"n": True})], [shard(id={"n": ""})]),
        *([shard(id={"n": 1}), shard(id={"n": "1"})], [shard(id={"n": 1}), 5], {"p1": shard(), "p2": 5}),
        [shard(id={"n": 1}), shard(id={"n": 2}, term=None)],
    ],
)
def test_an_answer_in_which_one_group_is_nonsense_is_no_observation(shards):
    body = json.dumps({"shards": shards}).encode()
    probe = BY_NAME if isinstance(shards, dict) else BY_PLACE
    assert reading(probe, IDS, body, own="n1") is None
    assert any(isinstance(answer, No) for _, answer in explain(probe, IDS, body))


def test_explaining_shows_the_groups_one_of_them_and_what_is_wrong_in_the_others():
    shards = {"p1": shard(), "p2": shard(leader="n9"), "p3": shard()}
    rows = explain(BY_NAME, IDS, json.dumps({"shards": shards, "life": 4, "build": "2.0"}).encode())
    assert rows[0][0] == "groups: shards holds 3: p1, p2, p3"
    assert [what.partition(":")[0] for what, _ in rows[1:6]] == ["role", "term", "leader", "incarnation", "version"]
    assert [what for what, answer in rows if isinstance(answer, No)] == ["group p2: leader: leader holds 'n9'"]
    assert len(rows) == 7


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (told(code=124), "took too long"),
        (told(code=3, out="no such cluster"), "ended with 3: 'no such cluster'"),
        (told(out="hello"), "output is not understood: 'hello'"),
    ],
)
def test_a_command_that_tells_nothing_is_explained_by_how_it_ended(answer, why):
    ((_, answered),) = explain(COMMAND, IDS, answer)
    assert why in answered.why


def test_the_reference_shows_a_probe_of_several_groups():
    page = (Path(__file__).parents[3] / "docs" / "own-system.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(# of several groups.*?)^```$", page, re.MULTILINE | re.DOTALL)
    rest = TEXT[: TEXT.index("[probe]")], TEXT[TEXT.index("[trace]") :]
    probe = described(text=block.join(rest)).probe
    answer = {"shards": {"p0": {"role": "leader", "term": 4, "leader": "n1"}, "p1": shard()}}
    found = reading(probe, IDS, json.dumps(answer).encode(), own="n1")
    assert [(one.group, one.leads, one.leader) for one in (found, *found.others)] == [
        ("p0", True, "n1"),
        ("p1", False, "n2"),
    ]
