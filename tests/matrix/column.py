"""The verdict matrix: for each system and invariant what must hold, what is broken by design, and what shows it.

A column is a system under one profile; a cell is one invariant there, in the words of the system's description and as
proofs. A proof that something **holds**: drawn schedules (or one known sequence) under which its checkers do not fail.
A proof that something is **broken**: one known sequence under which they do. Guarantees: values that are read from
files; what a proof says is enough to run it. Out of scope: running (``tests.matrix.proofs``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.schedule_text import parse_table

COLUMNS = Path(__file__).with_name("columns")
"""The folder of the columns, a TOML file each."""


class Invariant(msgspec.Struct, frozen=True, kw_only=True):
    """One row: what it says, and the checkers that judge it."""

    id: str
    says: str
    checkers: tuple[str, ...]


INVARIANTS = tuple(
    Invariant(id=f"INV-{number}", says=says, checkers=checkers)
    for number, (says, checkers) in enumerate(
        (
            ("at most one node is elected in a term", ("one-leader-per-term",)),
            ("a node gives one vote a term, restarts included", ("one-vote-per-term",)),
            ("a node's term never decreases, restarts included", ("term-never-decreases",)),
            ("a leader holds every entry committed earlier", ("leader-completeness",)),
            ("logs match, and commit never goes back", ("log-matching", "commit-never-regresses")),
            ("acknowledged writes survive", ("acknowledged-survives",)),
            ("no two serving leaders at one moment", ("lease-exclusion",)),
            ("a connected majority gets a leader in time", ("leader-when-owed",)),
            ("a leader cut off from the majority stops leading", ("step-down-without-quorum",)),
            ("after a heal all nodes follow one leader", ("convergence-after-heal",)),
            ("a heal, or a follower's restart, deposes no leader", ("leader-stability",)),
            ("no node is elected without a majority", ("leader-has-majority",)),
        ),
        start=1,
    )
)

Says = Literal["holds", "broken"]


class Demand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A weakness that a system does not promise to be free of is shown by promising it on the system's behalf.

    The proof's checkers are not exempt then; ``tiers``, if given, are the promise's; ``tolerates``: fault kinds that
    are tolerated besides; ``within_ns``: its bound for stepping down, converging and leading, by default the bound in
    which the system promises a leader. ``delay_ns``: links that take so long still count as up.
    """

    tiers: tuple[str, ...] = ()
    tolerates: tuple[str, ...] = ()
    within_ns: Ns | None = None
    delay_ns: Ns | None = None


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One way to show one thing.

    ``by``: the scenario; "": drawn schedules. ``settings``, ``profile``, ``nodes``, ``workload``: over those of the
    column or the scenario. ``observe_ms``: how often nodes are asked, where 100 ms is too seldom. ``checkers``: instead
    of the invariant's. ``metric``: a figure of the run that decides instead of checkers; above ``above`` is broken.
    ``excused``: a failure that the faults excuse counts, too. ``note``: what a reader should know.
    """

    by: str = ""
    settings: Mapping[str, str] = {}
    profile: str | None = None
    nodes: int | None = None
    workload: str | None = None
    checkers: tuple[str, ...] = ()
    observe_ms: int = 0
    metric: str = ""
    above: int = 0
    demand: Demand | None = None
    excused: bool = False
    note: str = ""


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One invariant of one system. ``said``: Y (holds), C (holds with the stated setting), X (broken), – (no matter).

    ``differs``: where runs show something else than ``said``: what, and why.
    """

    invariant: str
    said: str
    holds: tuple[Proof, ...] = ()
    broken: tuple[Proof, ...] = ()
    differs: str = ""

    def proofs(self) -> list[tuple[str, Says, Proof]]:
        """(a name of its own within the column, what it must show, the proof)."""
        out: list[tuple[str, Says, Proof]] = []
        out += [(f"{self.invariant} holds {number}", "holds", proof) for number, proof in enumerate(self.holds)]
        out += [(f"{self.invariant} broken {number}", "broken", proof) for number, proof in enumerate(self.broken)]
        return out


class Column(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One system under one profile. ``settings``, ``faults``, ``workloads``: of drawn schedules; (): as its exam."""

    name: str
    system: str
    profile: str
    settings: Mapping[str, str] = {}
    faults: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    cell: tuple[Cell, ...]


def all_columns() -> list[Column]:
    """Every column, by name. Raises ConfigError for a file that is none."""
    out = []
    for file in sorted(COLUMNS.glob("*.toml")):
        table = parse_table(file.read_bytes(), toml=True, where=file.name)
        out.append(parse_column(table, name=file.stem, where=f"columns/{file.name}"))
    return out


def chosen(names: Sequence[str]) -> list[Column]:
    """The columns of these systems, or with these names; all for none. ConfigError for a name without a column."""
    known = all_columns()
    for name in names:
        if not any(name in (column.name, column.system) for column in known):
            raise unknown_name("column of the matrix", name, [column.name for column in known])
    return [column for column in known if not names or column.name in names or column.system in names]


def parse_column(table: Mapping[str, Any], *, name: str, where: str) -> Column:
    """The column that plain values describe. ConfigError: a mistake, an unknown invariant, one that is missing."""
    raw = {**table, "name": name, "cell": [_cell(cell) for cell in table.get("cell", ())]}
    try:
        column = msgspec.convert(raw, Column)
    except msgspec.ValidationError as error:
        raise ConfigError(f"not a column of the verdict matrix: {error}", where=where) from error
    wanted = [invariant.id for invariant in INVARIANTS]
    if [cell.invariant for cell in column.cell] != wanted:
        raise ConfigError(
            "a column has one cell for each invariant, in order", where=where, next_step=f"they are {', '.join(wanted)}"
        )
    return column


def _cell(raw: Any) -> Any:
    """``within_ms`` and ``delay_ms`` of a demand in ns."""
    if not isinstance(raw, Mapping):
        return raw
    out = dict(raw)
    for says in ("holds", "broken"):
        proofs = []
        for proof in raw.get(says, ()):
            demand = proof.get("demand") if isinstance(proof, Mapping) else None
            if isinstance(demand, Mapping):
                proofs.append({**proof, "demand": {_in_ns(key): _times(key, word) for key, word in demand.items()}})
            else:
                proofs.append(proof)
        if says in raw:
            out[says] = proofs
    return out


def _in_ns(key: str) -> str:
    return key.removesuffix("_ms") + "_ns" if key.endswith("_ms") else key


def _times(key: str, word: Any) -> Any:
    return word * MS if key.endswith("_ms") and isinstance(word, int) else word
