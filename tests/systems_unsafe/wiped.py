"""Kafka and DLedger on disks that keep nothing: every restart of a node begins with an empty data directory.

A harness that passes them proves nothing. Use: put this directory on PYTHONPATH (the ``.dist-info`` beside this file
registers ``kafka-kraft-wiped`` and ``rocketmq-dledger-wiped``) and run them with the schedule ``kill_all.json``.
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.systems.kafka import KafkaSystem
from dethrone.clusters.systems.rocketmq import RocketmqSystem
from dethrone.harness.core.interfaces import Command, NodeSpec

_SCRIPT = 'incarnation=$1 data=$2; shift 2; [ "$incarnation" -eq 1 ] || rm -rf "$data"/*; exec "$@"'


def wiping(command: Command, node: NodeSpec) -> Command:
    """The same command, on an empty directory from the second incarnation on."""
    argv = ("/bin/sh", "-c", _SCRIPT, "sh", "{incarnation}", node.data_dir, *command.argv)
    return msgspec.structs.replace(command, argv=argv)


class WipedKafka(KafkaSystem):
    def command(self, node: NodeSpec) -> Command:
        return wiping(super().command(node), node)


class WipedRocketmq(RocketmqSystem):
    def command(self, node: NodeSpec) -> Command:
        return wiping(super().command(node), node)


KAFKA = WipedKafka(name="kafka-kraft-wiped", release="4.1.0", recipe="kafka-4.1", pre_vote=True)
ROCKETMQ = WipedRocketmq(name="rocketmq-dledger-wiped", release="0.2.2", numbers=False)
