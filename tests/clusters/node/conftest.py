from __future__ import annotations

import pytest

from tests.clusters.node.node_cluster import Cluster


@pytest.fixture
def clusters(tmp_path):
    """A factory of clusters that are killed at the end of the test."""
    made = []

    def make(size, target="toy_target:TARGET", **config):
        root = tmp_path / f"c{len(made)}"
        root.mkdir()
        made.append(Cluster(root, size, target=target, **config))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()
