"""When the harness believes that all is well."""

import msgspec

from dethrone.harness.core.clock import MS, Span
from dethrone.harness.core.interfaces import Reading
from dethrone.harness.engine.run.cluster_view import ViewKeeper

NODES = ("n1", "n2", "n3")


def keeper(nodes=NODES, voters=None, led=True, **readings):
    """Each node's reading: (leader, term, leads)."""
    view = ViewKeeper(nodes, voters=voters, led=led)
    for node, (leader, term, leads) in readings.items():
        role = "LEADER" if leads else "FOLLOWER"
        view.answered(node, Span(10 * MS, 11 * MS), Reading(role=role, leads=leads, term=term, leader=leader))
    return view


def test_one_leader_that_all_name_is_health():
    view = keeper(n1=("n1", 2, True), n2=("n1", 2, False), n3=("n1", 2, False))
    assert view.healthy(20 * MS)


def test_a_follower_that_knows_a_lower_term_is_no_ill():
    assert keeper(n1=("n1", 2, True), n2=("n1", 2, False), n3=("n1", 0, False)).healthy(20 * MS)


def test_a_leader_of_an_older_term_than_somebody_knows_is_not_health():
    assert not keeper(n1=("n1", 2, True), n2=("n1", 3, False), n3=("n1", 2, False)).healthy(20 * MS)


def test_a_node_that_names_another_leader_or_is_silent_is_not_health():
    assert not keeper(n1=("n1", 2, True), n2=("n2", 2, False), n3=("n1", 2, False)).healthy(20 * MS)
    assert not keeper(n1=("n1", 2, True), n2=("n1", 2, False)).healthy(20 * MS)
    assert not keeper(n1=("n1", 2, False), n2=("n1", 2, False), n3=("n1", 2, False)).healthy(20 * MS)


def test_a_node_that_does_not_vote_need_not_know_the_leader_but_must_answer():
    told = {"n1": ("n1", 2, True), "n2": ("n1", 2, False)}
    assert keeper(voters=("n1", "n2"), **told, n3=(None, 0, False)).healthy(20 * MS)
    assert not keeper(voters=("n1", "n2"), **told).healthy(20 * MS)
    assert not keeper(**told, n3=(None, 0, False)).healthy(20 * MS)


def test_where_no_leader_is_owed_answers_are_health():
    told = dict.fromkeys(NODES, (None, 0, False))
    assert keeper(led=False, **told).healthy(20 * MS)
    assert not keeper(**told).healthy(20 * MS)
    assert not keeper(led=False, n1=(None, 0, False)).healthy(20 * MS)


def test_where_nobody_says_whom_they_follow_one_node_that_leads_is_health_and_two_are_not():
    def blind(**leading):
        view = ViewKeeper(NODES)
        for node in NODES:
            leads = node in leading
            told = Reading(role="x", leads=leads, term=leading.get(node, 2), leader=None, tells_leader=False)
            view.answered(node, Span(10 * MS, 11 * MS), told)
        return view.healthy(20 * MS)

    assert blind(n1=2)
    assert not blind(n1=2, n2=2)
    assert not blind()


def in_groups(**groups):
    """Each node answers for these groups, of which n1 leads all."""
    view = ViewKeeper(NODES, voters=("n1", "n2"))
    for node, names in groups.items():
        told = [Reading(role="x", leads=node == "n1", term=2, leader="n1", group=name) for name in names]
        view.answered(node, Span(10 * MS, 11 * MS), msgspec.structs.replace(told[0], others=tuple(told[1:])))
    return view


def test_all_voters_must_be_in_the_same_groups():
    alike = in_groups(n1=["a", "b"], n2=["a", "b"], n3=["a"])
    assert (alike.healthy(20 * MS), alike.apart()) == (True, "")
    apart = in_groups(n1=["a", "b"], n2=["a"], n3=["a", "b"])
    assert not apart.healthy(20 * MS)
    assert apart.apart() == "n2 is not in the group b, in which n1 is"
    assert in_groups(n2=["b"], n1=["a", "b"]).apart() == "n2 is not in the group a, in which n1 is"
    assert in_groups(n1=["a"], n2=["b"]).apart() == "n2 is not in the group a, in which n1 is"
    assert keeper(n1=("n1", 2, True)).apart() == ""
