from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("verify_certificate.py")


def traced(seq, node, name, term, *, group="", source="shell", **data):
    return {
        "type": "traced",
        "seq": seq,
        "t": seq * 1000,
        "span": [seq * 1000 - 5, seq * 1000],
        "node": node,
        "incarnation": 1,
        "n": seq,
        "name": name,
        "term": term,
        "role": "FOLLOWER",
        "source": source,
        "data": data,
        **({"group": group} if group else {}),
    }


def judge(tmp_path, events, tail=""):
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + tail)
    done = subprocess.run([sys.executable, "-S", str(SCRIPT), str(path)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


VOTES = [
    {"type": "begin", "seq": 0, "t": 0, "schema": 1, "system": "nacos", "nodes": ["n1"], "seed": 1},
    traced(1, "n1", "vote", 3, candidate="n1"),
    traced(2, "n2", "vote", 3, candidate="n1"),
    traced(3, "n1", "elected", 3, voters=["n1", "n2"]),
]


def test_a_clean_history_has_no_certificate(tmp_path):
    again = [*VOTES, traced(4, "n2", "vote", 3, candidate="n1"), traced(5, "n2", "vote", 4, candidate="n3")]
    again += [traced(6, "n1", "elected", 3, voters=[]), traced(7, "n3", "elected", 4, voters=[])]
    assert judge(tmp_path, again) == (0, "no double vote and no two leaders of one term\n")


def test_two_candidates_of_one_vote_are_a_certificate(tmp_path):
    code, said = judge(tmp_path, [*VOTES, traced(4, "n2", "vote", 3, candidate="n3")])
    assert code == 1
    assert said.splitlines()[0] == "n2 voted in term 3 for n1 and for n3"
    assert [line.split(":")[0].strip() for line in said.splitlines()[1:]] == ["seq 2", "seq 4"]


def test_two_nodes_elected_in_one_term_are_a_certificate(tmp_path):
    code, said = judge(tmp_path, [*VOTES, traced(4, "n3", "elected", 3, source="core", voters=["n3", "n2"])])
    assert code == 1
    assert said.startswith("n1 and n3 were both elected in term 3\n")


def test_groups_are_kept_apart_and_labels_are_no_votes(tmp_path):
    others = [
        traced(4, "n2", "vote", 3, group="b", candidate="n3"),
        traced(5, "n2", "relabel", 3, vote_for="n3"),
        traced(6, "n3", "elected", 3, group="b"),
    ]
    assert judge(tmp_path, [*VOTES, *others])[0] == 0


def test_a_torn_last_line_is_passed_over(tmp_path):
    assert judge(tmp_path, VOTES, tail='{"type":"traced","seq":4,"data":{}')[0] == 0


@pytest.mark.parametrize("arguments", [[], ["absent.jsonl"]])
def test_a_history_that_cannot_be_read_is_no_verdict(tmp_path, arguments):
    done = subprocess.run(
        [sys.executable, "-S", str(SCRIPT), *arguments], capture_output=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
