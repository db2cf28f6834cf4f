"""Leases: what excuses them, and what certainly holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.checkers.lease_exclusion import CHECKER, certain_holds, collect, drifted_apart
from dethrone.harness.core.clock import MS
from dethrone.harness.core.events import Invoke, Return
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState
from tests.checkers.histories import Tale, plan, promise


def drifting(**ppm):
    tale = Tale(3).up()
    tale.converge(
        {node: HostState(clock=ClockSkew(mono_rate_ppm=ppm[node])) if node in ppm else HEALTHY for node in tale.nodes}
    )
    return tale


@pytest.mark.parametrize(
    ("ppm", "apart"),
    [({}, False), ({"n1": 99_000}, False), ({"n1": 101_000}, True), ({"n1": 60_000, "n2": -60_000}, True)],
)
def test_clocks_that_ran_apart_beyond_the_promise_excuse_leases(ppm, apart):
    tale = drifting(**ppm).lock("acquire", "c1", 4).wait(100).lock("acquire", "c2", 9)
    promised = promise(drift_ppm_max=100_000)
    assert (drifted_apart(tale.end(), promised) is not None) == apart
    verdict = CHECKER.check(tale.end(), promised, plan())
    assert verdict.outcome == ("pass" if apart else "fail")
    assert len(verdict.findings) == 1


def test_without_a_stated_bound_no_drift_excuses():
    tale = drifting(n1=500_000).lock("acquire", "c1", 4).wait(100).lock("acquire", "c2", 9)
    assert CHECKER.check(tale.end(), promise(), plan()).outcome == "fail"


steps = st.lists(
    st.tuples(
        st.sampled_from(["acquire", "renew", "release"]),
        st.sampled_from(["c1", "c2"]),
        st.sampled_from([0, 5, 40]),
        st.sampled_from(["ok", "ok", "info", "fail", "lost"]),
        st.integers(0, 30),
        st.sampled_from([20, 60]),
    ),
    max_size=12,
)


@given(steps)
def test_a_server_that_counts_from_its_own_moment_is_never_found_out(asked):
    """A lock server in the right: it applies each operation at any moment between question and answer, or never."""
    tale, held = Tale(3), {"owner": "", "token": 0, "until": 0}
    for token, (f, owner, after, drawn, took, ttl) in enumerate(asked, 1):
        tale.wait(after)
        free = held["owner"] in ("", owner) or tale.now >= held["until"]
        mine = held["owner"] == owner
        applies = drawn in ("ok", "info", "lost") and (free if f == "acquire" else mine)
        status = "fail" if drawn == "ok" and not applies else drawn
        told = None
        op = tale.invoke(f, ["l", owner] if f == "release" else ["l", owner, ttl])
        tale.wait(took)
        if applies:
            if f == "acquire":
                held.update(owner=owner, token=token, until=tale.now + ttl)
            elif f == "renew":
                held.update(until=tale.now + ttl)
            told = held["token"]
            if f == "release":
                held.update(owner="", until=0)
        if status != "lost":
            tale.back(op, status, told if status == "ok" else None)
    assert CHECKER.check(tale.end(), promise(), plan()).outcome in {"pass", "unknown", "n/a"}


def test_a_hold_lasts_from_the_answer_to_a_ttl_after_the_question():
    history = Tale(3).lock("acquire", "c1", 4, ttl=500, took=100).end()
    (hold,) = certain_holds(collect(history)[0])
    asked, told = history.of(Invoke)[0], history.of(Return)[0]
    assert (hold.lo, hold.hi) == (told.t, asked.t + 500 * MS)
