"""What becomes of packets on links of bad quality: when each arrives, how often, and whether whole. Pure.

Guarantees: packets of one source keep their order, unless they are chosen to be overtaken; what waits is bounded
(``WAITING_MAX``), and packets beyond that pass at once and are counted; a packet that is held back stays so, however
often TCP sends it again. Probes of the agents (UDP at their port) suffer all that others do, but are never held back.
Out of scope: where packets come from (``nfqueue``), and whose they are.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dethrone.clusters.agent.host.common import SECOND
from dethrone.clusters.agent.host.nfqueue import Packet, Verdict

WAITING_MAX = 1 << 14
"""The most packets that wait at once, of all sources."""
BACKLOG_NS = SECOND
"""A packet that a rate would keep waiting for longer is dropped, as by a router whose queue is full."""
SHAPES = (
    *("delay_ns", "jitter_ns", "loss_percent", "duplicate_percent", "reorder_percent", "reorder_ns"),
    *("hold", "corrupt_percent", "rate_kbit_per_s"),
)
"""The quality of one link: see ``LinkQuality`` of the harness."""
COUNTS = (
    *("seen", "probes", "lost", "duplicated", "reordered", "corrupted", "overrun"),
    *("held", "released", "repeated"),
)
"""What is counted of each source: packets, agents' probes among them, and what became of them. ``overrun``: beyond the
rate's backlog; ``held``: held back so far; ``released``: later; ``repeated``: sent again while held back."""
TCP_PROTOCOL, UDP_PROTOCOL = 6, 17


class Parsed(NamedTuple):
    """What is known of a packet: its source (4 or 16 bytes), its protocol, ports, TCP's numbers, its payload's place.

    ``message``: it carries data; ``end``: the TCP sequence number after its data.
    """

    source: bytes
    protocol: int
    ports: tuple[int, int]
    sequence: int
    end: int
    message: bool
    body: int


def parse_packet(packet: Packet) -> Parsed | None:
    """Parse an IPv4 or IPv6 packet; None for anything else. Extension headers of IPv6 are not looked through."""
    data = packet.data
    version = data[0] >> 4 if data else 0
    if version == 4 and len(data) >= 20:
        source, protocol, at = data[12:16], data[9], (data[0] & 15) * 4
    elif version == 6 and len(data) >= 40:
        source, protocol, at = data[8:24], data[6], 40
    else:
        return None
    if protocol == UDP_PROTOCOL and len(data) >= at + 8:
        ports = struct.unpack_from(">HH", data, at)
        return Parsed(source, protocol, ports, 0, 0, message=True, body=at + 8)
    if protocol == TCP_PROTOCOL and len(data) >= at + 20:
        source_port, port, sequence, _, offset = struct.unpack_from(">HHLLB", data, at)
        body = at + (offset >> 4) * 4
        length = max(0, packet.length - body)
        end = sequence + length & 0xFFFFFFFF
        return Parsed(source, protocol, (source_port, port), sequence, end, message=length > 0, body=body)
    return Parsed(source, protocol, (0, 0), 0, 0, message=False, body=at)


class _Held(NamedTuple):
    number: int
    ports: tuple[int, int]
    sequence: int
    end: int


class LinkPackets:
    """The packets of one source: the quality of its link, what waits, and the counts (``COUNTS``)."""

    def __init__(self, quality: Mapping[str, int]) -> None:
        self.quality = quality
        self.counts = dict.fromkeys(COUNTS, 0)
        self.held: list[_Held] = []
        self.free_ns = 0
        """When a rate has room again."""
        self.last_ns = 0
        """When the last packet that keeps the order arrives."""

    def repeats(self, seen: Parsed) -> bool:
        """Whether TCP sends again what is held back."""
        return any(
            held.ports == seen.ports and (seen.sequence - held.sequence) % 2**32 < (held.end - held.sequence) % 2**32
            for held in self.held
        )


class Waiting(NamedTuple):
    """A packet on its way: when it arrives, in which order, whose it is; ``copy``: one more of it."""

    at: int
    order: int
    lane: LinkPackets
    verdict: Verdict
    copy: bytes


class Shaper:
    """All links of one host. ``probe_port``: of the agents; ``chance``: draws from 0 (included) to 1.

    ``overflow``: packets that passed because too many waited.
    """

    def __init__(self, probe_port: int, chance: Callable[[], float]) -> None:
        self._probe_port, self._chance = probe_port, chance
        self._waiting: list[Waiting] = []
        self._order = 0
        self.lanes: dict[str, LinkPackets] = {}
        self._sources: dict[bytes, LinkPackets] = {}
        self.overflow = 0

    @property
    def waiting(self) -> int:
        """How many packets of the kernel's queue are not decided yet."""
        return sum(not one.copy for one in self._waiting) + sum(len(lane.held) for lane in self.lanes.values())

    @property
    def next_ns(self) -> int | None:
        """When the next packet arrives."""
        return self._waiting[0].at if self._waiting else None

    @property
    def whole(self) -> bool:
        """Whether packets are changed or copied, so that all of each is needed."""
        return any(lane.quality["duplicate_percent"] or lane.quality["corrupt_percent"] for lane in self.lanes.values())

    @property
    def merged(self) -> bool:
        """Whether packets may stay as the sender's kernel merged them: nothing is done to single ones."""
        single = set(SHAPES) - {"delay_ns", "jitter_ns"}
        return not any(lane.quality[name] for lane in self.lanes.values() for name in single)

    def configure(self, links: Mapping[str, Mapping[str, Any]]) -> list[Verdict]:
        """Shape these links: source's name → ``quality``, ``addresses`` (bytes). Returns what passes at once.

        Counts of links that stay are kept. What waits on a link that is no longer shaped passes, in its order.
        """
        before, self.lanes, self._sources = self.lanes, {}, {}
        for name, link in links.items():
            lane = self.lanes[name] = before.pop(name, LinkPackets(link["quality"]))
            lane.quality = link["quality"]
            self._sources.update(dict.fromkeys(link["addresses"], lane))
        passing: list[Verdict] = []
        gone = {id(lane) for lane in before.values()}
        if gone:
            passing = [one.verdict for one in sorted(self._waiting) if id(one.lane) in gone and not one.copy]
            self._waiting = [one for one in self._waiting if id(one.lane) not in gone]
            heapq.heapify(self._waiting)
        for lane in (*before.values(), *(lane for lane in self.lanes.values() if not lane.quality["hold"])):
            passing += [Verdict(held.number, passes=True) for held in lane.held]
            lane.counts["released"] += len(lane.held)
            lane.held = []
        return sorted(passing)

    def arrive(self, now_ns: int, packet: Packet) -> Verdict | None:
        """A packet came: its verdict, or None if it waits for one (``due``)."""
        seen = parse_packet(packet)
        lane = None if seen is None else self._sources.get(seen.source)
        passes = Verdict(packet.number, passes=True)
        if seen is None or lane is None:
            return passes
        quality, counts = lane.quality, lane.counts
        counts["seen"] += 1
        probe = seen.protocol == UDP_PROTOCOL and self._probe_port in seen.ports
        counts["probes"] += probe
        if self._drawn(quality["loss_percent"]):
            counts["lost"] += 1
            return Verdict(packet.number, passes=False)
        if len(self._waiting) + len(lane.held) >= WAITING_MAX:
            self.overflow += 1
            return passes
        if quality["hold"] and seen.message and not probe:
            if lane.repeats(seen):
                counts["repeated"] += 1
                return Verdict(packet.number, passes=False)
            if len(lane.held) < quality["hold"]:
                counts["held"] += 1
                lane.held.append(_Held(packet.number, seen.ports, seen.sequence, seen.end))
                return None
        return self._timed(now_ns, packet, seen, lane)

    def _timed(self, now_ns: int, packet: Packet, seen: Parsed, lane: LinkPackets) -> Verdict | None:
        quality, counts = lane.quality, lane.counts
        at, verdict = now_ns, Verdict(packet.number, passes=True)
        if quality["rate_kbit_per_s"]:
            begin = max(now_ns, lane.free_ns)
            if begin - now_ns > BACKLOG_NS:
                counts["overrun"] += 1
                return Verdict(packet.number, passes=False)
            at = lane.free_ns = begin + packet.length * 8_000_000 // quality["rate_kbit_per_s"]
        if self._drawn(quality["corrupt_percent"]):
            counts["corrupted"] += 1
            verdict = Verdict(packet.number, passes=True, data=self._corrupted(packet.data, seen.body))
        at += quality["delay_ns"]
        at += self._below(quality["jitter_ns"] + 1)
        if self._drawn(quality["duplicate_percent"]) and len(packet.data) == packet.length:
            counts["duplicated"] += 1
            self._wait(at + self._below(quality["reorder_ns"]), lane, verdict, packet.data)
        if self._drawn(quality["reorder_percent"]):
            counts["reordered"] += 1
            at += self._below(quality["reorder_ns"] + 1)
        else:
            at = lane.last_ns = max(at, lane.last_ns)
        if at <= now_ns:
            return verdict
        self._wait(at, lane, verdict, b"")
        return None

    def _corrupted(self, data: bytes, body: int) -> bytes:
        """The packet with one bit of its payload (or, without one, of its header) flipped; checksums stay."""
        first = body if body < len(data) else max(0, min(len(data) - 1, 20))
        at = first + self._below(len(data) - first)
        return data[:at] + bytes([data[at] ^ 1 << self._below(8)]) + data[at + 1 :]

    def _drawn(self, percent: int) -> bool:
        return percent > 0 and self._chance() * 100 < percent

    def _below(self, most: int) -> int:
        return int(self._chance() * most) if most > 1 else 0

    def _wait(self, at: int, lane: LinkPackets, verdict: Verdict, copy: bytes) -> None:
        self._order += 1
        heapq.heappush(self._waiting, Waiting(at, self._order, lane, verdict, copy))

    def due(self, now_ns: int) -> tuple[list[Verdict], list[bytes]]:
        """What arrives now: verdicts, and copies of packets that are to arrive once more."""
        verdicts, copies = [], []
        while self._waiting and self._waiting[0].at <= now_ns:
            one = heapq.heappop(self._waiting)
            if one.copy:
                copies.append(one.copy)
            else:
                verdicts.append(one.verdict)
        return verdicts, copies
