"""Shared by the tests of the nemesis: views of clusters, by hand and by Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.interfaces import ClusterView


def nodes_of(count):
    return tuple(f"n{i}" for i in range(1, count + 1))


def view_of(count, leader="n1", state=None):
    nodes = nodes_of(count)
    roles = {node: "leader" if node == leader else "follower" for node in nodes}
    return ClusterView(
        nodes=nodes,
        leader=leader,
        roles=roles,
        terms=dict.fromkeys(nodes, 1),
        state=state if state is not None else healthy_cluster(nodes),
    )


@st.composite
def views_with_leader(draw, counts=None):
    count = draw(st.integers(1, 7) if counts is None else counts)
    return view_of(count, leader=draw(st.sampled_from(nodes_of(count))))
