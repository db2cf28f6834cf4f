"""Run inside a network namespace of its own: cut one node of a toy cluster off, heal, print how long flows took (ms).

Usage: cut_and_heal.py ROOT TARGET CUT_SECONDS
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.clusters.node.node_cluster import Cluster, wait_for

RPC_TIMEOUT_MS = 50


def rule(action, a, b):
    for one, other in ((a, b), (b, a)):
        subprocess.run(["iptables", action, "INPUT", "-s", one, "-d", other, "-j", "DROP"], check=True)


def main(root, target, cut_s):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    cluster = Cluster(Path(root), 3, target=target, rpc_timeout_ms=RPC_TIMEOUT_MS)
    try:
        cluster.start()
        n1, n2, n3 = cluster.nodes.values()
        asks = {node: node.client() for node in (n1, n2, n3)}

        def heard(node, src):
            return asks[node].status()["extra"]["heard"].get(src, 0)

        def fresh(node, src):
            """Wait until two more messages of ``src`` came, which a backlog of one old packet cannot be."""
            before = heard(node, src)
            wait_for(lambda: heard(node, src) > before + 1, limit_s=15.0)

        fresh(n1, "n2")
        fresh(n2, "n1")
        rule("-A", n1.address, n2.address)
        end = time.monotonic() + float(cut_s)
        wait_for(lambda: time.monotonic() > end, limit_s=30.0)
        during = heard(n1, "n2")
        fresh(n1, "n3")
        assert heard(n1, "n2") == during, "the cut does not cut"
        rule("-D", n1.address, n2.address)
        healed = time.monotonic()
        fresh(n1, "n2")
        fresh(n2, "n1")
        took_ms = (time.monotonic() - healed) * 1000
        sys.stdout.write(json.dumps({"heal_ms": took_ms, "counters": asks[n1].status()["counters"]}))
    finally:
        cluster.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
