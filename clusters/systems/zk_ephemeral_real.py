"""zk-ephemeral-zookeeper: Kafka's election through ephemeral nodes, with a real ZooKeeper as the coordination service.

Brokers are those of ``zk-ephemeral``. The coordination service's host runs a ZooKeeper 3.9.3 and next to it a bridge
(``zookeeper_bridge``) through which brokers reach it; a kill, a pause, a cut hits both. It has no planted bugs, and it
runs on real hosts only.

The promise is that of ``zk-ephemeral``, without the service's disk. Source: as there; ZooKeeper programmer's guide
(sessions, ephemeral nodes, watches).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.docker.labels import JARS
from dethrone.clusters.node.config import NodeConfig
from dethrone.clusters.systems.target import CONFIG
from dethrone.clusters.systems.zk_ephemeral import ZkEphemeralSystem
from dethrone.clusters.systems.zookeeper_bridge import DIRECTORY, PORT, TARGET
from dethrone.clusters.targets.kit.mutants import Mutant
from dethrone.clusters.targets.zk_ephemeral.knobs import ZkKnobs
from dethrone.harness.core.clock import MS
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Command, NodeSpec, RunDefaults
from dethrone.harness.core.machine import Target
from dethrone.harness.core.planted import Planted
from dethrone.harness.core.promise import NotPromised, Promise

HEAP_MB = 128
TICKS_A_SESSION = 4
"""ZooKeeper makes no session shorter than two ticks."""

_TARGET = "dethrone.clusters.systems.zookeeper_bridge:TARGET"
_START = """set -e
data=$1 configuration=$2; shift 2
mkdir -p "$data/zookeeper" "$data/core"
while [ "$1" != -- ]; do options="$options $1"; shift; done; shift
java $options org.apache.zookeeper.server.ZooKeeperServerMain "$configuration" &
exec "$@"
"""
_ELSEWHERE = NotPromised("what the service stores is stored by ZooKeeper, and not looked at", "not observable")


class RealZkEphemeralSystem(ZkEphemeralSystem):
    """See ``dethrone.harness.core.interfaces.System``."""

    name = "zk-ephemeral-zookeeper"

    def image(self) -> str:
        """Hosts with ZooKeeper's jars; brokers need none of them."""
        return "zookeeper"

    def profiles(self) -> Mapping[str, str]:
        """Those of the target; the one that loses nothing by its specification first."""
        profiles = super().profiles()
        return {"controller": profiles["controller"], **profiles}

    def defaults(self) -> RunDefaults:
        """As of the target, with writes acknowledged by all replicas in sync."""
        defaults = super().defaults()
        return msgspec.structs.replace(defaults, settings={**defaults.settings, "acks": "all"})

    def target(self) -> Target:
        """The target whose service cannot be simulated."""
        return TARGET

    def variant_table(self) -> Mapping[str, Mutant]:
        """None."""
        return {}

    def planted(self) -> Mapping[str, Planted]:
        """None."""
        return {}

    def variants(self) -> Mapping[str, str]:
        """None: they are of the simulated service and its brokers."""
        return {}

    def knobs(self, settings: Mapping[str, str], *, profile: str | None, variant: str | None) -> Mapping[str, str]:
        """As of the target; no variant."""
        if variant is not None:
            raise ConfigError(
                f"{self.name} has no variant {variant!r}",
                next_step="plant it in zk-ephemeral, whose service is our own",
            )
        return super().knobs(settings, profile=profile, variant=None)

    def files(self, node: NodeSpec) -> Mapping[str, bytes]:
        """The node's configuration; on the service's host ZooKeeper's, too."""
        files = dict(super().files(node))
        if not self._serves(node):
            return files
        place = f"{node.run_dir}/{CONFIG}"
        config = msgspec.json.decode(files[place], type=NodeConfig)
        files[place] = msgspec.json.encode(
            msgspec.structs.replace(config, target=_TARGET, journal_path=None, data_dir=f"{node.data_dir}/core")
        )
        typed: ZkKnobs = self.typed(node.knobs, profile=node.profile)
        lines = (
            f"tickTime={max(1, typed.session_timeout // MS // TICKS_A_SESSION)}",
            f"dataDir={node.data_dir}/zookeeper",
            f"clientPort={PORT}",
            "clientPortAddress=127.0.0.1",
            "maxClientCnxns=0",
            "admin.enableServer=false",
        )
        files[_configuration(node)] = "".join(f"{line}\n" for line in lines).encode()
        return files

    def command(self, node: NodeSpec) -> Command:
        """On the service's host both, in one process group."""
        command = super().command(node)
        if not self._serves(node):
            return command
        java = (f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*")
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        argv = ("/bin/sh", "-f", "-c", _START, "sh", node.data_dir, _configuration(node), *java, quiet, "--")
        env = {**command.env, DIRECTORY: f"{node.data_dir}/bridge"}
        return msgspec.structs.replace(command, argv=(*argv, *command.argv), env=env)

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """As for the target, except the service's disk."""
        promise = super().promise(knobs, profile=profile, voters=voters)
        return msgspec.structs.replace(promise, exempt={**promise.exempt, "vote-is-durable": _ELSEWHERE})

    def _serves(self, node: NodeSpec) -> bool:
        typed: ZkKnobs = self.typed(node.knobs, profile=node.profile)
        return node.name == typed.coordinator_of(tuple(node.members))


def _configuration(node: NodeSpec) -> str:
    return f"{node.run_dir}/zoo.cfg"


SYSTEM = RealZkEphemeralSystem()
