"""Links between simulated nodes: directed cuts, delay, loss, and the flows of the real shell's persistent connections.

A link carries what ``src`` sends to ``dst``. Guarantees: messages of one flow arrive in their order, unless a quality
reorders them; a cut drops what arrives while it is there. As on the real transport (``dethrone.clusters.node.tcp``): a
flow is found dead after its user time-out; what was handed to a dead flow is lost, what is sent without one waits for
the next, not for ever; a new flow takes a dial, which comes within one RPC time-out. Request/response transports do not
wait: their calls fail. Out of scope: what the nodes do (``node``), and messages on open links without a quality
(``delivery``). In one point it is purer than TCP: a flow whose acknowledgements alone are cut continues.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Mapping
from typing import Any

from dethrone.clusters.sim.chance import uniform
from dethrone.clusters.sim.links import End, Link, Timeline
from dethrone.clusters.sim.settings import Settings
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.hoststate import HostState, LinkQuality
from dethrone.harness.core.rng import Rng

WAITING_MAX = 1024
MESSAGE_BYTES = 500
"""What a rate counts for each message: messages have no length here."""
USER_TIMEOUT_MIN: Ns = 500 * MS
STALE_MIN: Ns = 500 * MS


class Network:
    """All links of one cluster."""

    def __init__(self, line: Timeline, rng: Rng, settings: Settings, *, rpc_timeout_ns: Ns, flows: bool) -> None:
        self._line = line
        self.flows = flows
        """Whether the transport keeps a flow a peer (else: a call a message)."""
        self.rpc_timeout_ns = rpc_timeout_ns
        self._rng = rng.stream("quality")
        self.delay = uniform(rng, "latency", *settings.latency)
        self._dial = uniform(rng, "dial", 0, min(rpc_timeout_ns, 4_000_000_000))
        self._user_timeout: Ns = max(USER_TIMEOUT_MIN, 4 * rpc_timeout_ns)
        self._stale: Ns = max(STALE_MIN, 4 * rpc_timeout_ns)
        self.links: dict[tuple[str, str], Link] = {}
        self.dropped = 0

    def join(self, nodes: Mapping[str, End]) -> None:
        """Make the links between all of them."""
        for src in nodes.values():
            for dst in nodes.values():
                if src is not dst:
                    link = self.links[src.name, dst.name] = Link(src, dst)
                    src.links[dst.name] = link
                    link.up = not self.flows
                    self._open(link, closed=not link.up)

    # --- messages -------------------------------------------------------------------------------------------------

    def send(self, link: Link, body: Any) -> None:
        """A message is to leave; that of a plain link is spelled out in ``delivery``."""
        if link.closed:
            self._blocked(link, body)
            return
        link.src.leaving(link, body)
        now = self._line.now
        at = now + self.delay()
        quality = link.quality
        if quality is not None:
            late = self._spoil(link, quality, body, at)
            if late is None:
                return
            at = late
        link.last = at = max(at, link.last)
        insort(self._line.agenda, (at, self._line.order(), link.arrive, link, body))

    def _spoil(self, link: Link, quality: LinkQuality, body: Any, at: Ns) -> Ns | None:
        """When a message on a bad link arrives in its order; None: it does not, or elsewhere in it."""
        rng = self._rng
        if quality.loss_percent and rng.chance(quality.loss_percent, 100):
            self.dropped += 1
            return None
        if quality.corrupt_percent and rng.chance(quality.corrupt_percent, 100):
            self.dropped += 1
            return None
        if quality.rate_kbit_per_s:
            link.free = max(link.free, self._line.now) + MESSAGE_BYTES * 8_000_000 // quality.rate_kbit_per_s
            at += link.free - self._line.now
        at += quality.delay_ns
        if quality.jitter_ns:
            at += rng.below(quality.jitter_ns + 1)
        if quality.duplicate_percent and rng.chance(quality.duplicate_percent, 100):
            again = at + self.delay() + rng.below(max(1, quality.reorder_ns))
            self._line.at(again, link.arrive, link, body)
        if quality.reorder_percent and rng.chance(quality.reorder_percent, 100):
            self._line.at(at + rng.below(quality.reorder_ns + 1), link.arrive, link, body)
            return None
        if len(link.held) < quality.hold:
            link.held.append(body)
            return None
        return at

    def missed(self, link: Link, body: Any) -> None:
        """A message in flight reached a link that was closed meanwhile."""
        self.dropped += 1
        if not self.flows:
            link.src.unheard(link, body)

    def _blocked(self, link: Link, body: Any) -> None:
        """A message finds its link closed: lost in a flow not yet known to be dead, or it waits for the next flow."""
        now = self._line.now
        if not self.flows:
            link.src.leaving(link, body)
            link.src.unheard(link, body)
            return
        if link.up and now - link.cut_at >= self._user_timeout:
            link.up = False
        if link.up:
            link.src.leaving(link, body)
            self.dropped += 1
            return
        waiting = link.waiting
        waiting.append((now, body))
        while len(waiting) > WAITING_MAX or now - waiting[0][0] > self._stale:
            waiting.popleft()
            self.dropped += 1

    # --- faults ---------------------------------------------------------------------------------------------------

    def set_host(self, dst: End, before: HostState, after: HostState, *, reset: bool) -> None:
        """The host's cuts and link qualities change."""
        qualities = {quality.src: quality for quality in after.links}
        for link in self.links.values():
            if link.dst is not dst:
                continue
            name = link.src.name
            if (name in before.cuts) != (name in after.cuts):
                self._cut(link, cut=name in after.cuts, reset=reset and name not in (before.lingers or ()))
            if (name in (before.refuses or ())) != (name in (after.refuses or ())):
                self._refuse(link, refused=name in (after.refuses or ()))
            if self.flows and name in (after.resets or ()):
                link.up = False  # its next packet is answered with a reset, and then it waits for a new flow
            quality = qualities.get(name)
            if quality != link.quality:
                link.quality = quality
                self._open(link, closed=link.closed)
                if link.held and (quality is None or not quality.hold):
                    held, link.held = link.held, []
                    for body in held:
                        self._line.at(self._line.now + self.delay(), link.arrive, link, body)

    def _cut(self, link: Link, *, cut: bool, reset: bool) -> None:
        link.cut = cut
        if cut:
            link.cut_at = self._line.now
            self._open(link, closed=True)
            return
        if self.flows and (reset or self._line.now - link.cut_at >= self._user_timeout):
            link.up = False
        self._open(link, closed=not (link.up and link.dst.alive) or (link.refused and not self.flows))
        if not link.up:
            self.dial(link)

    def _refuse(self, link: Link, *, refused: bool) -> None:
        """New flows are refused, or are made again. A call of a transport without flows would be a new one each time:
        ``backend`` refuses such a run."""
        link.refused = refused
        if not self.flows:
            self._open(link, closed=link.cut or refused)
        elif not refused and not link.up and not link.cut:
            self.dial(link)

    def lost(self, node: End) -> None:
        """The process of ``node`` ended: flows to it end at once, what it had not sent yet is gone."""
        for link in self.links.values():
            if link.src is node:
                link.waiting.clear()
                link.held.clear()
            elif link.dst is node:
                link.up = not self.flows
                self._open(link, closed=True)
                link.number += 1

    def booted(self, node: End) -> None:
        """The process of ``node`` listens, and dials."""
        for link in self.links.values():
            if not self.flows:
                if link.dst is node:
                    self._open(link, closed=link.cut or link.refused)
            elif link.src is node or link.dst is node:
                link.up = False
                self._open(link, closed=True)
                self.dial(link, at_once=link.src is node)

    def dial(self, link: Link, *, at_once: bool = False) -> None:
        """A new flow is made as soon as the sender tries again."""
        link.number += 1
        wait = 0 if at_once else self._dial()
        self._line.at(self._line.now + wait + 2 * self.delay(), self._connected, link, link.number)

    def _connected(self, link: Link, number: int) -> None:
        stands = link.up or link.cut or link.refused
        if number != link.number or stands or not (link.src.alive and link.dst.alive):
            return
        now = self._line.now
        link.up = True
        self._open(link, closed=False)
        waiting, link.waiting = link.waiting, deque()
        for since, body in waiting:
            if now - since > self._stale:
                self.dropped += 1
            else:
                link.src.leaving(link, body)
                link.last = max(link.last, now + self.delay())
                self._line.at(link.last, link.arrive, link, body)
        link.src.tell()

    def _open(self, link: Link, *, closed: bool) -> None:
        link.closed = closed
        link.plain = self.flows and not closed and link.quality is None
