"""Flows that are reset as a cut ends: by agents in network namespaces."""

from __future__ import annotations

import select
import shutil

import pytest

from tests.clusters.agent.test_network import CALL, LISTEN, python

pytestmark = [pytest.mark.namespaces, pytest.mark.measures]


@pytest.fixture
def hosts(five):
    return {name: box.host for name, box in five.items()}


def test_flows_to_a_peer_are_reset(five, hosts):
    if shutil.which("ss") is None:
        pytest.skip("no ss")
    server = python(five["n2"], LISTEN.format(port=7902) + "; c.recv(1)")
    server.stdout.readline()
    client = python(five["n1"], CALL.format(address=five["n2"].address, port=7902, limit=None) + "; c.recv(1)")
    try:
        client.stdout.readline()
        assert hosts["n1"].reset_flows(["n3"]) | {"lo": 0, "hi": 0} == {
            "worked": True,
            "before": 0,
            "after": 0,
            "lo": 0,
            "hi": 0,
        }
        said = hosts["n1"].reset_flows(["n2"])
        assert said["before"] == 1
        if said["worked"]:
            assert said["after"] == 0
            assert client.wait(timeout=5) != 0
        else:
            assert said["why"]
    finally:
        for process in (server, client):
            process.kill()
            process.wait()
            process.stdout.close()


AGAIN = """
import socket, time
while True:
    try:
        c = socket.create_connection(('{address}', 7905)); print('up', flush=True); c.recv(1)
    except OSError: time.sleep(0.001)
"""
ACCEPT = """
import socket
s = socket.create_server(('', 7905)); print('up', flush=True); kept = []
while True: kept.append(s.accept()[0])
"""


def test_a_program_that_connects_again_at_once_does_not_look_like_flows_that_stayed(five, hosts):
    if shutil.which("ss") is None:
        pytest.skip("no ss")
    server = python(five["n2"], ACCEPT)
    assert server.stdout.readline() == b"up\n"
    client = python(five["n1"], AGAIN.format(address=five["n2"].address))
    try:
        assert client.stdout.readline() == b"up\n"
        said = hosts["n1"].reset_flows(["n2"])
        if not select.select([client.stdout], [], [], 3)[0]:
            pytest.skip("this kernel resets no flows")
        assert client.stdout.readline() == b"up\n", "it connected again"
        assert (said["worked"], said["before"], said["after"]) == (True, 1, 0)
    finally:
        for process in (server, client):
            process.kill()
            process.wait()
            process.stdout.close()
