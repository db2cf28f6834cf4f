"""``[clock]``: the command that prints a node's own clock."""

from __future__ import annotations

import pytest

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import ClockCommand
from tests.clusters.own.described import specs, system

TABLE = """[clock]
command = "ctl --at {address}:{http} time"
"""


def timed(*lines):
    return system(("[promise]", "\n".join([TABLE, *lines, "[promise]"])))


def test_the_command_is_filled_in_for_its_node_and_prints_seconds_by_default():
    one = timed()
    node = specs(one)["n2"]
    command = one.clock_command(node)
    assert command == ClockCommand(
        argv=("ctl", "--at", f"{node.address}:8000", "time"),
        pattern=r"(?P<s>\d+(?:\.\d+)?)",
        tolerance_ns=50_000_000,
    )
    assert ("[clock] command", "ctl") in one.programs(node)


def test_pattern_and_tolerance_are_the_files():
    one = timed(r"pattern = '(?P<ms>\d+)'", 'tolerance = "2s"')
    command = one.clock_command(specs(one)["n1"])
    assert (command.pattern, command.tolerance_ns) == (r"(?P<ms>\d+)", 2_000_000_000)


def test_a_description_without_it_has_no_command():
    one = system()
    assert one.clock_command(specs(one)["n1"]) is None


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("pattern = '('", "no pattern"),
        ("pattern = 'now'", "finds no time"),
        (r"pattern = '(?P<time>.+) (?P<s>\d+)'", "or two"),
        (r"pattern = '(?P<seconds>\d+)'", "unknown group"),
        ('tolerance = "soon"', "duration"),
        ("unit = 1", "unknown key"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(line, match):
    with pytest.raises(ConfigError, match=match) as error:
        timed(line)
    assert "[clock]" in str(error.value.where)


def test_an_unknown_word_is_refused():
    with pytest.raises(ConfigError, match="adress"):
        system(("[promise]", '[clock]\ncommand = "ctl {adress}"\n[promise]'))
