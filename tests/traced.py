"""A traced event, with what a test does not care about filled in."""

from __future__ import annotations

from typing import Any

from dethrone.harness.core.clock import Span
from dethrone.harness.core.events import Traced


def traced(name: str, data: dict[str, Any] | None = None, **more: Any) -> Traced:
    """An event of the first node's core at moment 0, but for what is given."""
    given = {"seq": 0, "t": 0, "span": Span(0, 0), "node": "n1", "incarnation": 1, "n": 1, "term": 0, "role": ""}
    return Traced(**{**given, "source": "core", **more}, name=name, data=data or {})
