"""Assertions of a system's own, from the line that a node prints to the verdict: a bug fails them."""

import msgspec
import pytest

from dethrone.checkers.assertions import ALWAYS_HOLDS, HELD_ONCE, NEVER_REACHED
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.report.words import sentence
from tests.checkers.histories import Tale, plan
from tests.clusters.own.described import described, system

NAMED = ('"committed"]', '"committed", "always", "sometimes", "unreachable"]\nsometimes = ["renewed"]')
LEASE_MS = 100


def node(clock_ms, *, bug):
    """A node with a lease: it prints its assertions when it serves a read. The bug: it serves one that has run out."""
    left = LEASE_MS - clock_ms
    if left <= 0 and not bug:
        yield {"event": "sometimes", "name": "renewed", "condition": True}
        left = LEASE_MS
    yield {"event": "always", "name": "lease-holds", "condition": left > 0, "details": {"left_ms": left}}
    if left < -LEASE_MS:
        yield {"event": "unreachable", "name": "lease-long-gone"}


def judged(*, bug):
    of = system(NAMED)
    promise = of.promise({}, profile="own", voters=3)
    tale = Tale().up()
    for clock_ms in (10, 60, 130, 250):
        for told in node(clock_ms, bug=bug):
            (line,) = of.trace_lines(msgspec.json.encode({"dethrone": 1, **told}))
            tale.traced("n1", line.name, line.term, source=line.source, **line.data)
    history = tale.end()
    given = plan(3, given=promise, observable=of.observable())
    checkers = (ALWAYS_HOLDS, NEVER_REACHED, HELD_ONCE)
    return history, {one.name: one.check(history, promise, given) for one in checkers}


def test_a_node_that_serves_after_its_lease_is_found_and_one_that_renews_it_is_not():
    history, found = judged(bug=True)
    assert {name: one.outcome for name, one in found.items()} == {
        "always": "fail",
        "unreachable": "fail",
        "sometimes": "unknown",
    }
    assert found["always"].evidence["false"] == {"lease-holds": 2}
    assert "lease-holds does not hold on n1" in found["always"].reason
    assert '"left_ms": -30' in found["always"].reason
    (proof,) = found["unreachable"].findings[0].certificate
    assert "lease-long-gone (unreachable): it was reached" in sentence(history.at(proof))
    _, sound = judged(bug=False)
    assert {one.outcome for one in sound.values()} == {"pass"}


def test_a_system_that_prints_none_is_not_judged_by_them():
    of = system()
    given = plan(3, given=of.promise({}, profile="own", voters=3), observable=of.observable())
    for checker in (ALWAYS_HOLDS, NEVER_REACHED, HELD_ONCE):
        verdict = checker.check(Tale().end(), given.promise, given)
        assert (verdict.outcome, "not observable" in verdict.reason) == ("n/a", True)


def test_assertions_that_must_hold_once_need_their_lines():
    with pytest.raises(ConfigError, match="lines that are not printed"):
        described(('"committed"]', '"committed"]\nsometimes = ["renewed"]'))
