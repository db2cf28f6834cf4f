"""A client class of the user's own: what it returns and raises, and what happens if it hangs or ends."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from dethrone.clusters.own.client import OwnClient
from dethrone.clusters.own.client_process import PROGRAM, ClientProcess, ClientProgram
from dethrone.clusters.own.system import described as described_file
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from tests.clusters.own.described import TEXT, described
from tests.clusters.systems.specs import at_loopback
from tests.waiting import until

pytestmark = pytest.mark.processes

SOURCE = """
import os, sys, time

class Lost(Exception):
    pass

class Store:
    not_done = (ConnectionRefusedError,)

    def __init__(self, nodes):
        self.nodes, self.kept, self.lists = nodes, {}, {}

    def put(self, node, key, value):
        print("put", key)
        if key == "refused":
            raise ConnectionRefusedError("nobody listens")
        if key == "lost":
            raise Lost("no answer")
        if key == "hangs":
            time.sleep(60)
        if key == "dies":
            os._exit(3)
        self.kept[key] = value

    def get(self, node, key):
        if key in ("pid", "parent", "address", "path"):
            address = self.nodes[node]["address"]
            known = {"pid": os.getpid(), "parent": os.getppid(), "address": address, "path": ":".join(sys.path)}
            return known[key]
        return self.kept.get(key) if key != "object" else {"a": 1}

    def cas(self, node, key, old, new):
        if self.kept.get(key) != old:
            return False
        self.kept[key] = new
        return True

    def append(self, node, key, value):
        self.lists.setdefault(key, []).append(value)
        return {"index": len(self.lists[key]), "term": 1}

    def read(self, node, key):
        return self.lists.get(key, [])
"""
OPS = 'client = "store.py:Store"\nserves = ["put", "get", "cas", "append", "read"]\n'
HTTP = TEXT[TEXT.index("put = ") : TEXT.index("[promise]")]
LONG_NS = 20 * SECOND


@pytest.fixture
def made(tmp_path):
    (tmp_path / "store.py").write_text(SOURCE)
    clients, programs = [], {}

    def make(name="Store"):
        ops = described((HTTP, OPS)).ops
        nodes = {"n1": at_loopback()}
        given = {"n1": {"address": "127.0.0.1"}}
        program = programs.setdefault(name, ClientProgram(f"store.py:{name}", tmp_path, given))
        clients.append(OwnClient(nodes, ops, port=0, process=ClientProcess(program)))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def ask(client, f, value, *, timeout_ns=LONG_NS):
    out = client.invoke(f, value, target="n1", timeout_ns=timeout_ns)
    return out.status, out.value


def test_each_operation_is_the_method_of_its_name(made):
    client = made()
    assert ask(client, "get", "k") == ("ok", None)
    assert ask(client, "put", ["k", 17]) == ("ok", None)
    assert ask(client, "cas", ["k", 17, 18]) == ("ok", True)
    assert ask(client, "cas", ["k", 17, 19]) == ("ok", False)
    assert ask(client, "get", "k") == ("ok", 18)
    assert ask(client, "append", ["l", 3]) == ("ok", {"index": 1, "term": 1})
    assert ask(client, "read", "l") == ("ok", [3])
    assert ask(client, "get", "address") == ("ok", "127.0.0.1")


def test_only_what_the_class_lists_is_certainly_not_done(made):
    client = made()
    assert ask(client, "put", ["refused", 1]) == ("fail", None)
    lost = client.invoke("put", ["lost", 1], target="n1", timeout_ns=LONG_NS)
    assert (lost.status, lost.error) == ("info", "Lost: no answer")
    assert ask(client, "get", "object")[0] == "fail", "a read that is not understood changed nothing"


@pytest.mark.parametrize("key", ["hangs", "dies"])
def test_a_process_that_hangs_or_ends_leaves_doubt_and_is_replaced(made, key):
    client = made()
    _, first = ask(client, "get", "pid")
    assert ask(client, "put", [key, 1], timeout_ns=300 * MS)[0] == "info"
    assert until(lambda: not Path(f"/proc/{first}").exists())
    status, second = ask(client, "get", "pid")
    assert status == "ok"
    assert second != first
    client.close()
    assert not Path(f"/proc/{second}").exists()


def test_clients_are_forked_from_one_process_and_a_hung_one_is_replaced_alone(made):
    one, other = made(), made()
    assert ask(one, "get", "parent") == ask(other, "get", "parent")
    (_, parent), (_, pid) = ask(one, "get", "parent"), ask(other, "get", "pid")
    assert ask(one, "put", ["hangs", 1], timeout_ns=300 * MS)[0] == "info"
    assert ask(one, "get", "parent") == ("ok", parent)
    assert ask(other, "get", "pid") == ("ok", pid)
    one.close()
    assert ask(other, "get", "pid") == ("ok", pid)
    other.close()
    assert not Path(f"/proc/{parent}").exists()


def test_what_a_class_imports_as_it_is_made_is_imported_once(tmp_path):
    (tmp_path / "driver.py").write_text("import os\npid = os.getpid()\n")
    (tmp_path / "mine.py").write_text(
        "import os\n"
        "class Mine:\n"
        "    def __init__(self, nodes):\n"
        "        import driver\n"
        "        self.imported = driver.pid\n"
        "    def get(self, node, key):\n"
        "        return [self.imported, os.getppid()]\n"
    )
    asking = ClientProcess(ClientProgram("mine.py:Mine", tmp_path, {}, modules=["driver", "missing"]))
    ((imported, parent),) = asking.ask("get", "n1", ["k"], time.monotonic_ns() + LONG_NS)
    asking.close()
    assert imported == parent


def test_a_client_outlives_the_process_that_forked_it_and_new_ones_get_another(made):
    one, other = made(), made()
    (_, parent), (_, pid) = ask(one, "get", "parent"), ask(one, "get", "pid")
    os.kill(parent, signal.SIGKILL)
    assert ask(one, "get", "pid") == ("ok", pid)
    until(lambda: Path(f"/proc/{parent}/stat").read_text().split()[2] == "Z", what="its end")
    assert ask(other, "get", "k") == ("ok", None)
    one.close()
    until(lambda: not Path(f"/proc/{pid}").exists(), what="the end of what its channel kept")
    assert ask(other, "get", "k") == ("ok", None)


def test_a_class_that_cannot_be_made_is_told_with_the_last_words_and_nothing_was_done(made):
    client = made("Missing")
    out = client.invoke("put", ["k", 1], target="n1", timeout_ns=LONG_NS)
    assert out.status == "fail"
    assert "store.py cannot be started" in out.error
    assert "Missing" in out.error


def test_a_description_names_a_file_that_is_there(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(TEXT.replace(HTTP, OPS))
    with pytest.raises(ConfigError, match=r"there is no file store\.py"):
        described_file(file)
    (tmp_path / "store.py").write_text(SOURCE)
    assert described_file(file).operations() == {"put", "get", "cas", "append", "read"}


@pytest.mark.parametrize(
    ("ops", "said"),
    [
        ('client = "store.py:Store"\n', "nothing else"),
        ('client = "store"\nserves = ["put"]\n', "no class"),
        ('client = "store.py:Store"\nserves = ["pot"]\n', "put"),
        ('client = "store.py:Store"\nserves = []\n', "must list"),
        (OPS + 'port = "http"\n', "nothing else"),
        ('put = { client = "store.py:Store" }\n', "one client serves all"),
    ],
)
def test_what_does_not_fit_a_client_is_refused(ops, said):
    with pytest.raises(ConfigError) as error:
        described((HTTP, ops))
    assert said in str(error.value)


def test_the_child_has_no_terminal_of_ours_and_keeps_our_environment(made):
    _, pid = ask(made(), "get", "pid")
    assert os.getsid(pid) == pid


def test_the_class_finds_what_stands_next_to_it_and_none_of_our_modules(made, tmp_path):
    _, path = ask(made(), "get", "path")
    assert path.split(":")[0] == str(tmp_path)
    assert str(PROGRAM.parent) not in path.split(":")
