"""ovsdb-server, the database of Open vSwitch and OVN, as a cluster: Raft in C, written for this server.

``status.py`` reads ``cluster/status`` of the server's control socket; ``client.py`` carries operations out as OVSDB
transactions (RFC 7047) at one server, which forwards changes to the leader.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "ovsdb")
