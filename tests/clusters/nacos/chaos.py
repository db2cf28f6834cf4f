"""Random faults on the small simulator, and what the witnesses then prove."""

from __future__ import annotations

from dethrone.clusters.targets import client_api
from dethrone.harness.core.rng import Rng
from tests.clusters.nacos.minisim import Sim


def double_votes(sim: Sim) -> list[tuple[str, int, set[str]]]:
    """Nodes that gave their vote of one term to several candidates."""
    given: dict[tuple[str, int], set[str]] = {}
    for node, seen in sim.witnessed("vote"):
        given.setdefault((node, seen.term), set()).add(seen.data["candidate"])
    return [(node, term, who) for (node, term), who in given.items() if len(who) > 1]


def twice_elected(sim: Sim) -> list[tuple[int, set[str]]]:
    """Terms in which several nodes were elected."""
    by_term: dict[int, set[str]] = {}
    for node, seen in sim.witnessed("elected"):
        by_term.setdefault(seen.term, set()).add(node)
    return [(term, nodes) for term, nodes in by_term.items() if len(nodes) > 1]


def disturb(sim: Sim, rng: Rng, *, steps: int, writes: bool = False) -> None:
    """``steps`` random faults of 20 to 30 protocol seconds each, the nodes healed and started in between or not."""
    sim.start()
    for _ in range(steps):
        name = rng.choice(sim.members)
        match rng.below(6):
            case 0:
                sim.kill(name)
            case 1:
                sim.restart(name)
            case 2:
                sim.cut(name, *[other for other in sim.members if other != name])
            case 3:
                side = rng.sample(sim.members, len(sim.members) // 2)
                for one in side:
                    sim.cut(one, *[other for other in sim.members if other not in side])
            case 4:
                sim.freeze(name)
            case _:
                late = rng.choice(sim.members)
                sim.hold = lambda src, dst, body, late=late: late in {src, dst}
        if writes and sim.nodes[name].core is not None:
            sim.put(name, f"k{rng.below(3)}", rng.below(1000))
            sim.ask(name, client_api.Append("l", rng.below(1000)))
        sim.run(2_000 + rng.below(1_000))
        if rng.chance(2, 3):
            sim.hold = lambda *_: False
            sim.release()
            sim.heal()
            for other in sim.members:
                if sim.nodes[other].frozen:
                    sim.thaw(other)
                if sim.nodes[other].core is None:
                    sim.start(other)
        sim.run(500)
