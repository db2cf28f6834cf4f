"""etcd with an operator's grave mistake: every restart of member n1 is a ``--force-new-cluster``.

A harness that passes it proves nothing. Use: put this directory on PYTHONPATH (the ``.dist-info`` beside this file
registers ``etcd-unsafe``, ``etcd-3.5-unsafe`` and ``etcd-3.7-unsafe``) and run it with ``restart_n1.json``.
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.systems.etcd import Etcd35System, Etcd37System, EtcdSystem
from dethrone.harness.core.interfaces import Command, NodeSpec

VICTIM = "n1"
_SCRIPT = 'incarnation=$1; shift; if [ "$incarnation" -ge 2 ]; then set -- "$@" --force-new-cluster; fi; exec "$@"'


def ruined(command: Command, node: NodeSpec) -> Command:
    """The same, but for the victim's restarts."""
    if node.name != VICTIM:
        return command
    argv = ("/bin/sh", "-c", _SCRIPT, "sh", "{incarnation}", *command.argv)
    return msgspec.structs.replace(command, argv=argv)


class UnsafeEtcd(EtcdSystem):
    name = "etcd-unsafe"

    def command(self, node: NodeSpec) -> Command:
        return ruined(super().command(node), node)


class UnsafeEtcd35(Etcd35System):
    name = "etcd-3.5-unsafe"

    def command(self, node: NodeSpec) -> Command:
        return ruined(super().command(node), node)


class UnsafeEtcd37(Etcd37System):
    name = "etcd-3.7-unsafe"

    def command(self, node: NodeSpec) -> Command:
        return ruined(super().command(node), node)


SYSTEM = UnsafeEtcd()
SYSTEM_3_5 = UnsafeEtcd35()
SYSTEM_3_7 = UnsafeEtcd37()
