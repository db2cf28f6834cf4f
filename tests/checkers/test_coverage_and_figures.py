"""What counts as shown, what is excused, and the figures of failovers."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.checkers.coverage import CHECKER, obligations, shown_by_faults
from dethrone.checkers.excuses import Excuses, excuses
from dethrone.checkers.exposure import exposed_within, exposure, leaders_at_once
from dethrone.checkers.failover import figures
from dethrone.checkers.graph import timeline
from dethrone.checkers.kept_leaders import leadership_under_faults
from dethrone.harness.core.clock import MS
from dethrone.harness.core.events import FaultEvent, Mark
from dethrone.harness.core.hoststate import ClockSkew
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.schedule import Schedule, Step
from tests.checkers.histories import Tale, plan, promise


def shown(tale):
    history = tale.end()
    found = shown_by_faults(history, timeline(history, promise(), plan(len(tale.nodes))), len(tale.nodes) // 2 + 1)
    return {name for name, count in found.items() if count}


def led(nodes=5):
    return Tale(nodes).up().elected("n1", 1, "n1 n2 n3").polls(600, 1, "n1")


def test_an_isolated_leader_is_cut_off():
    tale = led()
    tale.isolate("n1", "n1")
    assert shown(tale) == {"leader-cut-off", "leader-isolated", "minority-cut", "majority-without-leader"}


def test_who_led_is_taken_from_the_polls_where_the_fault_does_not_say():
    tale = led()
    tale.isolate("n4 n5")
    assert shown(tale) == {"leader-in-majority", "minority-cut"}
    tale = led()
    tale.isolate("n3 n4 n5")
    assert shown(tale) == {"leader-cut-off", "minority-cut", "majority-without-leader"}


def test_kills_pauses_clocks_and_restarts():
    tale = led()
    tale.kill("n1", "n1")
    assert shown(tale) == {"leader-killed"}
    tale = led()
    tale.kill("n2")
    tale.pause("n3")
    skewed = msgspec.structs.replace(tale.state["n4"], clock=ClockSkew(offset_ns=5))
    tale.fault("clock", "n4", {**tale.state, "n4": skewed})
    tale.fault("restart", "n5", tale.state)
    assert shown(tale) == {"follower-killed", "follower-paused", "clock-stepped", "restarted"}


def test_a_fault_of_unknown_outcome_shows_nothing():
    tale = led()
    tale.fault("pause", "n1", tale.state, "n1", outcome="indeterminate")
    tale.fault("pause", "n1", tale.state, "n1", outcome="skipped")
    assert shown(tale) == set()


@pytest.mark.parametrize("name", [*obligations(), "no-such-thing"])
def test_an_unmet_obligation_is_named_with_what_to_do(name):
    asked = plan(schedule=Schedule(seed=1, strategy="random", steps=(), obligations=(name,)))
    verdict = CHECKER.check(led(3).polls(3000, 1, "n1").append(1).end(), promise(), asked)
    assert verdict.outcome == "unknown"
    assert name in verdict.reason


def test_a_met_obligation_passes():
    tale = led(3).polls(3000, 1, "n1").append(1)
    tale.kill("n1", "n1")
    asked = plan(schedule=Schedule(seed=1, strategy="random", steps=(), obligations=("leader-killed",)))
    assert CHECKER.check(tale.end(), promise(), asked).outcome == "pass"


@pytest.mark.parametrize(
    ("strategy", "begun", "outcome"),
    [("written", 2, "unknown"), ("replay", 2, "unknown"), ("written", 3, "pass"), ("random", 2, "pass")],
)
def test_every_step_that_was_written_begins_or_is_missed(strategy, begun, outcome):
    asked = plan(schedule=Schedule(seed=1, strategy=strategy, steps=(Step(faults=(), gap_ns=0),) * 3))
    tale = led(3).polls(3000, 1, "n1").append(1)
    for step in range(begun):
        tale.add(Mark, name="step", data={"step": step, "phase": "begin"})
    verdict = CHECKER.check(tale.end(), promise(), asked)
    assert verdict.outcome == outcome
    assert ("1 of 3 steps of the schedule never began" in verdict.reason) == (outcome == "unknown")


def test_a_leader_in_term_0_is_no_election_that_was_seen():
    verdict = CHECKER.check(Tale(3).up().polls(3000, 0, "n1").append(1).end(), promise(), plan())
    assert (verdict.outcome, verdict.evidence["elections"]) == ("unknown", 0)
    assert "n1 claims to lead in term 0" in verdict.reason
    unbound = promise(leader_bound_to_term=False)
    assert CHECKER.check(Tale(3).up().polls(3000, 0, "n1").append(1).end(), unbound, plan()).outcome == "pass"


def test_a_run_cut_short_and_unclear_faults_are_told():
    tale = led(3).polls(3000, 1, "n1").append(1)
    assert "cut short: interrupted" in CHECKER.check(tale.end("interrupted"), promise(), plan()).reason
    tale.fault("pause", "n1", tale.state, outcome="indeterminate")
    assert "may or may not" in CHECKER.check(tale.end(), promise(), plan()).reason


# --- excuses ----------------------------------------------------------------------------------------------------


def test_more_victims_than_tolerated_excuse_safety_for_good_and_liveness_while_they_last():
    few = promise(tolerates={"kill": 1})
    tale = Tale(3).up()
    one = tale.kill("n1")
    two = tale.kill("n2")
    crowded = tale.now
    tale.wait(500).heal(two).wait(500).heal(one).wait(500)
    found = excuses(tale.end(), few)
    assert found.safety((crowded - 10) * MS) is None
    assert "tolerated: 1" in found.safety(crowded * MS)
    assert found.safety((tale.now) * MS) is not None
    assert found.liveness(crowded * MS, crowded * MS) is not None
    assert found.liveness((tale.now - 100) * MS, tale.now * MS) is None


def test_a_crowd_excuses_liveness_only_where_safety_is_claimed_under_any_number():
    few = promise(tolerates={"kill": 1}, safe_under={"kill": None})
    tale = Tale(3).up()
    tale.kill("n1")
    tale.kill("n2")
    found = excuses(tale.wait(500).end(), few)
    assert found.safety(tale.now * MS) is None
    assert "tolerated: 1" in found.liveness(tale.now * MS, tale.now * MS)


def test_a_clock_fault_under_which_only_safety_is_claimed_excuses_liveness_and_what_rests_on_clocks():
    tale = Tale(3).up().wait(100)
    tale.fault("clock", "n1", tale.state)
    late = tale.now * MS
    found = excuses(tale.end(), promise(tolerates={"kill": None}, safe_under={"kill": None, "clock": None}))
    assert found.safety(late) is None
    assert "clock on n1" in found.timing(late)
    assert found.timing(0) is None
    assert "clock on n1" in found.liveness(late, late)


def test_a_promise_of_an_older_version_claims_safety_under_what_it_tolerates_and_no_more():
    stored = msgspec.json.encode(promise(tolerates={"kill": 1}))
    older = {key: value for key, value in msgspec.json.decode(stored).items() if key != "safe_under"}
    made = msgspec.json.decode(msgspec.json.encode(older), type=Promise)
    assert made.tolerated_for_safety == {"kill": 1}
    assert made.safe_under is None


def test_a_kind_that_is_not_tolerated_excuses_all_that_follows():
    tale = Tale(3).up()
    tale.fault("wipe", "n1", tale.state)
    found = excuses(tale.end(), promise())
    assert found.safety(0) is None
    assert "wipe on n1" in found.safety(tale.now * MS)
    assert "wipe on n1" in found.liveness(tale.now * MS, tale.now * MS)


@pytest.mark.parametrize(("tolerates", "excused"), [({"stop": None}, True), ({"stop": None, "kill": None}, False)])
def test_a_stop_that_had_to_kill_is_borne_only_where_kills_are(tolerates, excused):
    tale = Tale(3).up()
    tale.fault("stop", "n1", tale.state)
    [asked], late = tale.end().of(FaultEvent), tale.now * MS
    bears, killed = promise(tolerates=tolerates), msgspec.structs.replace(asked, evidence={"killed": ["n1"]})
    assert Excuses(bears, [asked]).safety(late) is None
    assert (Excuses(bears, [killed]).safety(late) or "").startswith("stop on n1 had to kill it") == excused


def test_a_loss_of_power_by_another_model_is_excused_unless_the_promise_names_that_model():
    tale = Tale(3).up()
    tale.fault("powerloss", "n1", tale.state, model="posix")
    history, late = tale.end(), tale.now * MS
    found = excuses(history, promise(tolerates={"powerloss": None}))
    assert found.safety(late) == "powerloss:posix on n1 is not among the tolerated faults"
    assert found.liveness(late, late) is not None
    assert excuses(history, promise(tolerates={"powerloss:posix": None})).safety(late) is None


# --- figures ----------------------------------------------------------------------------------------------------


def test_a_failover_is_measured_stage_by_stage():
    tale = led(3)
    tale.kill("n1", "n1")
    began = tale.now - 1
    tale.wait(150).core("n2", "prevote_started", 1, reqTerm=2)
    tale.wait(50).core("n2", "election_started", 2).elected("n2", 2, "n2 n3").wait(100).append(1, target="n2")
    told = figures(tale.end(), plan())
    assert told["faults_on_the_leader"] == 1
    (detect,), (elect,), (write,) = told["detect_ns"], told["elect_ns"], told["write_ns"]
    assert [stage[1] for stage in (detect, elect, write)] == [False, False, False]
    assert detect[0] < elect[0] < write[0] <= (tale.now - began) * MS
    assert told["rounds"] == [1]


def test_a_failover_that_never_comes_is_censored():
    tale = led(3)
    tale.kill("n1", "n1")
    tale.wait(900)
    told = figures(tale.mark("stop").end(), plan())
    assert told["elect_ns"] == [[901 * MS, True]]
    assert told["elect_median_ns"] is None


def test_a_leader_that_is_missed_is_noticed_by_answers_where_nodes_write_no_trace():
    tale = Tale(3).up().polls(600, 1, "n1")
    tale.kill("n1", "n1")
    tale.wait(100).poll("n2", 1, "n1").wait(100)
    tale.poll("n3", 2).wait(50).poll("n2", 2, "n2").append(1, target="n2")
    told = figures(tale.end(), plan())
    (noticed,), (elect,) = told["noticed_ns"], told["elect_ns"]
    assert told["detect_ns"][0][1], "nobody told a campaign"
    assert not noticed[1]
    assert 200 * MS <= noticed[0] <= elect[0] - 50 * MS
    assert told["not_owed"] == []


def test_an_outage_in_which_no_majority_is_left_owes_no_leader():
    tale = Tale(3).up().polls(600, 1, "n1")
    tale.kill("n3")
    tale.polls(300, 1, "n1").kill("n1", "n1")
    tale.wait(900)
    told = figures(tale.mark("stop").end(), plan())
    assert told["faults_on_the_leader"] == 1
    assert told["not_owed"] == [0]


def test_two_leaders_of_two_terms_at_once_are_measured():
    tale = Tale(3).up().poll("n1", 1, "n1").poll("n2", 2, "n2").wait(500).poll("n1", 1, "n1").poll("n2", 2, "n2")
    assert exposure(tale.end()) == 500 * MS
    ((begin, end),) = leaders_at_once(tale.end())
    assert exposed_within(tale.end(), begin + 100 * MS, end + 100 * MS) == 400 * MS
    tale = Tale(3).up().poll("n1", 1, "n1").wait(500).poll("n1", 1, "n1").poll("n2", 2, "n2")
    assert exposure(tale.end()) == 0


STEPS = st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.integers(0, 3), st.booleans(), st.integers(0, 40))


@given(st.lists(STEPS, max_size=40))
def test_the_exposure_is_the_time_for_which_certain_claims_of_two_nodes_and_terms_overlap(steps):
    tale, claims, last = Tale(3).up(), [], {}
    for node, term, leads, wait_ms in steps:
        asked = tale.now * MS
        tale.poll(node, term, node if leads else None).wait(wait_ms)
        before = last.get(node)
        if leads and term > 0 and before is not None and before[:2] == (True, term):
            claims.append((node, term, before[2], asked))
        last[node] = (leads, term, asked + MS)
    edges = sorted({t for *_, lo, hi in claims for t in (lo, hi)})
    expected = 0
    for lo, hi in pairwise(edges):
        held = {(node, term) for node, term, since, until in claims if since <= lo and hi <= until}
        if len({node for node, _ in held}) > 1 and len({term for _, term in held}) > 1:
            expected += hi - lo
    assert exposure(tale.end()) == expected


def test_split_votes_and_inflation_are_counted():
    tale = Tale(4).vote("n1", 1, "n1").vote("n2", 1, "n2").elected("n1", 3, "n1 n3 n4")
    told = figures(tale.end(), plan(4))
    assert (told["split_votes"], told["elections"], told["term_inflation"]) == (1, 1, 2)


# --- leaders under faults ---------------------------------------------------------------------------------------


def fates(tale):
    return [(row.fate, row.after_ns) for row in leadership_under_faults(tale.end(), plan())]


def skew(tale, node="n2"):
    skewed = msgspec.structs.replace(tale.state[node], clock=ClockSkew(offset_ns=5))
    return tale.fault("clock", node, {**tale.state, node: skewed})


def test_a_leader_that_is_polled_in_its_term_after_the_heal_was_kept():
    tale = led(3)
    fault = skew(tale)
    tale.polls(600, 1, "n1").heal(fault).polls(600, 1, "n1")
    assert fates(tale) == [("kept", None)]


def test_a_later_term_during_or_after_a_fault_means_that_the_leader_was_lost():
    tale = led(3)
    fault = skew(tale)
    tale.polls(300, 1, "n1").elected("n2", 2, "n2 n3").polls(300, 2, "n2").heal(fault).polls(300, 2, "n2")
    ((fate, after_ns),) = fates(tale)
    assert fate == "lost"
    assert 250 * MS < after_ns < 350 * MS
    tale = led(3)
    fault = skew(tale)
    tale.polls(300, 1, "n1").heal(fault).polls(100, 1, "n1").elected("n2", 2, "n2 n3").polls(300, 2, "n2")
    assert fates(tale)[0][0] == "lost"


def test_without_a_leader_before_or_after_it_is_unknown_what_a_fault_did():
    tale = Tale(3).up().polls(600, 1, None)
    fault = skew(tale)
    tale.polls(300, 1, "n1").heal(fault).polls(300, 1, "n1")
    assert fates(tale) == [("unknown", None)]
    tale = led(3)
    fault = skew(tale)
    tale.polls(300, 1, "n1").heal(fault).polls(600, 1, None)
    assert fates(tale) == [("unknown", None)]


def test_two_faults_at_once_and_one_that_is_not_healed_say_nothing():
    tale = led(3)
    one = skew(tale)
    two = tale.pause("n3")
    tale.polls(300, 1, "n1").heal(two).heal(one).polls(300, 1, "n1")
    assert [fate for fate, _ in fates(tale)] == ["unknown", "unknown"]
    tale = led(3)
    skew(tale)
    assert fates(tale.polls(300, 1, "n1")) == [("unknown", None)]


def test_a_stall_under_a_skewed_clock_is_noise_and_long_before_it_is_none():
    tale = led(3)
    fault = skew(tale)
    tale.polls(450, 1, "n1").noise("n2", 400).polls(150, 1, "n1").heal(fault).polls(600, 1, "n1")
    assert fates(tale)[0][0] == "noise"
    tale = led(3).noise("n2", 400).polls(6000, 1, "n1")
    fault = skew(tale)
    tale.polls(600, 1, "n1").heal(fault).polls(600, 1, "n1")
    assert fates(tale)[0][0] == "kept"


def test_a_leader_that_is_kept_under_a_skew_is_kept_in_spite_of_a_short_stall_and_under_a_pause_it_is_not():
    tale = led(3)
    fault = skew(tale)
    tale.polls(450, 1, "n1").noise("n2", 400).polls(750, 1, "n1").heal(fault).polls(600, 1, "n1")
    assert fates(tale)[0][0] == "kept"
    tale = led(3)
    fault = tale.pause("n3")
    tale.polls(450, 1, "n1").noise("n2", 400).polls(750, 1, "n1").heal(fault).polls(600, 1, "n1")
    assert fates(tale)[0][0] == "noise"


def test_a_leader_that_is_lost_at_a_stall_under_a_skew_is_noise():
    tale = led(3)
    fault = skew(tale)
    tale.polls(450, 1, "n1").noise("n3", 400).polls(150, 1, "n1").elected("n2", 2, "n2 n3").polls(900, 2, "n2").heal(
        fault
    )
    assert fates(tale.polls(300, 2, "n2"))[0][0] == "noise"


def test_a_stall_explains_a_loss_only_within_one_election_round():
    tale = led(3)
    fault = skew(tale)
    tale.polls(450, 1, "n1").noise("n3", 400).polls(1500, 1, "n1").elected("n2", 2, "n2 n3").polls(900, 2, "n2")
    assert fates(tale.heal(fault).polls(300, 2, "n2"))[0][0] == "lost"


def test_where_terms_bind_no_leader_another_leader_is_what_counts():
    tale = led(3)
    fault = skew(tale)
    tale.polls(300, 2, "n1").heal(fault).polls(300, 3, "n1")
    unbound = plan(given=promise(leader_bound_to_term=False))
    assert [row.fate for row in leadership_under_faults(tale.end(), unbound)] == ["kept"]
    assert [row.fate for row in leadership_under_faults(tale.end(), plan())] == ["lost"]


def test_after_a_heal_the_networks_time_stands_apart_from_the_protocols():
    tale = led(3)
    tale.isolate("n1 n2", "n1")
    tale.wait(900).heal()  # its span is 5 ms
    tale.wait(100).poll("n2", 2, "n2").wait(50).append(1, target="n2")
    (row,) = figures(tale.end(), plan())["recoveries"]
    assert row["network_ns"] == 5 * MS
    (leader, cut_off), (write, write_cut_off) = row["leader_ns"], row["write_ns"]
    assert not cut_off
    assert not write_cut_off
    assert 100 * MS <= leader < write
    assert not row["led"], "no write was acknowledged under the cut"


def test_a_recovery_that_did_not_come_is_censored_and_a_leader_that_served_throughout_is_named():
    tale = led(3)
    tale.isolate("n3")
    tale.wait(800).append(1).wait(50).heal()
    tale.wait(400)
    (row,) = figures(tale.mark("stop").end(), plan())["recoveries"]
    assert row["led"]
    assert [censored for _, censored in (row["leader_ns"], row["write_ns"])] == [True, True]
    assert row["write_ns"][0] >= 400 * MS
