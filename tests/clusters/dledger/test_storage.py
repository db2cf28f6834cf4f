"""The bytes on disk: round trips, torn tails, damage, and what a crash within a batch leaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.dledger.messages import Entry, Noop
from dethrone.clusters.targets.dledger.storage import (
    LOG,
    TERM,
    Log,
    TermState,
    Unreadable,
    read_log,
    read_term,
    record,
    term_bytes,
    term_ops,
)
from dethrone.clusters.targets.kit.files import Recovered
from dethrone.harness.core.machine import Fsync, Rename, Unlink, Write
from tests.clusters.dledger.spec import One, disk, entries
from tests.world.disk import Disk


def content(*terms):
    return b"".join(record(entry)[0] for entry in entries(*terms))


@given(st.data())
def test_any_change_of_a_term_file_is_noticed(data):
    damaged = bytearray(term_bytes(TermState(7, "n1")))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(Unreadable):
        read_term(bytes(damaged))


@given(st.integers(0, 30))
def test_a_cut_term_file_is_noticed(length):
    with pytest.raises(Unreadable):
        read_term(term_bytes(TermState(7, "n1"))[:length])


def test_the_term_file_is_replaced_atomically_and_durably_or_as_upstream_does_it():
    kinds = [type(op) for op in term_ops(TermState(1, "A"))]
    assert kinds == [Write, Fsync, Rename, Fsync]
    upstream = term_ops(TermState(1, "A"), "upstream", old=b"old")
    assert [(type(op), getattr(op, "path", "")) for op in upstream] == [
        (Write, "currterm.tmp"),
        (Write, "currterm.bak"),
        (Unlink, TERM),
        (Rename, ""),
    ]


@pytest.mark.parametrize("power", [False, True])
def test_whatever_part_of_an_atomic_replacement_was_done_a_whole_state_is_found(power):
    ops = term_ops(TermState(8, "B"))
    for done in range(len(ops) + 1):
        files = Disk()
        files.store({TERM: term_bytes(TermState(7, "A"))})
        for op in ops[:done]:
            files.carry_out(op)
        if power:
            files.lose_power()
        assert read_term(files.shown[TERM]) in (TermState(7, "A"), TermState(8, "B"))


@given(st.data())
def test_damage_cuts_the_log_where_it_is(data):
    damaged = bytearray(content(1, 1, 2))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    found = read_log(bytes(damaged))
    good = [end for end in read_log(content(1, 1, 2)).ends if end <= at]
    assert found.ends == good


def test_indexes_that_skip_and_terms_that_fall_end_the_log():
    assert len(read_log(content(1, 3, 2, 4)).entries) == 2
    skipping = content(1) + record(Entry(2, 1, Noop()))[0]
    assert len(read_log(skipping).entries) == 1


def test_a_cut_log_is_cut_on_disk_before_the_node_says_anything():
    one = One(image={**disk(3), LOG: content(1, 2) + b"torn"}, slow=False)
    assert (one.node.log.last, one.notes("recovered")[0]) == (1, {"end": 2, "cut": True, "checkpoint": 0})
    write = next(op for op in one.out[0].ops if isinstance(op, Write) and op.path == LOG)
    assert (write.offset, write.data, write.truncate) == (len(content(1, 2)), b"", True)


@given(st.lists(st.tuples(st.sampled_from(["append", "cut", "take", "done"]), st.integers(0, 6)), max_size=40))
def test_the_file_is_always_what_was_taken_and_stored_is_never_beyond_it(steps):
    log = Log(sync=True)
    files = Disk()
    waiting = []
    term = 0
    for verb, number in steps:
        if verb == "append":
            log.append(Entry(log.last + 1, term, Append("k", number)))
        elif verb == "cut" and log.last >= 0:
            log.cut(min(number, log.last))
            term += 1
        elif verb == "take" and log.target is None and log.waits():
            waiting = list(log.take_ops())
        elif verb == "done" and log.target is not None:
            for op in waiting:
                files.carry_out(op)
            waiting = []
            log.done()
        held = read_log(files.shown.get(LOG, b""))
        assert not held.torn
        assert held.entries[: log.stored + 1] == log.entries[: log.stored + 1]
    for op in [*waiting, *log.take_ops()]:
        files.carry_out(op)
    assert read_log(files.shown.get(LOG, b"")).entries == log.entries


def test_a_log_that_was_read_goes_on_where_it_ended():
    log = Log(sync=False)
    log.load(Recovered(entries(1, 2), ["a", "b"], [10, 20], torn=False))
    log.append(Entry(2, 3, Noop()))
    (write,) = log.take_ops()
    assert (write.offset, log.due_batch()) == (20, 1)
