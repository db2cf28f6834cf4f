from __future__ import annotations

from pathlib import Path

import pytest


def test_a_run_goes_to_a_file_or_to_stdout(call, templates):
    told = call("export", str(templates["pass"]), "--format", "jepsen-edn")
    done = call("export", str(templates["pass"]), "--format", "jepsen-edn", "--out", "h.edn")
    assert told.exit_code == done.exit_code == 0
    assert Path("h.edn").read_text() == told.stdout
    assert told.stdout.startswith("{:index 0, ")


def test_a_damaged_history_is_exported_as_far_as_it_goes(call, templates):
    path = Path("history.jsonl")
    path.write_bytes((templates["pass"] / "history.jsonl").read_bytes()[:-300])
    done = call("export", str(path), "--format", "jepsen-edn")
    assert (done.exit_code, "damaged" in done.stderr, bool(done.stdout)) == (0, True, True)


@pytest.mark.parametrize(("words", "code"), [(["--format", "xml"], 64), ([], 64)])
def test_wrong_usage(call, templates, words, code):
    assert call("export", str(templates["pass"]), *words).exit_code == code


def test_a_directory_without_a_history(call, tmp_path):
    assert call("export", str(tmp_path), "--format", "jepsen-edn").exit_code == 3
