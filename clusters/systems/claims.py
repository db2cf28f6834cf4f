"""What the sources of the protocols claim: the packaged table ``claims.json``.

Each claim is stated there, once; ``python -m tests.claims.table`` writes the names of the tests (``tests/claims``)
into it, and a test holds them equal. Out of scope: running those tests.
"""

from __future__ import annotations

from importlib.resources import files

import msgspec


class ClaimRow(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, and how it is tested. ``status``: ``tested``, ``no test`` or ``documentation`` (nothing can be run)."""

    number: str
    kind: str
    system: str
    text: str
    level: str
    flip: str
    test: str
    status: str


class Claims:
    """For ``dethrone list claims``."""

    def rows(self) -> list[tuple[str, ...]]:
        """(number, kind, system, claim, level, flip, test, status) of each claim."""
        table = msgspec.json.decode((files(__package__) / "claims.json").read_bytes(), type=list[ClaimRow])
        return [msgspec.structs.astuple(row) for row in table]


CLAIMS = Claims()
