"""transfer: asked of the leader only, for one other node; another leader of a later term shows it."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import OpOutcome, OpPlan, Reading, Requesting
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis.faults.transfer import FAULT
from tests.nemesis.views import nodes_of, view_of


def planned(victims="leader", hold=0, **params):
    return PlannedFault(kind="transfer", victims=victims, hold_ns=hold, params=params)


def said(leads=True, term=2):
    return Reading(role="leader" if leads else "follower", leads=leads, term=term)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_every_draw_names_a_follower_and_changes_no_host(nodes, seed):
    drawn = FAULT.draw(Rng(seed), nodes=nodes, hold_ns=1000, knobs={})
    FAULT.check(drawn, nodes=nodes)
    assert (drawn.victims, drawn.delay_ns, drawn.hold_ns) == ("leader", 0, 0)
    view = view_of(nodes, leader="n2")
    victims, params = FAULT.resolve(drawn, view, Rng(seed))
    assert victims == ("n2",)
    assert params["to"].removeprefix("node:") in set(nodes_of(nodes)) - {"n2"}
    assert FAULT.apply(view.state, victims, params) == view.state
    assert FAULT.request(victims, params) == OpPlan(f="transfer", value=params["to"][5:], target="n2")


def test_in_company_leadership_moves_late_when_there_is_a_leader_again():
    delays = {
        company: {
            FAULT.oblige("leader", Rng(seed), nodes=5, hold_ns=1000, company=company).delay_ns for seed in range(40)
        }
        for company in (0, 1, 3)
    }
    assert delays[0] == {0}
    assert all(750 <= delay <= 1000 or delay == 1250 for delay in delays[1])
    assert 1250 in delays[1]
    assert min(delays[1]) <= 1000
    assert delays[3] == {1250}


def test_of_several_nodes_one_that_does_not_lead_is_named():
    faulty = view_of(3, leader="n1")
    assert FAULT.resolve(planned(to="node:n1"), faulty, Rng(1)) == "n1 leads already"
    zoned = msgspec.structs.replace(faulty, zones={"n1": "a", "n2": "b", "n3": "a"})
    assert FAULT.resolve(planned(to="zone:a"), zoned, Rng(1)) == (("n1",), {"to": "node:n3"})


def test_a_realised_transfer_can_be_planned_again():
    victims, params = FAULT.resolve(planned(to="node:n3"), view_of(3), Rng(1))
    again = planned(victims=f"node:{victims[0]}", **params)
    FAULT.check(again, nodes=3)
    assert FAULT.resolve(again, view_of(3), Rng(2)) == (victims, params)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (planned(hold=5), "ends at once"),
        (planned(to="all"), "one node"),
        (planned(to="follower:2"), "one node"),
        (planned(to=3), "selector"),
        (planned(to="nobody"), "selector"),
        (planned(at="n1"), "parameter"),
    ],
)
def test_what_no_transfer_can_be_is_refused_before_the_run(fault, why):
    with pytest.raises(ConfigError, match=why) as refused:
        FAULT.check(fault, nodes=3)
    assert refused.value.next_step


@pytest.mark.parametrize(
    ("fault", "leader", "why"),
    [
        (planned(), None, "no leader is known"),
        (planned(victims="node:n2"), "n1", "n2 does not lead"),
        (planned(victims="node:n2,n3"), "n1", "n2, n3 do not lead"),
        (planned(to="node:n1"), "n1", "n1 leads already"),
        (planned(to="node:n9"), "n1", "no node n9"),
    ],
)
def test_what_cannot_be_asked_for_now_says_why(fault, leader, why):
    assert why in FAULT.resolve(fault, view_of(3, leader=leader), Rng(1))


def shown(answer, node, reading):
    return FAULT.shown(("n1",), {"to": "node:n2"}, answer, node, reading)


def test_a_leader_that_agreed_may_be_followed_by_any_other_node():
    agreed = OpOutcome(status="ok", node="n1")
    assert isinstance(FAULT, Requesting)
    assert shown(agreed, "n2", said())
    assert shown(agreed, "n3", said())
    assert not shown(agreed, "n2", said(leads=False))
    assert not shown(agreed, "n1", said())


def test_without_its_answer_only_the_named_node_shows_that_leadership_was_handed_over():
    silent = OpOutcome(status="info", error="timeout")
    assert shown(silent, "n2", said())
    assert not shown(silent, "n3", said())


def test_an_answer_of_another_node_is_no_answer_of_the_leader():
    assert not shown(OpOutcome(status="ok", node="n3"), "n2", said())
