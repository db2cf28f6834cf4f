"""Memory that was freed goes back to the system.

Guarantees: nothing but the size of the process changes. Arrays that live on lie between those that were freed, so glibc
keeps the gaps: a third of what a long history is judged in. Where there is no glibc, it is left to the allocator.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


def give_back() -> None:
    """Return what was freed. It takes milliseconds."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if (trim := _trim()) is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return found
