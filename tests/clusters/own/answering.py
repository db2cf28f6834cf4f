"""A node that answers each HTTP request with the next of the answers that a test gives it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from tests.served import served


@contextmanager
def answering(client, *answers):
    """``answers``: status and JSON, or bytes, in order. Yields a client of the node n1, and what it was asked: method
    with path, and the JSON of the body."""
    asked, left = [], list(answers)

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append((f"{self.command} {self.path}", json.loads(body) if body else None))
            code, value = left.pop(0)
            text = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = answer  # noqa: N815 - the names are the library's

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    with served(server):
        yield client({"n1": {"address": "127.0.0.1", "http": server.server_port}}), asked
