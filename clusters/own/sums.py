"""A number out of several places of an answer: ``timeline * 1000 + epoch``, a sum of products of places and numbers.

Guarantees: pure; nothing is evaluated but ``+`` and ``*`` between spaces, so that a place may hold these signs; a part
that is not there, or is no count, makes the whole unknown. Out of scope: brackets, and numbers below zero.
"""

from __future__ import annotations

from collections.abc import Callable

from dethrone.harness.core.errors import ConfigError

PLUS, TIMES = " + ", " * "
LARGEST = 1 << 63
"""A count is below it."""


def is_sum(text: str) -> bool:
    """Whether it is more than one place."""
    return PLUS in text or TIMES in text


def places_in(text: str) -> tuple[str, ...]:
    """The places that it names, in order.

    >>> places_in("raft.timeline * 1000 + epoch"), places_in("raft.0")
    (('raft.timeline', 'epoch'), ('raft.0',))
    """
    if not is_sum(text):
        return (text,)
    return tuple(part for product in _products(text) for part in product if not part.isdecimal())


def count_of(text: str, number: Callable[[str], int | None]) -> int | None:
    """Its value; ``number``: what is at a place, None where there is no count.

    >>> count_of("timeline * 1000 + epoch", {"timeline": 3, "epoch": 2}.get)
    3002
    """
    if not is_sum(text):
        return number(text)
    total = 0
    for product in _products(text):
        value = 1
        for part in product:
            factor = int(part) if part.isdecimal() else number(part)
            if factor is None:
                return None
            value *= factor
        total += value
    return total if total < LARGEST else None


def check_sum(text: str, *, where: str) -> None:
    """Raise ConfigError for a sum with a part that is empty or another sign, or none that is a place."""
    parts = [part for product in _products(text) for part in product] if is_sum(text) else [text]
    if not all(parts) or not places_in(text) or any({"+", "*"} & {*part.split()} for part in parts):
        raise ConfigError(
            f"{text!r} is no place and no sum of places",
            where=where,
            next_step='write it like "timeline * 1000 + epoch": places and whole numbers, + and * between spaces',
        )


def _products(text: str) -> list[list[str]]:
    return [[part.strip() for part in product.split(TIMES)] for product in text.split(PLUS)]
