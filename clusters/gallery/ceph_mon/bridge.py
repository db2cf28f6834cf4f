"""HTTP in front of one monitor: its status, from its own socket, and sets, as keys of its store of settings.

    GET /status           what the monitor says of itself, with the name of the leader that its quorum follows
    PUT /set/KEY          done once a majority has the value of the body
    GET /set/KEY          the values

What fails may have happened: each failure is answered with 504, which is doubt.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LIMIT_S = 2


class Monitor:
    """One monitor, by its socket and through librados."""

    def __init__(self, address: str, path: str) -> None:
        self._settings = {"mon_host": f"v1:{address}", "auth_client_required": "none", "client_mount_timeout": "2"}
        self._path = path
        self._connecting = threading.Lock()
        self._cluster: Any = None

    def status(self) -> dict[str, Any]:
        """State, epoch of the election, leader. Raises OSError, ValueError."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(0.4)
            asking.connect(self._path)
            asking.sendall(b'{"prefix": "mon_status"}\0')
            answer = asking.makefile("rb")
            (length,) = struct.unpack(">I", answer.read(4))
            said = json.loads(answer.read(length))
        names = {one["rank"]: one["name"] for one in said["monmap"]["mons"]}
        leader = names[min(said["quorum"])] if said["quorum"] else None
        return {"state": said["state"], "election_epoch": said["election_epoch"], "leader": leader}

    def command(self, **words: str) -> bytes:
        """The answer to a command. Raises OSError, and what librados raises."""
        import rados  # type: ignore[import-not-found]  # Debian's, on hosts only

        with self._connecting:
            cluster = self._cluster
            if cluster is None:
                cluster = rados.Rados(conf=self._settings)
                cluster.connect(timeout=LIMIT_S)
                self._cluster = cluster
        try:
            code, out, why = cluster.mon_command(json.dumps(words), b"", timeout=LIMIT_S)
            if code != 0:
                raise OSError(code, why)
        except Exception:
            self._forget(cluster)
            raise
        return bytes(out)

    def _forget(self, cluster: Any) -> None:
        """Let the next command connect: to this monitor, while a kept client may have gone over to another one.

        It does so when this one leaves its quorum, and notices a silent one only after half a minute.
        """
        with self._connecting:
            if self._cluster is cluster:
                self._cluster = None
                threading.Thread(target=cluster.shutdown, daemon=True).start()

    def add(self, key: str, value: str) -> None:
        """Add a value, in JSON, to a set."""
        self.command(prefix="config-key set", key=key + value, val="x")

    def values(self, key: str) -> list[Any]:
        """The values of a set."""
        return [json.loads(name[len(key) :]) for name in json.loads(self.command(prefix="config-key dump", key=key))]


def handler(monitor: Monitor) -> type[BaseHTTPRequestHandler]:
    """What answers requests by asking this monitor."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            key = self.path.strip("/") + "/"
            self._answer(monitor.status if self.path == "/status" else lambda: monitor.values(key))

        def do_PUT(self) -> None:
            value = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(lambda: monitor.add(self.path.strip("/") + "/", value))

        def log_message(self, *_: object) -> None:
            """Nothing: polls would fill the log."""

        def _answer(self, ask: Callable[[], Any]) -> None:
            try:
                code, said = 200, ask()
            except Exception as error:  # noqa: BLE001 - librados has errors of its own, and each is doubt
                code, said = 504, repr(error)
            body = json.dumps(said).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


if __name__ == "__main__":
    own, mon_port, http_port, control = sys.argv[1:]
    ThreadingHTTPServer((own, int(http_port)), handler(Monitor(f"{own}:{mon_port}", control))).serve_forever()
