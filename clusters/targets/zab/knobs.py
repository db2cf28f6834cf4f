"""The knobs of the ZAB target; each may also be spelled as ZooKeeper spells it (``tickTime``, ``initLimit`` ...).

Source: Apache ZooKeeper's sample configuration and FastLeaderElection; ``epoch_mismatch`` and ``time_factor`` are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from dethrone.clusters.targets.kit.knobs import KnobTable, Settings, one_of, time, whole
from dethrone.harness.core.clock import Ns


class ZabKnobs(Settings, frozen=True, kw_only=True):
    """One ensemble's settings."""

    tick_time: Annotated[Ns, time("2000", "the unit of the limits; a leader pings every half of it")]
    init_limit: Annotated[int, whole("10", "ticks that each wait of discovery and synchronization may take")]
    sync_limit: Annotated[int, whole("5", "ticks of silence, or without an ack, that end a connection")]
    finalize_wait: Annotated[Ns, time("200", "quiet time before a vote is decided")]
    min_notification_interval: Annotated[Ns, time("200", "the first wait before votes are sent again; it doubles")]
    max_notification_interval: Annotated[Ns, time("60000", "the longest such wait")]
    connect_tries: Annotated[int, whole("5", "how often a follower tries to reach its leader")]
    connect_wait: Annotated[Ns, time("100", "pause between two tries")]
    epoch_mismatch: Annotated[
        str, one_of("start", ("start", "refuse"), "a log that is ahead of currentEpoch, after a crash in a sync")
    ]

    @property
    def init_ns(self) -> Ns:
        """InitLimit as time."""
        return self.init_limit * self.tick_time

    @property
    def sync_ns(self) -> Ns:
        """SyncLimit as time."""
        return self.sync_limit * self.tick_time

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """See `Settings`."""
        if self.min_notification_interval > self.max_notification_interval:
            yield "min_notification_interval_ms is above max_notification_interval_ms", "exchange the two"


KNOBS = KnobTable("zab", ZabKnobs, profiles={"zab": {}})
