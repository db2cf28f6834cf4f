"""Proves links of bad quality, and their heal, by bursts of datagrams between the hosts themselves.

A link is as wanted once a burst over it looks so (``shaped``): what arrives, how late by the clocks of both ends, how
often, in which order and how fast. Guarantees: only links that change are judged, those of all hosts at once; a burst
that chance or a stall spoiled is sent again before it counts; bounded. Out of scope: cuts (``confirm``), and links that
are cut besides.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from dethrone.clusters.agent.shaped import PROVABLE_NS, Arrived, burst_of, is_certain, time_of, wrong
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.hoststate import HostState, LinkQuality

GRACE_NS = (60 * MS, 200 * MS, 500 * MS)
"""How long each round waits for datagrams beyond the time that their link may take."""
CLIENT = "client"

Links = dict[str, dict[str, LinkQuality | None]]
"""Host → source → the quality that the link between them has now; None: a plain link."""


def changed_links(before: Mapping[str, HostState], wants: Mapping[str, HostState]) -> Links:
    """The links into these hosts that are not as they were, except those that are cut now."""
    out: Links = {}
    for host, want in wants.items():
        was, now = before[host].suffered, want.suffered
        old, new = ({link.src: link for link in state.links} for state in (was, now))
        reopened = set(was.cuts) & new.keys()
        sources = {src for src in old.keys() | new.keys() if old.get(src) != new.get(src)} | reopened
        links = {src: new.get(src) for src in sorted(sources - set(now.cuts))}
        if links:
            out[host] = links
    return out


def without_messages(state: HostState) -> HostState:
    """The same without what becomes of messages inside a node, and without links that are plain then."""
    if not state.links:
        return state
    plain = (replace(link, duplicate_percent=0, reorder_percent=0, reorder_ns=0, hold=0) for link in state.links)
    return replace(state, links=tuple(link for link in plain if link != LinkQuality(src=link.src)))


class LinkProof:
    """The rounds of one transaction. ``result``: the result of an agent's future, or why there is none."""

    def __init__(self, hosts: Mapping[str, Any], links: Links, result: Callable[[Any], Any]) -> None:
        self._hosts = hosts
        self._links = links
        self._result = result
        self.problems: dict[str, dict[str, str]] = {}
        """Host → source → what is wrong with their link; "" if nothing is."""
        self.found: dict[str, dict[str, Any]] = {host: {} for host in links}
        """Host → source → what arrived of the last burst."""

    def prove(self, deadline: float) -> None:
        """Run rounds until every link is as wanted, no round is left, or it is ``deadline`` (monotonic, s)."""
        open_links = self._provable()
        for grace_ns in GRACE_NS:
            if not open_links or time.monotonic() > deadline:
                return
            self._round(open_links, grace_ns)
            open_links = {
                host: {src: quality for src, quality in links.items() if self.problems[host][src]}
                for host, links in open_links.items()
            }
            open_links = {host: links for host, links in open_links.items() if links}

    def _provable(self) -> Links:
        out: Links = {}
        for host, links in self._links.items():
            self.problems[host] = dict.fromkeys(links, "no probe was sent")
            for src, quality in links.items():
                if time_of(quality) > PROVABLE_NS:
                    self.problems[host][src] = f"more than {PROVABLE_NS // SECOND} s cannot be proved"
                else:
                    out.setdefault(host, {})[src] = quality
        return out

    def _round(self, links: Links, grace_ns: Ns) -> None:
        nonce = secrets.randbits(62)
        ready = {host: self._result(begin(self._hosts[host].send_burst_async, nonce, {})) for host in links}
        sent = self._sent(nonce, links)
        reads = {}
        for host, wanted in links.items():
            certain = all(is_certain(quality) for quality in wanted.values())
            expect = {src: burst_of(quality).datagrams for src, quality in wanted.items()}
            expect = expect if certain else {"": 1}  # what may come is waited for until the end
            timeout_ns = max(map(time_of, wanted.values())) + grace_ns
            reads[host] = begin(self._hosts[host].read_burst_async, nonce, expect, timeout_ns=timeout_ns)
        for host, wanted in links.items():
            said = self._result(reads[host])
            for src, quality in wanted.items():
                why = next((one for one in (ready[host], sent.get(src), said) if isinstance(one, str)), "")
                why = why or sent.get(src, {}).get(host, "")
                if why:
                    self.problems[host][src] = f"the link from {src} is not proved: {why}"
                    continue
                found = said["bursts"].get(src)
                arrived = found and Arrived(found, *self._apart(src, host), int(said["checksum_errors"]))
                problem = wrong(quality, burst_of(quality), arrived)
                self.problems[host][src] = problem and f"the link from {src}: {problem}"
                self.found[host][src] = found or {"arrived": 0}

    def _sent(self, nonce: int, links: Links) -> dict[str, Any]:
        """Let every source send its bursts: source → (host → why it got none), or why nothing was sent."""
        plans: dict[str, dict[str, tuple[int, int]]] = {}
        for host, wanted in links.items():
            for src, quality in wanted.items():
                plans.setdefault(src, {})[host] = burst_of(quality)
        asked = {
            src: begin(self._hosts[src].send_burst_async, nonce, plan)
            for src, plan in plans.items()
            if src in self._hosts
        }
        sent = {src: self._result(future) for src, future in asked.items()}
        for src, plan in plans.items():
            if src == CLIENT:
                sent[src] = self._sent_as_client(nonce, plan)
            elif src not in self._hosts:
                sent[src] = "it is no host of this run"
        return sent

    def _sent_as_client(self, nonce: int, plan: Mapping[str, tuple[int, int]]) -> dict[str, str]:
        failed = {}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for host, (count, size) in plan.items():
                for number in range(count):
                    payload, target = self._hosts[host].client_burst(nonce, number, size)
                    try:
                        sender.sendto(payload, target)
                    except OSError as error:
                        failed[host] = f"the harness cannot send to it: {error.strerror}"
        return failed

    def _apart(self, src: str, host: str) -> tuple[Ns, Ns]:
        """What must be added at least, and at most, to the lateness that two clocks show."""
        (lo, hi), (src_lo, src_hi) = self._ahead(host), (0, 0) if src == CLIENT else self._ahead(src)
        return lo - src_hi, hi - src_lo

    def _ahead(self, host: str) -> tuple[Ns, Ns]:
        """By how much the harness' clock is ahead of the host's, at least and at most."""
        lo, hi = self._hosts[host].offset()
        return lo + self._hosts[host].origin_ns, hi + self._hosts[host].origin_ns


def begin(ask: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Ask an agent: a future, or why there is none."""
    try:
        return ask(*arguments, **named)
    except ClusterError as error:
        return error.what
