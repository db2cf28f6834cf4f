"""Nights made for tests and benchmarks of the trends: runs with recovery times and outcomes, drawn from a seed.

Elections take what they take in Raft: the shortest of the others' drawn timeouts, split votes that double it, a factor
that a run's times share (its host), and the next fault that cuts them off.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dethrone.harness.pipeline.nights import Facts, Judged, Run, Sample

SYSTEMS = ("raft", "etcd", "kraft")
FAULTS = ("kill", "pause", "partition")
TIMEOUT_MS = {"raft": 150, "etcd": 1000, "kraft": 2000}
CUT = 1.2
"""The next fault comes after one to three times this many timeouts."""
CHECKERS = ("one-leader-per-term", "leader-stability", "coverage")


def night(date, seed, *, runs=120, slower=1.0, slow_system="raft", bug=0.0, bug_system="raft"):
    """A night of ``runs`` runs of each system. ``slower``: the factor of one system's election timeout; ``bug``: the
    share of one system's runs in which a partition ends in two leaders of one term."""
    rng = np.random.Generator(np.random.PCG64(seed))
    facts = Facts({}, [], [])
    for system in SYSTEMS:
        for number in range(runs):
            name = f"{system}-{date}-{number:04}"
            chosen = FAULTS if rng.random() < 0.5 else tuple(rng.permutation(FAULTS)[:2])
            nodes = 3 if number % 2 else 5
            timeout = TIMEOUT_MS[system] * (slower if system == slow_system else 1.0)
            facts.runs[name] = Run(
                name,
                date,
                system,
                f"sim {nodes}",
                frozenset(chosen),
                {"knobs.election_timeout_ms": f"{timeout:g}", "versions.dethrone": "1"},
                same=f"{system}-{number}",
            )
            host = rng.lognormal(0, 0.08)
            for place in range(4):
                kind = str(rng.choice(chosen))
                facts.samples.extend(recovery(rng, name, kind, place, timeout_ms=timeout * host, nodes=nodes))
            broken = system == bug_system and rng.random() < bug
            facts.judged.append(Judged(name, CHECKERS[0], "fail" if broken else "pass", "partition"))
            if broken and "partition" not in chosen:
                facts.runs[name] = replace(facts.runs[name], faults=frozenset({*chosen, "partition"}))
            flaky = system == "etcd" and rng.random() < 0.02
            facts.judged.append(Judged(name, CHECKERS[1], "fail" if flaky else "pass", "pause" if flaky else "any"))
            if flaky:
                facts.runs[name] = replace(facts.runs[name], faults=facts.runs[name].faults | {"pause"})
            facts.judged.append(Judged(name, CHECKERS[2], "unknown" if rng.random() < 0.03 else "pass"))
    return facts


def recovery(rng, run, kind, place, *, timeout_ms, nodes):
    """The stages of one recovery."""
    detect = timeout_ms * (1 + rng.random(nodes - 1).min())
    elect = detect + rng.exponential(4)
    while rng.random() < 0.1:
        elect += timeout_ms * (1 + rng.random(nodes - 1).min())
    write = elect + rng.exponential(10)
    cut = CUT * rng.uniform(1, 3) * timeout_ms
    for stage, at in (("detect", detect), ("elect", elect), ("write", write)):
        yield Sample(run, kind, stage, int(min(at, cut) * 1e6), bool(at > cut), place)


def joined(*nights):
    """Several nights as one."""
    return Facts(
        {name: run for one in nights for name, run in one.runs.items()},
        [row for one in nights for row in one.samples],
        [row for one in nights for row in one.judged],
    )


def again(pool, date, seed, runs):
    """A night of runs drawn again, with replacement, from a pool of clean ones: as many of each system as ``runs``."""
    rng = np.random.Generator(np.random.PCG64(seed))
    by_system = {}
    for name, run in pool.facts.runs.items():
        by_system.setdefault(run.system, []).append(name)
    facts = Facts({}, [], [])
    for names in by_system.values():
        for number, place in enumerate(rng.integers(0, len(names), runs)):
            old = names[place]
            new = f"{date}-{number:04}-{old}"
            facts.runs[new] = replace(pool.facts.runs[old], run=new, night=date, same="")
            facts.samples.extend(replace(row, run=new) for row in pool.samples[old])
            facts.judged.extend(replace(row, run=new) for row in pool.judged[old])
    return facts


class Pool:
    """Clean runs, by name."""

    def __init__(self, facts):
        self.facts = facts
        self.samples = {name: [] for name in facts.runs}
        self.judged = {name: [] for name in facts.runs}
        for row in facts.samples:
            self.samples[row.run].append(row)
        for row in facts.judged:
            self.judged[row.run].append(row)
