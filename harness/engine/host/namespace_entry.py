"""Before a command does anything: enters the place where a backend's hosts can be made.

Guarantees: does nothing for a backend that makes hosts from anywhere; the loader rejects unknown names. Out of scope
are callers other than our commands: a test runner cannot be restarted, and ``Backend.available`` says so.
"""

from __future__ import annotations

from dethrone.harness.core import registry


def enter(backend: str) -> None:
    """Enter the backend's place; this process may begin again there. Raises MissingCapability."""
    if backend in registry.names(registry.BACKENDS):
        registry.load(registry.BACKENDS, backend).traits.enter()
