"""Frames that this host sends, as a packet socket shows them: which of them a run looks for.

The socket sees what leaves after all rules (a frame that a cut drops here is not sent), and is in no packet's way; a
filter in the kernel keeps most others from being copied. Guarantees: only whole conditions count: receiver, port, least
length and content of what TCP or UDP carries; probes of ours never count. Out of scope: who waits for it
(``sightings``).

Sources: packet(7), linux/filter.h, net/packet/af_packet.c.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dethrone.clusters.agent.host.common import Refused

ETH_P_ALL, PACKET_OUTGOING = 3, 4
SO_ATTACH_FILTER = 26
IP_LEAST = 28
"""Bytes of an IPv4 header and the shortest one that follows (UDP)."""
FRAME_MAX = 1 << 16
FRAMES_BYTES = 4 << 20
READ_AT_ONCE = 256
"""The most packets that are looked at before anything else is done."""
_LD_WORD, _LD_BYTE, _LD_LENGTH, _SHIFT, _JUMP_IF, _JUMP_FROM, _RETURN = 0x20, 0x30, 0x80, 0x74, 0x15, 0x35, 0x06
_PACKET_TYPE = 0xFFFFF000 + 4


class Frame(NamedTuple):
    """What a packet carries: to whom, between which ports, how many bytes, and which."""

    receiver: str
    source_port: int
    port: int
    length: int
    data: bytes


class SoughtFrame(NamedTuple):
    """A condition. ``addresses``: of the receivers → their names; ``port`` 0: any, at either end."""

    name: str
    addresses: Mapping[str, str]
    port: int
    bytes_min: int
    contains: bytes

    def fits(self, frame: Frame) -> bool:
        """Whether this frame is looked for."""
        return (
            frame.receiver in self.addresses
            and (not self.port or self.port in {frame.port, frame.source_port})
            and frame.length >= self.bytes_min
            and self.contains in frame.data
        )


def frame_of(packet: bytes) -> Frame | None:
    """What this IP packet carries over TCP or UDP; None if it is another one."""
    if not packet:
        return None
    if packet[0] >> 4 == 4:
        header, protocol, receiver = (packet[0] & 15) * 4, packet[9] if len(packet) > 9 else 0, packet[16:20]
        family = socket.AF_INET
    elif packet[0] >> 4 == 6:
        header, protocol, receiver = 40, packet[6] if len(packet) > 6 else 0, packet[24:40]
        family = socket.AF_INET6
    else:
        return None
    later = family == socket.AF_INET and len(packet) > 7 and struct.unpack_from(">H", packet, 6)[0] & 0x1FFF
    if later or protocol not in {socket.IPPROTO_TCP, socket.IPPROTO_UDP} or len(packet) < header + 8:
        return None
    source_port, port = struct.unpack_from(">HH", packet, header)
    if protocol == socket.IPPROTO_UDP:
        start = header + 8
    elif len(packet) < header + 13:
        return None
    else:
        start = header + (packet[header + 12] >> 4) * 4
    return Frame(socket.inet_ntop(family, receiver), source_port, port, max(0, len(packet) - start), packet[start:])


def prefilter(addresses: Iterable[str], bytes_min: int) -> list[tuple[int, int, int, int]]:
    """A filter for the kernel: outgoing packets, long enough, to one of these IPv4 addresses, or over IPv6."""
    fours = [struct.unpack(">L", socket.inet_aton(one))[0] for one in addresses if ":" not in one]
    refused = 8 + len(fours)  # where the last line but one stands, which refuses
    lines = [
        (_LD_WORD, 0, 0, _PACKET_TYPE),
        (_JUMP_IF, 0, refused - 2, PACKET_OUTGOING),
        (_LD_LENGTH, 0, 0, 0),
        (_JUMP_FROM, 0, refused - 4, IP_LEAST + bytes_min),
        (_LD_BYTE, 0, 0, 0),
        (_SHIFT, 0, 0, 4),
    ]
    lines += [(_JUMP_IF, refused - 6, 0, 6), (_LD_WORD, 0, 0, 16)]
    lines += [(_JUMP_IF, len(fours) - place, 0, four) for place, four in enumerate(fours)]
    return [*lines, (_RETURN, 0, 0, 0), (_RETURN, 0, 0, FRAME_MAX)]


NOTHING: Sequence[tuple[int, int, int, int]] = [(_RETURN, 0, 0, 0)]
"""A filter that no packet passes."""


class FrameSocket:
    """Packets that leave this host. Raises Refused if this process may not see them."""

    def __init__(self) -> None:
        try:
            kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
            self.socket = socket.socket(socket.AF_PACKET, kind, socket.htons(ETH_P_ALL))
            self.take(NOTHING)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, FRAMES_BYTES)
        except OSError as error:
            raise Refused(f"frames on the wire cannot be seen here: {error.strerror}") from None

    def take(self, lines: Sequence[tuple[int, int, int, int]]) -> None:
        """From now on only what this filter lets pass."""
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
        given = struct.pack("HP", len(lines), ctypes.addressof(program))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, given)

    def read(self) -> bytes | None:
        """The next packet, from its IP header on; None: there is none."""
        try:
            return self.socket.recv(FRAME_MAX)
        except OSError:
            return None


class SoughtFrames:
    """All frames that are looked for here. ``probe_port``: that of our own probes, which do not count."""

    def __init__(self, sought: Sequence[SoughtFrame], probe_port: int) -> None:
        self._sought = sought
        self._probe_port = probe_port
        self._packets = FrameSocket()
        self._filter = prefilter(
            {address for one in sought for address in one.addresses}, min(one.bytes_min for one in sought)
        )
        self._packets.take(self._filter)
        self.muted = False

    def fileno(self) -> int:
        """Readable when there is a packet."""
        return self._packets.socket.fileno()

    def mute(self, *, muted: bool) -> None:
        """Look at no packet for a while: what comes too often costs nothing then."""
        if muted is not self.muted:
            self.muted = muted
            self._packets.take(NOTHING if muted else self._filter)

    def found(self) -> Iterator[tuple[SoughtFrame, Frame]]:
        """What of the packets that are there is looked for; a bounded number of packets."""
        for _ in range(READ_AT_ONCE):
            packet = self._packets.read()
            if packet is None:
                return
            frame = frame_of(packet)
            if frame is None or self._probe_port in {frame.port, frame.source_port}:
                continue
            yield from ((one, frame) for one in self._sought if one.fits(frame))
