"""Before a command does anything: going where a backend's hosts can be made.

Promises: nothing for a backend that makes them from anywhere; an unknown name is left to whoever loads it. Leaves out
callers that are no commands of ours: a test runner cannot be started over, and is told so by ``Backend.available``.
"""

from __future__ import annotations

from dethrone.harness.core import registry
from dethrone.harness.core.interfaces import Entering


def enter(backend: str) -> None:
    """Enter the backend's place; this process may begin again there. Raises MissingCapability."""
    if backend in registry.names(registry.BACKENDS):
        loaded = registry.load(registry.BACKENDS, backend)
        if isinstance(loaded, Entering):
            loaded.enter()
