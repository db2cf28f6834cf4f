"""Elections, votes and log ends of one node, read off its messages and its disk.

* ``elected`` (term, voters): the first heartbeat of a reign that leaves; the voters are those whose ballots arrived;
* ``vote`` (candidate): a ballot that is a vote leaves;
* ``commit`` (index): what a leader announces to be on a majority, where that rises within its reign;
* ``log_append``, ``log_truncate``: what was carried out on the log file.

Guarantees: the term is the one in heartbeats: 0, unless ``local_term`` shows rounds. Out of scope: a reign that ends
before a heartbeat leaves.
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.bully import messages as m
from dethrone.clusters.targets.zk_ephemeral.witness import ZkWitness
from dethrone.harness.core.machine import DiskImage, Witnessed


class BullyWitness(ZkWitness):
    """The witness of one node."""

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation has no reign."""
        self._reign = 0
        self._told = (0, 0)
        self._voters: dict[int, set[str]] = {}
        return super().booted(disk)

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """A reign, a vote, or a commit."""
        if isinstance(body, m.Heartbeat) and body.reign not in (0, self._reign):
            self._reign = body.reign
            voters = self._voters.pop(max(self._voters, default=0), set())
            self._voters.clear()
            return [Witnessed("elected", body.term, {"voters": sorted(voters | ({self._node} if voters else set()))})]
        if isinstance(body, m.Ballot) and body.vote > 0:
            return [Witnessed("vote", 0, {"candidate": to})]
        if isinstance(body, m.Entries) and body.commit > (self._told[1] if self._told[0] == body.reign else 0):
            self._told = (body.reign, body.commit)
            return [Witnessed("commit", 0, {"index": body.commit})]
        return []

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """A ballot for this node."""
        if isinstance(body, m.Ballot) and body.vote > 0:
            self._voters.setdefault(body.round, set()).add(src)
        return []
