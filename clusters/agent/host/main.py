"""The command line of the agent.

Guarantees: arguments of earlier versions keep their meaning. Out of scope: what the verbs do.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Sequence

from dethrone.clusters.agent.host.common import SECOND, complain
from dethrone.clusters.agent.host.confinement import user_of
from dethrone.clusters.agent.host.disk_helper import serve_disk
from dethrone.clusters.agent.host.durable_names import MODELS
from dethrone.clusters.agent.host.firewall import Spared
from dethrone.clusters.agent.host.hand import hand
from dethrone.clusters.agent.host.healing import connect, heal
from dethrone.clusters.agent.host.patterns import match
from dethrone.clusters.agent.host.probes import PROBE_PORT
from dethrone.clusters.agent.host.server import Server
from dethrone.clusters.agent.host.sightings import look_out
from dethrone.clusters.agent.host.verbs import Settings

TERM_LIMIT_S = 5.0
"""How long a process may take to obey SIGTERM, unless ``--term-limit`` says otherwise."""


def make_account(uid: int, gid: int) -> None:
    """Name a node's user and group on a host of ours, because programs look them up. Existing names stay."""
    for path, number, line in (
        ("/etc/group", gid, f"dethrone:x:{gid}:\n"),
        ("/etc/passwd", uid, f"dethrone:x:{uid}:{gid}:a tested node:/nonexistent:/bin/sh\n"),
    ):
        with contextlib.suppress(OSError), open(path, "r+", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            known = [entry.split(":") for entry in file]
            if not any(len(entry) > 2 and (entry[0] == "dethrone" or entry[2] == str(number)) for entry in known):
                file.write(line)


def relay(path: str, wait_s: float) -> int:
    """Copy stdin to the agent and the agent to stdout until either ends."""
    try:
        connection = connect(path, wait_s)
    except OSError as error:
        complain(f"no agent answers at {path}", error)
        return 3
    ended = threading.Event()
    # Two threads: a harness that does not read for a while must still be able to send.
    for source, target in ((0, connection.fileno()), (connection.fileno(), 1)):
        threading.Thread(target=copy, args=(source, target, ended), daemon=True).start()
    ended.wait()
    return 0


def copy(source: int, target: int, ended: threading.Event) -> None:
    """Copy bytes until either side is gone."""
    with contextlib.suppress(OSError):
        while True:
            data = os.read(source, 256 << 10)
            if not data:
                break
            while data:
                data = data[os.write(target, data) :]
    ended.set()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: ``serve``, ``relay``, ``heal``, ``match``; ``hand``, ``lookout`` and ``disk``, for agents."""
    parser = argparse.ArgumentParser(prog="agent.py", description="The agent of one host.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    serving = verbs.add_parser("serve", help="be the agent")
    serving.add_argument("--run", required=True)
    serving.add_argument("--dead-man", type=float, default=0.0, metavar="SECONDS", help="heal after this silence")
    serving.add_argument("--probe-port", type=int, default=PROBE_PORT)
    serving.add_argument("--term-limit", type=float, default=TERM_LIMIT_S, metavar="SECONDS", help="to obey SIGTERM")
    serving.add_argument("--iptables", choices=("auto", "nft", "legacy"), default="auto")
    relaying = verbs.add_parser("relay", help="stdin/stdout to the agent's socket")
    relaying.add_argument("--wait", type=float, default=10.0, metavar="SECONDS")
    healing = verbs.add_parser("heal", help="converge to healthy")
    healing.add_argument("--run", default=None, help="remove this run's chain if no agent lives; default: all")
    healing.add_argument("--stop", action="store_true", help="also end the node")
    serving.add_argument("--spare", action="append", default=[], metavar="ADDRESS:PORT", help="TCP that cuts spare")
    serving.add_argument("--settimeofday", action="store_true", help="skew the machine's own clock")
    serving.add_argument("--node-user", default=None, metavar="USER", help="user of nodes that ask for none")
    serving.add_argument("--make-account", action="store_true", help="give that user a name here")
    disk = verbs.add_parser("disk", help="serve a node's data directory, for an agent")
    disk.add_argument("--directory", required=True)
    disk.add_argument("--run", required=True)
    disk.add_argument("--model", choices=tuple(MODELS), default="journal", help="what syncs make durable")
    matching = verbs.add_parser("match", help="which texts a pattern matches: one question per line of stdin")
    handing = verbs.add_parser("hand", help="skew clocks of processes: one question per line of stdin")
    looking = verbs.add_parser("lookout", help="search a node's log: what for is one line of stdin")
    for verb in (serving, relaying, healing, matching, handing, looking):
        verb.add_argument("--socket", required=True)
    given = parser.parse_args(arguments)
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
    if given.verb == "disk":
        return serve_disk(given.directory, given.run, given.model)
    if given.verb == "relay":
        return relay(given.socket, given.wait)
    if given.verb == "heal":
        return heal(given.socket, given.run, stop=given.stop)
    if given.verb == "match":
        return match()
    if given.verb == "hand":
        return hand()
    if given.verb == "lookout":
        return look_out()
    sys.setswitchinterval(0.001)
    if given.make_account and given.node_user is not None:
        make_account(*user_of(given.node_user))
    settings = Settings(
        dead_man_ns=int(given.dead_man * SECOND),
        probe_port=given.probe_port,
        tool=given.iptables,
        term_limit_s=given.term_limit,
        spared=[Spared(place.rpartition(":")[0], int(place.rpartition(":")[2])) for place in given.spare],
        sets_clock=given.settimeofday,
        node_user=given.node_user,
    )
    Server(given.socket, given.run, settings).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
