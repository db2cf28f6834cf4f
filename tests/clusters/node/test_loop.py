"""The loop in this process, turn by turn, with a disk that answers when the test says so."""

from __future__ import annotations

from collections import deque

import pytest

from dethrone.clusters.node.config import NodeConfig
from dethrone.clusters.node.disk import Done
from dethrone.clusters.node.loop import NodeShell
from tests.clusters.node.node_cluster import Client, free_port, wait_for
from tests.clusters.node.toy_target import TARGET


class HeldDisk:
    """Carries nothing out; ``finish`` says that the oldest batch is done."""

    def __init__(self):
        self.submitted = deque()
        self.results = deque()

    def submit(self, batch):
        self.submitted.append(batch)

    def finish(self, error=None):
        batch = self.submitted.popleft()
        self.results.append(Done(batch.token, batch.ops, error, 0, 0))


@pytest.fixture
def node(tmp_path):
    config = NodeConfig(
        target="toy_target:TARGET",
        node="n1",
        members={"n1": "127.0.0.1"},
        bind="127.0.0.1",
        peer_port=free_port(),
        client_port=free_port(),
        data_dir=str(tmp_path / "data"),
        trace_path=str(tmp_path / "trace"),
    )
    made = NodeShell(config, TARGET)
    assert made._disk.stop(5)
    made._disk = HeldDisk()
    yield made
    made._end("over")


def answer(node, client):
    """Turn until ``client`` has its answer."""
    client.sock.setblocking(False)

    def arrived():
        node._turn()
        try:
            return client.sock.recv(4, 2)  # MSG_PEEK
        except BlockingIOError:
            return b""

    wait_for(arrived)
    client.sock.setblocking(True)
    return client.read()


def silent_for(node, client, turns):
    client.sock.setblocking(False)
    for _ in range(turns):
        node._turn()
        with pytest.raises(BlockingIOError):
            client.sock.recv(1)
    client.sock.setblocking(True)


def test_nobody_is_answered_before_the_start_is_done_with_the_disk(node, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "synced_at_start").write_bytes(b"")
    node._boot()
    client = Client("127.0.0.1", node._config.client_port)
    client.send(status=True)
    silent_for(node, client, turns=5)
    assert b'"start"' not in (tmp_path / "trace").read_bytes()
    node._disk.finish()
    assert answer(node, client)["status"]["held"] == 0
    assert b'"start"' in (tmp_path / "trace").read_bytes()
    client.close()


def test_replies_wait_for_the_disk_while_status_does_not(node, tmp_path):
    node._boot()
    asker, watcher = (Client("127.0.0.1", node._config.client_port) for _ in range(2))
    asker.send(request={"type": "store", "value": 5})
    silent_for(node, asker, turns=5)
    watcher.send(status=True)
    status = answer(node, watcher)["status"]
    assert status["held"] >= 3
    assert status["persisted"]["term"] == 0
    assert b'"stored"' not in (tmp_path / "trace").read_bytes()
    node._disk.finish()
    assert answer(node, asker)["reply"]["value"] == 5
    trace = (tmp_path / "trace").read_bytes()
    assert trace.index(b'"event":"persisted","term":5') < trace.index(b'"event":"stored"')
    asker.close()
    watcher.close()


def test_what_waited_behind_a_failed_batch_is_never_said(node, tmp_path):
    node._boot()
    client = Client("127.0.0.1", node._config.client_port)
    client.send(request={"type": "store", "value": 5})
    wait_for(lambda: node._turn() or node._disk.submitted)
    node._disk.finish(error="EIO")
    assert answer(node, client)["reply"]["value"] == "EIO"
    trace = (tmp_path / "trace").read_bytes()
    assert b'"stored"' not in trace
    assert b'"event":"persisted","term":5' not in trace
    assert b'"disk_error"' in trace
    client.close()
