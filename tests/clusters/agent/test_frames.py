"""Frames that are looked for: taken apart, compared, and filtered in the kernel by the same conditions."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.agent.host.frames import PACKET_OUTGOING, SoughtFrame, frame_of, prefilter

HERE, THERE, ELSEWHERE = "10.0.0.1", "10.0.0.2", "10.0.0.3"
PORTS = (4000, 2380)


def udp(body, *, to=THERE, ports=PORTS):
    """A packet of IPv4 over UDP."""
    return four(socket.IPPROTO_UDP, struct.pack(">HHHH", *ports, 8 + len(body), 0) + body, to=to)


def tcp(body, *, to=THERE, options=b""):
    """A packet of IPv4 over TCP."""
    head = struct.pack(">HHLLBBHHH", *PORTS, 1, 1, (5 + len(options) // 4) << 4, 0x18, 9, 0, 0)
    return four(socket.IPPROTO_TCP, head + options + body, to=to)


def four(protocol, rest, *, to=THERE, fragment=0):
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(rest), 1, fragment, 64, protocol, 0)
    return head + socket.inet_aton(HERE) + socket.inet_aton(to) + rest


def six(body, *, to="fd00::2"):
    rest = struct.pack(">HHHH", *PORTS, 8 + len(body), 0) + body
    head = struct.pack(">LHBB", 6 << 28, len(rest), socket.IPPROTO_UDP, 64)
    return head + socket.inet_pton(socket.AF_INET6, "fd00::1") + socket.inet_pton(socket.AF_INET6, to) + rest


def passes(lines, packet, *, kind=PACKET_OUTGOING):
    """What the kernel's machine does with this program, as far as the program uses it."""
    at, a = 0, 0
    while True:
        code, yes, no, k = lines[at]
        at += 1
        if code == 0x06:
            return k > 0
        if code in {0x15, 0x35}:
            at += yes if (a == k if code == 0x15 else a >= k) else no
        elif code == 0x80:
            a = len(packet)
        elif code == 0x74:
            a >>= k
        elif k == 0xFFFFF004:
            a = kind
        else:
            size = {0x20: 4, 0x30: 1}[code]
            if len(packet) < k + size:
                return False
            a = int.from_bytes(packet[k : k + size], "big")


def test_a_packet_is_taken_apart_over_either_protocol_and_family():
    for packet, to in ((udp(b"abc"), THERE), (tcp(b"abc", options=bytes(12)), THERE), (six(b"abc"), "fd00::2")):
        frame = frame_of(packet)
        assert (frame.receiver, frame.source_port, frame.port, frame.length, frame.data) == (to, *PORTS, 3, b"abc")


@pytest.mark.parametrize(
    "packet", [b"", b"E", four(socket.IPPROTO_ICMP, bytes(64)), four(17, bytes(64), fragment=5), udp(b"")[:20]]
)
def test_what_is_no_frame_of_ours_is_none(packet):
    assert frame_of(packet) is None


@given(st.binary(max_size=80))
def test_any_bytes_are_read_without_trouble(packet):
    frame_of(packet)


def sought(**fields):
    given = {"name": "x", "addresses": {THERE: "n2"}, "port": 0, "bytes_min": 1, "contains": b""}
    return SoughtFrame(**{**given, **fields})


@pytest.mark.parametrize(
    ("fields", "packet", "wanted"),
    [
        ({}, udp(b"a"), True),
        ({}, tcp(b""), False),
        ({}, udp(b"a", to=ELSEWHERE), False),
        ({"bytes_min": 3}, udp(b"ab"), False),
        ({"bytes_min": 3}, tcp(b"abc"), True),
        ({"port": 2380}, udp(b"a"), True),
        ({"port": 2380}, udp(b"a", ports=(2380, 5)), True),
        ({"port": 2381}, udp(b"a"), False),
        ({"contains": b"vote"}, tcp(b"a vote for"), True),
        ({"contains": b"vote"}, tcp(b"a veto for"), False),
    ],
)
def test_every_part_of_a_condition_counts(fields, packet, wanted):
    assert sought(**fields).fits(frame_of(packet)) is wanted


@given(
    st.lists(st.sampled_from([HERE, THERE, ELSEWHERE, "fd00::2"]), unique=True),
    st.integers(0, 40),
    st.integers(0, 60),
    st.sampled_from([THERE, ELSEWHERE]),
)
def test_the_kernel_lets_pass_all_that_fits_and_nothing_to_others(addresses, least, length, to):
    lines = prefilter(addresses, least)
    one = sought(addresses=dict.fromkeys(addresses, "n"), bytes_min=least)
    for packet in (udp(bytes(length), to=to), tcp(bytes(length), to=to), six(bytes(length))):
        assert passes(lines, packet) or not one.fits(frame_of(packet))
        assert not passes(lines, packet, kind=0)
    assert not passes(lines, udp(bytes(length), to=to)) or (to in addresses and length >= least)
