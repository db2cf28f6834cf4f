from __future__ import annotations

import pytest

from dethrone.clusters.targets.paxos.knobs import KNOBS
from dethrone.clusters.targets.paxos.rules import Rules
from dethrone.clusters.targets.paxos.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.rng import Rng


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"retry_backoff_min_ms": "200"}, "retry_backoff_min_ms"),
        ({"retry_backoff_cap_ms": "100"}, "retry_backoff_cap_ms"),
        ({"heartbeat_interval_ms": "100"}, "heartbeat"),
        ({"learner": "disk", "persist": "off"}, "persist"),
        ({"acceptors": "0"}, "acceptors"),
    ],
)
def test_what_cannot_be_is_refused_and_named(settings, match):
    with pytest.raises(ConfigError, match=match):
        KNOBS.parse(settings)


def test_the_target_refuses_what_makes_no_cluster():
    knobs = TARGET.knobs({"acceptors": "4"})
    for members, node, variant in (
        (("A", "B", "C"), "A", None),
        (("A", "A", "B", "C"), "A", None),
        (("A", "B", "C", "D"), "E", None),
        ((), "A", None),
        (("A", "B", "C", "D"), "A", "02-promise-before"),
        (("A", "B", "C", "D"), "A", "52-timers-on-wall-clock"),
    ):
        with pytest.raises(ConfigError):
            TARGET.core(node=node, members=members, knobs=knobs, variant=variant)
    with pytest.raises(ConfigError, match="own knobs"):
        TARGET.core(node="A", members=("A",), knobs=None, variant=None)


def test_the_waits_double_up_to_the_cap_and_never_lose_their_jitter():
    rules, rng = Rules(KNOBS.parse({})), Rng(3)
    ranges = []
    for failures in range(1, 9):
        drawn = [rules.backoff(rng, failures) for _ in range(3000)]
        ranges.append((min(drawn) / MS, max(drawn) / MS))
    want = [(50, 150), (100, 300), (200, 600), (400, 1200), (666, 2000), (666, 2000), (666, 2000), (666, 2000)]
    for (low, high), (least, most) in zip(ranges, want, strict=True):
        assert least <= low <= least * 1.02
        assert most * 0.98 <= high <= most


@pytest.mark.parametrize(("draw", "low", "high"), [("backoff", 50, 150), ("silence", 150, 300)])
def test_waits_are_uniform(draw, low, high):
    rules, rng = Rules(KNOBS.parse({})), Rng(11)
    count = 4000
    drawn = sorted((rules.backoff(rng, 1) if draw == "backoff" else rules.silence(rng)) / MS for _ in range(count))
    distance = max(abs((k + 1) / count - (x - low) / (high - low)) for k, x in enumerate(drawn))
    assert distance < 1.63 / count**0.5, "Kolmogorov-Smirnov at 1 %"


def test_no_backoff_is_no_wait():
    assert Rules(KNOBS.parse({"backoff": "none"})).backoff(Rng(1), 5) == 0
