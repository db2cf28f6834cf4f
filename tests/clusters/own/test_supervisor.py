"""The supervisor with real processes: their order, their ends, what is held, and what is done once."""

import ctypes
import json
import os
import signal
import subprocess
import sys

import pytest

from dethrone.checkers.coverage import obligations
from dethrone.clusters.own import supervising
from dethrone.clusters.own.host import once
from dethrone.clusters.own.host.family import stat_of
from dethrone.harness.core import registry
from dethrone.harness.core.hoststate import healthy_cluster
from tests.clusters.own.test_beside import free_port
from tests.waiting import until

pytestmark = pytest.mark.processes

LIMIT_S = 20
HEALTHY_ONE = healthy_cluster(("n1",))
PROGRAM = """
import socket, sys, time, pathlib
name, port, marks = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
with (marks / "starts").open("a") as file:
    file.write(name + "\\n")
print(name, "says its incarnation", *sys.argv[4:], flush=True)
listener = socket.create_server(("127.0.0.1", port))
print(name, "is up", flush=True)
while not (marks / f"end-{name}").exists():
    time.sleep(0.01)
print("panic: the last words of", name, flush=True)
sys.exit(7)
"""
"""Listens, and ends with 7 when it is told to by a file."""
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1], "w") as file:
            file.write(f"{os.getpid()} {os.getpgid(0)}\\n")
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""
"""Starts a daemon in a session of its own, which writes down its id and its process group."""


def gain_nothing():
    """As agents start nodes (PR_SET_NO_NEW_PRIVS)."""
    ctypes.CDLL(None).prctl(*map(ctypes.c_ulong, (38, 1, 0, 0, 0)))


class World:
    """One node in a directory of its own."""

    def __init__(self, root):
        self.root = root
        self.ports = {"store": free_port(), "watch": free_port()}
        for name in ("data", "log", "marks", "run"):
            (root / name).mkdir()
        (root / "program.py").write_text(PROGRAM)
        (root / "supervisor.py").write_bytes(supervising.program())
        self.config = {
            "address": "127.0.0.1",
            "run_dir": str(root / "run"),
            "data_dir": str(root / "data"),
            "log": str(root / "log" / "node.log"),
            "processes": [self.process("store"), self.process("watch", after=["store"])],
            "first": [],
            "setup": None,
        }
        self.nodes = []
        self.incarnation = 0

    def process(self, name, after=()):
        port = self.ports[name]
        argv = [sys.executable, "-S", str(self.root / "program.py"), name, str(port), str(self.root / "marks")]
        log = str(self.root / "log" / f"{name}.log")
        ready = {"port": port}
        return {
            "name": name,
            "argv": [*argv, "{incarnation}"],
            "after": list(after),
            "output": log,
            "log": log,
            "ready": ready,
        }

    def start(self):
        self.incarnation += 1
        (self.root / "config.json").write_text(json.dumps(self.config))
        argv = [sys.executable, "-S", str(self.root / "supervisor.py"), str(self.root / "config.json")]
        with (self.root / "log" / "node.log").open("ab") as log:
            node = subprocess.Popen(
                [*argv, str(self.incarnation)],
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=gain_nothing,  # noqa: PLW1509 - one system call
            )
        self.nodes.append(node)
        return node

    def kill(self, node):
        os.killpg(node.pid, signal.SIGKILL)
        node.wait(timeout=LIMIT_S)

    def text(self, name):
        path = self.root / "log" / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def starts(self):
        path = self.root / "marks" / "starts"
        return path.read_text().split() if path.exists() else []

    def mark(self, name, text=""):
        (self.root / "marks" / name).write_text(text)

    def up(self, *names):
        until(lambda: all(f"dethrone: {name} is ready" in self.text("node") for name in names), LIMIT_S)

    def pid_of(self, name):
        for entry in os.listdir("/proc"):  # noqa: PTH208
            if entry.isdigit():
                try:
                    with open(f"/proc/{entry}/cmdline", "rb") as file:  # noqa: PTH123
                        words = file.read().split(b"\0")
                except OSError:
                    continue
                if str(self.root / "program.py").encode() in words and name.encode() in words:
                    return int(entry)
        return None

    def ask(self, verb, name, kind):
        fault = registry.load(registry.FAULTS, f"{kind}:{name}")
        (trouble,) = fault.apply(HEALTHY_ONE, ("n1",), {})["n1"].troubles
        (command,) = trouble.commands
        words = {"{python}": sys.executable, "{run_dir}": self.config["run_dir"]}
        argv = [words.get(word, word) for word in getattr(command, verb)]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=LIMIT_S)

    def in_force(self, name, kind):
        done = self.ask("check", name, kind)
        assert done.returncode in {0, 1}, done.stderr
        assert "Traceback" not in done.stderr
        return done.returncode == 0


@pytest.fixture
def world(tmp_path):
    """Ended with everything in it."""
    made = World(tmp_path)
    yield made
    for node in made.nodes:
        if node.poll() is None:
            made.kill(node)


def test_a_process_starts_once_the_one_that_it_waits_for_is_ready_and_has_a_log_of_its_own(world):
    world.start()
    world.up("store", "watch")
    assert world.starts() == ["store", "watch"]
    assert "store says its incarnation 1" in world.text("store")
    assert "watch is up" in world.text("watch")
    assert "watch" not in world.text("store")


def test_a_daemon_stays_in_the_group_of_its_node_and_ends_with_it(world):
    noted = world.root / "daemon"
    argv = [sys.executable, "-S", "-c", DAEMON, str(noted)]
    world.config["processes"][0] |= {"argv": argv, "ready": None}
    node = world.start()
    until(lambda: noted.exists() and noted.read_text().endswith("\n"), LIMIT_S)
    daemon, group = map(int, noted.read_text().split())
    assert group == node.pid
    world.kill(node)
    until(lambda: (stat_of(daemon) or "Z")[0] in "ZX", LIMIT_S)


def test_a_process_that_never_gets_ready_keeps_the_next_one_waiting(world):
    world.config["processes"][0]["ready"] = {"log": "never printed"}
    node = world.start()
    until(lambda: "store is up" in world.text("store"), LIMIT_S)
    world.config["processes"][0]["ready"] = {"log": r"store is u\w"}
    assert world.starts() == ["store"]
    world.kill(node)
    world.start()
    world.up("watch")
    assert world.starts() == ["store", "store", "watch"]


@pytest.mark.parametrize("way", ["command", "http"])
def test_a_command_or_an_answer_over_http_shows_that_a_process_is_ready(world, way):
    if way == "command":
        world.config["processes"][0]["ready"] = {"command": ["test", "-e", str(world.root / "marks" / "open")]}
    else:
        (world.root / "program.py").write_text(
            "import http.server, pathlib, sys\n"
            "name, port, marks = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])\n"
            "(marks / 'starts').open('a').write(name + '\\n')\n"
            "class Handler(http.server.BaseHTTPRequestHandler):\n"
            "    def do_GET(self):\n"
            "        self.send_response(200 if (marks / 'open').exists() else 503)\n"
            "        self.end_headers()\n"
            "http.server.HTTPServer(('127.0.0.1', port), Handler).serve_forever()\n"
        )
        world.config["processes"][0]["ready"] = {"port": world.ports["store"], "http": "/ready"}
    world.start()
    until(lambda: world.starts() == ["store"], LIMIT_S)
    world.mark("open")
    until(lambda: world.starts() == ["store", "watch"], LIMIT_S)


def test_a_kill_of_the_node_takes_all_its_processes(world):
    node = world.start()
    world.up("store", "watch")
    world.kill(node)
    until(lambda: world.pid_of("store") is None and world.pid_of("watch") is None, LIMIT_S)


def test_a_kill_of_the_supervisor_alone_takes_all_its_processes(world):
    node = world.start()
    world.up("store", "watch")
    os.kill(node.pid, signal.SIGKILL)
    node.wait(timeout=LIMIT_S)
    until(lambda: world.pid_of("store") is None and world.pid_of("watch") is None, LIMIT_S)


def test_a_stop_waits_for_every_process(world):
    node = world.start()
    world.up("store", "watch")
    os.killpg(node.pid, signal.SIGTERM)
    assert node.wait(timeout=LIMIT_S) == -signal.SIGTERM
    assert world.pid_of("store") is None


def test_a_process_that_ends_by_itself_ends_the_node_as_it_ended_and_says_its_last_words(world):
    node = world.start()
    world.up("store", "watch")
    world.mark("end-watch")
    assert node.wait(timeout=LIMIT_S) == 7
    assert "the process watch ended by itself: exit code 7" in world.text("node")
    assert "dethrone: watch| panic: the last words of watch" in world.text("node")
    assert world.pid_of("store") is None


def test_a_process_that_a_signal_ends_ends_the_node_by_that_signal(world):
    node = world.start()
    world.up("store", "watch")
    os.kill(world.pid_of("store"), signal.SIGSEGV)
    assert node.wait(timeout=LIMIT_S) == -signal.SIGSEGV


def test_a_command_that_cannot_be_executed_ends_the_node_with_127(world):
    world.config["processes"][1]["argv"] = ["/no/such/program"]
    node = world.start()
    assert node.wait(timeout=LIMIT_S) == 127
    assert "/no/such/program cannot be started" in world.text("node")


# --- one process is hit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["kill", "stop", "restart"])
def test_one_process_is_held_down_and_starts_again_while_the_others_run_on(world, kind):
    node = world.start()
    world.up("store", "watch")
    store = world.pid_of("store")
    assert not world.in_force("watch", kind)
    world.ask("begin", "watch", kind)
    assert world.in_force("watch", kind)
    assert world.pid_of("watch") is None
    world.ask("end", "watch", kind)
    assert not world.in_force("watch", kind)
    until(lambda: world.starts().count("watch") == 2, LIMIT_S)
    assert (world.pid_of("store"), node.poll()) == (store, None)


def test_a_process_is_held_down_across_a_restart_of_its_node(world):
    node = world.start()
    world.up("store", "watch")
    world.ask("begin", "watch", "kill")
    world.kill(node)
    assert world.in_force("watch", "kill")
    world.start()
    until(lambda: world.starts().count("store") == 2, LIMIT_S)
    until(lambda: world.text("node").count("store is ready") == 2, LIMIT_S)
    assert world.in_force("watch", "kill")
    assert world.starts().count("watch") == 1
    world.ask("end", "watch", "kill")
    until(lambda: world.starts().count("watch") == 2, LIMIT_S)


def test_one_process_is_frozen_and_goes_on_with_its_id(world):
    world.start()
    world.up("store", "watch")
    pid = world.pid_of("watch")
    world.ask("begin", "watch", "pause")
    assert world.in_force("watch", "pause")
    assert stat_of(pid)[0] == "T"
    assert stat_of(world.pid_of("store"))[0] != "T"
    world.ask("end", "watch", "pause")
    assert not world.in_force("watch", "pause")
    assert world.pid_of("watch") == pid
    assert stat_of(pid)[0] != "T"


def test_two_faults_of_one_process_end_one_by_one(world):
    world.start()
    world.up("store", "watch")
    world.ask("begin", "watch", "kill")
    world.ask("begin", "watch", "stop")
    world.ask("end", "watch", "kill")
    assert not world.in_force("watch", "kill")
    assert world.in_force("watch", "stop")
    assert world.pid_of("watch") is None


# --- what is done once --------------------------------------------------------------------------------------------


def appending(world, name, code=0):
    script = f"echo {name} >> {world.root}/marks/done; exit {code}"
    return ["/bin/sh", "-c", script]


def done(world):
    path = world.root / "marks" / "done"
    return path.read_text().split() if path.exists() else []


def test_commands_of_the_first_start_run_once_in_their_places_also_after_restarts(world):
    script = f"test ! -e {world.root}/marks/starts && echo data > {world.root}/data/f"
    world.config["first"] = [
        {"argv": ["/bin/sh", "-c", script], "after": None},
        {"argv": appending(world, "joined"), "after": "store"},
    ]
    node = world.start()
    world.up("store", "watch")
    until(lambda: done(world) == ["joined"], LIMIT_S)
    until(lambda: once.read_json(f"{world.root}/run/first.json") == {"count": 2, "held": True}, LIMIT_S)
    world.kill(node)
    node = world.start()
    until(lambda: world.starts().count("watch") == 2, LIMIT_S)
    assert done(world) == ["joined"]
    world.kill(node)
    (world.root / "data" / "f").unlink()  # its disk is wiped: it is a new node
    (world.root / "marks" / "starts").unlink()
    world.start()
    until(lambda: done(world) == ["joined", "joined"], LIMIT_S)


def test_a_command_of_the_first_start_that_fails_is_repeated_before_anything_else_starts(world):
    script = f"test -e {world.root}/marks/open"
    world.config["first"] = [{"argv": ["/bin/sh", "-c", script], "after": None}]
    world.start()
    until(lambda: "ended with 1" in world.text("node"), LIMIT_S)
    assert world.starts() == []
    world.mark("open")
    world.up("store", "watch")


def test_a_process_also_waits_for_the_first_commands_after_the_one_that_it_waits_for(world):
    world.config["first"] = [{"argv": ["/bin/sh", "-c", f"test -e {world.root}/marks/open"], "after": "store"}]
    world.start()
    until(lambda: "ended with 1" in world.text("node"), LIMIT_S)
    assert world.starts() == ["store"]
    world.mark("open")
    world.up("store", "watch")


def test_the_setup_is_repeated_until_it_succeeds_and_is_then_never_run_again(world):
    tries = world.root / "marks" / "done"
    script = f"echo made >> {tries}; test $(wc -l < {tries}) -ge 2"
    asked = f"test -e {world.root}/marks/formed && echo cluster_state:ok"
    world.config["setup"] = {
        "argv": ["/bin/sh", "-c", script],
        "until": ["/bin/sh", "-c", asked],
        "pattern": "^cluster_state:ok$",
    }
    node = world.start()
    world.up("store", "watch")
    until(lambda: "setup:" in world.text("node") and done(world) == ["made", "made"], LIMIT_S)
    assert not (world.root / "run" / "setup.done").exists()
    world.mark("formed")
    until((world.root / "run" / "setup.done").exists, LIMIT_S)
    world.kill(node)
    world.start()
    until(lambda: world.text("node").count("watch is ready") == 2, LIMIT_S)
    assert done(world) == ["made", "made"]


# --- the kinds of faults ------------------------------------------------------------------------------------------


def test_each_fault_of_the_node_process_has_a_kind_of_one_process_and_it_is_borne_alike():
    for kind in ("kill", "stop", "restart", "pause"):
        fault = registry.load(registry.FAULTS, f"{kind}:watch")
        assert (fault.kind, fault.traits.borne_as) == (f"{kind}:watch", (kind,))
        assert fault.needs() == {"commands"}
        (shown,) = fault.traits.owes
        assert obligations([fault.kind])[shown.name].endswith(f"a fault {kind}:watch")
