"""The knobs: defaults, spellings, wrong words and members that cannot be."""

import pytest

from dethrone.clusters.targets.kraft.target import TARGET
from dethrone.harness.core.clock import MS

# --- knobs ----------------------------------------------------------------------------------------------------------


def test_the_defaults_are_kafkas():
    knobs = TARGET.knobs({})
    assert (knobs.election_timeout_ms, knobs.fetch_timeout_ms, knobs.election_backoff_max_ms) == (1000, 2000, 1000)
    assert (knobs.request_timeout_ms, knobs.retry_backoff_ms, knobs.append_linger_ms) == (2000, 20, 25)
    assert (knobs.fetch_max_wait_ms, knobs.backoff_unit_ms, knobs.check_quorum, knobs.clock) == (
        500,
        100,
        "1.0",
        "mono",
    )
    assert knobs.check_quorum_ns == 2000 * MS
    assert TARGET.knobs({}, profile="kraft-3.7").check_quorum_ns == 3000 * MS
    assert TARGET.knobs({}, profile="kraft-3.6").check_quorum_ns is None


@pytest.mark.parametrize("prefix", ["controller.quorum.", "quorum."])
def test_kafkas_spellings_are_understood_with_and_without_prefix(prefix):
    assert TARGET.knobs({f"{prefix}election.timeout.ms": "700"}).election_timeout_ms == 700


def test_the_factor_scales_every_timer_exactly():
    knobs = TARGET.knobs({"time_factor": "0.123456"})
    assert knobs.ns(1000) == 123_456_000
    assert knobs.check_quorum_ns == 246_912_000
