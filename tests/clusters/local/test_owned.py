"""Whose marks count, and which directories are removed: another user's word is nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dethrone.clusters.local import labels, owned, users
from dethrone.clusters.local.backend import LocalBackend

ME = os.geteuid()
STRANGER = 65534


def run_dir(root: Path, run_id: str = "raft-1") -> Path:
    """A run's directory with something of its hosts in it."""
    directory = root / "runs" / run_id
    (directory / labels.HOSTS / "n1").mkdir(parents=True)
    (directory / labels.HOSTS / "n1" / "file").write_text("x")
    return directory


def test_marks_of_this_user_and_of_root_of_that_runs_hosts_count(tmp_path):
    directory = run_dir(tmp_path)
    assert owned.counts(ME, run_id="raft-1", state_dir=directory)
    assert owned.counts(users.of_run("raft-1").root, run_id="raft-1", state_dir=directory) == (ME == 0)


def test_marks_of_a_run_whose_ledger_is_gone_count(tmp_path):
    assert owned.counts(ME, run_id="raft-1", state_dir=tmp_path / "runs" / "raft-1")


@pytest.mark.parametrize("user", [STRANGER, -1, users.of_run("raft-1").node, users.of_run("raft-2").root])
def test_marks_of_others_and_of_nodes_do_not_count(tmp_path, user):
    assert not owned.counts(user, run_id="raft-1", state_dir=run_dir(tmp_path))


@pytest.mark.parametrize("path", ["precious", "runs/raft-2", "runs/raft-1/..", "runs/../runs/raft-1", "raft-1"])
def test_a_directory_that_is_not_that_runs_is_not_believed(tmp_path, path):
    assert not owned.counts(ME, run_id="raft-1", state_dir=tmp_path / path)
    assert not owned.counts(ME, run_id="raft-1", state_dir=Path("runs/raft-1"))


def test_a_process_of_several_users_is_of_none():
    assert owned.user_of(b"Name:\tx\nUid:\t7\t7\t7\t7\n") == 7
    assert owned.user_of(b"Uid:\t0\t7\t0\t0\n") == owned.user_of(b"") == -1


def test_what_a_run_left_is_removed_and_twice_is_fine(tmp_path):
    directory = run_dir(tmp_path)
    for _ in range(2):
        owned.remove_directory(directory, "raft-1")
        assert not (directory / labels.HOSTS).exists()


def test_what_dying_processes_still_write_is_removed_too(tmp_path, monkeypatch):
    directory, writes = run_dir(tmp_path), iter(range(3))
    remove = owned.shutil.rmtree

    def rmtree(*words, **more):
        remove(*words, **more)
        for _ in writes:  # the directory of a host comes back, as one does while a process writes into it
            (directory / labels.HOSTS / "n1").mkdir(parents=True)
            return

    monkeypatch.setattr(owned.shutil, "rmtree", rmtree)
    owned.remove_directory(directory, "raft-1")
    assert not (directory / labels.HOSTS).exists()


@pytest.mark.parametrize("link", ["runs", "runs/raft-1", "runs/raft-1/hosts"])
def test_no_link_leads_to_what_is_removed(tmp_path, link):
    elsewhere = run_dir(tmp_path / "elsewhere")
    place = tmp_path / "here" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "elsewhere" / link)
    owned.remove_directory(tmp_path / "here" / "runs" / "raft-1", "raft-1")
    assert (elsewhere / labels.HOSTS / "n1" / "file").exists()


def test_a_directory_of_another_shape_stays(tmp_path):
    precious = tmp_path / "precious"
    (precious / labels.HOSTS).mkdir(parents=True)
    owned.remove_directory(precious, "raft-1")
    assert (precious / labels.HOSTS).exists()


@pytest.fixture
def strangers_process(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process of another user that names a directory of ours in its environment."""
    precious = tmp_path / "precious"
    (precious / labels.HOSTS).mkdir(parents=True)
    (precious / labels.HOSTS / "file").write_text("x")
    marks = {labels.RUN: "victim", labels.STATE: str(precious), labels.NODE: "n1"}
    process = subprocess.Popen(
        ["/bin/sleep", "600"], env=marks, user=STRANGER, group=STRANGER, extra_groups=[], cwd="/"
    )
    yield process, precious
    process.kill()
    process.wait()


@pytest.mark.namespaces
def test_root_neither_ends_nor_removes_what_another_user_names(root, strangers_process):
    process, precious = strangers_process
    backend = LocalBackend()
    assert [thing for thing in backend.leftovers() if thing.run_id == "victim"] == []
    backend.destroy("victim")
    assert process.poll() is None
    assert (precious / labels.HOSTS / "file").exists()
