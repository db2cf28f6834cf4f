from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.checkers.histories import Tale

SCRIPT = Path(__file__).with_name("verify_certificate.py")
CLEAN = "no double vote and no two leaders of one term"


def of_group(tale, group):
    """The last event is another group's."""
    tale.events[-1] = msgspec.structs.replace(tale.events[-1], group=group)
    return tale


STORIES = {
    "each node votes once in a term": (
        lambda t: t.vote("n2", 3, "n1").vote("n2", 4, "n3").elected("n1", 3, "").elected("n3", 4, ""),
        [CLEAN],
    ),
    "two candidates of one vote": (
        lambda t: t.vote("n2", 3, "n3"),
        ["n2 voted in term 3 for n1 and for n3", "seq 2", "seq 4"],
    ),
    "two nodes elected in one term": (
        lambda t: t.core("n3", "elected", 3, voters=["n3", "n2"]),
        ["n1 and n3 were both elected in term 3", "seq 3", "seq 4"],
    ),
    "a vote of another group": (lambda t: of_group(t.vote("n2", 3, "n3"), "b"), [CLEAN]),
    "a leader of another group": (lambda t: of_group(t.elected("n3", 3, ""), "b"), [CLEAN]),
    "a label": (lambda t: t.core("n2", "relabel", 3, vote_for="n3"), [CLEAN]),
}


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("torn", [False, True])
def test_a_history_has_a_certificate_if_its_election_was_unsafe_and_a_torn_last_line_is_passed_over(
    tmp_path, name, torn
):
    tell, said = STORIES[name]
    tale = tell(Tale().vote("n1", 3, "n1").vote("n2", 3, "n1").elected("n1", 3, "n1 n2"))
    path = tmp_path / "history.jsonl"
    path.write_bytes(tale.raw()[: -20 if torn else None])
    done = subprocess.run([sys.executable, "-S", str(SCRIPT), str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == (said != [CLEAN])
    assert [line.split(":")[0].strip() for line in done.stdout.splitlines()] == said


@pytest.mark.parametrize("arguments", [[], ["absent.jsonl"]])
def test_a_history_that_cannot_be_read_is_no_verdict(tmp_path, arguments):
    done = subprocess.run(
        [sys.executable, "-S", str(SCRIPT), *arguments], capture_output=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
