"""The master/slave target in the tests' world, at a sixtieth of the real times."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append, ChangeConfig, NotLeader, Ok
from dethrone.clusters.targets.master_slave.messages import Route
from dethrone.clusters.targets.master_slave.target import TARGET
from tests.world import bench, invariants, world

SCALE = 60
NAMES = ("m", "s1", "s2", "ns")


class Copies(invariants.Leaders):
    """A slave's log is a prefix of its master's; SEND_OK of a synchronous master is on a slave; roles stay."""

    def checked(self):
        world = self.world
        logs = {name: values(world, name) for name in NAMES[:-1]}
        for name in ("s1", "s2"):
            if logs["m"][: len(logs[name])] != logs[name]:
                self.problem(f"the log of {name} is no prefix of its master's")
        copied = {*logs["s1"], *logs["s2"]}
        if world.knobs.broker_role == "SYNC_MASTER" and not world.clients.acknowledged() <= copied:
            self.problem(f"no slave holds all of {world.clients.acknowledged()}")
        roles = [world.boxes[name].status().role for name in NAMES]
        if roles != ["MASTER", "SLAVE", "SLAVE", "NAMESERVER"] or world.notes("role_change"):
            self.problem(f"roles changed: {roles}")


class World(world.Roles):
    """Brokers and name servers; the name servers start first."""

    target = TARGET
    invariants = Copies
    VERBS = (
        *("isolate", "sever", "one_way", "heal", "heal", "kill", "crash_soon", "start_all", "start_all"),
        *("slow", "lossy", "calm", "freeze", "resume_all", "write", "write", "write", "ask_slave", "long"),
    )

    def writers(self, box):
        return ["m"] if self.boxes["m"].alive else []

    def on_ask_slave(self, box, other, ms):
        if self.boxes["s1"].alive:
            self.clients.append("s1")

    def recovers(self):
        """Mend everything, and give it time; whether all logs are the same."""
        self.mend()
        self.run(scaled(120_000))
        self.run(3000)
        self.judge.checked()
        logs = [values(self, name) for name in NAMES[:-1]]
        return logs[0] == logs[1] == logs[2]


class One(bench.Bench):
    """A broker or a name server."""

    target = TARGET
    members = NAMES
    began_ms = 1_000

    def __init__(self, node="m", *, disk=None, slow=False, **more):
        super().__init__(disk, node=node, seed=1, slow_start=slow, **more)


def scaled(ms):
    """Real ms in the world's."""
    return ms // SCALE


def cluster(names=NAMES, *, warm=True, **settings):
    """Registered and copying."""
    world = World(names, time_factor="1/60", **settings)
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
