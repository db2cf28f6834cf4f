"""MySQL 9.7 with Group Replication and a single primary: Paxos orders transactions, and views say who is a member.

``status.py`` asks a server which view it is in and what it is there; ``client.py`` sends it one statement for each
operation.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "mysql")
