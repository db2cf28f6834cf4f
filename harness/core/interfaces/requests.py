"""Faults that do nothing to hosts: they ask the system itself for something, as its operators do.

Guarantees: pure; a kind says what is asked and what shows that it came about, and never sends anything. Out of scope:
sending (``dethrone.harness.core.world.Request``), and until when an effect is awaited.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from dethrone.harness.core.interfaces.system import OpOutcome, Reading
from dethrone.harness.core.interfaces.workload import OpPlan


@runtime_checkable
class Requesting(Protocol):
    """A kind of fault that is a request. It happens at once, and nothing of it is left to heal."""

    def request(self, victims: tuple[str, ...], params: Mapping[str, Any]) -> OpPlan:
        """The operation, one of its system's, and the node that is asked."""

    def shown(
        self, victims: tuple[str, ...], params: Mapping[str, Any], answer: OpOutcome, node: str, reading: Reading
    ) -> bool:
        """Whether what ``node`` said shows that it came about. It said so after the request was sent, and in a later
        term than the node that was asked was in. ``answer``: ``ok`` or ``info``, as a refusal ends the matter."""
