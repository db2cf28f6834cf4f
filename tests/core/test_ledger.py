"""The ledger: on disk before the effect, live while its process lives, readable after any crash."""

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.ledger import (
    Ledger,
    forget,
    is_live,
    read_ledger,
    stale_runs,
    state_dir,
    sweep,
    unwritable,
)


def test_a_live_run_is_not_stale_and_a_closed_one_leaves_nothing(tmp_path):
    ledger = Ledger(tmp_path, "r1")
    ledger.record("deploying", backend="docker", nodes=["n1"])
    assert is_live(ledger.directory)
    assert stale_runs(tmp_path) == []
    ledger.close(clean=True)
    assert not ledger.directory.exists()


def test_an_unclean_close_leaves_a_stale_run_with_its_lines(tmp_path):
    ledger = Ledger(tmp_path, "r1")
    ledger.record("deploying", backend="docker", nodes=["n1"])
    ledger.record("converging", backend="docker", hosts={"n1": {"frozen": True}})
    ledger.close(clean=False)
    (stale,) = stale_runs(tmp_path)
    assert [line.transition for line in stale.lines] == ["deploying", "converging"]
    assert stale.lines[1].data["hosts"]["n1"]["frozen"] is True
    forget(stale)
    assert stale_runs(tmp_path) == []


def test_the_same_run_id_twice_is_refused(tmp_path):
    ledger = Ledger(tmp_path, "r1")
    with pytest.raises(ConfigError, match="exists already"):
        Ledger(tmp_path, "r1")
    ledger.close(clean=True)


def _highest() -> int:
    return max(int(path.name) for path in Path("/proc/self/fd").iterdir())


@pytest.fixture
def descriptors():
    """Leave this process so many more descriptors, until the test is over."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    filling = [os.open(os.devnull, os.O_RDONLY)]
    while filling[-1] < _highest() - 1:  # no gap is left below the limit
        filling.append(os.open(os.devnull, os.O_RDONLY))
    limit = max(*filling, _highest()) + 1
    yield lambda spare: resource.setrlimit(resource.RLIMIT_NOFILE, (limit + spare, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for descriptor in filling:
        os.close(descriptor)


@pytest.mark.parametrize("spare", [0, 1])
def test_a_process_without_descriptors_is_in_trouble_and_leaves_no_ledger_behind(tmp_path, descriptors, spare):
    descriptors(spare)
    with pytest.raises(HarnessError, match="ulimit -n") as refused:
        Ledger(tmp_path, "r1")
    descriptors(20)
    assert refused.value.exit_code == 3
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_ledger_that_is_closed_without_a_descriptor_to_spare_leaves_nothing(tmp_path, descriptors):
    ledger = Ledger(tmp_path, "r1")
    descriptors(0)
    ledger.close(clean=True)
    descriptors(20)
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, 3), (errno.EMFILE, 3), (errno.EACCES, 64)])
def test_what_ran_out_is_trouble_and_what_a_user_chose_is_a_mistake(tmp_path, number, code):
    assert unwritable("cannot write it", tmp_path, OSError(number, os.strerror(number))).exit_code == code


def test_a_killed_process_leaves_a_stale_run_that_says_what_it_intended(tmp_path):
    code = textwrap.dedent(f"""
        import os, signal, pathlib
        from dethrone.harness.core.ledger import Ledger
        ledger = Ledger(pathlib.Path({str(tmp_path)!r}), "killed")
        ledger.record("converging", backend="docker", hosts={{}})
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    (stale,) = stale_runs(tmp_path)
    assert stale.run_id == "killed"
    assert stale.lines[-1].transition == "converging"


def test_a_torn_last_line_is_ignored_for_its_effect_never_began(tmp_path):
    ledger = Ledger(tmp_path, "r1")
    ledger.record("deploying", backend="docker")
    with (ledger.directory / "ledger.jsonl").open("ab") as file:
        file.write(b'{"transition":"conv')
    assert [line.transition for line in read_ledger(ledger.directory)] == ["deploying"]
    ledger.close(clean=False)


def test_the_state_directory_comes_from_the_environment(tmp_path):
    assert state_dir({"DETHRONE_STATE_DIR": "/x"}).as_posix() == "/x"
    assert state_dir({"XDG_STATE_HOME": "/y"}).as_posix() == "/y/dethrone"
    assert state_dir({}).parts[-1] == "dethrone"
    assert os.environ.get("DETHRONE_STATE_DIR") is None or state_dir()


def test_a_ledger_that_is_being_made_or_removed_is_never_seen_as_one_that_nobody_holds(tmp_path):
    seen: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.extend(run.run_id for run in stale_runs(tmp_path))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for number in range(400):
            Ledger(tmp_path, f"r{number}").close(clean=True)
    finally:
        over.set()
        looking.join()
    assert seen == []
    assert list((tmp_path / "runs").iterdir()) == []


def test_what_was_left_half_made_is_no_run_and_goes_after_a_while(tmp_path):
    half = tmp_path / "runs" / ".r1.abc"
    half.mkdir(parents=True)
    assert stale_runs(tmp_path) == []
    sweep(tmp_path, now_s=half.stat().st_mtime + 60)
    assert half.exists(), "it may be being made"
    sweep(tmp_path, now_s=half.stat().st_mtime + 7200)
    assert not half.exists()


def test_a_lock_that_is_no_file_is_neither_waited_for_nor_followed(tmp_path):
    os.mkfifo(tmp_path / "lock")
    assert not is_live(tmp_path)
