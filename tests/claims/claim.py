"""What the sources of a protocol claim about it, as data: number, kind, statement, level of its test, and its flip.

A *flip* is a build of the core that breaks the very rule of the claim; with it the claim's test must turn red. The
claims of a protocol are in ``tests/claims/PROTOCOL.py``, its flips in ``flips/PROTOCOL.py``, its tests in
``test_PROTOCOL.py``; ``table`` gathers the claims and writes what ``dethrone list claims`` shows.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["safety", "liveness", "timing", "architecture"]
Level = Literal["vector", "order", "restart", "timing", "cluster", "documentation"]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered claim. ``number`` is ``<source>-<n>``; ``flip`` is required for kind safety unless documentary."""

    number: str
    kind: Kind
    system: str
    text: str
    level: Level
    flip: str | None = None
