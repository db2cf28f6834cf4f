"""Kafka 3.9 and 4.1 on every host, in KRaft mode: a node is asked to end, and starts as the other one over its data.

Which release a node runs is what its own process says: the version that Kafka's code in that JVM logs at its start
(``AppInfoParser``), in the same answer as its Raft status.

Guarantees: the storage is formatted for the metadata of 3.9 whichever release is first, and ``metadata.version`` stays
there: an upgrade that is not finalized. So nodes may run either release side by side, and may go back. The promise is
that of 3.9, which has no pre-vote. Out of scope: finalizing the upgrade (``kafka-features.sh upgrade --release-version
4.1``), after which none may go back.

Source: Kafka documentation 4.1, "Upgrading KRaft-based clusters": node by node, from 3.3 and later, with
``metadata.version`` raised once all nodes run the new release.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems import jvm
from dethrone.clusters.systems.kafka import STATUS, KafkaSystem
from dethrone.clusters.systems.rolling import Rolling
from dethrone.harness.core.interfaces import NodeSpec, Reading

OLDEST = "3.9"


class KafkaRolling(Rolling, KafkaSystem):
    """See ``dethrone.harness.core.interfaces.System``; also ``Upgradable``."""

    releases: Mapping[str, KafkaSystem] = {
        OLDEST: KafkaSystem(name="", release="3.9.1", recipe="kafka-3.9", pre_vote=False, metadata=(OLDEST,)),
        "4.1": KafkaSystem(name="", release="4.1.0", recipe="kafka-4.1", pre_vote=True, metadata=(OLDEST,)),
    }

    def reading(self, node: NodeSpec, body: bytes) -> Reading | None:
        """What Kafka publishes of its Raft, of the release that the same process says it is."""
        found, status = super().reading(node, body), jvm.status_of(STATUS, body)
        if found is None or status is None:
            return None
        return msgspec.structs.replace(found, version=self.version_of(status.version))


SYSTEM = KafkaRolling(name="kafka-rolling", release="3.9.1 and 4.1.0", recipe="kafka-rolling", pre_vote=False)
