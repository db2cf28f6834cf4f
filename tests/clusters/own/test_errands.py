"""Commands on the node's host: what never started is certain, what may have run is doubt, and the node stays itself."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.own import errands
from dethrone.clusters.own.client import OwnClient
from dethrone.clusters.own.host import errand
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from tests.clusters.own.described import described, specs, system
from tests.clusters.own.test_beside import free_port
from tests.clusters.own.test_commands import HTTP
from tests.clusters.systems.specs import at_loopback
from tests.waiting import until

pytestmark = pytest.mark.processes

LIMIT_S = 20
PROGRAM = """
import sys, time
from pathlib import Path
folder, verb, key, *value = Path(sys.argv[1]), *sys.argv[2:]
kept = folder / "kept"
if key == "slow":
    (folder / "began").touch()
    time.sleep(60)
if key == "follower":
    sys.exit("error: not leader")
if key == "odd":
    sys.exit(3)
if verb == "put":
    kept.write_text(value[0])
    print("OK")
else:
    print("value:", kept.read_text() if kept.exists() else "nil")
"""


def table(command):
    return f"""at = "host"
ok_pattern = "^OK$"
put = {{ command = '{command} put {{key}} {{value}}', fail_pattern = "not leader" }}
get = {{ command = '{command} get {{key}}', ok_pattern = 'value: (?P<value>.*)', absent_pattern = "nil" }}
"""


class Node:
    """A process with the program next to it, and a client that asks it."""

    def __init__(self, folder, monkeypatch, ops=None):
        (folder / "ctl.py").write_text(PROGRAM)
        self.folder, self.port = folder, free_port()
        monkeypatch.setattr(errands, "ERRAND_PORT", self.port)
        self.of = system((HTTP, ops or table("{python} -S {run_dir}/ctl.py {run_dir}")))
        self.spec = msgspec.structs.replace(
            specs(self.of)["n1"], address="127.0.0.1", run_dir=str(folder), python=sys.executable
        )
        for path, content in self.of.files(self.spec).items():
            Path(path).write_bytes(content)
        self.client = OwnClient({"n1": at_loopback()}, self.of._description.ops, port=0)
        argv = self.of.command(self.spec).argv[:4]
        assert argv == (sys.executable, "-S", f"{folder}/errand.py", f"{folder}/errand.json")
        self.process = subprocess.Popen([*argv, "sleep", "60"], start_new_session=True)

    def ask(self, f, value, *, limit=30 * SECOND):
        return self.client.invoke(f, value, target="n1", timeout_ns=limit)

    def listens(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True

    def end(self):
        self.client.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=LIMIT_S)


@pytest.fixture
def node(tmp_path, monkeypatch):
    made = Node(tmp_path, monkeypatch)
    try:
        assert until(made.listens)
        yield made
    finally:
        made.end()


def test_a_command_runs_on_the_host_and_what_it_prints_decides(node):
    assert node.ask("get", "a").value is None
    done = node.ask("put", ["a", "x {key}; $(id)"])
    assert (done.status, done.node) == ("ok", "n1")
    assert node.ask("get", "a").value == "x {key}; $(id)"
    assert node.ask("put", ["follower", 1]).status == "fail"
    assert node.ask("put", ["odd", 1]).status == "info"
    assert node.ask("get", "odd").status == "fail"


def test_a_command_that_takes_too_long_is_doubt_is_killed_and_holds_up_no_other(node):
    slow = []
    thread = threading.Thread(target=lambda: slow.append(node.ask("put", ["slow", 1], limit=4 * SECOND)))
    thread.start()
    assert until((node.folder / "began").exists)
    assert node.ask("put", ["a", 1]).status == "ok"
    thread.join()
    assert slow[0].status == "info"
    for _ in range(2):  # the node says so 100 ms before the client gives up: a busy machine may bring it too late
        if slow[-1].error == "n1: timeout":
            slow.append(node.ask("put", ["slow", 1], limit=4 * SECOND))
    assert slow[-1].error == "the command did not end in time"
    assert until(lambda: not in_group(node.process.pid, "ctl.py"))


def in_group(group, name):
    """Processes of this group whose command line holds the name."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            held = name.encode() in (place / "cmdline").read_bytes()
            found += [place.name] if held and os.getpgid(int(place.name)) == group else []
    return found


def test_a_node_that_dies_takes_the_program_with_it_and_what_was_asked_is_doubt(node):
    slow = []
    thread = threading.Thread(target=lambda: slow.append(node.ask("put", ["slow", 1])))
    thread.start()
    assert until((node.folder / "began").exists)
    os.killpg(node.process.pid, signal.SIGKILL)
    thread.join()
    assert slow[0].status == "info"
    assert node.process.wait(timeout=LIMIT_S) == -signal.SIGKILL
    assert until(lambda: node.ask("put", ["a", 1]).status == "fail")
    assert not (node.folder / "kept").exists()


def test_a_port_that_an_earlier_process_still_holds_is_waited_for(tmp_path, monkeypatch):
    made = Node(tmp_path, monkeypatch)
    try:
        assert until(made.listens)
        made.process.kill()
        made.process.wait(timeout=LIMIT_S)
        with until(lambda: socket.create_server(("127.0.0.1", made.port))):
            argv = made.of.command(made.spec).argv[:4]
            made.process = subprocess.Popen([*argv, "sleep", "60"], start_new_session=True)
            assert until(lambda: in_group(made.process.pid, "sleep"))
        assert until(lambda: made.ask("put", ["a", 1]).status == "ok")
    finally:
        made.end()


def test_a_frozen_node_answers_in_no_time_and_its_command_may_run_later(node):
    os.killpg(node.process.pid, signal.SIGSTOP)
    assert node.ask("put", ["a", 1], limit=400 * MS).status == "info"
    os.killpg(node.process.pid, signal.SIGCONT)
    assert until((node.folder / "kept").exists)


def test_a_command_that_cannot_be_started_is_certainly_not_done(tmp_path, monkeypatch):
    nothing = 'put = { command = "/nowhere/ctl {key}", at = "host", fail_pattern = "(?!)" }\n'
    made = Node(tmp_path, monkeypatch, nothing)
    try:
        assert until(made.listens)
        out = made.ask("put", ["a", 1])
        assert (out.status, out.error) == ("fail", "/nowhere/ctl cannot be started: No such file or directory")
    finally:
        made.end()


@pytest.mark.parametrize("question", [b"\xff\xff\xff\xff", b"\0\0\0\2{}", b"\0\0\0\1[", b"\0\0\0\2[]"])
def test_what_is_no_question_is_not_answered_and_the_next_one_is(node, question):
    with socket.create_connection(("127.0.0.1", node.port), timeout=5) as connection:
        connection.sendall(question)
        assert connection.recv(1) == b""
    assert node.ask("put", ["a", 1]).status == "ok"


def test_only_commands_of_the_description_are_run(node):
    with socket.create_connection(("127.0.0.1", node.port), timeout=5) as connection:
        body = json.dumps({"do": "touch", "words": {}, "limit_ms": 1000}).encode()
        connection.sendall(len(body).to_bytes(4, "big") + body)
        assert b"no command is called 'touch'" in connection.recv(1000)


def test_the_program_bounds_how_much_of_an_output_it_takes(tmp_path, monkeypatch):
    made = Node(tmp_path, monkeypatch, 'get = { command = "head -c 3000000 /dev/zero", at = "host" }\n')
    seen = []
    monkeypatch.setattr(errands, "understand", lambda f, op, code, out, *, node: seen.append((code, len(out))))
    try:
        assert until(made.listens)
        made.ask("get", "a")
        assert seen == [(0, errand.OUTPUT_MAX)]
    finally:
        made.end()


# --- the description ---------------------------------------------------------------------------------------------


def test_hosts_get_the_commands_with_the_words_of_their_node():
    of = system((HTTP, table("{run_dir}/ctl --at {address}:{http} {name}")))
    node = specs(of)["n2"]
    assert of.command(node).argv[:4] == ("/py", "-S", "/r/errand.py", "/r/errand.json")
    told = json.loads(of.files(node)["/r/errand.json"])
    assert (told["address"], told["port"]) == (node.address, errands.ERRAND_PORT)
    assert told["commands"]["put"] == ["/r/ctl", "--at", f"{node.address}:8000", "n2", "put", "{key}", "{value}"]
    plain = system((HTTP, table("ctl")))
    assert ("[ops] put", "ctl") in plain.programs(node)
    here = system((HTTP, table("ctl").replace('at = "host"\n', "")))
    assert "/r/errand.py" not in here.files(node)
    assert here.programs(node) == system().programs(node)


def test_leadership_may_be_handed_over_by_a_command_on_the_host():
    transfer = 'transfer = { command = "ctl lead {target_address}", at = "host", fail_pattern = "no" }'
    of = system(("[promise]", f"[membership]\n{transfer}\n[promise]"))
    assert json.loads(of.files(specs(of)["n1"])["/r/errand.json"])["commands"] == {
        "transfer": ["ctl", "lead", "{target_address}"]
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((HTTP, table("{run_dir}/ctl").replace('"host"', '"moon"')), "wrong form"),
        ((HTTP, table("{run_dir}/ctl").replace('at = "host"\n', "")), "{run_dir}"),
        (('"PUT /kv/{key} {value}"', '{ at = "host", request = "PUT /kv/{key}" }'), "`at` belongs to commands"),
    ],
)
def test_a_place_that_cannot_be_meant_is_refused(change, reason):
    with pytest.raises(ConfigError) as refused:
        described(change)
    assert reason in str(refused.value)


def test_the_port_of_the_program_is_taken_only_where_it_is_needed():
    taken = ("http = 8000", f"http = {errands.ERRAND_PORT}")
    described(taken)
    with pytest.raises(ConfigError, match="are asked for at port"):
        described(taken, (HTTP, table("ctl")))


def test_changes_of_members_run_on_the_host_in_any_case():
    changes = '[membership]\nport = "http"\nmember = "{target}"\nmembers = "GET /m"\nremove = "DELETE /m"\n'
    changes += 'add = { command = "ctl add", at = "host" }\n'
    with pytest.raises(ConfigError, match="a change of members has no `at`"):
        described(("[promise]", changes + "[promise]"))
