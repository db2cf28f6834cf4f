"""etcd with an operator's grave mistake: every restart of member n1 is a ``--force-new-cluster``.

A harness that passes it proves nothing. Use: put this directory on PYTHONPATH (the ``.dist-info`` beside this file
registers ``etcd-unsafe``) and run it with the schedule ``restart_n1.json``.
"""

from __future__ import annotations

import msgspec

from clusters.systems.etcd import EtcdSystem
from harness.core.protocols import Command, NodeSpec

VICTIM = "n1"
_SCRIPT = 'incarnation=$1; shift; if [ "$incarnation" -ge 2 ]; then set -- "$@" --force-new-cluster; fi; exec "$@"'


class UnsafeEtcd(EtcdSystem):
    name = "etcd-unsafe"

    def command(self, node: NodeSpec) -> Command:
        command = super().command(node)
        if node.name != VICTIM:
            return command
        argv = ("/bin/sh", "-c", _SCRIPT, "sh", "{incarnation}", *command.argv)
        return msgspec.structs.replace(command, argv=argv)


SYSTEM = UnsafeEtcd()
