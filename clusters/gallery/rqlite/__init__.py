"""rqlite: SQLite behind hashicorp/raft. Its program is for users to bring.

``client.py`` keeps registers and sets in two tables, over HTTP at the node that is asked.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "rqlite")
