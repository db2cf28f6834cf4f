"""Graphs of cut links up to symmetry, against brute force by networkx."""

from __future__ import annotations

import itertools

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networkx.algorithms.isomorphism import categorical_node_match

from dethrone.harness.core.errors import ConfigError
from dethrone.nemesis.orbits import graphs, orbits, read

SAME_ROLE = categorical_node_match("leads", default=False)
COUNTS = {(3, False): 6, (4, False): 20, (5, False): 90, (3, True): 36, (4, True): 752}


def drawn(nodes, cuts):
    """As a directed graph in which the leader is marked."""
    graph = nx.DiGraph()
    graph.add_nodes_from((place, {"leads": place == 0}) for place in range(nodes))
    graph.add_edges_from(cuts)
    return graph


def alike(nodes, one, other):
    return nx.is_isomorphic(drawn(nodes, one), drawn(nodes, other), node_match=SAME_ROLE)


@pytest.mark.parametrize(("nodes", "one_way"), COUNTS)
def test_there_are_as_many_as_burnside_counts(nodes, one_way):
    assert len(graphs(nodes, one_way=one_way)) == len(set(graphs(nodes, one_way=one_way))) == COUNTS[nodes, one_way]
    assert graphs(nodes, one_way=one_way)[0] == frozenset()
    assert len(orbits(nodes, one_way=one_way)) == COUNTS[nodes, one_way] - 1


@pytest.mark.parametrize(("nodes", "one_way"), [(3, False), (4, False), (3, True)])
def test_brute_force_finds_the_same_orbits(nodes, one_way):
    """All graphs, each put to the first one that it is isomorphic to with the leader fixed."""
    pairs = list(itertools.permutations(range(nodes), 2) if one_way else itertools.combinations(range(nodes), 2))
    classes = []
    for chosen in itertools.chain.from_iterable(itertools.combinations(pairs, k) for k in range(len(pairs) + 1)):
        cuts = set(chosen) if one_way else {*chosen, *((b, a) for a, b in chosen)}
        if not any(alike(nodes, cuts, one) for one in classes):
            classes.append(cuts)
    ours = graphs(nodes, one_way=one_way)
    assert len(classes) == len(ours)
    assert all(sum(alike(nodes, one, found) for found in ours) == 1 for one in classes)


@given(st.sets(st.sampled_from(list(itertools.combinations(range(5), 2)))))
def test_any_cut_of_five_nodes_is_exactly_one_of_the_ninety(chosen):
    cuts = {*chosen, *((b, a) for a, b in chosen)}
    ours = [one for one in graphs(5) if len(one) == len(cuts)]
    assert sum(alike(5, cuts, one) for one in ours) == 1


@given(st.sampled_from(sorted(COUNTS)), st.data())
def test_the_name_of_a_graph_reads_back_as_it(size, data):
    orbit = data.draw(st.sampled_from(orbits(size[0], one_way=size[1])))
    assert read(str(orbit)) == orbit
    assert orbit.cuts == graphs(size[0], one_way=size[1])[orbit.number]


@pytest.mark.parametrize("text", ["5:0", "5:90", "6:1", "2:1", "5-one-way:1", "5:", "17", 17, None, "3-two-way:1"])
def test_what_is_no_graph_is_refused(text):
    with pytest.raises(ConfigError):
        read(text)
