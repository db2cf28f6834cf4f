"""What the end of a process says: a crash of its own, the work of another, or doubt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.deaths import (
    LINE_MAX,
    LINES_MAX,
    bounded,
    code_words,
    crashed_early,
    last_lines,
    not_its_own,
    telling_line,
)


@pytest.mark.parametrize("code", [1, 2, 70, 71, 134, 139, -6, -11, 0])
def test_an_ordinary_exit_code_and_a_crash_signal_are_the_systems_own(code):
    assert not_its_own(code, ("serving",), {}) == ""


@pytest.mark.parametrize(
    ("code", "lines", "detail", "words"),
    [
        (-9, (), {}, "SIGKILL"),
        (137, (), {}, "SIGKILL"),
        (-9, (), {"oom_kills": 1}, "lack of memory"),
        (143, (), {}, "SIGTERM"),
        (-15, (), {}, "SIGTERM"),
        (130, (), {}, "SIGINT"),
        (None, (), {}, "not visible"),
        (1, (), {"signalled": "signal 15"}, "signal 15"),
        (3, ("java.lang.OutOfMemoryError: heap",), {}, "memory"),
        (1, ("listen: Address already in use",), {}, "host refused"),
    ],
)
def test_what_another_process_or_the_machine_may_have_done_is_in_doubt(code, lines, detail, words):
    assert words in not_its_own(code, lines, detail)


@pytest.mark.parametrize(
    ("code", "lines", "ready", "certain"),
    [
        (2, ("panic: oops",), False, True),
        (-11, (), False, True),
        (139, (), False, True),
        (2, ("unknown flag --x", "usage: node"), False, False),
        (1, (), True, True),
        (0, (), True, False),
        (127, ("sh: node: not found",), True, False),
        (126, (), False, False),
        (None, (), True, False),
    ],
)
def test_before_the_first_fault_an_end_needs_evidence_to_be_a_crash(code, lines, ready, certain):
    assert crashed_early(code, lines, ready=ready) is certain


def test_the_telling_line_is_the_runtimes_last_word_or_the_last_line():
    assert telling_line(("a", "panic: b", "goroutine 1")) == "panic: b"
    assert telling_line(("Traceback", "ValueError: b ")) == "ValueError: b"
    assert telling_line(()) == ""


def test_exit_codes_are_worded():
    assert (code_words(2), code_words(-11), code_words(None)) == (
        "with code 2",
        "by signal 11",
        "with an unknown exit code",
    )


@given(st.binary(max_size=20_000))
def test_last_lines_are_printable_and_bounded_whatever_was_printed(output):
    lines = last_lines(output)
    assert len(lines) <= LINES_MAX
    assert all(len(line) <= LINE_MAX and line.isprintable() and line.strip() for line in lines)
    assert bounded(lines) == lines
