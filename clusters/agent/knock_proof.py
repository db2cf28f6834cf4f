"""Proves that new connections are refused between hosts, and that they are made again after the heal.

The one host tries to connect to the other: without the fault, that is answered (by a refusal, as nothing listens at
that port), and under it not at all. Guarantees: only links that change are judged; an answer is awaited in several
rounds before it counts as missing; a link over which nothing was answered before the fault proves nothing, and the
evidence says so. Out of scope: connections that exist, which probes and the nodes themselves use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol, runtime_checkable

from dethrone.clusters.agent.host.knocks import KNOCKED, SILENT
from dethrone.clusters.agent.link_proof import begin
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.hoststate import HostState

ROUNDS_S = (0.3, 0.6, 1.5)
"""How long each round waits for answers. After a second TCP sends its first packet again."""
Links = dict[str, set[str]]
"""Host → the hosts that connect to it."""


@runtime_checkable
class KnockingHost(Protocol):
    """A host that can try to connect to others: ``agent_host.AgentHost``."""

    def knock_async(self, peers: list[str], *, timeout_ns: Ns) -> Future[Mapping[str, str]]:
        """Begin to try each of ``peers``; the result: peer → ``answered``, ``silent`` or what went wrong."""


def refused(state: HostState) -> set[str]:
    """Who can make no new connection in this state, and is not cut besides."""
    suffered = state.suffered
    return set(suffered.refuses or ()) - set(suffered.cuts)


def changing(before: Mapping[str, HostState], wants: Mapping[str, HostState]) -> tuple[Links, Links]:
    """The links on which new connections begin, and end, to be refused; of what is cut nothing can be said."""
    begins: Links = {}
    ends: Links = {}
    for host, want in wants.items():
        was, now = refused(before[host]), refused(want)
        begins[host] = now - was - set(before[host].suffered.cuts)
        ends[host] = was - now - set(want.suffered.cuts)
    return {host: srcs for host, srcs in begins.items() if srcs}, {host: srcs for host, srcs in ends.items() if srcs}


class KnockProof:
    """The tries of one transaction. ``result``: the result of an agent's future, or why there is none."""

    def __init__(self, hosts: Mapping[str, Any], result: Callable[[Any], Any]) -> None:
        self._hosts = hosts
        self._result = result

    def wrong(self, links: Links, *, wanted: str, deadline: float) -> dict[str, list[str]]:
        """Host → what is wrong, where tries over these links do not end as ``wanted``; other hosts have no entry."""
        left = links
        found: dict[tuple[str, str], str] = {}
        for limit_s in ROUNDS_S if wanted == KNOCKED else ROUNDS_S[:1]:
            if not left or time.monotonic() > deadline:
                break
            found |= self._round(left, limit_s)
            left = {host: {src for src in srcs if found[host, src] != wanted} for host, srcs in left.items()}
            left = {host: srcs for host, srcs in left.items() if srcs}
        out: dict[str, list[str]] = {}
        for host, srcs in left.items():
            out[host] = [_sentence(src, found.get((host, src), "there was no time to try"), wanted) for src in srcs]
        return out

    def _round(self, links: Links, limit_s: float) -> dict[tuple[str, str], str]:
        by_src: dict[str, list[str]] = {}
        for host, srcs in sorted(links.items()):
            for src in sorted(srcs):
                by_src.setdefault(src, []).append(host)
        asked = {}
        for src, hosts in by_src.items():
            knocking = self._hosts.get(src)
            if isinstance(knocking, KnockingHost):
                asked[src] = begin(knocking.knock_async, hosts, timeout_ns=int(limit_s * SECOND))
        out: dict[tuple[str, str], str] = {}
        for src, hosts in by_src.items():
            said = self._result(asked[src]) if src in asked else "it cannot try to connect"
            for host in hosts:
                out[host, src] = said if isinstance(said, str) else str(said.get(host, "it did not try"))
        return out


def _sentence(src: str, found: str, wanted: str) -> str:
    if wanted == SILENT and found == KNOCKED:
        return f"a new connection of {src} was answered although it is to be refused"
    if wanted == KNOCKED and found == SILENT:
        return f"a new connection of {src} is not answered"
    return f"new connections of {src} are not proved: {found}"
