"""The claims of all protocols, gathered: ``clusters.protocols.*.claims.CLAIMS``, in the order of their numbers.

Promises: a protocol without claims is passed over; a claim's test is looked for where the sources lie (a wheel has no
tests: then it is not named, and the status says only what kind of claim it is). Leaves out running tests.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

import clusters.protocols
from clusters.protocols.claims import Claim

_TEST = re.compile(r"^def (test_claim_(\d+)_(\d+)_\w+)\(", re.MULTILINE)
TESTS = Path(__file__).parents[__name__.count(".")] / "tests" / "claims"


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
    """Every claim of every protocol, and the documentary ones."""
    found: list[Claim] = list(DOCUMENTARY)
    for package in pkgutil.iter_modules(clusters.protocols.__path__):
        name = f"clusters.protocols.{package.name}.claims"
        if package.ispkg and importlib.util.find_spec(name) is not None:
            found += importlib.import_module(name).CLAIMS
    return tuple(sorted(found, key=lambda claim: (_place(claim.number), claim.system)))


def named_tests(folder: Path = TESTS) -> dict[str, str] | None:
    """Number → the test of that claim, ``file::name``; None where there are no tests."""
    if not folder.is_dir():
        return None
    out: dict[str, str] = {}
    for file in sorted(folder.glob("test_*.py")):
        for match in _TEST.finditer(file.read_text(encoding="utf-8")):
            out.setdefault(f"{match[2]}-{match[3]}", f"{file.name}::{match[1]}")
    return out


class Claims:
    """What ``dethrone list claims`` asks for."""

    def rows(self) -> list[tuple[str, ...]]:
        """(number, kind, system, claim, level, flip, test, status) of each claim.

        Status: ``documentation`` (there is nothing to run), ``tested``, ``no test``, or ``tests not here``.
        """
        known = named_tests()
        return [_row(claim, known) for claim in gather()]


def _row(claim: Claim, known: dict[str, str] | None) -> tuple[str, ...]:
    test = "" if known is None else known.get(claim.number, "")
    if test:
        status = "tested"
    elif claim.level == "documentation":
        status = "documentation"
    else:
        status = "tests not here" if known is None else "no test"
    return claim.number, claim.kind, claim.system, claim.text, claim.level, claim.flip or "", test, status


def _place(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in number.split("-") if part.isdigit())


CLAIMS = Claims()
