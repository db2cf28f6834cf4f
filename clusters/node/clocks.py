"""The one place of the node process that reads clocks."""

from __future__ import annotations

import time

from dethrone.harness.core.clock import Clocks


def read_clocks() -> Clocks:
    """Both clocks of this process, now, in ns."""
    return Clocks(time.monotonic_ns(), time.time_ns())
