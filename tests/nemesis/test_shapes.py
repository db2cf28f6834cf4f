from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.quorum import minority, quorum
from dethrone.harness.core.rng import Rng
from dethrone.nemesis import shapes

NODES = tuple(f"n{i}" for i in range(1, 8))
counts = st.integers(2, 7)


def names(count):
    return NODES[:count]


def linked(cuts, node, nodes):
    """Nodes with a two-way link to ``node``, itself included."""
    return {n for n in nodes if n == node or ((n, node) not in cuts and (node, n) not in cuts)}


def symmetric(cuts):
    return all((dst, src) in cuts for src, dst in cuts)


@given(counts, st.data())
def test_halves_cut_exactly_what_crosses_the_two_sides(count, data):
    nodes = names(count)
    group = data.draw(st.sets(st.sampled_from(nodes)))
    expected = {(a, b) for a in nodes for b in nodes if (a in group) != (b in group)}
    assert shapes.halves(group, nodes) == expected


@given(counts, st.data())
def test_isolated_nodes_are_alone_even_from_each_other(count, data):
    nodes = names(count)
    group = data.draw(st.sets(st.sampled_from(nodes), min_size=1))
    cuts = shapes.isolate(group, nodes)
    assert all(linked(cuts, node, nodes) == {node} for node in group)
    rest = set(nodes) - group
    assert all(linked(cuts, node, nodes) == rest for node in rest)


def test_a_bridge_sees_both_sides_which_see_only_it_and_themselves():
    cuts = shapes.bridge("n3", ("n1", "n2"), ("n4", "n5"))
    assert linked(cuts, "n3", names(5)) == set(names(5))
    assert linked(cuts, "n1", names(5)) == {"n1", "n2", "n3"}
    assert linked(cuts, "n5", names(5)) == {"n3", "n4", "n5"}
    with pytest.raises(ValueError, match="stands on a side"):
        shapes.bridge("n1", ("n1",), ("n2",))


@pytest.mark.parametrize("count", [4, 5, 6, 7])
def test_on_a_majorities_ring_each_node_sees_a_majority_of_its_own(count):
    nodes = tuple(Rng(7).shuffle(names(count)))
    cuts = shapes.majorities_ring(nodes)
    seen = [frozenset(linked(cuts, node, nodes)) for node in nodes]
    assert symmetric(cuts)
    assert all(quorum(count) <= len(majority) < count for majority in seen)
    assert len(set(seen)) == count


def test_a_majorities_ring_of_five_is_the_textbook_one():
    cuts = shapes.majorities_ring(("a", "b", "c", "d", "e"))
    assert linked(cuts, "a", "abcde") == {"e", "a", "b"}
    assert len(cuts) == 10


def test_one_link_is_one_link_in_both_directions():
    assert shapes.one_link("n1", "n2") == {("n1", "n2"), ("n2", "n1")}


@given(counts)
def test_one_way_in_is_deaf_and_one_way_out_is_mute(count):
    nodes = names(count)
    others = nodes[1:]
    assert shapes.one_way_in(("n1",), nodes) == {(other, "n1") for other in others}
    assert shapes.one_way_out(("n1",), nodes) == {("n1", other) for other in others}
    assert shapes.one_way_in(("n1",), nodes) | shapes.one_way_out(("n1",), nodes) == shapes.isolate(("n1",), nodes)


@pytest.mark.parametrize("count", [3, 4, 5, 7])
def test_in_a_chain_only_neighbours_talk(count):
    nodes = names(count)
    cuts = shapes.chain(nodes)
    for i, node in enumerate(nodes):
        assert linked(cuts, node, nodes) == set(nodes[max(0, i - 1) : i + 2])


def test_around_a_hub_everyone_sees_only_the_hub():
    cuts = shapes.hub("n2", names(4))
    assert linked(cuts, "n2", names(4)) == set(names(4))
    assert all(linked(cuts, node, names(4)) == {node, "n2"} for node in ("n1", "n3", "n4"))


@given(st.integers(1, 31))
def test_a_minority_lost_leaves_a_quorum(count):
    assert count - minority(count) == quorum(count)
