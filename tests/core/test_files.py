from __future__ import annotations

import errno
import os
import resource
import socket
from pathlib import Path

import pytest

from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.files import open_regular, read_regular, read_text, why_unwritten
from dethrone.harness.core.store import write_atomic


def test_a_regular_file_is_read_through_links_too(tmp_path):
    file = tmp_path / "file"
    file.write_text("größer", encoding="utf-8")
    (tmp_path / "link").symlink_to(file)
    assert read_text(tmp_path / "link") == "größer"
    with open_regular(file) as opened:
        assert opened.read() == read_regular(file)


@pytest.mark.parametrize("most", [3, 4])
def test_a_file_is_read_up_to_a_length_and_not_beyond(tmp_path, most):
    file = tmp_path / "file"
    file.write_bytes(b"1234")
    if most == 4:
        assert read_regular(file, most=most) == b"1234"
    else:
        with pytest.raises(OSError, match="longer than 3 bytes"):
            read_regular(file, most=most)


def test_what_has_no_end_or_makes_its_reader_wait_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path, word in (
            (tmp_path / "fifo", "FIFO"),
            (Path("/dev/zero"), "device"),
            (tmp_path, "directory"),
            (tmp_path / "socket", "No such device"),
            (tmp_path / "missing", "No such file"),
        ):
            with pytest.raises(OSError, match=word):
                read_regular(path)


def test_a_write_that_failed_names_its_own_cause_and_not_always_the_disk(tmp_path):
    low, high = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, high))
    try:
        with pytest.raises(HistoryError, match="ulimit -n"):
            write_atomic(tmp_path / "file", b"x")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (low, high))
    with pytest.raises(HistoryError, match="the directory was removed"):
        write_atomic(tmp_path / "gone" / "file", b"x")
    assert why_unwritten(OSError(errno.ENOSPC, "no space")) == "the disk is full or was removed"
