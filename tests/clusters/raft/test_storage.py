"""The bytes on disk: round trips, torn tails, damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append, Put
from dethrone.clusters.targets.raft.log import Log
from dethrone.clusters.targets.raft.messages import Config, Entry, Noop
from dethrone.clusters.targets.raft.storage import (
    HardState,
    read_log,
    read_vote,
    record,
    vote_bytes,
)
from dethrone.harness.core.machine import Fsync, Write
from tests.clusters.raft.spec import One, disk, entries
from tests.world.disk import Disk
from tests.world.effects import halted

commands = st.one_of(
    st.builds(Append, key=st.text(max_size=3), value=st.one_of(st.integers(-9, 9), st.text(max_size=3))),
    st.builds(Put, key=st.text(max_size=3), value=st.one_of(st.none(), st.booleans(), st.lists(st.integers(0, 3)))),
    st.just(Noop()),
    st.just(Config(("A", "B"), ("C",))),
)


@given(st.integers(0, 2**40), st.one_of(st.none(), st.text(max_size=5)))
def test_a_vote_file_reads_back(term, voted_for):
    assert read_vote(vote_bytes(HardState(term, voted_for))) == HardState(term, voted_for)


@given(st.lists(commands, max_size=6), st.data())
def test_a_log_reads_back_up_to_a_torn_tail(found, data):
    log = [Entry(i + 1, 1 + i // 2, command) for i, command in enumerate(found)]
    records = [record(entry)[0] for entry in log]
    content = b"".join(records)
    whole = read_log(content)
    assert whole.entries == log
    assert not whole.torn
    cut = data.draw(st.integers(0, len(content)))
    part = read_log(content[:cut])
    assert part.entries == log[: len(part.entries)]
    assert part.torn == (cut not in (0, *whole.ends))
    zeros = read_log(content[:cut] + bytes(data.draw(st.integers(1, 40)))) if part.torn is False else None
    if zeros is not None:
        assert zeros.entries == part.entries
        assert zeros.torn


@given(st.lists(st.one_of(st.integers(1, 9), st.integers(-6, -1)), max_size=12), st.booleans())
def test_batches_of_appends_and_cuts_leave_on_disk_what_is_in_memory(steps, lazy):
    log, files = Log(Config(("A",))), Disk()
    for step in steps:
        if step > 0:
            log.append(Entry(log.end + 1, step, Noop()))
        elif log.end + step >= 0:
            log.cut(log.end + step)
        if not lazy:
            for op in log.take_ops():
                files.carry_out(op)
    for op in log.take_ops():
        files.carry_out(op)
    found = read_log(files.shown.get("log", b""))
    assert found.entries == log.entries
    assert found.digests == log.digests
    assert found.ends == log.ends
    assert not found.torn


def boot(image, variant=None):
    one = One(variant=variant)
    fresh = One(variant=variant)
    out = []
    fresh.core = type(fresh.core)("A", ("A", "B", "C"), one.knobs, one.node.rules)
    fresh.core.boot(image, fresh.clocks(), fresh.rng, out)
    return fresh, out


@pytest.mark.parametrize("content", ["unreadable", b"", b"00000000 {}\n"])
def test_an_unreadable_vote_file_halts_the_node(content):
    node, out = boot({"vote": content})
    assert halted(out)
    assert node.give(None) == []


def test_an_unreadable_log_halts_the_node():
    _, out = boot({**disk(3), "log": "unreadable"})
    assert halted(out)


def test_a_torn_tail_is_cut_before_anything_is_said():
    image = disk(1, "B", (1, 1))
    whole = image["log"]
    image["log"] += record(entries(1, 1, 1)[2])[0][:-3]
    node, out = boot(image)
    assert node.node.log.end == 2
    assert out[0].ops[0] == Write("log", b"", offset=len(whole), truncate=True)
    assert type(out[1]).__name__ == "Await"


def test_a_missing_vote_file_starts_from_the_terms_that_the_log_proves():
    image = disk(3, "B", (1, 3))
    del image["vote"]
    node, _ = boot(image)
    assert (node.node.term, node.node.voted_for) == (3, None)


def test_what_was_read_is_synced_again_before_anything_is_said():
    _, out = boot(disk(3, "B", (1,)))
    assert [op.path for op in out[0].ops if isinstance(op, Fsync)] == ["log", "vote"]
    assert type(out[1]).__name__ == "Await"
