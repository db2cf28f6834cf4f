"""On a host, by itself: its node is removed from the members of the cluster, or added again, by asking the others.

    membership.py begin|check|end|look RUN_DIR

Guarantees: nothing is asked before the answers of the others were understood (they list the node); a file says that it
was, before it is; ``check`` exits with 0 exactly while the node is no member: while no other node answers, what was
seen last counts. ``look`` changes nothing: it prints what each of the others answers. The data are removed only once
the others no longer list the node, and before it is added again. Every verb may be killed and run again. Standard
library only. Out of scope: whose process this is, and when the node starts.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

LIMIT_S = 4.0
"""For all that one verb asks; less than an agent gives it."""
ANSWER_S = 0.8
PAUSE_S = 0.1
Ask = dict[str, Any]
"""A request or a command, as ``dethrone.clusters.systems.membership`` has it."""
ASKED, REMOVED = "asked", "removed"


def asked(ask: Ask, member_id: str = "") -> tuple[bool, str]:
    """(whether it was done, what was answered) for one request or command; ``member_id`` stands for ``__id__``."""
    words = {key: value for key, value in ask.items() if isinstance(value, str)}
    words = {key: value.replace("__id__", member_id) for key, value in words.items()}
    try:
        if "argv" in ask:
            argv = [word.replace("__id__", member_id) for word in ask["argv"]]
            done = subprocess.run(argv, capture_output=True, timeout=ANSWER_S, stdin=subprocess.DEVNULL)  # noqa: PLW1510
            return done.returncode == 0, (done.stdout + done.stderr).decode("utf-8", "replace")
        connection = http.client.HTTPConnection(words["address"], ask["port"], timeout=ANSWER_S)
        with contextlib.closing(connection):
            connection.connect()
            if ask.get("tls"):
                connection.sock = secured(connection.sock, ask["tls"], words["address"])
            connection.request(words["method"], words["path"], words["body"].encode() or None, ask["headers"])
            answer = connection.getresponse()
            return answer.status in ask["ok"], answer.read(1 << 20).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, subprocess.SubprocessError) as error:
        return False, f"{type(error).__name__}: {error}"


def secured(sock: socket.socket, tls: dict[str, Any], address: str) -> ssl.SSLSocket:
    """The same connection with TLS, with its handshake done. OSError."""
    context = ssl.create_default_context(cafile=tls["ca"] or None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not tls["verify"]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls["cert"]:
        context.load_cert_chain(tls["cert"], tls["key"])
    return context.wrap_socket(sock, server_hostname=tls["server_name"] or address)


class Membership:
    """What one verb works with."""

    def __init__(self, run_dir: str) -> None:
        with open(f"{run_dir}/membership.json") as file:  # noqa: PTH123
            self.config: dict[str, Any] = json.load(file)
        self.marker = f"{run_dir}/membership"
        self.rejoins = f"{run_dir}/rejoins"
        self.until = time.monotonic() + LIMIT_S
        self.member_id = ""
        self.said = ""
        """The last answer that was no consent."""

    def listed(self) -> list[bool]:
        """For each other node that answers: whether it lists this one as a member."""
        asks = [one["members"] for one in self.config["others"]]
        with ThreadPoolExecutor(len(asks)) as pool:
            answers = [text for done, text in pool.map(asked, asks) if done]
        found = [re.search(self.config["member"], text) for text in answers]
        for match in filter(None, found):
            self.member_id = match.groupdict().get("id") or self.member_id
        return [match is not None for match in found]

    def look(self) -> str:
        """Print what the others say of it, as JSON; "" always."""
        said = [asked(one["members"]) for one in self.config["others"]]
        found = [re.search(self.config["member"], text) for _, text in said]
        others = [
            {"done": done, "listed": match is not None, "id": match and match.groupdict().get("id"), "said": text[:300]}
            for (done, text), match in zip(said, found)  # noqa: B905 - Python 3.9
        ]
        sys.stdout.write(json.dumps({"others": others}))
        return ""

    def ask(self, what: str, of: Sequence[dict[str, Ask]]) -> None:
        """Ask one node after another until one agrees."""
        for one in of:
            if time.monotonic() > self.until:
                return
            done, text = asked(one[what], self.member_id)
            if done:
                return
            self.said = text[:200]

    def note(self, state: str) -> None:
        """Store how far this is; it is there as a whole or not at all."""
        with open(f"{self.marker}.new", "w") as file:  # noqa: PTH123
            file.write(state)
        os.replace(f"{self.marker}.new", self.marker)  # noqa: PTH105

    def noted(self) -> str | None:
        """How far this is; None: nothing was asked, or all is done."""
        try:
            with open(self.marker) as file:  # noqa: PTH123
                return file.read()
        except FileNotFoundError:
            return None

    def begin(self) -> str:
        """Have the node removed; "" or why it is not."""
        listed = self.listed()
        if not self.noted():
            if not listed or not all(listed):
                return f"{listed.count(True)} of {len(listed)} nodes that answer list it as a member before the removal"
            self.note(ASKED)
        while True:
            if listed and not any(listed):
                self.note(REMOVED)
                return ""
            if time.monotonic() > self.until:
                return f"still listed by {listed.count(True)} of {len(listed)} nodes that answer; refused: {self.said}"
            if listed and all(listed):
                self.ask("remove", (*self.config["others"], self.config["own"]))
            else:
                time.sleep(PAUSE_S)
            listed = self.listed()

    def check(self) -> str:
        """Why the node is not removed; "" if it is."""
        noted = self.noted()
        if noted is None:
            return "its removal was not asked for"
        listed = self.listed()
        if listed:
            return "" if not all(listed) else "all nodes that answer list it as a member"
        return "" if noted == REMOVED else "no other node answers"

    def end(self) -> str:
        """Have the node added again, with nothing in its data directory if it must be new; "" or why it is not."""
        if self.noted() is None:
            return ""
        while True:
            listed = self.listed()
            if listed and all(listed):
                os.unlink(self.marker)  # noqa: PTH108
                return ""
            if time.monotonic() > self.until:
                return f"listed by {listed.count(True)} of {len(listed)} nodes that answer; refused: {self.said}"
            if listed:
                self.make_new()
            if listed and not any(listed):
                self.ask("add", self.config["others"])
            else:
                time.sleep(PAUSE_S)

    def make_new(self) -> None:
        """Remove what the node stored, and leave the word that its next start is one of a new member."""
        place = self.config["data_dir"] if self.config["fresh"] else ""
        for entry in list(os.scandir(place)) if place else ():
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)  # noqa: PTH108
        with open(self.rejoins, "w"):  # noqa: PTH123
            pass


def main(words: Sequence[str]) -> None:
    """Run one verb; 0 and nothing said, or 1 and why."""
    verb, run_dir = words
    one = Membership(run_dir)
    why = {"begin": one.begin, "check": one.check, "end": one.end, "look": one.look}[verb]()
    sys.exit(f"membership: {why}" if why else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
