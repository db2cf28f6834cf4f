from __future__ import annotations

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.sim.chance import uniform
from dethrone.clusters.sim.clock import EPOCH_NS, HostClock
from dethrone.harness.core.clock import SECOND, Clocks
from dethrone.harness.core.hoststate import ClockSkew, Strobe
from dethrone.harness.core.rng import Rng

RATES = st.integers(-900_000, 900_000)


@given(st.lists(st.tuples(RATES, st.integers(1, 10**10)), max_size=6), st.integers(0, 10**10))
def test_the_monotonic_clock_never_goes_back_and_its_dues_are_exact(steps, ahead):
    clock, now = HostClock(Rng(1)), 0
    shown = clock.mono(0)
    for rate, after in steps:
        clock.set(ClockSkew(mono_rate_ppm=rate), now)
        assert clock.mono(now) == shown
        now += after
        assert clock.mono(now) >= shown
        shown = clock.mono(now)
    due = clock.mono_due(shown + ahead)
    assert clock.mono(due) >= shown + ahead
    assert due <= now or clock.mono(due - 1) < shown + ahead


def test_what_a_wrong_rate_gave_stays_and_the_wall_clock_is_true_again():
    clock = HostClock(Rng(1))
    start = clock.mono(0)
    clock.set(ClockSkew(offset_ns=5, rate_ppm=100_000, mono_rate_ppm=100_000), 0)
    assert clock.read(SECOND) == Clocks(start + 1_100_000_000, EPOCH_NS + 1_100_000_005)
    clock.set(None, SECOND)
    assert clock.read(2 * SECOND) == Clocks(start + 2_100_000_000, EPOCH_NS + 2 * SECOND)


def test_a_strobe_jumps_forth_and_back():
    clock = HostClock(Rng(1))
    clock.set(ClockSkew(strobe=Strobe(amplitude_ns=1000, period_ns=10)), 100)
    assert [clock.wall(100 + at) - EPOCH_NS - 100 - at for at in (0, 9, 10, 19, 20)] == [0, 0, 1000, 1000, 0]


def test_hosts_were_booted_at_different_times():
    assert len({HostClock(Rng(seed)).mono(0) for seed in range(20)}) == 20


def test_draws_fill_their_range_and_nothing_else():
    draw = uniform(Rng(5), "x", 10, 19)
    drawn = [draw() for _ in range(5000)]
    assert set(drawn) == set(range(10, 20))
    assert all(400 < drawn.count(value) < 600 for value in range(10, 20))
    again = uniform(Rng(5), "x", 10, 19)
    assert [again() for _ in range(5000)] == drawn
    other = uniform(Rng(5), "y", 10, 19)
    assert [other() for _ in range(100)] != drawn[:100]


@pytest.mark.parametrize(("lo", "hi"), [(10, 19), (200_000, 500_000), (0, 4_000_000_000), (7, (1 << 32) + 6)])
def test_draws_are_those_of_plain_integers_on_any_machine(lo, hi):
    seed = Rng(5).stream("x").seed.to_bytes(8, "big")
    bits = b"".join(hashlib.shake_128(seed + number.to_bytes(8, "big")).digest(2048) for number in range(3))
    plain = [lo + (bits_of * (hi - lo + 1) >> 32) for (bits_of,) in struct.iter_unpack("<I", bits)]
    draw = uniform(Rng(5), "x", lo, hi)
    drawn = [draw() for _ in plain]
    assert drawn == plain
    assert {type(value) for value in drawn} == {int}
