"""Invocations and returns of client operations as columns; their values are decoded when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dethrone.harness.core.columns import Codes, Dictionary, Ints, ints
from dethrone.harness.core.events import Invoke, Return

Values = Callable[[Ints | None], Sequence[Any]]
"""The values of the rows at these places; None: of all."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Invocations."""

    seq: Ints
    t: Ints
    group: Codes
    op: Ints
    process: Ints
    f: Codes
    target: Codes
    values: Values


@dataclass(frozen=True, eq=False)
class Returned:
    """Returns."""

    seq: Ints
    t: Ints
    op: Ints
    status: Codes
    node: Codes
    values: Values


def asked_of(rows: Sequence[Invoke], words: Dictionary) -> Asked:
    """The columns of these invocations."""
    return Asked(
        seq=ints([row.seq for row in rows]),
        t=ints([row.t for row in rows]),
        group=words.coded([row.group for row in rows]),
        op=ints([row.op for row in rows]),
        process=ints([row.process for row in rows]),
        f=words.coded([row.f for row in rows]),
        target=words.coded([row.target for row in rows]),
        values=lambda places: [rows[place].value for place in _places(places, rows)],
    )


def returned_of(rows: Sequence[Return], words: Dictionary) -> Returned:
    """The columns of these returns."""
    return Returned(
        seq=ints([row.seq for row in rows]),
        t=ints([row.t for row in rows]),
        op=ints([row.op for row in rows]),
        status=words.coded([row.status for row in rows]),
        node=words.coded([row.node for row in rows]),
        values=lambda places: [rows[place].value for place in _places(places, rows)],
    )


def _places(places: Ints | None, rows: Sequence[Any]) -> Iterable[int]:
    return range(len(rows)) if places is None else places.tolist()
