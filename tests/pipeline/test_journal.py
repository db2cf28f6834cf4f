"""What a follower has told outlives it: each piece of news once, whatever cuts its journal off."""

from __future__ import annotations

import pytest

from harness.core.errors import ConfigError, HistoryError
from harness.pipeline import journal
from harness.pipeline.journal import NAME, Bad, Before, Called, Finding, Printed, Raised, Telling, Waiting


def finding(name: str, known: str = "") -> Finding:
    return Finding(
        id=name,
        run="raft-a",
        date="2026-11-21",
        system="raft",
        checker="one-leader-per-term",
        version="1",
        sentence="n1 and n2 led term 4",
        term=4,
        nodes=("n1", "n2"),
        certificate=(3, 9),
        events=({"seq": 3},),
        fault="kill",
        known=known,
        raised_ns=1,
    )


BAD = Bad(id="b", where="runs/x", why="half written", raised_ns=1)
LINES = (
    Before(("old",)),
    Raised(finding("f")),
    Telling("f", "print"),
    Raised(finding("g", known="ours")),
    Waiting("/runs/y"),
    Raised(BAD),
    Called("f"),
    Waiting("/runs/y", over=True),
)


def state(directory):
    with journal.opened(directory) as opened:
        return (
            sorted(opened.ids),
            [one.id for one in opened.unprinted()],
            [one.id for one in opened.uncalled()],
            list(opened.waiting),
        )


def test_what_was_raised_and_not_marked_is_there_for_the_next_follower(tmp_path):
    with journal.opened(tmp_path) as opened:
        assert opened.new
        for line in (*LINES[:6], Printed("f")):
            opened.record(line)
    assert state(tmp_path) == (["b", "f", "g", "old"], ["g", "b"], ["f"], ["/runs/y"])
    with journal.opened(tmp_path) as opened:
        assert not opened.new
        for line in LINES[6:]:
            opened.record(line)
    assert state(tmp_path) == (["b", "f", "g", "old"], ["g", "b"], [], [])


def test_what_a_follower_was_telling_when_it_died_may_have_been_heard(tmp_path):
    with journal.opened(tmp_path) as opened:
        for line in (
            Raised(finding("f")),
            Raised(finding("g")),
            Telling("f", "print"),
            Printed("f"),
            Telling("f", "call"),
        ):
            opened.record(line)
    with journal.opened(tmp_path) as opened:
        assert [one.id for one in opened.unprinted()] == ["g"]
        told = [(name, how) for name in "fg" for how in ("print", "call") if opened.perhaps_told(name, how)]
        assert told == [("f", "call")]


def test_a_journal_that_was_cut_at_any_byte_says_what_its_whole_lines_say(tmp_path):
    whole = []
    with journal.opened(tmp_path) as opened:
        for line in LINES:
            opened.record(line)
            whole.append((tmp_path / NAME).stat().st_size)
    raw = (tmp_path / NAME).read_bytes()
    for cut in range(len(raw)):
        (tmp_path / NAME).write_bytes(raw[:cut])
        lines = sum(size <= cut for size in whole)
        with journal.opened(tmp_path) as opened:
            assert opened.new is (lines == 0)
            opened.record(LINES[0])  # and what is written next is a line of its own
        assert (tmp_path / NAME).read_bytes() == raw[: ([0, *whole])[lines]] + raw[: whole[0]]


def test_two_followers_of_one_corpus_are_refused(tmp_path):
    with journal.opened(tmp_path), pytest.raises(ConfigError, match="follows this corpus already"):
        state(tmp_path)


def test_a_damaged_line_is_told_and_nothing_is_guessed(tmp_path):
    with journal.opened(tmp_path) as opened:
        opened.record(LINES[0])
    (tmp_path / NAME).write_bytes(b'{"type":"raised"}\n' + (tmp_path / NAME).read_bytes())
    with pytest.raises(HistoryError, match="line 1 of the journal is damaged"):
        state(tmp_path)
