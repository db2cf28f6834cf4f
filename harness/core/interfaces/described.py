"""What a system that a file describes says of the file, besides what every system says (``system``).

``dethrone doctor FILE``, ``init`` and ``list systems`` ask it. Out of scope: the form of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from dethrone.harness.core.interfaces.availability import Available, No
from dethrone.harness.core.interfaces.system import Malformed, NodeSpec, TraceLine


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    """What hosts need and nodes do not bring. ``packages``: Debian's, which an image of hosts gets; ``programs``: those
    that none of these packages brings, so that users do."""

    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


@runtime_checkable
class Described(Protocol):
    """A system that a file describes: how ``dethrone doctor FILE`` goes through it, step by step."""

    def needed(self) -> Needed:
        """Of its hosts."""

    def ports(self, node: NodeSpec) -> Mapping[str, int]:
        """Name → TCP port on which the node listens once it runs."""

    def explain(self, node: NodeSpec, body: bytes) -> Sequence[tuple[str, Available]]:
        """A status answer field by field: ``term = 3``, or what was looked for and not found."""

    def started(self) -> tuple[str, ...]:
        """What a node gets and how it starts, step by step, where there is more to it than one command."""

    def programs(self, node: NodeSpec) -> Sequence[tuple[str, str]]:
        """The key of the file and the program, for each program that must be on the node's host by itself."""

    def told(self) -> tuple[str, ...]:
        """The names of the trace lines that the file says the nodes print."""

    def every_line(self, line: bytes) -> Sequence[TraceLine | Malformed]:
        """What a line of the trace log holds, be it named in the file or not."""

    def trace_name(self, line: TraceLine) -> str:
        """The name by which the file knows the line."""

    def look_at_members(self, node: NodeSpec) -> tuple[str, ...]:
        """The command on a node's host that prints what the others say of its membership, as JSON: ``others``, each
        with ``done``, ``listed``, ``id`` and ``said``. Empty: members do not change."""

    def samples(self) -> Sequence[tuple[str, Any]]:
        """Operations to try on a healthy cluster, in this order."""

    def remarks(self) -> Sequence[tuple[str, Available]]:
        """What the description omits, and what can therefore not be judged."""

    def doubts(self) -> Sequence[tuple[str, No]]:
        """What it claims, and its own ways of looking cannot show, each with why and what to do."""
