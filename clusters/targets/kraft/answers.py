"""The leader's answers to valid fetches, at once or after they were parked.

Guarantees: an answer carries the records after the requested offset, committed or not, and the leader's high watermark;
a parked fetch is answered once. Out of scope: which fetches are valid (`fetching`).

Source: Apache Kafka 3.3.1, KafkaRaftClient (buildFetchResponse) and FetchPurgatory.
"""

from __future__ import annotations

from dethrone.clusters.targets.kraft.leading import Leading
from dethrone.clusters.targets.kraft.messages import CurrentLeader, FetchRequest, FetchResponse
from dethrone.clusters.targets.kraft.node import Node
from dethrone.harness.core.machine import Send


def answer(n: Node, lead: Leading, src: str, m: FetchRequest) -> None:
    """Records from there on, committed or not, and the high watermark."""
    offset = m.fetch_offset
    records = tuple(n.log.entries[offset : offset + n.knobs.max_records_per_fetch])
    leads = CurrentLeader(n.me, n.epoch)
    n.out.append(Send(src, FetchResponse(m.correlation_id, "NONE", lead.hw, 0, leads, records=records)))


def wake(n: Node, lead: Leading, *, everybody: bool = False) -> None:
    """Answer the parked fetches for which there is something new now."""
    end = n.log.end
    for peer, parked in list(lead.parked.items()):
        if everybody or parked.request.fetch_offset < end:
            del lead.parked[peer]
            answer(n, lead, parked.src, parked.request)
