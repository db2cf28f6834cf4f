"""The helper process that shapes links: it reads the kernel's queue, and decides each packet when its time comes.

It is a child of the agent and obeys it over a socket, one JSON object a message: ``links`` (what to shape from now on)
and ``quit``. It answers each, and sends a heartbeat with its counts. Guarantees: if the agent is gone, or says so, all
that waits passes and the helper ends; rules with ``--queue-bypass`` let everything pass then. Out of scope: the rules,
and a helper that is stopped, which the agent ends (``qualities``).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import secrets
import select
import signal
import socket
import time
import warnings
from collections.abc import Mapping
from typing import Any

from dethrone.clusters.agent.host.addresses import is_v6
from dethrone.clusters.agent.host.common import MS, SECOND, Refused, complain, now_ns
from dethrone.clusters.agent.host.nfqueue import PacketQueue, Verdict, queue_owners
from dethrone.clusters.agent.host.shaping import SHAPES, Shaper

BEAT_NS = 50 * MS
"""How often the helper says that it lives."""
READ_MAX = 256
"""The most packets that are read before those that are due are decided."""
MESSAGE_MAX = 1 << 17
CLOSING_LIMIT_S = 0.5
"""How long the helper waits at its end for packets that came before the rules were gone."""


def fork_shaper(probe_port: int, number: int | None) -> tuple[int, socket.socket]:
    """Start a helper: its process id, and the socket to it. ``number``: the queue that it must bind; None: any.

    Forked, not executed: reading the agent's file again would take longer than a fault may. The child uses nothing
    that another thread of ours may have locked; one that hangs all the same sends no heartbeat, and is ended.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks next to threads; see above
        pid = os.fork()
    if pid == 0:
        try:
            _alone(theirs.fileno())
            _shape(socket.socket(fileno=theirs.fileno()), probe_port, number)
        except BaseException as error:  # noqa: BLE001 - a forked child must not return into the agent
            complain("the helper that shapes links", error)
        finally:
            os._exit(0)
    theirs.close()
    return pid, ours


def _alone(control: int) -> None:
    """Keep nothing of the agent but this descriptor and its log."""
    gc.disable()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for place in (0, 1):
        os.dup2(null, place)
    for place in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if place > 2 and place != control:
            with contextlib.suppress(OSError):  # that of the listing itself
                os.close(place)
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("dethrone-links")


def _shape(control: socket.socket, probe_port: int, number: int | None) -> None:
    try:
        queue = PacketQueue(number)
    except Refused as refused:
        control.send(json.dumps({"why": str(refused)}).encode())
        return
    _Helper(control, queue, probe_port).serve()


class _Helper:
    """What the helper does, in one thread."""

    def __init__(self, control: socket.socket, queue: PacketQueue, probe_port: int) -> None:
        self._control, self._queue = control, queue
        self._shaper = Shaper(probe_port, secrets.SystemRandom().random)
        self._senders: dict[int, socket.socket] = {}
        self._uncopied = 0
        self._beat_ns = 0
        self._ending = False
        control.setblocking(False)

    def serve(self) -> None:
        """Serve until the agent is gone or says ``quit``."""
        self._tell({"number": self._queue.number})
        while not self._ending:
            due = self._shaper.next_ns
            until = self._beat_ns + BEAT_NS if due is None else min(due, self._beat_ns + BEAT_NS)
            readable, _, _ = select.select(
                [self._queue.socket, self._control], [], [], max(0, until - now_ns()) / SECOND
            )
            if self._control in readable:
                self._obey()
            self._read()
            self._deliver()
            if now_ns() >= self._beat_ns + BEAT_NS:
                self._tell({"beat": True})
        self._queue.decide(self._shaper.configure({}))
        self._drain()
        self._queue.close()

    def _obey(self) -> None:
        try:
            said = self._control.recv(MESSAGE_MAX)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            said = b""
        if not said:  # the agent is gone
            self._ending = True
            return
        asked = json.loads(said)
        self._ending = bool(asked.get("quit"))
        counted = self._counts()
        links = {name: _link(link) for name, link in (asked.get("links") or {}).items()}
        passing = self._shaper.configure(links)
        self._queue.copy(whole=self._shaper.whole, merged=self._shaper.merged)
        self._queue.decide(passing)
        self._tell({"done": asked["number"], "counted": counted})

    def _counts(self) -> dict[str, Any]:
        """What was counted of each source until now; ``uncopied``: packets that could not be sent once more."""
        counts: dict[str, Any] = {name: dict(lane.counts) for name, lane in self._shaper.lanes.items()}
        return {**counts, "uncopied": self._uncopied} if self._uncopied else counts

    def _tell(self, more: Mapping[str, Any]) -> None:
        self._beat_ns = now_ns()
        shaper = self._shaper
        told = {"waiting": shaper.waiting, "overflow": shaper.overflow + self._queue.missed}
        with contextlib.suppress(OSError):  # an agent that does not read misses a heartbeat
            self._control.send(json.dumps({**told, **more}).encode())

    def _read(self) -> None:
        verdicts = []
        for _ in range(READ_MAX):
            packet = self._queue.read()
            if packet is None:
                break
            verdict = self._shaper.arrive(now_ns(), packet)
            if verdict is not None:
                verdicts.append(verdict)
        if verdicts:
            self._queue.decide(verdicts)

    def _deliver(self) -> None:
        verdicts, copies = self._shaper.due(now_ns())
        if verdicts:
            self._queue.decide(verdicts)
        for copy in copies:
            try:
                self._send(copy)
            except OSError:
                self._uncopied += 1

    def _send(self, packet: bytes) -> None:
        """Let a packet arrive once more: sent to ourselves as it is, over the loopback, which is not shaped."""
        family = socket.AF_INET6 if packet[0] >> 4 == 6 else socket.AF_INET
        sender = self._senders.get(family)
        if sender is None:
            sender = self._senders[family] = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
        six = family == socket.AF_INET6
        to = socket.inet_ntop(family, packet[24:40] if six else packet[16:20])
        sender.sendto(packet, (to, 0))

    def _drain(self) -> None:
        """Let pass what is in the queue; new packets no longer come, as the rules are gone."""
        deadline = time.monotonic() + CLOSING_LIMIT_S
        while time.monotonic() < deadline:
            packet = self._queue.read()
            if packet is not None:
                self._queue.decide([Verdict(packet.number, passes=True)])
            elif not queue_owners().get(self._queue.number):
                return


def _link(link: Mapping[str, Any]) -> dict[str, Any]:
    families = {address: socket.AF_INET6 if is_v6(address) else socket.AF_INET for address in link["addresses"]}
    addresses = [socket.inet_pton(family, address) for address, family in families.items()]
    return {"quality": {name: int(link["quality"][name]) for name in SHAPES}, "addresses": addresses}
