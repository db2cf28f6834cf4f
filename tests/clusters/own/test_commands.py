"""Operations by a command, at a made-up program: what it prints decides, and doubt stays doubt."""

import sys
import time

import pytest

from dethrone.clusters.own.commands import understand
from dethrone.clusters.own.spec import OpTable
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from tests.clusters.own.described import described, specs, system

PROGRAM = """
import sys, time
from pathlib import Path
kept, verb, key, *value = Path(sys.argv[1]), *sys.argv[3:]
assert sys.argv[2] == "10.0.0.2:8000", sys.argv
if key == "slow":
    time.sleep(60)
if key == "follower":
    sys.exit("error: not leader")
if key == "odd":
    print("OK, but")
    sys.exit(3)
if verb == "put":
    kept.write_text(value[0])
    print("OK")
elif not kept.exists():
    print("(nil)")
else:
    print("value:", kept.read_text())
"""
HTTP = """put = "PUT /kv/{key} {value}"
get = "GET /kv/{key}"
cas = 'POST /kv/{key} {"old": {old}, "value": {value}}'
"""


def ops(command):
    return f"""put = {{ command = "{command} put {{key}} {{value}}", fail_pattern = "not leader" }}
get = {{ command = "{command} get {{key}}", ok_pattern = 'value: (?P<value>.*)' }}
ok_pattern = "^OK$"
absent_pattern = '^\\(nil\\)'
"""


@pytest.fixture
def client(tmp_path):
    program = tmp_path / "ctl.py"
    program.write_text(PROGRAM)
    of = system((HTTP, ops(f"{sys.executable} -S {program} {tmp_path}/kept {{address}}:{{http}}")))
    made = of.client(specs(of))
    yield made
    made.close()


def ask(client, f, value, *, timeout_ns=30 * SECOND):
    out = client.invoke(f, value, target="n2", timeout_ns=timeout_ns)
    return out.status, out.value


def test_what_a_command_prints_is_how_the_operation_ended(client):
    assert ask(client, "get", "k") == ("ok", None)
    assert ask(client, "put", ["k", 17]) == ("ok", None)
    assert ask(client, "get", "k") == ("ok", 17)
    assert ask(client, "put", ["follower", 1]) == ("fail", None)
    assert ask(client, "put", ["odd", 1]) == ("info", None)


def test_a_command_that_does_not_end_is_killed_and_in_doubt(client):
    began = time.monotonic()
    assert ask(client, "put", ["slow", 1], timeout_ns=300 * MS) == ("info", None)
    assert time.monotonic() - began < 30
    assert client.invoke("put", ["k", 1], target="n9", timeout_ns=SECOND).status == "fail"


def test_lists_places_and_refusals_are_read_from_the_output():
    read = OpTable(command="x", ok_pattern="(?s)list (?P<value>.*)")
    assert understand("read", read, 0, "list 1, 2 3\n", node="n1").value == [1, 2, 3]
    assert understand("read", read, 0, 'list [1, "a"]', node="n1").value == [1, "a"]
    append = OpTable(command="x", ok_pattern=r"at (?P<index>\d+) in (?P<term>\d+)")
    assert understand("append", append, 0, "at 7 in 2", node="n1").value == {"index": 7, "term": 2}
    cas = OpTable(command="x", ok_pattern="done", refused_pattern="other")
    assert [understand("cas", cas, 0, text, node="n1").value for text in ("done", "other")] == [True, False]
    assert understand("cas", cas, 1, "done", node="n1").status == "info"
    assert understand("read", read, 1, "list 1", node="n1").status == "fail"


@pytest.mark.parametrize(
    ("put", "why"),
    [
        ('{ command = "ctl {key}" }', "needs a fail_pattern"),
        ('{ command = "ctl {keys}", fail_pattern = "x" }', "keys"),
        ('{ command = "ctl", fail_pattern = "(" }', "no regular expression"),
        ('{ command = "ctl", request = "PUT /x", fail_pattern = "x" }', "both a request and a command"),
        ('{ command = "ctl", fail_pattern = "x", ok_pattern = "(?P<val>.)" }', "has the groups"),
    ],
)
def test_a_command_that_could_not_be_understood_is_refused(put, why):
    with pytest.raises(ConfigError, match=why):
        described(('put = "PUT /kv/{key} {value}"', f"put = {put}"))
