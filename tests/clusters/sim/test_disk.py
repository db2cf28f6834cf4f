from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.sim.disk import SimDisk
from dethrone.harness.core.machine import Fsync, Rename, Unlink, Write
from dethrone.harness.core.rng import Rng

PATHS = st.sampled_from(["a", "b", "d/c"])
OPS = st.one_of(
    st.builds(
        Write,
        PATHS,
        st.binary(max_size=5),
        offset=st.none() | st.integers(0, 6),
        truncate=st.booleans(),
    ),
    st.builds(Fsync, PATHS),
    st.builds(Unlink, PATHS),
)


class Model:
    """The same as whole copies: what processes see, and what a loss of power leaves."""

    def __init__(self):
        self.files = {}
        self.synced = {}
        self.names = {}
        self.durable = {}
        self.last = 0

    def carry_out(self, op):
        if isinstance(op, Write):
            number = self.open(op.path)
            old = self.files[number]
            at = len(old) if op.offset is None else op.offset
            old = old.ljust(at, b"\0")
            tail = b"" if op.truncate else old[at + len(op.data) :]
            self.files[number] = old[:at] + op.data + tail
        elif isinstance(op, Fsync):
            number = self.open(op.path)
            self.synced[number] = self.files[number]
            if self.durable.get(op.path) != number:
                self.sync(op.path)
        elif isinstance(op, Rename):
            self.names[op.dst] = self.names.pop(op.src)
            self.sync(op.dst)
        else:
            self.names.pop(op.path, None)

    def open(self, path):
        if path not in self.names:
            self.last += 1
            self.names[path] = self.last
            self.files[self.last] = self.synced[self.last] = b""
        return self.names[path]

    def sync(self, path):
        above = {""} if "/" not in path else {"", path.rpartition("/")[0]}
        self.durable = {name: number for name, number in self.durable.items() if name.rpartition("/")[0] not in above}
        self.durable |= {name: number for name, number in self.names.items() if name.rpartition("/")[0] in above}

    def image(self):
        return {name: self.files[number] for name, number in self.names.items()}

    def after_power(self):
        return {name: self.synced[number] for name, number in self.durable.items()}


@given(st.lists(OPS, max_size=30), st.booleans())
def test_the_disk_shows_and_keeps_what_whole_copies_would(ops, with_rename):
    disk, model = SimDisk(), Model()
    for place, op in enumerate(ops):
        disk.carry_out(op)
        model.carry_out(op)
        if with_rename and place % 7 == 6 and "a" in model.names:
            for one in (disk, model):
                one.carry_out(Rename("a", "b"))
        assert disk.image() == model.image()
    disk.lose_power()
    assert disk.image() == model.after_power()


def test_a_rename_without_a_sync_before_it_leaves_an_empty_file_after_a_loss_of_power():
    disk = SimDisk()
    for op in (Write("t", b"new"), Rename("t", "vote")):
        disk.carry_out(op)
    disk.lose_power()
    assert disk.image() == {"vote": b""}


def test_a_rename_whose_directory_was_not_synced_is_undone_by_a_loss_of_power():
    disk = SimDisk()
    for op in (Write("vote", b"old"), Fsync("vote"), Write("t", b"new"), Rename("t", "vote", sync=False)):
        disk.carry_out(op)
    assert disk.image() == {"vote": b"new"}
    disk.lose_power()
    assert disk.image() == {"vote": b"old"}


def test_a_later_sync_of_the_directory_takes_an_unsynced_rename_along_with_its_content():
    disk = SimDisk()
    for op in (Write("t", b"new"), Rename("t", "vote", sync=False), Write("log", b"1"), Fsync("log")):
        disk.carry_out(op)
    disk.lose_power()
    assert disk.image() == {"log": b"1", "vote": b"new"}


def test_an_unlink_that_was_not_synced_is_undone_by_a_loss_of_power():
    disk = SimDisk()
    for op in (Write("vote", b"1"), Fsync("vote"), Unlink("vote")):
        disk.carry_out(op)
    assert disk.image() == {}
    disk.lose_power()
    assert disk.image() == {"vote": b"1"}


def test_damage_to_an_empty_disk_is_none():
    assert SimDisk().damage("flipped", "", Rng(1)) is None


def test_an_older_copy_is_what_the_last_process_found_and_a_file_is_chosen_by_name_and_age():
    disk = SimDisk()
    for name in ("wal/1", "wal/2", "vote"):
        disk.carry_out(Write(name, b"old"))
    disk.older = disk.image()
    assert disk.damage("stale", "", Rng(1)) is None
    for name in ("wal/2", "wal/1", "vote"):
        disk.carry_out(Write(name, b"new", 0))
    assert disk.damage("stale", "wal/*", Rng(1), age="newest") == "wal/1"
    assert disk.damage("emptied", "", Rng(1), age="oldest") == "wal/2"
    assert disk.image() == {"vote": b"new", "wal/1": b"old", "wal/2": b""}


def test_a_replaced_file_is_readable_again():
    disk = SimDisk()
    disk.carry_out(Write("vote", b"1"))
    disk.damage("unreadable", "vote", Rng(1))
    assert disk.image() == {"vote": "unreadable"}
    for op in (Write("t", b"2"), Rename("t", "vote")):
        disk.carry_out(op)
    assert disk.image() == {"vote": b"2"}
