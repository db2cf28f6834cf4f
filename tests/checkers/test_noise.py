"""Noise: which stretches count, how they are charged, and that no verdict is a blank cheque."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.checkers.convergence_after_heal import CHECKER as CONVERGES
from dethrone.checkers.coverage import CHECKER as COVERAGE
from dethrone.checkers.failover import figures
from dethrone.checkers.graph import timeline
from dethrone.checkers.leader_stability import CHECKER as STABLE
from dethrone.checkers.leader_when_owed import CHECKER as OWED
from dethrone.checkers.no_livelock import CHECKER as LIVELOCK
from dethrone.checkers.noise import Disturbance, Stretch, disturbance
from dethrone.checkers.step_down_without_quorum import CHECKER as STEPS_DOWN
from dethrone.harness.core.clock import MS, Span
from dethrone.harness.core.events import Noise
from dethrone.harness.core.history import History
from dethrone.harness.core.hoststate import DiskTrouble
from tests.checkers.histories import ALL, Tale, plan, promise
from tests.checkers.soup import soups

LIVENESS = (OWED, CONVERGES, STEPS_DOWN, STABLE, LIVELOCK)
ROUND = promise().election_timeout_ns
SHELL = plan(observable=(*ALL, "shell"))
WATCHED = {"wakeup": "read", "sync": "unreadable: EROFS", "schedstat": "unreadable: no such file"}
UNWATCHED = {"wakeup": "unreadable: x", "pressure": "read", "steal": "read"}
HOSTS = ("n1", "n2", "n3")


def sources(tale, *machines, given=WATCHED):
    for node, machine in zip(tale.nodes, machines, strict=False):
        tale.add(
            Noise,
            span=tale.span(),
            host=node,
            kind="sources",
            value_ns=0,
            detail={"machine": machine, "sources": given},
        )
    return tale


def reported(tale, kind, *, lo, hi, host="n1", value=None, **detail):
    value = (hi - lo) if value is None else value
    tale.add(Noise, span=Span(lo * MS, hi * MS), host=host, kind=kind, value_ns=value * MS, detail=detail)
    return tale


def noise_of(tale, of=None):
    return disturbance(tale.end(), promise(), of or plan(len(tale.nodes)))


def found(noise):
    return [(one.host, one.kind, one.lo // MS, one.hi // MS) for one in noise.stretches]


def no_leader(tale=None):
    """2.5 s without a leader, of which 2 s are allowed."""
    return (tale or Tale(3)).up().polls(2500, 1, None)


# --- which stretches count --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stall", "fsync", "process", "wall", "harness"])
def test_one_stretch_above_the_limit_counts_and_one_at_the_limit_does_not(kind):
    tale = Tale(3).wait(5000)
    reported(tale, kind, lo=1000, hi=1050)
    reported(tale, kind, lo=2000, hi=2051)
    assert found(noise_of(tale)) == [("n1", kind, 2000, 2051)]


def test_many_short_waits_and_the_totals_of_a_host_never_count():
    tale = Tale(3).wait(5000)
    for at in range(0, 5000, 50):
        reported(tale, "stall", lo=at, hi=at + 49)
    reported(tale, "load", lo=0, hi=5000, pressure_ns=4 * 10**9, steal_ns=10**9, throttled_ns=10**9)
    reported(tale, "summary", lo=0, hi=5000)
    assert found(noise_of(tale)) == []


def test_the_reports_of_one_hanging_sync_are_one_stretch_the_longest():
    tale = Tale(3).wait(5000)
    for until in (1100, 1200, 1400):
        reported(tale, "fsync", lo=1000, hi=until, id=4, hanging=True)
    reported(tale, "fsync", lo=1000, hi=1450, id=4)
    reported(tale, "fsync", lo=1500, hi=1600, id=5, hanging=True)
    reported(tale, "fsync", lo=1000, hi=1300, host="n2", id=4, hanging=True)
    assert found(noise_of(tale)) == [
        ("n2", "fsync", 1000, 1300),
        ("n1", "fsync", 1000, 1450),
        ("n1", "fsync", 1500, 1600),
    ]


def test_a_slow_sync_of_our_own_shell_is_a_stretch_that_ends_at_its_record():
    tale = Tale(3).wait(5000).traced("n2", "fsync_slow", 1, ms=300).traced("n3", "fsync_slow", 1, ms=40)
    assert found(noise_of(tale, SHELL)) == [("n2", "shell fsync_slow", 4700, 5001)]


def test_of_the_syncs_of_one_batch_the_longest_counts_where_it_was_and_their_sum_never():
    tale = Tale(3).wait(5000).traced("n2", "fsync_slow", 1, ms=300, ns=200 * MS, ago_ns=280 * MS)
    tale.traced("n3", "fsync_slow", 1, ms=300, ns=40 * MS, ago_ns=300 * MS)
    assert found(noise_of(tale, SHELL)) == [("n2", "shell fsync_slow", 4720, 4921)]


@pytest.mark.parametrize(
    ("explained", "length"),
    [
        ({}, 0),
        ({"run_delay_ns": 30 * MS}, 0),
        ({"run_delay_ns": 30 * MS, "steal_ns": 40 * MS}, 70),
        ({"run_delay_ns": 100 * MS, "throttled_ns": 900 * MS}, 400),
        ({"run_delay_ns": "100"}, 0),
    ],
)
def test_a_stall_of_our_own_shell_counts_as_far_as_the_kernel_explains_it(explained, length):
    tale = Tale(3).wait(5000).traced("n2", "stall", 1, ms=400, ns=400 * MS, where="turn", **explained)
    lengths = [(one.hi - one.lo) // MS for one in noise_of(tale, SHELL).stretches]
    assert lengths == ([length + 1] if length else [])


@pytest.mark.parametrize(
    "of",
    [plan(), plan(observable=(*ALL, "shell"), backend="sim")],
    ids=["a tested system's own words", "virtual time"],
)
def test_only_records_of_our_own_shell_on_real_hosts_count(of):
    tale = Tale(3).wait(5000).traced("n2", "fsync_slow", 1, ms=300)
    tale.traced("n2", "stall", 1, ms=400, run_delay_ns=400 * MS)
    assert found(noise_of(tale, of)) == []


def test_what_a_core_says_is_no_record_of_the_shell():
    tale = Tale(3).wait(5000).core("n2", "fsync_slow", 1, ms=300)
    assert found(noise_of(tale, SHELL)) == []


def test_a_stall_inside_a_fault_of_its_host_or_a_round_later_is_the_faults():
    tale = Tale(3).up().wait(1000)
    fault = tale.pause("n1")
    tale.wait(500).heal(fault)
    healed = tale.now
    reported(tale, "stall", lo=1100, hi=1500)
    reported(tale, "stall", lo=1100, hi=1500, host="n2")
    reported(tale, "process", lo=healed + 10, hi=healed + 90)
    reported(tale, "process", lo=healed + 400, hi=healed + 480)
    tale.wait(2000)
    assert found(noise_of(tale)) == [("n2", "stall", 1100, 1500), ("n1", "process", healed + 400, healed + 480)]


def test_of_a_stall_that_outlasts_a_fault_the_rest_counts():
    tale = Tale(3).up().wait(1000)
    slow = msgspec.structs.replace(tale.state["n1"], disk=DiskTrouble(kind="slow", latency_ns=10**9))
    fault = tale.fault("disk", "n1", {**tale.state, "n1": slow})
    tale.wait(500).heal(fault)
    end = max(event.span.hi for event in tale.events if type(event).__name__ == "Converged") // MS + ROUND // MS
    reported(tale, "fsync", lo=1200, hi=end + 100)
    reported(tale, "fsync", lo=1200, hi=end + 30)
    assert found(noise_of(tale.wait(2000))) == [("n1", "fsync", end, end + 100)]


def test_a_stretch_that_overlaps_on_two_hosts_counts_for_all_hosts_of_that_machine():
    tale = sources(Tale(5).wait(5000), "m1", "m1", "m1", "m2", "m2")
    reported(tale, "stall", lo=1000, hi=1200)
    reported(tale, "stall", lo=1100, hi=1300, host="n2")
    reported(tale, "stall", lo=2000, hi=2200)
    reported(tale, "stall", lo=2000, hi=2200, host="n4")
    noise = noise_of(tale)
    both = {"n1": 1300, "n2": 1300, "n3": 1300}
    assert {host: noise.charges((host,))[0][1] // MS - ROUND // MS for host in both} == both
    assert [one.host for one in noise.stretches if one.lo == 2000 * MS] == ["n1", "n4"]


def test_hosts_whose_machine_is_not_known_share_nothing():
    tale = Tale(3).wait(5000)
    reported(tale, "stall", lo=1000, hi=1200)
    reported(tale, "stall", lo=1100, hi=1300, host="n2")
    assert {one.host for one in noise_of(tale).stretches} == {"n1", "n2"}


# --- what they are charged --------------------------------------------------------------------------------------


def test_a_stretch_is_charged_with_its_length_and_one_round_and_rounds_that_overlap_count_once():
    noise = Disturbance([Stretch(100, 160, "n1", "stall"), Stretch(180, 240, "n2", "stall")], round_ns=50)
    assert noise.charged(("n1",), 0, 1000) == 110
    assert noise.charged(("n1", "n2"), 0, 1000) == 190
    assert noise.charged(("n3",), 0, 1000) == 0
    assert noise.uncharged(("n1", "n2"), 150, 300) == 10
    assert noise.deadline(("n1", "n2"), 0, 200) == 390
    assert noise.deadline(("n1", "n2"), 0, 100) == 100
    assert noise.within(("n1",), 210, 300)
    assert not noise.within(("n1",), 211, 300)
    assert not noise.within(("n1",), 0, 99)


spans = st.tuples(st.integers(0, 400), st.integers(0, 60)).map(lambda one: (one[0], one[0] + one[1]))
stretches = st.builds(lambda span, host: Stretch(*span, host, "stall"), spans, st.sampled_from([*HOSTS, ""]))


@given(st.lists(stretches, max_size=8), st.lists(stretches, max_size=3), spans, st.integers(0, 300), st.integers(0, 40))
def test_more_noise_never_charges_less_and_a_union_is_counted_point_by_point(some, more, span, bound, round_ns):
    one, two = Disturbance(some, round_ns=round_ns), Disturbance([*some, *more], round_ns=round_ns)
    hosts = ("n1", "n2")
    points = {t for s in some if s.host in {"", *hosts} for t in range(s.lo, s.hi + round_ns) if span[0] <= t < span[1]}
    assert one.charged(hosts, *span) == len(points)
    assert two.charged(hosts, *span) >= one.charged(hosts, *span)
    assert one.charged(hosts, *span) >= one.late(hosts, *span)
    assert two.late(hosts, *span) >= one.late(hosts, *span)
    assert two.deadline(hosts, span[0], bound) >= one.deadline(hosts, span[0], bound)
    assert not one.within(hosts, *span) or two.within(hosts, *span)


@given(st.lists(stretches, max_size=8), st.integers(0, 300), st.integers(1, 300))
def test_the_deadline_is_the_first_moment_that_leaves_the_bound(some, lo, bound):
    noise = Disturbance(some, round_ns=20)
    at = noise.deadline(HOSTS, lo, bound)
    assert noise.uncharged(HOSTS, lo, at) == bound
    assert noise.uncharged(HOSTS, lo, at - 1) < bound


_noise = st.lists(
    st.builds(
        lambda kind, host, lo, ms: Noise(
            seq=0, t=0, span=Span(lo * MS, (lo + ms) * MS), host=host, kind=kind, value_ns=ms * MS
        ),
        st.sampled_from(["stall", "fsync", "process", "harness", "news-dropped"]),
        st.sampled_from(HOSTS),
        st.integers(0, 8000),
        st.integers(51, 3000),
    ),
    max_size=4,
)


def with_events(history: History, more) -> History:
    """The same history with these events before its end."""
    body = [event for event in history.events if event is not history.end]
    end = [history.end] if history.end is not None else []
    events = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate([*body, *more, *end])]
    return History(events, damage=history.damage)


def tales():
    """Histories at the edge of each bound: outages, heals, claims, depositions and lost rounds of several lengths."""

    def outage(ms, _):
        return Tale(3).up().polls(1000, 1, "n1").polls(ms, 1, None).polls(500, 2, "n2").end()

    def heal(ms, late):
        tale = Tale(3).up().polls(500, 1, "n1")
        cut = tale.isolate("n3")
        tale.polls(500, 1, "n1", except_="n3=1").heal(cut)
        return tale.polls(ms, 1, "n1", except_="n3=1").polls(late, 1, "n1").end()

    def claim(ms, late):
        tale = Tale(3).up().polls(500, 1, "n1")
        tale.isolate("n1", "n1")
        return tale.polls(ms, 1, "n1").polls(late, 1, None).end()

    def deposed(ms, late):
        tale = Tale(3).up().polls(ms, 1, "n1").elected("n2", 2, "n2 n3")
        return tale.polls(late, 2, "n2").end()

    def rounds(ms, _):
        tale = Tale(3).up()
        for term in range(ms // 250):
            tale.core("n2", "prevote_started", term, reqTerm=term + 1).wait(200)
        return tale.polls(500, 1, None).end()

    return st.builds(
        lambda tell, ms, late: tell(ms, late),
        st.sampled_from([outage, heal, claim, deposed, rounds]),
        st.integers(1, 16).map(lambda n: n * 250),
        st.integers(1, 8).map(lambda n: n * 250),
    )


def verdicts(history, of=None):
    of = of or plan()
    return {checker.name: checker.check(history, of.promise, of) for checker in LIVENESS}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(tales(), soups()), _noise)
def test_more_noise_never_turns_a_verdict_into_fail(history, more):
    before, after = verdicts(history), verdicts(with_events(history, more))
    for name, verdict in after.items():
        if before[name].outcome != "fail":
            assert verdict.outcome != "fail", (name, before[name].reason, verdict.reason)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(tales(), soups()), _noise)
def test_stretches_within_the_limit_change_no_verdict(history, more):
    short = [
        msgspec.structs.replace(
            event,
            kind="stall",
            value_ns=event.value_ns % (50 * MS),
            span=Span(event.span.lo, event.span.lo + event.value_ns % (50 * MS)),
        )
        for event in more
    ]
    before, after = verdicts(history), verdicts(with_events(history, short))
    assert {name: one.outcome for name, one in after.items()} == {name: one.outcome for name, one in before.items()}


# --- verdicts ---------------------------------------------------------------------------------------------------


def test_an_outage_that_outlasts_its_charge_fails_and_says_how_much_noise_explains():
    tale = Tale(3).up().polls(1000, 1, None).noise("n2", 100).polls(2000, 1, None)
    verdict = OWED.check(tale.end(), promise(), plan())
    assert verdict.outcome == "fail"
    assert "and noise of the hosts explains 400 ms more" in verdict.findings[0].sentence


def test_a_heal_that_is_late_by_no_more_than_its_charge_is_unknown_and_one_that_is_later_fails():
    def healed(ms):
        tale = Tale(3).up().polls(500, 1, "n1")
        cut = tale.isolate("n3")
        tale.polls(500, 1, "n1", except_="n3=1").heal(cut).wait(200).noise("n2", 200)
        return CONVERGES.check(tale.polls(ms, 1, "n1", except_="n3=1").polls(1500, 1, "n1").end(), promise(), plan())

    assert (healed(1900).outcome, healed(1900).evidence["unknown_by"]) == ("unknown", "noise")
    assert healed(2800).outcome == "fail"


def test_rounds_at_a_stall_do_not_count_and_the_others_do():
    def sought(times):
        tale = Tale(3).up().wait(2000).noise("n2", 400)
        for term in range(1, times + 1):
            tale.core("n1", "prevote_started", term, reqTerm=term + 1).wait(200)
        return LIVELOCK.check(tale.polls(2500, 1, None).end(), promise(), plan())

    assert (sought(8).outcome, sought(8).evidence["unknown_by"]) == ("unknown", "noise")
    assert sought(20).outcome == "fail"


@pytest.mark.parametrize(("ago", "outcome"), [(100, "unknown"), (290, "unknown"), (700, "fail"), (9000, "fail")])
def test_a_stall_excuses_a_deposed_leader_for_one_round_and_no_longer(ago, outcome):
    tale = Tale(3).up().polls(3000, 1, "n1").noise("n1", 200)
    tale.wait(ago) if ago < 500 else tale.polls(ago, 1, "n1")
    tale.elected("n2", 2, "n2 n3").polls(1000, 2, "n2")
    assert STABLE.check(tale.end(), promise(), plan()).outcome == outcome


# --- runs that could not see noise ------------------------------------------------------------------------------


def test_a_run_that_could_read_no_source_fails_no_liveness():
    verdict = OWED.check(no_leader(sources(Tale(3), "m1", "m1", "m1", given=UNWATCHED)).end(), promise(), plan())
    assert verdict.outcome == "unknown"
    assert "no source of noise could be read on n1, n2, n3" in verdict.reason
    assert verdict.evidence["unknown_by"] == "evidence"


def test_one_host_that_is_not_watched_is_enough_to_be_unsure():
    verdict = OWED.check(no_leader(sources(Tale(3), "m1", "m1")).end(), promise(), plan())
    assert "no source of noise could be read on n3" in verdict.reason


@pytest.mark.parametrize(
    ("tale", "of"),
    [
        (Tale(3), plan()),
        (sources(Tale(3), "m1", "m1", "m1"), plan()),
        (sources(Tale(3), "m1", "m1", "m1", given=UNWATCHED), SHELL),
        (sources(Tale(3), "m1", "m1", "m1", given=UNWATCHED), plan(backend="sim")),
        (reported(Tale(3), "sources", lo=0, hi=0, host="", virtual=True), plan()),
    ],
    ids=["older", "a canary", "our own shell", "a simulated plan", "declared virtual"],
)
def test_runs_that_saw_noise_need_not_or_are_older_fail(tale, of):
    assert OWED.check(no_leader(tale).end(), promise(), of).outcome == "fail"


def test_a_later_declaration_replaces_an_earlier_one():
    tale = sources(sources(Tale(3), "m1", "m1", "m1", given=UNWATCHED), "m1", "m1", "m1")
    assert OWED.check(no_leader(tale).end(), promise(), plan()).outcome == "fail"


# --- missing knowledge ------------------------------------------------------------------------------------------


def test_nothing_is_certain_of_a_host_from_the_last_sign_of_life_of_its_agent_until_it_is_back():
    tale = Tale(3).up().wait(5000)
    reported(tale, "agent-lost", lo=1000, hi=3000, host="n3", value=0)
    line = timeline(tale.end(), promise(), plan())
    assert [line.at(t * MS).adjacency.healthy for t in (500, 1500, 3500)] == [0b111, 0b011, 0b111]
    assert line.at(1500 * MS).adjacency.dead == 0


def test_an_agent_that_never_comes_back_leaves_its_host_uncertain_to_the_end():
    tale = Tale(3).up().wait(5000)
    reported(tale, "agent-lost", lo=1000, hi=1500, host="n3", back=False)
    history = tale.wait(1000).end()
    line = timeline(history, promise(), plan())
    assert line.intervals[-1].adjacency.healthy == 0b011
    assert disturbance(history, promise(), plan()).charges(("n3",))[0][1] >= 6000 * MS


def test_nobody_is_owed_a_leader_while_the_agent_of_a_needed_host_is_lost():
    tale = Tale(3).up().polls(500, 1, "n1")
    tale.kill("n1", "n1")
    reported(tale, "agent-lost", lo=tale.now - 100, hi=tale.now + 9000, host="n2", value=0)
    verdict = OWED.check(tale.polls(4000, 1, None).end(), promise(), plan())
    assert verdict.outcome == "unknown"


@pytest.mark.parametrize("kind", ["rules-lost", "dead-man"])
def test_a_cut_that_may_have_lapsed_is_uncertain_until_the_next_confirmed_state(kind):
    tale = Tale(3).up().wait(500)
    cut = tale.isolate("n3")
    tale.wait(1000)
    reported(tale, kind, lo=1000, hi=1000, host="n3", value=0)
    tale.wait(1000).heal(cut).wait(1000)
    line = timeline(tale.end(), promise(), plan())
    assert line.at(900 * MS).adjacency.cut[0] & 0b100
    assert not line.at(1100 * MS).adjacency.cut[0] & 0b100
    assert not line.at(1100 * MS).adjacency.open[0] & 0b100
    assert line.at((tale.now - 100) * MS).adjacency.open[0] & 0b100


def test_a_cut_confirmed_while_rules_were_lost_may_be_gone_again():
    tale = Tale(3).up().wait(500)
    tale.isolate("n3")
    reported(tale, "rules-lost", lo=400, hi=900, host="n3", value=0)
    line = timeline(tale.wait(2000).end(), promise(), plan())
    assert not line.at(1500 * MS).adjacency.cut[0] & 0b100


@pytest.mark.parametrize("kind", ["news-dropped", "dead-man", "rules-lost", "agent-lost"])
def test_missing_knowledge_of_a_host_is_charged_at_any_length(kind):
    tale = Tale(3).wait(5000)
    reported(tale, kind, lo=1000, hi=1010, value=0)
    assert found(noise_of(tale)) == [("n1", kind, 1000, 1010)]


# --- no blank cheque --------------------------------------------------------------------------------------------


def covered(stalls, long=100):
    tale = Tale(3).up().elected("n1", 1, "n1 n2").append(1)
    for number in range(20):
        tale.polls(500, 1, "n1")
        if number < stalls:
            tale.noise("n2", long)
    return COVERAGE.check(tale.end(), promise(), plan())


def test_coverage_shows_the_share_of_the_run_lost_to_noise_and_is_unknown_above_a_fifth():
    quiet, little, much = covered(0), covered(4), covered(8, long=450)
    assert [one.evidence["noise"]["excused_percent"] > 0 for one in (quiet, little, much)] == [False, True, True]
    assert (quiet.outcome, little.outcome, much.outcome) == ("pass", "pass", "unknown")
    assert little.evidence["noise"] == {
        "stretches": 4,
        "longest_ns": 100 * MS,
        "excused_percent": pytest.approx(16, abs=1),
        "unwatched": [],
    }
    assert "% of the run time is charged to noise of the hosts, limit 20 %" in much.reason
    assert much.evidence["unknown_by"] == "noise"


@pytest.mark.parametrize(("stall", "noisy"), [(100, []), (400, [0])])
def test_a_failover_in_which_noise_took_more_than_a_tenth_of_the_time_is_the_machines_as_well(stall, noisy):
    tale = Tale(3).up().elected("n1", 1, "n1 n2").polls(500, 1, "n1").noise("n3", 400).polls(100, 1, "n1")
    tale.kill("n1", "n1")
    tale.wait(1000).noise("n2", stall).wait(1000).elected("n2", 2, "n2 n3").append(1).polls(500, 2, "n2")
    assert figures(tale.end(), plan())["noisy"] == noisy


def test_failovers_that_noise_touched_are_named_and_left_out_of_medians():
    tale = Tale(3).up().elected("n1", 1, "n1 n2").polls(1000, 1, "n1")
    fault = tale.kill("n1", "n1")
    tale.wait(900).noise("n2", 500).elected("n2", 2, "n2 n3").polls(500, 2, "n2").append(1).polls(500, 2, "n2")
    tale.revive(fault, "n1").polls(1500, 2, "n2")
    tale.kill("n2", "n2")
    tale.wait(300).elected("n3", 3, "n1 n3").polls(500, 3, "n3").append(2).polls(500, 3, "n3")
    told = figures(tale.end(), plan())
    assert (told["noisy"], told["noisy_faults"]) == ([0], [0])
    assert told["elect_ns"][0][0] > told["elect_ns"][1][0] == told["elect_median_ns"]
