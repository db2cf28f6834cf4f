"""The log and the epoch files: what is read is what was written, and damage is told from an unfinished write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.zab.log import ACCEPTED, LOG, Log, epoch_ops, read_epoch, read_log, record_bytes
from dethrone.clusters.targets.zab.messages import Txn, zxid_of
from tests.world.disk import Disk

zxids = st.lists(st.integers(1, 3), max_size=8).map(
    lambda epochs: [
        zxid_of(epoch, sorted(epochs)[: place + 1].count(epoch)) for place, epoch in enumerate(sorted(epochs))
    ]
)


def txns(numbers):
    return [Txn(zxid, Append("k", zxid)) for zxid in numbers]


def carried_out(disk, ops):
    for op in ops:
        disk.carry_out(op)


@given(zxids, zxids, st.integers(0, 8))
def test_the_file_holds_what_the_log_holds_after_appends_cuts_and_snapshots(first, second, keep):
    disk, log = Disk(), Log()
    carried_out(disk, log.extend(txns(first)))
    carried_out(disk, log.keep(keep))
    assert read_log(disk.shown.get(LOG, b"")).entries == log.entries == txns(first)[:keep]
    carried_out(disk, log.replace(txns(second)))
    assert read_log(disk.durable[LOG]).entries == log.entries == txns(second)
    again = Log()
    again.start(disk.durable[LOG])
    assert (again.terms, again.ends, again.last) == (log.terms, log.ends, second[-1] if second else 0)


@given(zxids.filter(bool), st.data())
def test_an_unfinished_record_is_cut_off(numbers, data):
    content = b"".join(record_bytes(place, txn) for place, txn in enumerate(txns(numbers), 1))
    whole = len(content) - len(record_bytes(len(numbers), txns(numbers)[-1]))
    log = Log()
    ops = log.start(content[: data.draw(st.integers(whole + 1, len(content) - 1))])
    assert log.entries == txns(numbers)[:-1]
    assert ops[0].truncate
    assert ops[0].offset == whole


@pytest.mark.parametrize(("content", "epoch"), [(None, None), (b"7\n", 7), (b"0\n", 0)])
def test_an_epoch_file_holds_its_epoch(content, epoch):
    assert read_epoch({} if content is None else {ACCEPTED: content}, ACCEPTED) == epoch


@pytest.mark.parametrize("content", [b"", b"-1\n", b"seven", "unreadable"])
def test_anything_else_in_an_epoch_file_cannot_be_read(content):
    with pytest.raises(Unreadable):
        read_epoch({ACCEPTED: content}, ACCEPTED)


def test_an_epoch_file_is_the_old_or_the_new_one_after_any_step():
    for steps in range(len(epoch_ops(ACCEPTED, 2)) + 1):
        disk = Disk()
        carried_out(disk, epoch_ops(ACCEPTED, 1))
        carried_out(disk, epoch_ops(ACCEPTED, 2)[:steps])
        disk.lose_power()
        assert read_epoch(disk.shown, ACCEPTED) in (1, 2)


def test_places_in_the_log():
    log = Log()
    log.extend(txns([zxid_of(1, 1), zxid_of(1, 2), zxid_of(3, 1)]))
    assert [log.upto(zxid_of(1, 2)), log.upto(zxid_of(2, 9)), log.upto(0)] == [2, 2, 0]
    assert log.holds(zxid_of(3, 1), 3)
    assert not log.holds(zxid_of(3, 1), 2)
    assert not log.holds(zxid_of(2, 1), 3)
