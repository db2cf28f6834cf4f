"""The claims of all protocols: the packaged table ``clusters/systems/claims.json``, in which each is stated once.

    python -m tests.claims.table        find the tests of the claims again, and write their names

The test of a claim is found by its name. A *flip* is a build of the core that breaks the very rule of the claim; with
it the claim's test must turn red. The flips of a protocol are in ``flips/PROTOCOL.py``, its tests in
``test_PROTOCOL.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from dethrone.clusters.systems.claims import ClaimRow

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "clusters" / "systems" / "claims.json"
_TEST = re.compile(r"^def (test_claim_(\d+|[a-z]+)_(\d+)_\w+)\(", re.MULTILINE)


def claims(system: str | None = None) -> list[ClaimRow]:
    """Every claim, or those of one system, in order."""
    rows = msgspec.json.decode(TABLE.read_bytes(), type=list[ClaimRow])
    return [row for row in rows if system in (None, row.system)]


def named_tests(folder: Path = HERE) -> dict[str, str]:
    """Number → the test of that claim, ``file::name``."""
    out: dict[str, str] = {}
    for file in sorted(folder.glob("test_*.py")):
        for match in _TEST.finditer(file.read_text(encoding="utf-8")):
            out.setdefault(f"{match[2].upper()}-{match[3]}", f"{file.name}::{match[1]}")
    return out


def with_test(claim: ClaimRow, tests: dict[str, str]) -> ClaimRow:
    """The claim with the test that is there now."""
    test = tests.get(claim.number, "")
    untested = "documentation" if claim.level == "documentation" else "no test"
    return msgspec.structs.replace(claim, test=test, status="tested" if test else untested)


def table() -> bytes:
    """The packaged table, byte by byte: numbered sources first, then those with a name, such as ``ZAB-1``."""
    tests = named_tests()
    rows = sorted((with_test(claim, tests) for claim in claims()), key=lambda row: (_place(row.number), row.system))
    lines = ",\n".join(msgspec.json.encode(row).decode() for row in rows)
    return f"[\n{lines}\n]\n".encode()


def _place(number: str) -> tuple[bool, int, str, int]:
    source, _, place = number.rpartition("-")
    named = not source.isdigit()
    return named, 0 if named else int(source), source, int(place)


if __name__ == "__main__":
    TABLE.write_bytes(table())
