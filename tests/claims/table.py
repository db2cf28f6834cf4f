"""All claims of all protocols, and the packaged table of them: ``clusters/systems/claims.json``.

    python -m tests.claims.table        write the table again

Each module of this directory that has ``CLAIMS`` is taken, and the test of a claim is found by its name.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import msgspec

from dethrone.clusters.systems.claims import Row
from tests.claims.claim import Claim

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "clusters" / "systems" / "claims.json"
_TEST = re.compile(r"^def (test_claim_(\d+|[a-z]+)_(\d+)_\w+)\(", re.MULTILINE)
_STATED = re.compile(r"^CLAIMS\b", re.MULTILINE)

DOCUMENTARY = (
    Claim(
        number="1-50",
        kind="architecture",
        system="other products",
        text="Which product uses which algorithm: Kafka went from ZooKeeper to Raft, MongoDB from the bully algorithm"
        " to Raft, etcd is built on Raft, MySQL's group replication and Chubby on Paxos, ZooKeeper on its own ZAB.",
        level="documentation",
    ),
)
"""Claims about no protocol of ours: there is nothing to run."""


def gather() -> tuple[Claim, ...]:
    """Every claim of every protocol, and the documentary ones, by number."""
    found: list[Claim] = list(DOCUMENTARY)
    for file in sorted(HERE.glob("*.py")):
        if _STATED.search(file.read_text(encoding="utf-8")):
            found += importlib.import_module(f"tests.claims.{file.stem}").CLAIMS
    return tuple(sorted(found, key=lambda claim: (_place(claim.number), claim.system)))


def named_tests(folder: Path = HERE) -> dict[str, str]:
    """Number → the test of that claim, ``file::name``."""
    out: dict[str, str] = {}
    for file in sorted(folder.glob("test_*.py")):
        for match in _TEST.finditer(file.read_text(encoding="utf-8")):
            out.setdefault(f"{match[2].upper()}-{match[3]}", f"{file.name}::{match[1]}")
    return out


def row(claim: Claim, tests: dict[str, str]) -> Row:
    """The claim as the table has it."""
    test = tests.get(claim.number, "")
    untested = "documentation" if claim.level == "documentation" else "no test"
    return Row(
        number=claim.number,
        kind=claim.kind,
        system=claim.system,
        text=claim.text,
        level=claim.level,
        flip=claim.flip or "",
        test=test,
        status="tested" if test else untested,
    )


def table() -> bytes:
    """The packaged table, byte by byte."""
    tests = named_tests()
    lines = ",\n".join(msgspec.json.encode(row(claim, tests)).decode() for claim in gather())
    return f"[\n{lines}\n]\n".encode()


def _place(number: str) -> tuple[bool, int, str, int]:
    """Numbered sources first, then those with a name, such as ``ZAB-1``."""
    source, _, place = number.rpartition("-")
    named = not source.isdigit()
    return named, 0 if named else int(source), source, int(place)


if __name__ == "__main__":
    TABLE.write_bytes(table())
