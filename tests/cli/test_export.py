from __future__ import annotations

from pathlib import Path

import pytest

from tests import stored


def test_a_run_goes_to_a_file_or_to_stdout(call, templates):
    told = call("export", str(templates["pass"]), "--format", "jepsen-edn")
    done = call("export", str(templates["pass"]), "--format", "jepsen-edn", "--out", "h.edn")
    assert told.exit_code == done.exit_code == 0
    assert Path("h.edn").read_text() == told.stdout
    assert told.stdout.startswith("{:index 0, ")


def test_a_damaged_history_is_exported_as_far_as_it_goes(call, templates):
    path = Path("history.jsonl")
    path.write_bytes(stored.lines(templates["pass"])[:-300])
    done = call("export", str(path), "--format", "jepsen-edn")
    assert (done.exit_code, "damaged" in done.stderr, bool(done.stdout)) == (0, True, True)


@pytest.mark.parametrize(("words", "code"), [(["--format", "xml"], 64), ([], 64)])
def test_wrong_usage(call, templates, words, code):
    assert call("export", str(templates["pass"]), *words).exit_code == code


def test_a_directory_without_a_history(call, tmp_path):
    assert call("export", str(tmp_path), "--format", "jepsen-edn").exit_code == 3


def test_the_canonical_lines_are_a_history_that_is_judged_as_the_run_is(call, templates):
    told = call("export", str(templates["pass"]), "--format", "jsonl")
    assert told.exit_code == 0
    done = call("export", str(templates["pass"]), "--format", "jsonl", "--out", "h.jsonl")
    assert done.exit_code == 0
    assert Path("h.jsonl").read_text() == told.stdout
    assert Path("h.jsonl").read_bytes() == stored.lines(templates["pass"])
