"""Files that are replaced and files of records: round trips, torn tails, damage, and a crash after any operation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets.kit.files import (
    Unreadable,
    append_ops,
    cut_ops,
    file_of,
    log_record,
    read_log,
    record,
    replace_ops,
    sealed,
    split,
    split_log,
    unsealed,
    unsynced,
)
from dethrone.harness.core.machine import Fsync, Rename, Unlink, Write
from tests.world.disk import Disk

bodies = st.lists(st.binary(min_size=1, max_size=20), max_size=6)


# --- a file that is replaced --------------------------------------------------------------------------------------


@given(st.binary())
def test_a_sealed_line_reads_back(body):
    assert unsealed(sealed(body), bytes, path="f") == body


@given(st.binary(max_size=30), st.data())
def test_any_change_of_a_sealed_line_is_noticed(body, data):
    content = bytearray(sealed(body))
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = unsealed(bytes(content), bytes, path="f")
    except Unreadable:
        return
    assert found == body  # the case of a hexadecimal digit


@given(st.binary(max_size=30), st.data())
def test_a_cut_sealed_line_is_unreadable(body, data):
    with pytest.raises(Unreadable, match="vote"):
        unsealed(sealed(body)[: data.draw(st.integers(0, len(body) + 8))], bytes, path="vote")


def test_a_file_is_replaced_by_write_sync_rename_sync_and_each_mistake_leaves_something_out():
    assert [type(op) for op in replace_ops("f", b"x")] == [Write, Fsync, Rename, Fsync]
    assert [type(op) for op in replace_ops("f", b"x", "delete_rename")] == [Write, Fsync, Unlink, Rename, Fsync]
    assert [type(op) for op in replace_ops("f", b"x", "in_place")] == [Write]
    plain, lost = unsynced(replace_ops("f", b"x")), unsynced(replace_ops("f", b"x"), renames=True)
    assert [type(op) for op in plain] == [type(op) for op in lost] == [Write, Rename]
    assert (plain[1].sync, lost[1].sync) == (True, False)
    assert replace_ops("f", b"x", scratch="elsewhere")[0].path == "elsewhere"


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("count", range(5))
def test_a_crash_after_any_operation_leaves_the_old_or_the_new_content(count, power):
    files = Disk()
    for op in (*replace_ops("f", b"old"), *replace_ops("f", b"new")[:count]):
        files.carry_out(op)
    if power:
        files.lose_power()
    assert files.shown["f"] in {b"old", b"new"}


def test_a_file_is_absent_there_or_unreadable():
    assert file_of({}, "f") is None
    assert file_of({"f": b"x"}, "f") == b"x"
    with pytest.raises(Unreadable, match="f: cannot be read"):
        file_of({"f": "input/output error"}, "f")


# --- records --------------------------------------------------------------------------------------------------------


@given(bodies, st.data())
def test_records_cut_anywhere_lose_their_tail_only(made, data):
    content = b"".join(map(record, made))
    cut = data.draw(st.integers(0, len(content)))
    found, torn = split(content[:cut], path="log")
    ends = [0, *(end for _, end in found)]
    assert [body for body, _ in found] == made[: len(found)]
    assert torn == (cut != ends[-1])
    if not torn:
        grown, torn = split(content[:cut] + bytes(data.draw(st.integers(1, 40))), path="log")
        assert (grown, torn) == (found, True)


@given(st.lists(st.binary(min_size=9, max_size=20), min_size=2, max_size=4), st.data())
def test_a_flipped_bit_before_the_last_bytes_is_damage_never_other_records(made, data):
    content = bytearray(b"".join(map(record, made)))
    content[-1] = content[-1] or 1
    content = bytearray(b"".join(map(record, [*made[:-1], made[-1][:-1] + b"\xff"])))
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 6))
    with pytest.raises(Unreadable, match="damaged record"):
        split(bytes(content), path="log")


def test_offsets_are_told_behind_a_base_and_short_bodies_are_damage_where_none_belongs():
    found, _ = split(record(b"abc") + record(b"de"), path="log", base=100)
    assert found == [(b"abc", 115), (b"de", 129)]
    with pytest.raises(Unreadable, match="header at byte 7"):
        split(record(b"abc"), path="log", base=7, least=3)


def test_a_log_is_read_with_its_digests_and_a_record_at_the_wrong_place_is_damage():
    (first, one), (second, two) = log_record(5, 1, b"x"), log_record(6, 2, b"y")
    found = read_log(first + second, lambda *parts: parts, path="log", first=5)
    assert (found.entries, found.digests, found.torn) == ([(5, 1, b"x"), (6, 2, b"y")], [one, two], False)
    assert found.ends == [len(first), len(first) + len(second)]
    assert split_log(second, path="log", first=6)[0] == [(6, 2, b"y", len(second))]
    with pytest.raises(Unreadable, match="record 6 where 5 belongs"):
        read_log(second + first, lambda *parts: parts, path="log", first=5)


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=9), st.integers(0, 3)), max_size=12))
def test_appends_and_cuts_leave_on_disk_what_is_meant(steps):
    files, meant = Disk(), b""
    for step in steps:
        if isinstance(step, bytes):
            ops, meant = append_ops("log", record(step), len(meant)), meant + record(step)
        else:
            kept = ([0, *(end for _, end in split(meant, path="log")[0])])[: step + 1][-1]
            ops, meant = cut_ops("log", kept), meant[:kept]
        for op in ops:
            files.carry_out(op)
    files.lose_power()
    assert files.shown.get("log", b"") == meant
