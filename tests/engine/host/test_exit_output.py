"""What doctor shows of the output of a node that ended by itself."""

from __future__ import annotations

from dethrone.harness.engine.host.exit_output import LAST, SHORT_LINES, TELLING, advice, excerpt


def test_short_output_is_shown_whole():
    assert excerpt("one\ntwo\n") == "one\ntwo"
    assert excerpt(" \n") == "(nothing)"


def test_a_cause_is_shown_wherever_it_stands():
    noise = [f"  0x{number:x} frame" for number in range(40)]
    at_begin = excerpt("\n".join(["starting", "unable to create /run/x: Permission denied", *noise]))
    in_the_middle = excerpt("\n".join([*noise[:20], "bind: address already in use", *noise[20:]]))
    assert "Permission denied" in at_begin
    assert "in use" in in_the_middle
    assert in_the_middle.count("…") == 2


def test_an_excerpt_is_bounded():
    lines = excerpt("\n".join(f"error {number}" + "x" * 1000 for number in range(1000))).splitlines()
    assert len(lines) <= SHORT_LINES
    assert len(lines) == TELLING + 1 + LAST
    assert max(map(len, lines)) <= 240


def test_who_may_not_write_is_told_where_he_may():
    assert "{run_dir}" in advice("mkdir /run/x: Operation not permitted")
    assert "{run_dir}" not in advice("address in use")
