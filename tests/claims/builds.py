"""The builds behind the names of flips: each is a class of rules in ``flips/PROTOCOL.py``, loaded from that file as a
user's own ``--variant path/to/file.py:Class`` is.

Guarantees: a flip that is also one of the product's planted bugs is that bug. Out of scope: what a flip breaks, and
whether its claim's test turns red.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

FILES = Path(__file__).resolve().parent / "flips"


def flips_of(system: str) -> Mapping[str, type[Any] | str]:
    """Name → rules of the flips of that system, or the planted bug that breaks the same rule."""
    found: Mapping[str, type[Any] | str] = import_module(f"tests.claims.flips.{system.replace('-', '_')}").FLIPS
    return found


def build_of(system: str, flip: str) -> str:
    """The variant that is this flip, in the words of ``--variant``."""
    rules = flips_of(system).get(flip, flip)
    if isinstance(rules, str):
        return rules
    module = import_module(f"tests.claims.flips.{system.replace('-', '_')}")
    name = next(name for name, value in vars(module).items() if value is rules)
    return f"{FILES / system.replace('-', '_')}.py:{name}"
