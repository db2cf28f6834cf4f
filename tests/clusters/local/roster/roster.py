"""One node of a roster: python roster.py NAME ADDRESS NAME=ADDRESS,…

Its state is (version, members, leader, term). A change is carried out by the node that is asked, and sent to all; a
node that starts asks the others for theirs. A leader that is removed is followed by the first member, in a new term.
"""

import contextlib
import http.client
import http.server
import json
import sys
import threading

PORT = 8000
name, address, known = sys.argv[1:]
others = [one.partition("=")[2] for one in known.split(",") if not one.startswith(f"{name}=")]
names = [one.partition("=")[0] for one in known.split(",")]
state = {"version": 0, "members": names, "leader": names[0], "term": 1}
lock = threading.Lock()


def ask(of, method, path, body=""):
    connection = http.client.HTTPConnection(of, PORT, timeout=0.3)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request(method, path, body)
        return json.loads(connection.getresponse().read())
    return state


def take(newer):
    with lock:
        if newer["version"] > state["version"]:
            state.update({key: newer[key] for key in state})


def change(verb, who):
    with lock:
        members = [one for one in names if (one in state["members"] or one == who) and (verb == "PUT" or one != who)]
        lost = state["leader"] not in members
        leader, term = (members[0], state["term"] + 1) if lost else (state["leader"], state["term"])
        state.update(version=state["version"] + 1, members=members, leader=leader, term=term)
    for other in others:
        ask(other, "POST", "/", json.dumps(state))


class Node(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({**state, "leads": state["leader"] == name}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.do_GET()

    def do_PUT(self):
        change(self.command, self.path[1:])
        self.do_GET()

    def do_DELETE(self):
        self.do_PUT()

    def log_message(self, *_):
        pass


for other in others:
    take(ask(other, "GET", "/"))
http.server.ThreadingHTTPServer((address, PORT), Node).serve_forever()
