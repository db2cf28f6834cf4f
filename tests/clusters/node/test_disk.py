from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.clusters.node.disk import DirectoryWriter, DiskThread, read_image
from dethrone.harness.core.machine import Disk, Fsync, Rename, Unlink, Write


def carry_out(root, *ops):
    return DirectoryWriter(root).carry_out(Disk(1, ops))


def test_write_at_an_offset_append_and_truncate(tmp_path):
    done = carry_out(
        tmp_path,
        Write("log", b"aaaa"),
        Write("log", b"bb"),
        Write("log", b"XY", offset=1),
        Write("log", b"Z", offset=4, truncate=True),
        Fsync("log"),
    )
    assert done.error is None
    assert (done.syncs, done.sync_ns > 0) == (1, True)
    assert (tmp_path / "log").read_bytes() == b"aXYaZ"


def test_folders_are_made_and_renames_replace(tmp_path):
    done = carry_out(
        tmp_path,
        Write("a/b/new", b"1", offset=0, truncate=True),
        Fsync("a/b/new"),
        Rename("a/b/new", "a/c/old"),
        Fsync("a/c/old"),
        Unlink("a/absent"),
    )
    assert done.error is None
    assert read_image(tmp_path) == {"a/c/old": b"1"}


def test_a_file_written_under_a_renamed_name_is_a_new_file(tmp_path):
    done = carry_out(tmp_path, Write("t", b"1"), Rename("t", "v"), Write("t", b"2"), Rename("t", "v"), Fsync("v"))
    assert done.error is None
    assert read_image(tmp_path) == {"v": b"2"}


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", ""])
def test_paths_cannot_leave_the_data_directory(tmp_path, path):
    done = carry_out(tmp_path, Write(path, b"1"))
    assert "leaves the data directory" in done.error


def test_the_first_error_ends_the_batch_and_names_the_operation(tmp_path):
    (tmp_path / "folder").mkdir()
    done = carry_out(tmp_path, Write("a", b"1"), Write("folder", b"2"), Write("b", b"3"))
    assert done.error.startswith("write: ")
    assert read_image(tmp_path) == {"a": b"1"}


def test_an_error_of_fsync_is_told(tmp_path, monkeypatch):
    def broken(fd):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    assert carry_out(tmp_path, Write("a", b"1"), Fsync("a")).error == "fsync: [Errno 5] Input/output error"


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    def full(fd, data, at):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    assert "No space" in carry_out(tmp_path, Write("a", b"1")).error


def test_directories_are_synced_when_their_entries_are_new(tmp_path, monkeypatch):
    synced = []
    real = os.fsync

    def spy(fd):
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        real(fd)

    monkeypatch.setattr(os, "fsync", spy)
    writer = DirectoryWriter(tmp_path)
    root = str(tmp_path)
    writer.carry_out(Disk(1, (Write("d/a", b"1"), Fsync("d/a"))))
    assert synced == [f"{root}/d/a", f"{root}/d", root]
    synced.clear()
    writer.carry_out(Disk(2, (Write("d/a", b"1"), Fsync("d/a"))))
    assert synced == [f"{root}/d/a"]
    synced.clear()
    writer.carry_out(Disk(3, (Rename("d/a", "b"), Fsync("b"))))
    assert synced == [root, f"{root}/d", root, f"{root}/b"]
    synced.clear()
    writer.carry_out(Disk(4, (Write("c", b"2"), Rename("c", "b", sync=False))))
    assert synced == []
    assert (tmp_path / "b").read_bytes() == b"2"
    writer.carry_out(Disk(5, (Fsync("b"),)))
    assert synced == [f"{root}/b", root]


def test_an_unreadable_file_is_the_word_unreadable(tmp_path):
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "good").write_bytes(b"1")
    (tmp_path / "trace").write_bytes(b"not the core's")
    assert read_image(tmp_path, leave_out=[tmp_path / "trace"]) == {"dangling": "unreadable", "good": b"1"}


def test_the_thread_finishes_batches_in_order_and_goes_on_after_an_error(tmp_path):
    woken = threading.Semaphore(0)
    disk = DiskThread(tmp_path, woken.release)
    for token in range(50):
        path = "/no" if token == 20 else "f"
        disk.submit(Disk(token, (Write(path, b"%d;" % token),)))
    assert disk.stop(5)
    assert [done.token for done in disk.results] == list(range(50))
    assert [done.token for done in disk.results if done.error] == [20]
    assert (tmp_path / "f").read_bytes() == b"".join(b"%d;" % token for token in range(50) if token != 20)
    assert all(woken.acquire(timeout=1) for _ in range(50))


operations = st.lists(
    st.one_of(
        st.builds(
            Write,
            st.sampled_from("ab"),
            st.binary(max_size=4),
            st.one_of(st.none(), st.integers(0, 6)),
            st.booleans(),
        ),
        st.builds(Rename, st.sampled_from("ab"), st.sampled_from("ab")),
        st.builds(Unlink, st.sampled_from("ab")),
        st.builds(Fsync, st.sampled_from("ab")),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(operations)
def test_a_crash_after_any_prefix_leaves_what_that_prefix_means(tmp_path_factory, ops):
    """The files after each prefix of a batch are those of a model of files: nothing is done early or late."""
    root = tmp_path_factory.mktemp("disk")
    writer = DirectoryWriter(root)
    model: dict[str, bytes] = {}
    for token, op in enumerate(ops):
        done = writer.carry_out(Disk(token, (op,)))
        if isinstance(op, Write):
            old = model.get(op.path, b"")
            at = len(old) if op.offset is None else op.offset
            tail = b"" if op.truncate else old[at + len(op.data) :]
            if op.data or op.truncate:
                model[op.path] = old[:at].ljust(at, b"\0") + op.data + tail
            else:
                model[op.path] = old
        elif isinstance(op, Fsync):
            model.setdefault(op.path, b"")
        elif isinstance(op, Unlink):
            model.pop(op.path, None)
        elif op.src in model:
            model[op.dst] = model.pop(op.src)
        else:
            assert done.error is not None
        assert read_image(root) == model
    whole = root.parent / f"{root.name}-whole"
    whole.mkdir()
    once = DirectoryWriter(whole).carry_out(Disk(1, tuple(ops)))
    if once.error is None:
        assert read_image(whole) == model
