"""Waiting in tests: for what comes true by itself, with a bound."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any


def until(
    condition: Callable[[], Any], limit_s: float = 20.0, *, what: str = "", process: subprocess.Popen[Any] | None = None
) -> Any:
    """What ``condition`` gives once it gives something; an OSError counts as nothing. It fails after ``limit_s``.

    ``what`` is waited for, in words. ``process``: it fails at once when that has ended.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            found = condition()
        except OSError:
            found = None
        if found:
            return found
        assert process is None or process.poll() is None, f"it ended before {what or 'that came true'}"
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what or condition}"
        time.sleep(0.01)
