"""Consul: servers that keep keys and values over hashicorp/raft. Its program is for users to bring.

``client.py`` keeps registers and sets as keys and values, over HTTP at the server that is asked.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "consul")
