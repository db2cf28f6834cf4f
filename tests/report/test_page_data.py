from __future__ import annotations

import json

import msgspec
import pytest

from dethrone.harness.report import page_data
from dethrone.harness.report.page_fold import role_class


def test_the_page_data_is_plain_json_and_the_same_each_time(passing, failing):
    for files in (passing, failing):
        first, second = (json.dumps(page_data.page(files)) for _ in range(2))
        assert first == second


def test_every_time_lies_within_the_run(passing):
    page = page_data.page(passing)
    end = page["end"]
    times = [t for lane in page["lanes"] for span in lane["roles"] + lane["troubles"] for t in span[:2]]
    times += [mark[0] for mark in page["marks"]] + [t for op in page["ops"] for t in op[:2]]
    times += [t for fault in page["faults"] for t in fault["span"] if t is not None]
    assert all(0 <= t <= end for t in times)


def test_the_proof_is_always_there_and_knows_its_findings(failing):
    page = page_data.page(failing)
    proofs = {proof["seq"]: proof for proof in page["proofs"]}
    for key, finding in page_data.findings(failing):
        for seq in finding.certificate:
            assert key in proofs[seq]["of"]
    assert {proof["seq"] for proof in page["proofs"]} <= {mark[4] for mark in page["marks"]}
    assert any(not proof["excused"] for proof in page["proofs"])


def test_caps_are_kept_stated_and_spare_the_proof(failing, monkeypatch):
    monkeypatch.setattr(page_data, "MARKS_MAX", 6)
    page = page_data.page(failing)
    assert page["caps"][0]["shown"] == 6
    assert {proof["seq"] for proof in page["proofs"] if not proof["excused"]} <= {mark[4] for mark in page["marks"]}


def test_too_many_operations_are_thinned_out_but_the_odd_ones_stay(passing, monkeypatch):
    whole = page_data.page(passing)
    monkeypatch.setattr(page_data, "OPS_MAX", 400)
    page = page_data.page(passing)
    assert len(page["ops"]) == 400
    assert [op for op in page["ops"] if op[2]] == [op for op in whole["ops"] if op[2]]
    assert page["caps"] == [
        {"what": "client operations (rates and figures count all)", "shown": 400, "total": len(whole["ops"])}
    ]
    assert page["rate"] == whole["rate"]


@pytest.mark.parametrize(
    ("role", "leads", "index"),
    [("LEADER", True, 2), ("FOLLOWER", False, 0), ("CANDIDATE", False, 1), ("Resigned", False, 3), ("MASTER", True, 2)],
)
def test_role_words_of_all_systems_have_a_class(role, leads, index):
    assert role_class(role, leads=leads) == index


def test_an_operation_without_an_answer_is_open(passing):
    from dethrone.harness.core.events import Return

    kept = [event for event in passing.history if not (type(event) is Return and event.op == 0)]
    files = msgspec.structs.replace(passing, history=type(passing.history)(kept))
    assert [op for op in page_data.page(files)["ops"] if op[2] == 3]
