"""What becomes of packets on links of bad quality, packet by packet, and what bursts of them prove."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.agent.host.bursts import summary
from dethrone.clusters.agent.host.nfqueue import Packet, Verdict
from dethrone.clusters.agent.host.shaping import BACKLOG_NS, SHAPES, WAITING_MAX, Shaper, parse_packet
from dethrone.clusters.agent.shaped import Arrived, burst_of, wrong
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.hoststate import LinkQuality

PEER, OTHER, PROBES = "198.18.0.2", "198.18.0.9", 7003
LINKS = st.builds(
    LinkQuality,
    src=st.just("n1"),
    delay_ns=st.integers(0, SECOND),
    jitter_ns=st.integers(0, SECOND),
    loss_percent=st.integers(0, 100),
    rate_kbit_per_s=st.integers(16, 10**6),
)


def udp(number: int, port: int = 53, *, source: str = PEER, size: int = 40) -> Packet:
    head = struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0, 64, 17, 0)
    data = head + socket.inet_aton(source) + socket.inet_aton("198.18.0.1") + struct.pack(">HHHH", 9, port, 20, 0)
    return Packet(number, size, data.ljust(min(size, 128), b"u"))


def tcp(number: int, sequence: int, length: int) -> Packet:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 40 + length, 0, 0, 64, 6, 0)
    rest = struct.pack(">HHLLBBHHH", 9, 80, sequence, 0, 0x50, 16, 0, 0, 0)
    data = head + socket.inet_aton(PEER) + socket.inet_aton("198.18.0.1") + rest
    return Packet(number, 40 + length, data + b"t" * length)


def link(**quality: int) -> dict[str, object]:
    return {"quality": {**dict.fromkeys(SHAPES, 0), **quality}, "addresses": [socket.inet_aton(PEER)]}


def shaper(*draws: float, **quality: int) -> Shaper:
    """A shaper of the link from PEER. ``draws``: what chance says, the last one for ever."""
    left = list(draws or (0.0,))
    one = Shaper(PROBES, lambda: left.pop(0) if len(left) > 1 else left[0])
    assert one.configure({"n1": link(**quality)}) == []
    return one


def passes(number: int) -> Verdict:
    return Verdict(number, passes=True)


def test_packets_of_others_pass_at_once():
    one = shaper(delay_ns=MS)
    assert one.arrive(0, udp(1, source=OTHER)) == passes(1)
    assert one.arrive(0, Packet(2, 0, b"")) == passes(2)
    assert one.arrive(0, udp(3)) is None


def test_a_delayed_packet_passes_when_its_time_comes_and_not_before():
    one = shaper(delay_ns=50 * MS)
    assert one.arrive(0, udp(1)) is None
    assert one.next_ns == 50 * MS
    assert one.due(50 * MS - 1) == ([], [])
    assert one.due(50 * MS) == ([passes(1)], [])
    assert one.waiting == 0


def test_jitter_keeps_the_order_and_reordering_does_not():
    one = shaper(0.9, 0.1, jitter_ns=100)
    assert [one.arrive(0, udp(number)) for number in (1, 2)] == [None, None]
    assert one.due(100)[0] == [passes(1), passes(2)]
    one = shaper(0.1, 0.9, 0.9, reorder_percent=50, reorder_ns=100)
    assert one.arrive(0, udp(1)) is None
    assert one.arrive(0, udp(2)) == passes(2)
    assert one.due(100)[0] == [passes(1)]


def test_a_lost_packet_is_dropped_and_one_in_two_copies_arrives_twice():
    assert shaper(0.29, loss_percent=30).arrive(0, udp(1)) == Verdict(1, passes=False)
    assert shaper(0.31, loss_percent=30).arrive(0, udp(1)) == passes(1)
    one = shaper(0.1, duplicate_percent=50)
    assert one.arrive(0, udp(1)) == passes(1)
    assert one.due(0) == ([], [udp(1).data])


def test_a_corrupted_packet_differs_in_one_bit_of_its_payload():
    sent = udp(1).data
    verdict = shaper(0.0, 0.5, 0.5, corrupt_percent=50).arrive(0, udp(1))
    odd = [one ^ other for one, other in zip(sent, verdict.data, strict=True)]
    assert sum(byte.bit_count() for byte in odd) == 1
    assert not any(odd[:28])


def test_a_rate_spaces_packets_and_drops_what_would_wait_too_long():
    one = shaper(rate_kbit_per_s=1000)
    assert one.arrive(0, udp(1, size=1250)) is None
    assert one.arrive(0, udp(2, size=1250)) is None
    assert (one.due(10 * MS)[0], one.due(20 * MS)[0]) == ([passes(1)], [passes(2)])
    verdicts = [one.arrive(20 * MS, udp(number, size=1250)) for number in range(3, 200)]
    dropped = [verdict for verdict in verdicts if verdict is not None]
    assert len(verdicts) - len(dropped) == BACKLOG_NS // (10 * MS) + 1
    assert not any(verdict.passes for verdict in dropped)


def test_held_messages_pass_in_their_order_at_the_end_and_probes_are_not_held():
    one = shaper(hold=2)
    assert one.arrive(0, udp(1, PROBES)) == passes(1)
    assert one.arrive(0, tcp(2, 100, 0)) == passes(2)  # no message
    assert [one.arrive(0, udp(number)) for number in (3, 4, 5)] == [None, None, passes(5)]
    assert one.waiting == 2
    assert one.configure({}) == [passes(3), passes(4)]
    assert one.waiting == 0


def test_a_held_segment_is_not_let_through_when_tcp_sends_it_again():
    one = shaper(hold=1)
    assert one.arrive(0, tcp(1, 2**32 - 5, 10)) is None
    assert one.arrive(0, tcp(2, 2**32 - 5, 10)) == Verdict(2, passes=False)
    assert one.arrive(0, tcp(3, 2, 1)) == Verdict(3, passes=False)
    assert one.arrive(0, tcp(4, 5, 10)) == passes(4)


def test_what_waits_on_a_link_that_is_healed_passes_in_its_order_and_other_links_stay_shaped():
    one = shaper(delay_ns=50 * MS)
    other = {**link(delay_ns=MS), "addresses": [socket.inet_aton(OTHER)]}
    one.configure({"n1": link(delay_ns=50 * MS), "n2": other})
    for number in (1, 2):
        one.arrive(number, udp(number))
    one.arrive(2, udp(3, source=OTHER))
    assert one.configure({"n2": other}) == [passes(1), passes(2)]
    assert one.due(2 + MS)[0] == [passes(3)]


def test_what_waits_is_bounded_and_the_rest_passes_and_is_counted():
    one = shaper(delay_ns=SECOND)
    for number in range(WAITING_MAX):
        assert one.arrive(0, udp(number)) is None
    assert one.arrive(0, udp(WAITING_MAX)) == passes(WAITING_MAX)
    assert one.overflow == 1


def test_only_what_is_done_to_single_packets_needs_them_whole_or_single():
    assert (shaper(delay_ns=1).merged, shaper(delay_ns=1).whole) == (True, False)
    assert (shaper(loss_percent=1).merged, shaper(loss_percent=1).whole) == (False, False)
    assert shaper(duplicate_percent=1).whole


def test_a_packet_of_ipv6_is_parsed():
    head = struct.pack(">LHBB", 6 << 28, 9, 17, 64) + socket.inet_pton(socket.AF_INET6, "fe80::2") + bytes(16)
    seen = parse_packet(Packet(1, 49, head + struct.pack(">HHHH", 1, 2, 9, 0) + b"x"))
    assert seen is not None
    assert (seen.source[-1], seen.ports, seen.message) == (2, (1, 2), True)


# --- what bursts prove ------------------------------------------------------------------------------------------------


def burst(late_ns: list[int], *, spacing_ns: int = 1000, errors: int = 0) -> Arrived:
    """A burst whose datagrams took so long; a negative one was lost."""
    sent = [(number, number * spacing_ns) for number in range(len(late_ns))]
    arrived = [(number, at, at + late) for (number, at), late in zip(sent, late_ns, strict=True) if late >= 0]
    return Arrived(summary(sorted(arrived, key=lambda one: one[2])), 0, 0, errors)


CASES = {
    "a delay": (LinkQuality("n1", delay_ns=50 * MS), [50 * MS] * 40, ""),
    "no delay": (LinkQuality("n1", delay_ns=50 * MS), [MS] * 40, "a probe took 1 ms, 50 ms are wanted"),
    "a longer delay": (LinkQuality("n1", delay_ns=50 * MS), [61 * MS] * 40, "every probe took 61 ms"),
    "no jitter": (LinkQuality("n1", jitter_ns=50 * MS), [0] * 40, "there is no jitter"),
    "loss": (LinkQuality("n1", loss_percent=50), [0, -1] * 20, ""),
    "no loss": (LinkQuality("n1", loss_percent=50), [0] * 40, "40 of 40 probes arrived, 50 % are wanted"),
    "all lost": (LinkQuality("n1", loss_percent=100), [-1] * 40, ""),
    "no order lost": (LinkQuality("n1", reorder_percent=50, reorder_ns=9 * MS), [0] * 40, "no probe was overtaken"),
    "no copies": (LinkQuality("n1", duplicate_percent=50), [0] * 40, "0 of 40 probes arrived twice"),
    "sums are right": (LinkQuality("n1", corrupt_percent=50), [0, -1] * 20, "no checksum was wrong"),
    "healed": (None, [MS] * 20, ""),
    "not healed": (None, [50 * MS] * 20, "probes still take 50 ms"),
    "lost after a heal": (None, [MS] * 19 + [-1], "19 of 20 probes arrived"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_burst_shows_whether_a_link_is_as_wanted(case):
    quality, late, problem = CASES[case]
    arrived = burst(late) if max(late) >= 0 else None
    found = wrong(quality, burst_of(quality), arrived)
    assert problem in found
    assert bool(problem) == bool(found)


@pytest.mark.parametrize(("spacing_ns", "problem"), [(1_024_000, ""), (900_000, "kbit/s, 1000 are wanted")])
def test_a_burst_shows_how_much_a_link_carries(spacing_ns, problem):
    quality = LinkQuality("n1", rate_kbit_per_s=1000)
    sent = burst_of(quality)
    found = burst([9 * MS] * sent.datagrams, spacing_ns=spacing_ns * (sent.size + 28) // 128)
    assert problem in wrong(quality, sent, found)


@given(LINKS)
def test_every_quality_has_a_burst_that_a_router_of_its_rate_carries(quality):
    sent = burst_of(quality)
    assert 2 <= sent.datagrams <= 400
    assert sent.datagrams * (sent.size + 28) * 8 * 1000 <= quality.rate_kbit_per_s * 1000 * 1000 or sent.datagrams == 2
