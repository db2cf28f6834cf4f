"""ZooKeeper with an operator's grave mistake: every restart of n2 begins with an empty disk, under its old number.

An acknowledgement of n2 is worth nothing then, and a harness that passes it proves nothing. Use: put this directory on
PYTHONPATH (the ``.dist-info`` beside this file registers ``zookeeper-unsafe``) and run it with ``forget_n2.json``.
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.systems.zookeeper import ZooKeeperSystem
from dethrone.harness.core.interfaces import Command, NodeSpec

VICTIM = "n2"
_SCRIPT = 'incarnation=$1 store=$2; shift 2; if [ "$incarnation" -ge 2 ]; then rm -rf "$store"; fi; exec "$@"'


class UnsafeZooKeeper(ZooKeeperSystem):
    name = "zookeeper-unsafe"

    def command(self, node: NodeSpec) -> Command:
        command = super().command(node)
        if node.name != VICTIM:
            return command
        argv = ("/bin/sh", "-c", _SCRIPT, "sh", "{incarnation}", f"{node.data_dir}/zookeeper", *command.argv)
        return msgspec.structs.replace(command, argv=argv)


SYSTEM = UnsafeZooKeeper()
