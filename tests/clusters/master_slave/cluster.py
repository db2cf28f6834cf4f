"""Clusters of the master/slave target in the minimal world, at a sixtieth of the real times."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append, ChangeConfig, NotLeader, Ok
from dethrone.clusters.targets.master_slave.messages import Route
from dethrone.clusters.targets.master_slave.target import TARGET
from tests.clusters.zk_ephemeral.minisim import World

SCALE = 60
NAMES = ("m", "s1", "s2", "ns")


def scaled(ms):
    """Real ms in the world's."""
    return ms // SCALE


def cluster(names=NAMES, *, warm=True, **settings):
    """Registered and copying."""
    world = World(TARGET, names, time_factor="1/60", **settings)
    if warm:
        world.run(1200)
    return world


def send(world, name, value):
    """The result of a send: the reply's kind and its reason."""
    answer = world.ask(name, Append("k", value), ms=1000)
    if isinstance(answer, Ok):
        return "ok"
    if isinstance(answer, NotLeader):
        return "refused"
    return None if answer is None else answer.why


def values(world, name):
    """What a broker's log holds."""
    return [one.command.value for one in world.boxes[name].core.log.entries]


def routes(world, server="ns"):
    """The name server's table."""
    return world.ask(server, Route()).value


def promote(world, name):
    """The operator's way: stop it, set brokerId 0 and a master role, restart."""
    answer = world.ask(name, ChangeConfig(add=name))
    assert isinstance(answer, Ok)
    world.restart(name)


def slaves(world):
    return world.with_role("SLAVE")
