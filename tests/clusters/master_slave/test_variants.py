"""Each planted bug shows itself by the shortest faults known; the honest build does not."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Ok
from tests.clusters.master_slave.spec import cluster, scaled, send, values


def both(name, **more):
    """The honest cluster and the broken one, each with what should be seen of it."""
    return [(cluster(**more), False), (cluster(variant=name, **more), True)]


def test_a_failed_write_that_is_ignored_is_acknowledged_and_lost():
    for w, shows in both("04-ignore-failed-write"):
        w.sync = None
        request = w.request("m", Append("k", 1))
        w.batch_done(w.boxes["m"], error="EIO")
        w.sync = (0, 2)
        w.run(100)
        assert isinstance(w.replies.get(request), Ok) is shows


def test_a_send_ok_of_sync_flush_that_was_not_synced_is_lost_with_the_power():
    for w, shows in both("05-not-synced", profile="sync"):
        assert send(w, "m", "acknowledged") == "ok"
        w.restart("m", power=True)
        assert ("acknowledged" not in values(w, "m")) is shows


def test_a_slave_that_copies_from_a_shorter_log_throws_the_last_copy_away():
    for w, shows in both("12-copies-from-shorter-log"):
        assert send(w, "m", "acknowledged") == "ok"
        w.run(200)
        w.restart("m", wipe=True)
        w.run(scaled(40_000))
        send(w, "m", "other")
        w.run(scaled(40_000))
        assert ("acknowledged" not in values(w, "s1")) is shows


def test_a_repeated_transfer_makes_a_slave_forget_what_it_acknowledged():
    from dethrone.clusters.targets.master_slave.messages import HaTransfer
    from tests.clusters.master_slave.test_vectors import RECORDS, following

    for variant, left in ((None, 2), ("44-cuts-before-copy", 1)):
        one = following(variant=variant, slow=True)
        one.hear("m", HaTransfer(0, RECORDS, 2, 0))
        one.done()
        one.hear("m", HaTransfer(0, RECORDS[:1], 2, 0))
        assert one.core.log.end == left


@pytest.mark.parametrize("name", ["45-acks-after-local-append", "plain-degraded-is-ok"])
def test_a_synchronous_ok_that_no_slave_holds_is_lost_with_the_master(name):
    for w, shows in both(name, profile="sync"):
        w.kill("s1", "s2")
        w.run(scaled(25_000))
        assert (send(w, "m", 1) == "ok") is shows


def test_a_slave_that_acknowledges_before_it_writes_loses_what_was_confirmed():
    for w, shows in both("46-acks-before-write", profile="sync"):
        w.kill("s2")
        w.run(scaled(25_000))
        slow = w.boxes["s1"]
        start = w.start_batch
        w.start_batch = lambda box, start=start, slow=slow: None if box is slow else start(box)
        assert (send(w, "m", 1) == "ok") is shows
        w.start_batch = start
        w.kill("s1")
        slow.batches.clear()


def test_a_slave_that_takes_writes_leaves_its_masters_log():
    for w, shows in both("plain-slave-takes-writes"):
        assert (send(w, "s1", "aside") == "ok") is shows
        assert (values(w, "s1") == ["aside"]) is shows


def test_a_slave_that_promotes_itself_changes_its_role_without_a_restart():
    for w, shows in both("plain-promotes-itself"):
        w.kill("m")
        w.run(scaled(100_000))
        assert bool(w.with_role("MASTER")) is shows
