"""A system of three that shows itself in every way from outside, and traces nothing: for triggers of that kind.

Its leader is n1 while n1 answers n2 and n3, else the next; every 200 ms each node logs a line and raises a figure on
its page of metrics, and the leader sends the others a datagram that is longer than all else.
"""

from __future__ import annotations

import sys
from pathlib import Path

NODE = r"""
import http.server, json, socket, sys, threading, time
name, own, members = sys.argv[1], sys.argv[2], dict(one.split("=") for one in sys.argv[3].split(","))
beats, turn, seen = 0, 0, {}
pings = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
pings.bind((own, 7000))
term = 1

def leader():
    now = time.monotonic()
    return min([name] + [other for other, at in list(seen.items()) if now - at < 1.0])

class Status(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        first = leader()
        if self.path == "/metrics":
            text = "# TYPE beats counter\nbeats %d\nbeats_by{who=\"me\"} %d\nterm %d\n" % (beats, beats % 10, turn)
        else:
            role = "leader" if first == name else "follower"
            text = json.dumps({"role": role, "term": term, "leader": first, "commit": beats})
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

def hear():
    global term
    while True:
        data, _ = pings.recvfrom(65536)
        other, at = data.split()[0].decode(), int(data.split()[1])
        seen[other] = time.monotonic()
        term = max(term, at)

threading.Thread(target=hear, daemon=True).start()
server = http.server.ThreadingHTTPServer((own, 8000), Status)
threading.Thread(target=server.serve_forever, daemon=True).start()
led = False
while True:
    time.sleep(0.05)
    turn += 1
    leads = leader() == name and turn > 20
    if leads and not led:
        term += 1
        print("became leader at term", term, flush=True)
    led = leads
    big = leads and turn % 4 == 0
    for other, address in members.items():
        if other != name:
            try:
                pings.sendto(b"%s %d beat %s" % (name.encode(), term, b"!" * (900 if big else 9)), (address, 7000))
            except OSError:
                pass
    if turn % 4 == 0:
        beats += 1
        print("beat", beats, "of", name, flush=True)
"""

TOML = """
[system]
name = "outside"
[node]
command = "{python} {{run_dir}}/node.py {{name}} {{address}} {{members}}"
member = "{{name}}={{address}}"
ports = {{ http = 8000, peer = 7000 }}
files = {{ "{{run_dir}}/node.py" = "node.py" }}
[probe]
http = "/status"
port = "http"
role = "role"
term = "term"
leader = "leader"
commit = "commit"
every = "{every}"
[log]
patterns = {{ leads = 'became leader at term (?P<term>\\d+)', beat = 'beat \\d+' }}
[promise]
election_timeout = "2s"
heartbeat = "50ms"
tolerates = ["partition", "kill", "pause", "restart"]
leader_within = "10s"
"""


def description(directory: Path, *, python: str = "python3", every: str = "40ms") -> Path:
    """The file that describes the system, with its program next to it."""
    (directory / "node.py").write_text(NODE)
    path = directory / "outside.toml"
    path.write_text(TOML.format(python=python, every=every))
    return path


EVENTS = {
    "logged": '{ event = "logged", where = { pattern = "beat" }',
    "status": '{ event = "status-changed", where = { field = "commit" }',
    "metric": '{ event = "metric-changed", where = { metric = "beats", port = 8000 }',
    "frame": '{ event = "frame-sent", where = { port = 7000, bytes_min = 800 }',
}
STEP = """
[[step]]
[[step.fault]]
kind = "%s"
victims = "%s"
hold = "60ms"
when = %s, within = "10s" }
"""


def schedule(event: str, *, kind: str = "partition", victims: str = "actor", steps: int = 35) -> str:
    """As many short faults, each on the next event of this kind."""
    shape = 'params = { shape = "isolate" }\n' if kind == "partition" else ""
    return 'health_bound = "3s"\n' + (STEP % (kind, victims, EVENTS[event]) + shape) * steps


if __name__ == "__main__":
    # python -m tests.outside DIR; dethrone run DIR/outside.toml --on docker --schedule DIR/logged.toml --json
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    description(place)
    for word in EVENTS:
        (place / f"{word}.toml").write_text(schedule(word))
