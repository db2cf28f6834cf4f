"""What a node's trace holds of its logs outlives its process, next to the trace."""

import pytest

from dethrone.clusters.node.kept_marks import KeptMarks
from dethrone.harness.core.log_marks import EVERY

ENTRIES = [(n, 1, f"{n:016x}") for n in range(1, 3 * EVERY + 1)]


def lived(path, entries, *, incarnation):
    """A life that finds and shows these entries; what it found as an earlier one had shown it."""
    kept = KeptMarks(path, incarnation=incarnation)
    found = kept.marks.of("log").found(entries)
    kept.keep()
    return kept, found.size


def test_a_killed_process_leaves_what_it_wrote(tmp_path):
    path = str(tmp_path / "marks")
    lived(path, ENTRIES, incarnation=1)
    assert lived(path, ENTRIES, incarnation=2)[1] == 3 * EVERY
    assert lived(path, ENTRIES[: 2 * EVERY + 5], incarnation=3)[1] == 2 * EVERY
    assert lived(path, ENTRIES, incarnation=4)[1] == 2 * EVERY


def test_a_cut_is_kept_as_well(tmp_path):
    path = str(tmp_path / "marks")
    first, _ = lived(path, ENTRIES, incarnation=1)
    first.marks.of("log").cut(EVERY + 3)
    first.marks.of("log").entries = ENTRIES[: EVERY + 3]
    first.close()
    assert lived(path, ENTRIES, incarnation=2)[1] == EVERY


def test_the_first_life_of_a_run_does_not_read_what_another_run_left(tmp_path):
    path = str(tmp_path / "marks")
    lived(path, ENTRIES, incarnation=1)
    assert lived(path, ENTRIES, incarnation=1)[1] == 0


@pytest.mark.parametrize("spoil", [b'["log",1,[', b"nonsense\n", b'["log",0,"x"]\n'])
def test_a_spoilt_file_costs_lines_that_are_shown_again(tmp_path, spoil):
    path = tmp_path / "marks"
    lived(str(path), ENTRIES, incarnation=1)
    path.write_bytes(path.read_bytes() + spoil)
    kept, count = lived(str(path), ENTRIES, incarnation=2)
    assert count == 0
    kept.close()
    assert path.read_bytes() == b""


def test_a_file_that_cannot_be_written_costs_nothing_else(tmp_path):
    kept, count = lived(str(tmp_path / "no" / "marks"), ENTRIES, incarnation=1)
    assert count == 0
    assert kept.marks.of("log").found(ENTRIES).size == 3 * EVERY
    kept.close()
    assert list(tmp_path.iterdir()) == []
