"""Tries to connect to other hosts by TCP: what answers, if only by a refusal, shows that a first packet arrived.

Guarantees: bounded; nothing is sent over a connection, and each is closed at once. Out of scope: who should answer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from dethrone.clusters.agent.host.addresses import is_v6
from dethrone.clusters.agent.host.common import SECOND, now_ns
from dethrone.clusters.agent.host.probes import Probes
from dethrone.clusters.agent.host.requests import integer_of, texts_of

KNOCKED, SILENT = "answered", "silent"
"""A first packet was answered (the port may well be closed); it was not, within the time."""
ANSWERS = (0, errno.ECONNREFUSED, errno.ECONNRESET)


def knock(probes: Probes, request: Mapping[str, Any]) -> dict[str, Any]:
    """Try the first known address of each of ``peers`` at the port of probes; ``answers``: peer → what came of it."""
    peers = texts_of(request.get("peers"), "peers")
    timeout_ns = integer_of(request, "timeout_ns", low=0, high=10 * SECOND)
    lo = now_ns()
    known = {peer: probes.ways.get(peer, ()) for peer in peers}
    return {"answers": knock_at(known, probes.port, timeout_ns), "lo": lo, "hi": now_ns()}


def knock_at(known: Mapping[str, Sequence[str]], port: int, timeout_ns: int) -> dict[str, str]:
    """Peer → answered, silent, or why nothing could be sent, at the first of its addresses."""
    answers: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        waiting: dict[int, tuple[str, socket.socket]] = {}
        poller = select.poll()
        for peer, addresses in known.items():
            if not addresses:
                answers[peer] = "no address of it is known"
                continue
            family = socket.AF_INET6 if is_v6(addresses[0]) else socket.AF_INET
            trying = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            trying.setblocking(False)
            code = trying.connect_ex((addresses[0], port))
            if code == errno.EINPROGRESS:
                waiting[trying.fileno()] = (peer, trying)
                poller.register(trying, select.POLLOUT)
            else:
                answers[peer] = _knock_said(code)
        until = now_ns() + timeout_ns
        while waiting and (left := until - now_ns()) > 0:
            for number, _ in poller.poll(-(-left // 1_000_000)):
                peer, trying = waiting.pop(number)
                poller.unregister(number)
                answers[peer] = _knock_said(trying.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        answers.update((peer, SILENT) for peer, _ in waiting.values())
    return answers


def _knock_said(code: int) -> str:
    return KNOCKED if code in ANSWERS else os.strerror(code)
