"""Faults that ask our targets in virtual time to hand leadership over: seen to come about, and no excuse for a bug."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import MissingCapability
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.interfaces import OpPlan
from dethrone.harness.core.registry import CHECKERS, load
from dethrone.harness.core.schedule import PlannedFault, Schedule, Step
from dethrone.harness.core.world import Polled, Request, RequestDone, StartNodes
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.rehearsal import rehearse, rehearse_draft, with_schedule
from dethrone.harness.engine.run.virtual_loop import world_of

BUGS = Path(__file__).with_name("impatient.py")
STABLE = ("leader-stability", "leader-when-owed", "one-leader-per-term")


def options(*faults, system="raft", **more):
    given = {"nodes": 3, "time_limit_ns": 20 * SECOND, "nemesis_interval_ns": 4 * SECOND, "rate_per_s": 5}
    return RunOptions(system=system, backend="sim", faults=faults, **{**given, **more})


def played(seed, *faults, checkers=STABLE, **more):
    return rehearse(options(*faults, **more), {name: load(CHECKERS, name) for name in checkers}, seed=seed)


def outcomes(run):
    return {verdict.checker: (verdict.outcome, verdict.reason) for verdict in run.judgement.verdicts}


def test_leadership_is_handed_over_and_a_leader_that_was_asked_is_not_deposed_without_a_fault():
    run = played(3, "transfer")
    moved = [fault for fault in run.realised.faults if fault.outcome == "installed"]
    assert moved
    assert {verdict: outcome for verdict, (outcome, _) in outcomes(run).items()} == dict.fromkeys(STABLE, "pass")
    for fault in moved:
        (begin,) = [
            event for event in run.history.of(FaultEvent) if (event.fault, event.phase) == (fault.fault, "begin")
        ]
        assert begin.victims != (begin.evidence["answer"]["leader"],)
        assert begin.params == {"to": f"node:{begin.evidence['answer']['leader']}"}


def test_a_leader_of_kraft_resigns_and_any_other_node_may_follow_it():
    run = played(1, "transfer", system="kraft", nodes=5, time_limit_ns=40 * SECOND, nemesis_interval_ns=8 * SECOND)
    assert {fault.outcome for fault in run.realised.faults} == {"installed"}
    assert run.failing() == frozenset()


def test_the_same_seed_asks_the_same_again():
    one, two = (played(5, "transfer", "partition", checkers=()) for _ in range(2))
    assert one.realised == two.realised
    assert one.history.events == two.history.events


def test_what_enables_transfers_is_set_only_where_they_are_asked_for():
    assert draft(options("transfer"), seed=1).plan.knobs["transfer"] == "on"
    assert draft(options("partition"), seed=1).plan.knobs["transfer"] == "off"
    off = draft(options("transfer", settings={"transfer": "off"}), seed=1)
    assert off.plan.knobs["transfer"] == "off"
    step = Step(faults=(PlannedFault(kind="transfer", victims="leader", hold_ns=0),), gap_ns=SECOND)
    run = rehearse_draft(with_schedule(off, Schedule(seed=1, strategy="test", steps=(step,))), {})
    (fault,) = run.realised.faults
    assert (fault.outcome, "transfer is off" in fault.why) == ("skipped", True)


def test_every_promise_bears_what_the_system_does_when_it_is_asked_to():
    promise = draft(options("transfer", "partition"), seed=1).plan.promise
    assert promise.tolerates["transfer"] is None
    assert "transfer" not in draft(options("partition"), seed=1).plan.promise.tolerates
    named = msgspec.structs.replace(promise, tolerates={"transfer": 1}, safe_under={"link": None}).doing(["transfer"])
    assert named.tolerates == {"transfer": 1}
    assert named.safe_under == {"transfer": None, "link": None}


def test_a_system_that_cannot_be_asked_refuses_the_fault_before_the_run():
    with pytest.raises(MissingCapability, match="nacos cannot be asked"):
        draft(options("transfer", system="nacos"), seed=1)


def test_a_node_that_does_not_lead_refuses_and_the_leader_is_not_asked_in_its_place():
    world = world_of(draft(options("transfer"), seed=1))
    world.submit(StartNodes())
    leads = led(world)
    asked = next(node for node in ("n1", "n2", "n3") if node != leads)
    world.submit(Request(7, OpPlan(f="transfer", value=asked, target=asked), SECOND))
    done = next(one for one in happenings(world) if isinstance(one, RequestDone))
    assert (done.token, done.outcome.status, done.outcome.node) == (7, "fail", asked)
    assert done.outcome.error == f"not the leader, names {leads}"


def happenings(world):
    while world.now() < 20 * SECOND:
        yield from world.wait(world.now() + 100_000_000)


def led(world):
    """Whom all three nodes name, once they do."""
    said = {}
    for one in happenings(world):
        if isinstance(one, Polled) and one.reading is not None:
            said[one.node] = one.reading.leader
        if len(said) == 3 and len(set(said.values())) == 1 and None not in said.values():
            return said["n1"]
    raise AssertionError("no leader")


def test_a_transfer_to_a_node_that_is_cut_off_is_no_transfer_and_the_leader_stays():
    drafted = draft(options("transfer", "partition"), seed=2)
    cut = PlannedFault(
        kind="partition", victims="follower", hold_ns=8 * SECOND, params={"shape": "isolate"}, name="cut"
    )
    moved = PlannedFault(kind="transfer", victims="leader", hold_ns=0, delay_ns=2 * SECOND, params={"to": "hit-by:cut"})
    step = Step(faults=(cut, moved), gap_ns=4 * SECOND)
    checkers = {name: load(CHECKERS, name) for name in STABLE}
    run = rehearse_draft(with_schedule(drafted, Schedule(seed=1, strategy="test", steps=(step,))), checkers)
    fault = next(fault for fault in run.realised.faults if fault.kind == "transfer")
    assert fault.outcome == "skipped"
    assert "target behind" in fault.why
    assert all(outcome == "pass" for outcome, _ in outcomes(run).values()), outcomes(run)


@pytest.mark.parametrize(
    ("bug", "checker", "faults", "seed"),
    [
        ("TakesOver", "leader-has-majority", ("transfer",), 1),
        ("StaysImpatient", "leader-stability", ("transfer", "partition"), 3),
    ],
)
def test_a_bug_that_only_a_transfer_shows_is_found_by_drawn_transfers(bug, checker, faults, seed):
    drawn = {"checkers": (checker,), "nodes": 5, "time_limit_ns": 40 * SECOND}
    run = played(seed, *faults, variant=f"{BUGS}:{bug}", **drawn)
    (verdict,) = run.judgement.verdicts
    assert verdict.outcome == "fail", verdict.reason
    assert all(found.excused is None for found in verdict.findings)
    honest = played(seed, *faults, **drawn)
    assert honest.failing() == frozenset()
