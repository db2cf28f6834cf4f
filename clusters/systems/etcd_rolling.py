"""etcd 3.4, 3.5, 3.6 and 3.7 on every host: a node is asked to end, and starts as another release over its data.

3.4 is Debian's, the others are built from their Go modules: 3.5.35, 3.6.16, 3.7.3. (The wheel with 3.5.1 is not used:
etcd wants 3.5.26 or later before 3.6.) Pre-vote is on in all of them unless the knob ``pre_vote`` is off.

Which release a node runs is what its own process says: ``/version``, asked in one go with ``/debug/vars``, on one
connection, so that both are answers of one process.

Guarantees: nodes are one release apart at most, and none goes back to a release that all have left: by then etcd may
have raised the version of the cluster, and a member below it ends itself. (A change of several releases at once ends
members, too: next to a 3.6, those of 3.4 panic; 3.7 panics over the log of 3.5.) Out of scope: the downgrade API of 3.6
and later, which lowers the cluster's version first.

Source: etcd documentation, guides "Upgrade etcd from 3.4 to 3.5", "from 3.5 to 3.6" and "from 3.6 to 3.7": one minor
release at a time, node by node without downtime; a mixed cluster may return to the older release, a finished one not.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.docker.labels import BIN
from dethrone.clusters.systems.etcd import CLIENT_PORT, SYSTEM_3_7, Etcd35System, EtcdSystem
from dethrone.clusters.systems.released import Knob, Number
from dethrone.clusters.systems.rolling import Rolling
from dethrone.harness.core.interfaces import Command, NodeSpec, Reading, StatusCall
from dethrone.harness.core.version_limits import VersionLimits

AS_RELEASED = "0"
"""Of the knob ``snapshot_count``."""


class _Version(msgspec.Struct, frozen=True, gc=False):
    etcdserver: str


_VERSION = msgspec.json.Decoder(_Version)


class _Etcd3535(Etcd35System):
    recipe = "etcd-3.5.35"
    binary = f"{BIN}/etcd-3.5.35"


class _Etcd36(Etcd35System):
    release = (3, 6)
    recipe = "etcd-3.6"
    binary = f"{BIN}/etcd-3.6"


class EtcdRolling(Rolling, EtcdSystem):
    """See ``dethrone.harness.core.interfaces.System``; also ``Upgradable`` and ``Limited``."""

    name = "etcd-rolling"
    release = (3, 7)
    recipe = "etcd-rolling"
    releases: Mapping[str, EtcdSystem] = {"3.4": EtcdSystem(), "3.5": _Etcd3535(), "3.6": _Etcd36(), "3.7": SYSTEM_3_7}

    def known_knobs(self) -> Mapping[str, Knob]:
        """Besides, after how many entries a snapshot is taken; 0: as released."""
        return {**super().known_knobs(), "snapshot_count": Number(AS_RELEASED, 0, 1_000_000)}

    def commands(self, node: NodeSpec) -> Mapping[str, Command]:
        """Those of the releases, with the same count of entries in all of them."""
        found, count = super().commands(node), node.knobs["snapshot_count"]
        flags = (f"--snapshot-count={count}",) if count != AS_RELEASED else ()
        return {
            version: msgspec.structs.replace(one, argv=(*one.argv, *flags), rejoining=(*one.rejoining, *flags))
            for version, one in found.items()
        }

    def limits(self) -> VersionLimits:
        """See ``dethrone.harness.core.interfaces.Limited``."""
        return VersionLimits(steps=1, below_all=False, source="etcd's upgrade guides")

    def status_call(self, node: NodeSpec) -> StatusCall:
        """The published variables, and which release answers."""
        call = super().status_call(node)
        version = f"GET /version HTTP/1.1\r\nHost: {node.address}:{CLIENT_PORT}\r\n\r\n"
        return msgspec.structs.replace(call, request=call.request + version.encode(), answers=2)

    def reading(self, node: NodeSpec, body: bytes) -> Reading | None:
        """What the variables say, of the release that the same process says it is."""
        published, _, version = body.partition(b"\0")
        found = super().reading(node, published)
        try:
            said = _VERSION.decode(version).etcdserver
        except msgspec.MsgspecError:
            return None
        return None if found is None else msgspec.structs.replace(found, version=self.version_of(said))

    def documented(self) -> str:
        """All of them."""
        return ", ".join(self.releases)


SYSTEM = EtcdRolling()
