"""What a soak does: one trial after another, each drawn from the soak's seed and its number. Pure.

Promises: the same seed, number and choice of systems, backends and chaos give the same trial; every trial is bounded.
Out of scope: carrying one out (``harm``, ``run``) and what it came to (``tally``).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dethrone.harness.core.rng import Rng

SYSTEMS = ("raft", "kraft", "dledger", "paxos", "etcd-3.7", "zookeeper")
"""Systems that pass by default: each FAIL of theirs is to be explained."""

OWN = ("raft", "kraft", "dledger", "paxos")
"""Those of them that run on any backend."""

BACKENDS = ("docker", "local", "sim")
CHAOS = ("kill-harness", "kill-agent", "full-disk", "no-descriptors", "no-memory", "kill-worker")
"""What is done to the harness unless ``--chaos`` says otherwise; ``engine`` and ``spark`` only if it names them."""

ASKED_FOR = ("engine", "spark")
KINDS = (
    *("partition", "link", "hold", "kill", "pause", "restart", "stop", "clock"),
    *("disk", "powerloss", "damage", "wipe"),
)
TIME_LIMITS_S = (40, 60, 90)
SPARED_PERCENT = 40
"""So many trials are left alone: they are what must pass, or say why not."""

OWN_LIMIT_S = 180
"""The longest default of a system."""

GRACE_S = 420
"""What a trial may take beyond eight times its limit (the largest time scale, twice over) before it counts as hung."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run, the load beside it, and the harm done to it ``at_s`` after its start ("" : none)."""

    number: int
    system: str
    backend: str
    nodes: int
    seed: int
    faults: tuple[str, ...]
    time_limit_s: int
    """0: the system's own."""
    cpu: int
    fsync: int
    memory_mib: int
    chaos: str
    at_s: float
    seeds: int = 0
    """Of a campaign; 0: a single run."""

    @property
    def bound_s(self) -> float:
        """After so long it hangs."""
        return 8 * 2 * (self.time_limit_s or OWN_LIMIT_S) + GRACE_S

    def words(self, out: str) -> list[str]:
        """The command, without the program."""
        parts = ["--on", self.backend, "--nodes", str(self.nodes)]
        parts += ["--time-limit", f"{self.time_limit_s}s"] if self.time_limit_s else []
        if self.faults:
            parts += ["--faults", ",".join(self.faults)]
        if not self.seeds:
            return ["run", self.system, *parts, "--seed", str(self.seed), "--out", out, "--json"]
        more = ["--engine", "spark"] if self.chaos == "spark" else ["--jobs", "2"]
        return ["campaign", self.system, *parts, "--seeds", f"0..{self.seeds - 1}", *more, "--out", out, "--json"]


def draw(
    seed: int,
    number: int,
    *,
    systems: Sequence[str] = SYSTEMS,
    backends: Sequence[str] = BACKENDS,
    chaos: Sequence[str] = CHAOS,
    load_max: int = 8,
    spared_percent: int = SPARED_PERCENT,
) -> Trial:
    """Trial ``number`` of the soak with this seed."""
    rng = Rng(seed).stream(f"trial-{number}")
    harm = "" if not chaos or rng.stream("spared").chance(spared_percent, 100) else rng.stream("harm").choice(chaos)
    backend = rng.stream("backend").choice(backends)
    campaign = harm in {"kill-worker", "spark"}
    if campaign:
        backend = "sim"
    elif harm == "engine":
        backend = "docker"
    elif harm == "kill-agent" and backend == "sim":
        harm = "kill-harness"  # there is no agent
    known = [system for system in systems if backend == "docker" or system in OWN] or list(OWN)
    faults = rng.stream("faults")
    kinds = () if faults.chance(1, 2) else tuple(sorted(faults.sample(KINDS, faults.between(2, 3))))
    system = rng.stream("system").choice(known)
    limit_s = rng.stream("limit").choice(TIME_LIMITS_S)
    load = rng.stream("load").between(0, load_max)
    cpu = rng.stream("cpu").between(0, load)
    return Trial(
        number=number,
        system=system,
        backend=backend,
        nodes=rng.stream("nodes").choice((3, 5)),
        seed=rng.stream("seed").between(0, (1 << 31) - 1),
        # what a system cannot suffer, or has no room for, is refused: released ones are left with their own kinds
        faults=kinds if system in OWN else (),
        time_limit_s=limit_s if system in OWN else 0,
        cpu=cpu,
        fsync=load - cpu,
        memory_mib=rng.stream("memory").choice((0, 0, 256)),
        chaos=harm,
        at_s=_moment(rng.stream("at"), backend, limit_s),
        seeds=rng.stream("seeds").between(20, 60) if campaign else 0,
    )


def _moment(rng: Rng, backend: str, limit_s: int) -> float:
    """Any time of its course: its start, deployment, faults, judging."""
    longest_ms = 4000 if backend == "sim" else 1000 * (limit_s + 30)
    return rng.between(200, longest_ms) / 1000
