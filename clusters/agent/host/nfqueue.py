"""The kernel's queue of packets for a program (nfnetlink_queue), over netlink: packets in, verdicts out.

A rule of iptables (target NFQUEUE) puts packets into a queue by its number, and the program that bound the number
decides each of them, in any order. Guarantees: the queue is bounded and fails open: packets that do not fit pass at
once, and are counted by the gap that they leave in the packets' ids; a number that another program owns is not taken.
When the program ends, the kernel drops what it had not decided. Out of scope: what is decided (``shaping``), and rules.

Sources: linux/netfilter/nfnetlink_queue.h, net/netfilter/nfnetlink_queue.c, iptables-extensions(8).
"""

from __future__ import annotations

import collections
import contextlib
import errno
import os
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

from dethrone.clusters.agent.host.addresses import NLMSG_ERROR
from dethrone.clusters.agent.host.common import Refused
from dethrone.clusters.agent.host.firewall import NETLINK_NETFILTER, NLM_F_REQUEST

NLM_F_ACK = 4
NFQNL_PACKET, NFQNL_VERDICT, NFQNL_CONFIG = 3 << 8, 3 << 8 | 1, 3 << 8 | 2
NFQA_CFG_CMD, NFQA_CFG_PARAMS, NFQA_CFG_MAXLEN, NFQA_CFG_MASK, NFQA_CFG_FLAGS = 1, 2, 3, 4, 5
NFQA_PACKET_HDR, NFQA_VERDICT_HDR, NFQA_PAYLOAD, NFQA_CAP_LEN = 1, 2, 10, 13
BIND_QUEUE, COPY_PACKET, FAIL_OPEN, MERGED = 1, 2, 1, 4
NF_DROP, NF_ACCEPT = 0, 1
SO_RCVBUFFORCE = 33

QUEUES = "/proc/net/netfilter/nfnetlink_queue"
QUEUE_FIRST, QUEUE_TRIES = 7003, 64
"""Numbers of queues that are tried: far from 0, which programs use whose user chose none."""
QUEUE_BUFFER_BYTES = 8 << 20
"""For packets that were not read yet, each with the kernel's own cost (half a kilobyte or more)."""
QUEUE_MAX = 1 << 16
"""More packets than that buffer and ``shaping.WAITING_MAX`` hold, so that what overflows is the buffer, with a gap."""
HEADERS_BYTES = 128
"""What is read of packets that stay as they are."""


class Packet(NamedTuple):
    """A packet in the queue: its id there, its length, and its first bytes (or all), from the IP header on."""

    number: int
    length: int
    data: bytes


class Verdict(NamedTuple):
    """What becomes of the packet with this id. ``data``: it passes with this content; empty: as it is."""

    number: int
    passes: bool
    data: bytes = b""


class PacketQueue:
    """One queue of this network namespace. Not thread-safe. ``missed``: packets that passed because it was full.

    Raises Refused if none can be had: the kernel has none, or this process may not change the network.
    """

    def __init__(self, number: int | None = None) -> None:
        self.missed = 0
        self._last = 0
        self._buffer = bytearray(1 << 17)
        self._kept: collections.deque[Packet] = collections.deque()
        try:
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
            self.socket.bind((0, 0))
        except OSError as error:
            raise Refused(f"the kernel has no queue for packets: {error.strerror}") from None
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, QUEUE_BUFFER_BYTES)
        except OSError:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, QUEUE_BUFFER_BYTES)
        self.socket.settimeout(2)
        try:
            self.number = self._bound(number)
        except OSError as error:
            self.socket.close()
            raise Refused(f"the kernel gives no queue for packets: {error.strerror or error}") from None
        self.socket.setblocking(False)

    def _bound(self, wanted: int | None) -> int:
        taken = queue_owners() if wanted is None else {}
        numbers = [wanted] if wanted is not None else range(QUEUE_FIRST, QUEUE_FIRST + QUEUE_TRIES)
        settings = [
            _attribute(NFQA_CFG_CMD, struct.pack(">BxH", BIND_QUEUE, socket.AF_INET)),
            _attribute(NFQA_CFG_MAXLEN, struct.pack(">L", QUEUE_MAX)),
            self._copying(whole=False, merged=False),
        ]
        for number in numbers:
            self.number = number
            if number in taken:
                continue
            try:
                self.socket.send(self._message(NFQNL_CONFIG, b"".join(settings), NLM_F_ACK))
                self._acknowledged()
            except OSError as error:
                if error.errno != errno.EBUSY or number == numbers[-1]:
                    raise
            else:
                return number
        raise OSError(errno.EBUSY, "other programs own the numbers that we use")

    @staticmethod
    def _copying(*, whole: bool, merged: bool) -> bytes:
        return b"".join([
            _attribute(NFQA_CFG_PARAMS, struct.pack(">LB", 0xFFFF if whole else HEADERS_BYTES, COPY_PACKET)),
            _attribute(NFQA_CFG_FLAGS, struct.pack(">L", FAIL_OPEN | (MERGED if merged else 0))),
            _attribute(NFQA_CFG_MASK, struct.pack(">L", FAIL_OPEN | MERGED)),
        ])  # fmt: skip

    def copy(self, *, whole: bool, merged: bool) -> None:
        """Read packets ``whole``, or their headers only; ``merged``: as the sender's kernel merged them (GSO)."""
        self.socket.send(self._message(NFQNL_CONFIG, self._copying(whole=whole, merged=merged)))

    def _message(self, kind: int, body: bytes, flags: int = 0) -> bytes:
        head = struct.pack("=LHHLL", 20 + len(body), kind, NLM_F_REQUEST | flags, 0, 0)
        return head + struct.pack(">BBH", socket.AF_UNSPEC, 0, self.number) + body

    def _acknowledged(self) -> None:
        """Wait for the kernel's answer; packets that come before it are kept. Raises OSError if it refuses."""
        for _ in range(QUEUE_MAX):
            code = self._received()
            if code is not None:
                if code:
                    raise OSError(-code, os.strerror(-code))
                return
        raise OSError(errno.ETIMEDOUT, "the kernel does not answer")

    def _received(self) -> int | None:
        """Read one message: the code of an answer, or None if it is a packet, which is kept."""
        buffer = self._buffer
        size = self.socket.recv_into(buffer)
        kind = struct.unpack_from("=H", buffer, 4)[0] if size >= 20 else 0
        if kind == NLMSG_ERROR:
            return int(struct.unpack_from("=i", buffer, 16)[0])
        if kind != NFQNL_PACKET:
            return None
        number, length, data, at = 0, 0, b"", 20
        while at + 4 <= size:
            long, what = struct.unpack_from("=HH", buffer, at)
            if what == NFQA_PAYLOAD:
                data = bytes(buffer[at + 4 : at + long])
            elif what == NFQA_PACKET_HDR:
                number = struct.unpack_from(">L", buffer, at + 4)[0]
            elif what == NFQA_CAP_LEN:
                length = struct.unpack_from(">L", buffer, at + 4)[0]
            at += (long + 3 & ~3) or 4
        self.missed += max(0, number - self._last - 1)
        self._last = number
        self._kept.append(Packet(number, length or len(data), data))
        return None

    def read(self) -> Packet | None:
        """The next packet; None if there is none now."""
        while not self._kept:
            try:
                self._received()
            except (BlockingIOError, InterruptedError):
                return None
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # the buffer was full: ids show how many packets passed
                    raise
        return self._kept.popleft()

    def decide(self, verdicts: Sequence[Verdict]) -> None:
        """Send these verdicts, in this order."""
        parts: list[bytes] = []
        size = 0
        for number, passes, data in verdicts:
            body = _attribute(NFQA_VERDICT_HDR, struct.pack(">LL", NF_ACCEPT if passes else NF_DROP, number))
            parts.append(self._message(NFQNL_VERDICT, body + (_attribute(NFQA_PAYLOAD, data) if data else b"")))
            size += len(parts[-1])
            if size > 32 << 10:
                self.socket.send(b"".join(parts))
                parts, size = [], 0
        if parts:
            self.socket.send(b"".join(parts))

    def close(self) -> None:
        """Give the queue back; what was not decided is dropped."""
        self.socket.close()


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def queue_owners() -> dict[int, int]:
    """The queues of this network namespace that programs own: number → packets that wait for a verdict there."""
    with contextlib.suppress(OSError), open(QUEUES, encoding="ascii") as file:  # noqa: PTH123
        return {int(fields[0]): int(fields[2]) for fields in map(str.split, file) if len(fields) > 2}
    return {}
