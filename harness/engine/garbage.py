"""When the cyclic garbage collector looks: never within a simulated run, quickly between two of them.

A run makes some hundred thousand objects and few cycles (its world is one); looking for cycles among them costs a tenth
of it and finds nothing. Promises: the collector is afterwards as it was before. Leaves out everything that reference
counts see to.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

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


def sweep() -> None:
    """Within ``no_garbage``, behind a run of which nothing is held any more: free what is left of its world."""
    gc.collect(YOUNGEST)
