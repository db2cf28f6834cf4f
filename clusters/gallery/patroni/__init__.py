"""PostgreSQL 15 with Patroni on etcd: a primary streams its log to standbys, and a lease in etcd says which one it is.

Each node is an etcd member and Patroni, which starts PostgreSQL and keeps it what the lease allows. ``status.py`` asks
Patroni's REST API; ``client.py`` speaks PostgreSQL's own protocol to one server, as each operation names it.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "patroni")
