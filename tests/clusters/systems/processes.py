"""Shared by tests that start a system's processes on this machine: each node on a loopback address of its own."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from dethrone.clusters.node.frames import FrameReader
from tests.clusters.systems.specs import specs


class Processes:
    """The processes of one cluster; ``edit(argv)`` may change how they are started."""

    def __init__(self, system, nodes, root, edit=lambda argv: argv):
        self.system, self.nodes, self.root, self.edit = system, nodes, Path(root), edit
        self.running, self.starts = {}, {}
        for node in nodes.values():
            Path(node.data_dir).mkdir(parents=True)
            Path(node.log_dir).mkdir(parents=True)

    def start(self, name):
        """Start the node's next incarnation."""
        self.starts[name] = self.starts.get(name, 0) + 1
        command = self.system.command(self.nodes[name])
        argv = [word.replace("{incarnation}", str(self.starts[name])) for word in command.argv]
        with (self.root / f"{name}.out").open("ab") as out:
            environment = {**os.environ, **command.env}
            self.running[name] = subprocess.Popen(
                self.edit(name, argv), stdout=out, stderr=subprocess.STDOUT, env=environment
            )

    def kill(self, name):
        """kill -9."""
        process = self.running.pop(name)
        process.kill()
        process.wait(timeout=10)

    def reading(self, name):
        """What the node says of itself now; None for silence."""
        node = self.nodes[name]
        call = self.system.status_call(node)
        try:
            return self.system.reading(node, _ask(node.address, call))
        except OSError:
            return None

    def leader(self, limit_s=20):
        """The node that leads, once one does and all running nodes name it."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            readings = {name: self.reading(name) for name in self.running}
            named = {reading.leader if reading else None for reading in readings.values()}
            if len(named) == 1 and (leader := named.pop()) in readings and readings[leader].leads:
                return leader
            time.sleep(0.05)
        raise AssertionError(f"no leader within {limit_s} s: {readings}")

    def close(self):
        """End everything."""
        for name in list(self.running):
            self.kill(name)


def started(system, root, network, settings=None, **more):
    """Running processes of this Python, with their configuration and clock socket under ``root``."""
    nodes = specs(system, settings, network=network, root=root, **more)
    paths = {}
    for name, node in nodes.items():
        ((_, content),) = system.files(node).items()
        config = msgspec.json.decode(content)
        config |= {"clock_socket": str(root / f"{name}.sock"), "link_socket": str(root / f"{name}.links")}
        paths[name] = root / f"{name}.json"
        paths[name].write_bytes(msgspec.json.encode(config))
    made = Processes(system, nodes, root, lambda name, argv: [sys.executable, *argv[1:4], str(paths[name]), *argv[5:]])
    for name in nodes:
        made.start(name)
    return made


def _ask(address, call):
    with socket.create_connection((address, call.port), timeout=2) as sock:
        sock.sendall(call.request)
        if call.framing == "http":
            response = http.client.HTTPResponse(sock)
            response.begin()
            return response.read() if response.status == http.client.OK else b""
        reader = FrameReader()
        while data := sock.recv(65536):
            if frames := reader.feed(data):
                return frames[0]
    return b""
