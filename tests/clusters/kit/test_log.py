"""The kit's log in memory: whatever is appended, cut and taken, the file holds it, and ends of terms are right."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets.kit.files import log_record, read_log
from dethrone.clusters.targets.kit.log import EntryLog
from tests.world.disk import Disk


class Entry(NamedTuple):
    index: int
    term: int
    command: bytes


class Log(EntryLog[Entry]):
    def record(self, entry):
        return log_record(entry.index, entry.term, entry.command)


def found_on(disk):
    return read_log(disk.shown.get("log", b""), Entry, path="log", first=1)


@given(st.lists(st.tuples(st.sampled_from(["append", "cut", "take"]), st.integers(0, 4)), max_size=30))
def test_the_file_is_what_was_taken_and_a_log_read_from_it_is_the_same(steps):
    log, disk, term = Log("log"), Disk(), 1
    for verb, number in steps:
        if verb == "append":
            term += number // 4
            log.append(Entry(log.end + 1, term, b"%d" % number))
        elif verb == "cut":
            keep = max(0, log.end - number)
            gone = list(range(keep + 1, log.end + 1))
            assert [entry.index for entry in log.cut(keep)] == gone
        else:
            for op in log.take_ops():
                disk.carry_out(op)
            assert (log.written, log.waits()) == (log.end, False)
            assert found_on(disk).entries == log.entries
    for op in log.take_ops():
        disk.carry_out(op)
    again = Log("log")
    again.load(found_on(disk))
    for field in ("entries", "digests", "ends", "terms", "starts", "end", "last_term", "written"):
        assert getattr(again, field) == getattr(log, field)
    assert again.durable == log.end
    for asked in range(term + 2):
        held = [entry.term for entry in log.entries if entry.term <= asked]
        assert log.end_of_term(asked) == ((held[-1], len(held)) if held else (0, 0))


def test_terms_are_known_by_number_and_an_unwritten_tail_is_cut_without_the_disk():
    log = Log("log")
    for index, term in enumerate((1, 1, 3), 1):
        log.append(Entry(index, term, b"x"))
    assert [log.term_at(number) for number in range(-1, 5)] == [0, 0, 1, 1, 3, -1]
    assert [entry.term for entry in log.cut(1)] == [1, 3]
    assert (log.last_term, len(log.records), log.ops) == (1, 1, [])
