"""Files named on the command line that never end, or never begin: an answer at once, with the file's name."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

LIMIT_S = 20


@pytest.fixture
def alarm():
    """A command that hangs is ended."""

    def ring(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("what", ["fifo", "zero"])
@pytest.mark.parametrize(
    "words",
    [
        ("run", "raft", "--on", "sim", "--schedule", "FILE.json"),
        ("run", "raft", "--on", "sim", "--schedule", "FILE.toml"),
        ("run", "raft", "--on", "sim", "--config", "FILE.toml"),
        ("run", "--on", "sim", "--scenario", "FILE.toml"),
        ("run", "./FILE.toml", "--on", "sim"),
        ("run", "raft", "--on", "ssh", "--hosts", "FILE.toml"),
        ("campaign", "FILE.toml", "--seeds", "0..1", "--out", "o", "--on", "sim"),
        ("doctor", "FILE.toml"),
        ("check", "FILE.jsonl"),
        ("check", ".", "--known", "FILE.toml"),
        ("check", "FILE.parquet"),
        ("check", "FILE.edn", "--format", "jepsen-edn", "--model", "register"),
        ("report", "FILE.jsonl"),
        ("run", "raft", "--on", "sim", "--known", "FILE.toml"),
        ("heal", "--hosts", "FILE.toml"),
        ("run", "raft", "--on", "sim", "--variant", "FILE.py:X"),
        ("exam", "--system", "raft", "--variant", "FILE.py:X", "--expect", "crash", "--out", "o"),
    ],
    ids=" ".join,
)
def test_a_file_without_an_end_is_refused_by_name(call, tmp_path, alarm, words, what):
    named = []
    for word in words:
        if "FILE" in word:
            path = tmp_path / word
            if what == "fifo":
                os.mkfifo(path)
            else:
                path.symlink_to("/dev/zero")
        named.append(word)
    done = call(*named)
    assert done.exit_code not in {0, 1}, done.output
    assert not isinstance(done.exception, (TimeoutError, OSError, MemoryError)), done.exception
    assert "FILE." in done.output or "kind of file" in done.output  # the target of a link has a name, too
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["plan.json", "run.json", "history/000000000000.jsonl"])
def test_a_run_directory_with_such_a_file_is_refused_too(call, tmp_path, alarm, templates, name):
    run = tmp_path / "run"
    shutil.copytree(templates["pass"], run)
    (run / name).unlink()
    os.mkfifo(run / name)
    for verb in (("check",), ("report",), ("replay",)):
        done = call(*verb, str(run))
        assert not isinstance(done.exception, (TimeoutError, OSError)), (verb, done.exception)
        assert "Traceback" not in done.stderr
