"""Planted bugs of liveness stay found with noise of the hosts added to the histories that show them."""

from __future__ import annotations

import msgspec
import pytest

from checkers.noise import disturbance
from harness.core import registry, store
from harness.core.clock import MS, SECOND, Span
from harness.core.events import Noise
from harness.core.history import History, read_history
from harness.core.rng import Rng
from harness.engine.model import RunOptions, Silence
from harness.engine.planning import draft
from harness.engine.virtual import VirtualRun

PLANTED = [
    ("28-never-steps-down", "partition", 6, 0, ("step-down-without-quorum",)),
    ("35-no-pre-vote", "partition", 6, 0, ("leader-stability",)),
    ("33-no-jitter", "kill", 8, 3, ("leader-when-owed", "no-livelock")),
]
"""Variant, fault, seconds between faults, seed, and the checkers that find it in this run."""
TIMES = 20
"""Noisy histories of each bug."""
EVERY_NS = 5 * SECOND
"""One stall of some host, on average."""


def shown(tmp_path, variant, fault, interval_s, seed):
    options = RunOptions(
        system="raft",
        backend="sim",
        seed=seed,
        faults=(fault,),
        time_limit_ns=40 * SECOND,
        nemesis_interval_ns=interval_s * SECOND,
        stop_at_first_failure=False,
        variant=variant,
    )
    run = VirtualRun(options, draft(options, seed=seed), tmp_path, Silence(), run_id="noise", checkers={})
    run.direct()
    return read_history(tmp_path / store.HISTORY), run.draft.plan


def noisy(history, plan, rng):
    """The same history with stalls of 60 to 200 ms of single hosts, at random moments."""
    *body, end = history.events
    stalls = []
    for _ in range(end.t // EVERY_NS):
        lo, ms = rng.below(end.t), 60 + rng.below(141)
        stalls.append(
            Noise(
                seq=0,
                t=lo,
                span=Span(lo, lo + ms * MS),
                host=plan.voters[rng.below(len(plan.voters))],
                kind="stall",
                value_ns=ms * MS,
            )
        )
    return History([msgspec.structs.replace(event, seq=seq) for seq, event in enumerate([*body, *stalls, end])])


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED, ids=[planted[0] for planted in PLANTED])
def test_a_planted_bug_stays_found_among_stalls(tmp_path, planted):
    variant, *given, names = planted
    history, plan = shown(tmp_path, variant, *given)
    rng = Rng(20).stream(variant)
    found = dict.fromkeys(names, 0)
    for _ in range(TIMES):
        among = noisy(history, plan, rng)
        share = disturbance(among, plan.promise, plan).share_percent(plan.voters, 0, among.events[-1].t)
        assert 3 < share < 20
        for name in names:
            checker = registry.load(registry.CHECKERS, name)
            found[name] += checker.check(among, plan.promise, plan).outcome == "fail"
    assert min(found.values()) >= TIMES * 9 // 10, found
