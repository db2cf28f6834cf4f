"""hashicorp/raft 1.7.3, the Raft library in Go under Consul, Nomad and Vault, with its BoltDB store.

Each node is ``keep``: registers and lists behind HTTP, every operation through the log, with trace lines printed by
thin wrappers around the library's own interfaces. The tutorial describes the same program as a system of the user's
own.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "hashicorp-raft")
