"""Large files that hosts may have before a run asks for them, under the name that their content gives them.

Guarantees: pure. Out of scope: how they come to a host (``dethrone.clusters.docker.brought``).
"""

from __future__ import annotations

import hashlib

LARGE = 1 << 20
"""Bytes from which on a file is large: sending it costs more than asking for it."""


def digest_of(content: bytes) -> str:
    """The name of a file with this content."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()
