"""The log and the epoch files: what is read is what was written, and damage is told from an unfinished write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.zab.log import ACCEPTED, LOG, Log, read_epoch, read_log
from dethrone.clusters.targets.zab.messages import Txn, zxid_of
from tests.world.disk import Disk

zxids = st.lists(st.integers(1, 3), max_size=8).map(
    lambda epochs: [
        zxid_of(epoch, sorted(epochs)[: place + 1].count(epoch)) for place, epoch in enumerate(sorted(epochs))
    ]
)


def txns(numbers):
    return [Txn(zxid, Append("k", zxid)) for zxid in numbers]


@given(zxids, zxids, st.integers(0, 8))
def test_the_file_holds_what_the_log_holds_after_appends_cuts_and_snapshots(first, second, keep):
    disk, log = Disk(), Log()
    disk.carry_out_all(log.extend(txns(first)))
    disk.carry_out_all(log.keep(keep))
    assert read_log(disk.shown.get(LOG, b"")).entries == log.entries == txns(first)[:keep]
    disk.carry_out_all(log.replace(txns(second)))
    assert read_log(disk.durable[LOG]).entries == log.entries == txns(second)
    again = Log()
    again.recover(disk.durable, read_log)
    assert (again.terms, again.ends, again.last) == (log.terms, log.ends, second[-1] if second else 0)


@pytest.mark.parametrize(("content", "epoch"), [(None, None), (b"7\n", 7), (b"0\n", 0)])
def test_an_epoch_file_holds_its_epoch(content, epoch):
    assert read_epoch({} if content is None else {ACCEPTED: content}, ACCEPTED) == epoch


@pytest.mark.parametrize("content", [b"", b"-1\n", b"seven", "unreadable"])
def test_anything_else_in_an_epoch_file_cannot_be_read(content):
    with pytest.raises(Unreadable):
        read_epoch({ACCEPTED: content}, ACCEPTED)


def test_places_in_the_log():
    log = Log()
    log.extend(txns([zxid_of(1, 1), zxid_of(1, 2), zxid_of(3, 1)]))
    assert [log.upto(zxid_of(1, 2)), log.upto(zxid_of(2, 9)), log.upto(0)] == [2, 2, 0]
