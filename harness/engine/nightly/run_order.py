"""What a night runs, and in which order: what failed or changed comes first, and a cut night has seen every cell.

A *cell* is one combination: system, version, nodes, faults, strategy, profile. Guarantees (all pure): the same file,
past and date give the same jobs; cells that failed when they were last run are first, each with the seed that failed;
then those that are new or whose fingerprint changed, then those that were run longest ago; every cell has its turn
before any has its second, so a budget that ends early never skips a cell while another is at its third. ``night`` runs
them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from dethrone.harness.core.verdict import Outcome
from dethrone.harness.engine.nightly.night_file import Entry

Why = Literal["failed before", "changed", "due"]
_RANK: Mapping[Why, int] = {"failed before": 0, "changed": 1, "due": 2}


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One combination. ``key`` names it in all nights; ``fingerprint`` is what a change of it would change."""

    entry: Entry
    version: str | None
    nodes: int
    faults: str | None
    strategy: str
    profile: str | None

    @property
    def key(self) -> str:
        """A name for people and files: ``etcd/3.5/5 nodes/partition+kill/random``."""
        parts = (
            self.entry.system + (f":{self.entry.variant}" if self.entry.variant else ""),
            self.profile,
            self.version,
            f"{self.nodes} nodes",
            (self.faults or "default faults").replace(",", "+"),
            self.strategy,
            None if self.entry.on == "docker" else f"on {self.entry.on}",
            self.entry.workload,
        )
        return "/".join(part for part in parts if part)

    def fingerprint(self, version: str) -> str:
        """A hash of everything that is run, ``version`` of Dethrone included; secrets count by their names."""
        content = msgspec.json.encode([version, msgspec.structs.replace(self.entry, seeds=1), self.key])
        return hashlib.sha256(content).hexdigest()[:16]


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier nights know of a cell: how its last night went, and with what. ``night`` sorts by time."""

    night: str
    outcome: Outcome
    fingerprint: str
    failed_seeds: tuple[int, ...] = ()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a night. ``number`` is its place in the order; ``why``: why the cell stands where it does."""

    number: int
    cell: str
    seed: int
    why: Why


def cells_of(entries: Sequence[Entry]) -> dict[str, Cell]:
    """Key → cell, in the order of the file; a combination that is named twice is one."""
    out: dict[str, Cell] = {}
    for entry in entries:
        for version in entry.versions:
            for profile in entry.profiles:
                for nodes in entry.nodes:
                    for faults in entry.faults:
                        for strategy in entry.strategies:
                            cell = Cell(
                                entry=entry,
                                version=version,
                                nodes=nodes,
                                faults=faults,
                                strategy=strategy,
                                profile=profile,
                            )
                            out.setdefault(cell.key, cell)
    return out


def order(cells: Mapping[str, Cell], past: Mapping[str, Past], *, night: str, version: str) -> list[Job]:
    """All jobs of the night, first things first. ``past``: of cells that were run before, whichever they are now."""
    placed: list[tuple[tuple[int, int, str, int], str, int, Why]] = []
    for place, (key, cell) in enumerate(cells.items()):
        before = past.get(key)
        why = reason(cell, before, version)
        seeds = fresh_seeds(key, night, cell.entry.seeds)
        if before is not None and why == "failed before":
            seeds = list(dict.fromkeys([*before.failed_seeds[:1], *seeds]))[: max(2, cell.entry.seeds)]
        last = before.night if before is not None and why == "due" else ""
        placed += [((turn, _RANK[why], last, place), key, seed, why) for turn, seed in enumerate(seeds)]
    placed.sort(key=lambda one: one[0])
    return [Job(number=number, cell=key, seed=seed, why=why) for number, (_, key, seed, why) in enumerate(placed, 1)]


def reason(cell: Cell, before: Past | None, version: str) -> Why:
    """The place of a cell in the order."""
    if before is not None and before.outcome == "fail":
        return "failed before"
    if before is None or before.fingerprint != cell.fingerprint(version):
        return "changed"
    return "due"


def fresh_seeds(key: str, night: str, count: int) -> list[int]:
    """Seeds of a cell in a night: others each night, the same however often the night is resumed."""
    return [
        int.from_bytes(hashlib.sha256(f"{night}\0{key}\0{number}".encode()).digest()[:4], "big")
        for number in range(count)
    ]
