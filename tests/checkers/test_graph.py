"""What is certain when, and which windows come of it."""

from __future__ import annotations

import msgspec

from dethrone.checkers.graph import explain, timeline
from dethrone.checkers.liveness_windows import windows
from dethrone.checkers.step_down_without_quorum import deaf_stretches
from dethrone.harness.core.clock import MS
from dethrone.harness.core.hoststate import (
    HEALTHY,
    ClockSkew,
    DiskTrouble,
    HostState,
    LinkQuality,
    with_cuts,
    without_new,
)
from tests.checkers.histories import Tale, plan, promise


def line_of(tale):
    return timeline(tale.end(), promise(), plan(len(tale.nodes)))


def tiers(tale, least_ms=100, **promised):
    found = windows(tale.end(), promise(**promised), plan(len(tale.nodes)))
    return [(window.tier, window.members) for window in found if window.length >= least_ms * MS]


def replaced(tale, node, **changes):
    return {**tale.state, node: msgspec.structs.replace(tale.state[node], **changes)}


def test_nothing_is_certain_between_a_command_and_its_confirmed_effect():
    tale = Tale(3).up().wait(500)
    began = tale.now
    tale.isolate("n1")
    confirmed = tale.now - 1
    line = line_of(tale.wait(500))
    before, during = line.at((began - 1) * MS), line.at((began + 2) * MS)
    after = line.at((confirmed + 1) * MS)
    assert before.adjacency.open[0] == 0b110
    assert (during.adjacency.open[0], during.adjacency.cut[0]) == (0, 0)
    assert during.adjacency.open[1] == 0b100  # what the change does not touch stays certain
    assert (after.adjacency.open[0], after.adjacency.cut[0]) == (0, 0b110)


def test_a_host_that_did_not_confirm_is_uncertain_until_it_does():
    tale = Tale(3).up().wait(500)
    tale.converge(replaced(tale, "n3", cpu_percent=5), confirmed=False)
    tale.wait(500)
    lost = tale.now
    tale.converge(dict.fromkeys(tale.nodes, HEALTHY)).wait(500)
    line = line_of(tale)
    assert not line.at((lost - 100) * MS).adjacency.open[0] & 0b100
    assert line.at((lost + 100) * MS).adjacency.open[0] & 0b100


def test_all_voters_are_t1_and_an_isolated_majority_is_t2():
    tale = Tale(3).up().wait(500)
    cut = tale.isolate("n3")
    tale.wait(500).heal(cut).wait(500)
    everyone = ("n1", "n2", "n3")
    assert tiers(tale) == [("T1", everyone), ("T2", ("n1", "n2")), ("T1", everyone)]


def test_one_missing_link_is_t3_and_one_missing_direction_t5():
    tale = Tale(3).up().wait(500)
    cut = tale.one_way([("n1", "n3"), ("n3", "n1")], "n1 n3")
    tale.wait(500).heal(cut)
    tale.one_way([("n1", "n3")], "n1 n3")
    tale.wait(500)
    assert tiers(tale)[1:] == [("T3", ("n1", "n2")), ("T5", ("n1", "n2"))]


def test_a_hub_without_a_majority_clique_is_t4():
    tale = Tale(5).up().wait(500)
    spokes = [(a, b) for a in tale.nodes for b in tale.nodes if "n1" not in {a, b} and a != b]
    tale.one_way(spokes, "n1")
    tale.wait(500)
    assert tiers(tale)[-1] == ("T4", tale.nodes)


def test_a_ring_of_majorities_owes_nobody_a_leader_but_by_t4():
    tale = Tale(5).up().wait(500)
    far = [(a, b) for i, a in enumerate(tale.nodes) for j, b in enumerate(tale.nodes) if (i - j) % 5 in {2, 3}]
    tale.one_way(far, "n1")
    tale.wait(500)
    assert tiers(tale)[-1][0] == "T4"


def test_lossy_slow_and_sick_members_belong_to_no_witness_set():
    for change in (
        {"links": (LinkQuality(src="n2", loss_percent=60),)},
        {"links": (LinkQuality(src="n2", delay_ns=500 * MS),)},
        {"disk": DiskTrouble(kind="eio")},
        {"cpu_percent": 5},
    ):
        tale = Tale(3).up().wait(500)
        tale.converge(replaced(tale, "n1", **change)).wait(500)
        assert all("n1" not in members or "n2" not in members for _, members in tiers(tale)[1:])
    tale = Tale(3).up().wait(500)
    tale.converge(replaced(tale, "n1", links=(LinkQuality(src="n2", loss_percent=20),))).wait(500)
    assert tiers(tale)[-1][0] == "T1"


def test_a_promise_may_say_which_loss_a_link_may_have():
    tale = Tale(3).up().wait(500)
    tale.converge(replaced(tale, "n1", links=(LinkQuality(src="n2", loss_percent=20),))).wait(500)
    assert [tier for tier, _ in tiers(tale)] == ["T1", "T1"]
    assert [tier for tier, _ in tiers(tale, loss_percent_max=5)] == ["T1"]


def test_a_change_of_a_clock_touches_the_window_and_cuts_nothing():
    tale = Tale(3).up().wait(500)
    tale.converge(replaced(tale, "n1", clock=ClockSkew(offset_ns=-(10**12)))).wait(500)
    assert [tier for tier, _ in tiers(tale)] == ["T1", "T1"]


def test_a_restarted_node_counts_again_once_it_answers():
    tale = Tale(3).up().wait(500)
    killed = tale.kill("n3")
    tale.wait(500).heal(killed)
    tale.incarnation["n3"] = 2
    tale.process("n3", "started").wait(400)
    slow = tale.now
    tale.process("n3", "ready").wait(500)
    line = line_of(tale)
    assert not line.at((slow - 10) * MS).adjacency.alive & 0b100
    assert line.at((slow + 10) * MS).adjacency.alive & 0b100
    assert [tier for tier, _ in tiers(tale)] == ["T1", "T2", "T1"]


def test_a_node_that_ended_before_it_answered_counts_no_more():
    tale = Tale(3).up().wait(100)
    tale.process("n3", "exited", code=-9)
    tale.incarnation["n3"] += 1
    tale.process("n3", "started").wait(20).process("n3", "exited", asked=False, code=70).wait(8000)
    last = line_of(tale).intervals[-1]
    assert last.adjacency.alive == 0b011
    assert last.adjacency.dead == 0b100


def test_a_frozen_leader_is_not_deaf_until_it_is_thawed():
    tale = Tale(3).up().wait(500)
    state = with_cuts(tale.state, frozenset({("n2", "n1"), ("n3", "n1")}))
    tale.converge({**state, "n1": msgspec.structs.replace(state["n1"], frozen=True)}).wait(500)
    thawed = tale.now
    tale.converge(state).wait(500)
    (deaf,) = deaf_stretches(line_of(tale), 2)
    assert deaf.node == "n1"
    assert thawed * MS <= deaf.lo <= (thawed + 5) * MS


def test_a_graph_is_explained_by_what_is_missing():
    tale = Tale(3).up().wait(500)
    tale.one_way([("n1", "n3"), ("n3", "n1")], "n1 n3")
    told = explain(line_of(tale.wait(500)).intervals[-1].adjacency)
    assert told == {"not_well": [], "no_two_way_link": [["n1", "n3"]], "cliques": [["n1", "n2"], ["n2", "n3"]]}


def test_since_when_a_set_is_an_untouched_clique():
    tale = Tale(3).up().wait(500)
    cut = tale.isolate("n3")
    tale.wait(500).heal(cut).wait(500)
    healed = max(event.span.hi for event in tale.events if type(event).__name__ == "Converged")
    line = line_of(tale)
    now = (tale.now - 1) * MS
    assert line.clique_since(line.mask(("n1", "n2")), now) < 100 * MS
    assert line.clique_since(line.mask(("n1", "n3")), now) == healed


def test_the_default_state_is_healthy():
    assert HostState().healthy


def test_a_link_without_new_connections_is_neither_open_nor_cut():
    tale = Tale(3).up()
    tale.fault("partition", "n1", without_new(tale.state, frozenset({("n1", "n2")})), "n1")
    interval = timeline(tale.wait(500).mark("stop").end(), promise(), plan(3)).intervals[-1]
    n1, n2 = 0, 1
    assert not interval.adjacency.open[n1] >> n2 & 1
    assert not interval.adjacency.cut[n1] >> n2 & 1
    assert interval.adjacency.open[n2] >> n1 & 1
