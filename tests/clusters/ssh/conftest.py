"""A real SSH server in this process, on loopback: what is run on it really runs, here."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest

from dethrone.clusters.ssh.connection import Connection
from dethrone.clusters.ssh.hosts import SshHost
from tests.clusters.ssh.field import Field, made
from tests.clusters.ssh.machines import Machines

USER = "chaos"


class _Login(paramiko.ServerInterface):
    """One connection's rules. ``USER`` with the one key may log in; commands run in a shell."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def check_auth_publickey(self, username, key):
        self._server.logins.append(username)
        allowed = username == USER and key.get_base64() == self._server.client_key.get_base64()
        return paramiko.AUTH_SUCCESSFUL if allowed else paramiko.AUTH_FAILED

    def get_allowed_auths(self, username):
        return "publickey"

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        self._server.commands.append(command.decode())
        threading.Thread(target=self._server.serve_command, args=(channel, command), daemon=True).start()
        return True

    def check_channel_direct_tcpip_request(self, chanid, origin, destination):
        self._server.forwards[chanid] = destination
        return paramiko.OPEN_SUCCEEDED


class Server:
    """Listens until closed. ``drop`` ends all connections, ``deaf`` makes it refuse new ones."""

    def __init__(self, host_key: Any, client_key: Any) -> None:
        self.host_key, self.client_key = host_key, client_key
        self.commands: list[str] = []
        self.logins: list[str] = []
        self.forwards: dict[int, tuple[str, int]] = {}
        self.deaf = False
        self.connections = 0
        self.path = ""
        self._transports: list[paramiko.Transport] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connected, _ = self._listener.accept()
                if self.deaf:
                    connected.close()
                    continue
                threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        transport = paramiko.Transport(connected)
        self._transports.append(transport)
        transport.add_server_key(self.host_key)
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            transport.start_server(server=_Login(self))
            self.connections += 1
            while transport.is_active():
                channel = transport.accept(0.2)
                if channel is not None and channel.chanid in self.forwards:
                    threading.Thread(target=self._forward, args=(channel,), daemon=True).start()

    def _forward(self, channel: Any) -> None:
        onward = socket.create_connection(self.forwards[channel.chanid])
        _pump(lambda: onward.recv(65536), channel.sendall, channel.close)
        _pump(lambda: channel.recv(65536), onward.sendall, onward.close)

    def serve_command(self, channel: Any, command: bytes) -> None:
        env = {"PATH": f"{self.path}:/usr/sbin:/usr/bin:/sbin:/bin"}
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            env=env,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        heard = threading.Event()

        def receive() -> bytes:
            data = channel.recv(65536)
            heard.set()
            return data

        _pump(receive, process.stdin.write, process.stdin.close)
        readers = [
            _pump(lambda: process.stdout.read(65536), channel.sendall, lambda: None),
            _pump(lambda: process.stderr.read(65536), channel.sendall_stderr, lambda: None),
        ]
        code = process.wait()
        for reader in readers:
            reader.join(5)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.send_exit_status(code)
            heard.wait(5)  # before it, the answer to the request may not be out: a client would see its channel closed
            channel.close()
        process.stdout.close()
        process.stderr.close()

    def drop(self) -> None:
        """End every connection, as a network does: without a word to the processes."""
        transports, self._transports = self._transports, []
        for transport in transports:
            transport.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()


def _pump(read: Callable[[], bytes], write: Callable[[bytes], Any], end: Callable[[], Any]) -> threading.Thread:
    def run() -> None:
        with contextlib.suppress(OSError, EOFError, ValueError, paramiko.SSHException):
            while data := read():
                write(data)
        with contextlib.suppress(OSError, EOFError):
            end()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


class Lab:
    """A server, the files of a user who may log in, and connections to it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.client_key = paramiko.ECDSAKey.generate()
        self.key_file = directory / "id"
        self.client_key.write_private_key_file(str(self.key_file))
        self.server = Server(paramiko.ECDSAKey.generate(), self.client_key)
        self.known_hosts = directory / "known_hosts"
        self.know(self.server)
        self._closing: list[Callable[[], None]] = [self.server.close]

    def know(self, server: Server, key: Any = None, mark: str = "") -> None:
        given = key or server.host_key
        with self.known_hosts.open("a") as file:
            file.write(f"{mark}[127.0.0.1]:{server.port} {given.get_name()} {given.get_base64()}\n")

    def another_server(self, *, known: bool) -> Server:
        server = Server(paramiko.ECDSAKey.generate(), self.client_key)
        self._closing.append(server.close)
        if known:
            self.know(server)
        return server

    def host(self, **fields: Any) -> SshHost:
        given = {
            "name": "n1",
            "address": "127.0.0.1",
            "port": self.server.port,
            "user": USER,
            "key": str(self.key_file),
        }
        return SshHost(**{**given, **fields})

    def connection(self, patience_s: float = 5.0, **fields: Any) -> Connection:
        connection = Connection(self.host(**fields), known_hosts=str(self.known_hosts), patience_s=patience_s)
        self._closing.append(connection.close)
        return connection

    def close(self) -> None:
        for close in reversed(self._closing):
            close()


@pytest.fixture
def lab(tmp_path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def field(tmp_path_factory) -> Iterator[Field]:
    yield from made(tmp_path_factory.mktemp("field"))


@pytest.fixture
def machines(lab):
    directory = Path(tempfile.mkdtemp(prefix="dt"))  # short: the sockets of agents lie below it
    made = Machines(lab, directory)
    yield made
    made.leave()
    shutil.rmtree(directory)
