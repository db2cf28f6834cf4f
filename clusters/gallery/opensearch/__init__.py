"""OpenSearch 2.19: the coordination layer that it has from Elasticsearch 7, over one replicated index.

Elasticsearch is described here as well: users bring its program, and it speaks the same protocol.

``Start.java`` starts a node out of the published jars; ``status.py`` asks it for the cluster state that it holds, and
``client.py`` stores documents in it.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "opensearch")
ELASTICSEARCH = packaged(__name__, "elasticsearch")
