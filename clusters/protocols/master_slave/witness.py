"""Log ends of one broker, read off its disk. There is no vote, no election and no commit to witness.

Promises: what was carried out on the log file, whatever the core says.
"""

from __future__ import annotations

from typing import Any

from clusters.protocols.zk_ephemeral.witness import ZkWitness
from harness.core.machine import Witnessed


class MsWitness(ZkWitness):
    """The witness of one node."""

    __slots__ = ()

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """Nothing that is sent decides anything."""
        del to, body
        return []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """As above."""
        del src, body
        return []
