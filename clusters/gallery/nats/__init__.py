"""NATS Server with JetStream: a stream is a Raft group of its own, in Go, with a replica on each node.

``status.py`` reads the stream's group from the server's monitor (``/raftz``); ``client.py`` makes the stream and
carries operations out over NATS' own protocol at one server, which forwards them to the leader of the stream.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "nats")
OLDER = SYSTEM.beginning_with("2.12.1")
