"""A slice of the net (``python -m tests.net compare FILE`` runs all of it), and what the digests guarantee."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dethrone.harness.engine.exam.exam_tasks import examinable
from dethrone.harness.engine.run.garbage_collection import swept
from tests.net.__main__ import HASHES
from tests.net.cases import MORE_FAULTS, SEEDS, cases
from tests.net.normal import WORDS, Digests, differing
from tests.net.played import told_of

ROOT = Path(__file__).resolve().parents[2]
STORED = json.loads(HASHES.read_text())


def behaviour(told):
    return [word for word in told.split() if not word.startswith(f"{WORDS}:")]


@pytest.mark.slow
@pytest.mark.parametrize("system", sorted({name.partition("/")[0] for name in STORED}))
def test_a_slice_of_the_net_does_what_it_did(system):
    differ = {}
    for case in swept([case for case in cases(f"{system}/") if case.name in STORED]):
        told = told_of(case)
        if behaviour(told) != behaviour(STORED[case.name]):
            differ[case.name] = differing(STORED[case.name], told)
    assert not differ, "where the change is meant: python -m tests.net record"


@pytest.mark.parametrize("system", examinable())
def test_the_slice_holds_the_default_profile_all_kinds_of_faults_and_a_planted_bug_of_each(system):
    slice_ = [case for case in cases(f"{system}/") if case.name in STORED]
    honest = [case.options for case in slice_ if case.build == "honest"]
    assert any(options.profile is None for options in honest)
    assert any(set(MORE_FAULTS[-1]) <= set(options.faults) for options in honest)
    assert any(case.options.variant for case in slice_)


def test_every_stored_digest_is_of_a_case():
    assert set(STORED) <= {case.name for case in cases()}


def test_every_seed_is_of_a_bug():
    names = {f"{case.system}/{case.build}" for case in cases()}
    assert set(json.loads(SEEDS.read_text())) <= names


@pytest.mark.slow
def test_hashes_of_strings_and_temporary_places_change_nothing(tmp_path):
    case = cases("paxos/honest/00")[0]
    script = "from tests.net.cases import cases; from tests.net.played import told_of; import sys;"
    script += f"sys.stdout.write(told_of(cases({case.name!r})[0]))"
    env = {**os.environ, "PYTHONHASHSEED": "12345", "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == STORED[case.name]


def digest(*lines):
    out = Digests()
    for kind, value in lines:
        out.add(kind, value)
    return out.told()


class Told(msgspec.Struct):
    why: str
    n: int = 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"why": "leader silent"}, {"why": "the leader says nothing"}),
        ({"error": "ValueError('no such thing')"}, {"error": "TargetError('nothing like it')"}),
        ({"why": "NullAnswer"}, {"why": "EmptyAnswer"}),
        ({"lines": ["dethrone.clusters.targets.raft.Oh: no"]}, {"lines": ["dethrone.targets.raft.Oh: no no"]}),
        ({"file": "dethrone.clusters.targets.raft.log"}, {"file": "dethrone.targets.raft.log"}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Told("one text"), Told("another text")),
    ],
)
def test_prose_and_places_of_code_are_no_behaviour(one, other):
    assert digest(("core", one)) == digest(("core", other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"why": "lower_term"}, {"why": "prev"}),
        ({"why": "leader silent"}, {"why": ""}),
        ({"code": "NullAnswer"}, {"code": "EmptyAnswer"}),
        ({"term": 1}, {"term": 2}),
        ({"to": 1}, {"too": 1}),
        ([1, 2], [2, 1]),
        (Told("one text"), Told("one text", 1)),
    ],
)
def test_codes_numbers_keys_and_order_are(one, other):
    told, now = digest(("core", one), ("sent", 1)), digest(("core", other), ("sent", 1))
    assert told.split()[0] != now.split()[0]
    assert [kind for kind in differing(told, now) if not kind.startswith(WORDS)] == ["core"]


def test_the_order_of_lines_and_their_number_are():
    one, two = ("core", 1), ("core", 2)
    assert differing(digest(one, two), digest(two, one)) == ["core"]
    assert differing(digest(one), digest(one, two)) == ["core 1 → 2"]


def test_another_choice_among_the_same_texts_is_advice():
    told = digest(("core", {"why": "one text"}), ("core", {"why": "one text"}))
    now = digest(("core", {"why": "one text"}), ("core", {"why": "another text"}))
    assert differing(told, now) == [WORDS]
    assert told.split()[0] == now.split()[0]
