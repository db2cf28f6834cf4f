"""When the cyclic garbage collector runs: never within a simulated run, quickly between some of them.

A run makes some hundred thousand objects and few cycles (its world is one); the search for cycles takes a tenth of its
time and finds nothing. Guarantees: afterwards the collector is as it was before. Reference counts free the rest.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
YOUNGEST = 0


@contextmanager
def no_garbage() -> Iterator[None]:
    """Without the collector; may be nested."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def swept(items: Iterable[T], *, every: int = 8) -> Iterator[T]:
    """The items, without the collector while each is worked on; now and then what is left of their worlds is freed.

    It looks at the youngest objects only: those that have come since it looked last.
    """
    with no_garbage():
        for number, item in enumerate(items, start=1):
            yield item
            if number % every == 0:
                gc.collect(YOUNGEST)
