"""The agent in a container that has just been started: how it is run, and how the harness meets it.

Guarantees: an agent that does not answer is a ClusterError whose cause are the container's last words. Out of scope:
which container that is, and what it is for.
"""

from __future__ import annotations

from collections.abc import Callable

import docker

from dethrone.clusters.agent.agent_host import AgentHost
from dethrone.clusters.docker.containers import last_words
from dethrone.clusters.docker.labels import FILES
from dethrone.clusters.docker.stream import ExecStream
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ClusterError, HarnessError
from dethrone.harness.core.interfaces import HostNews

AGENT = ("python3", "-S", "-m", "dethrone.clusters.agent.agent")
"""The agent, from its compiled form; without site packages, which it does not need."""

RELAY_LIMIT_S = 15
"""How long a relay waits for the agent to listen."""

MEET_LIMIT_S = 20.0
"""How long a container that has just come up may take to answer."""


def meet(
    client: docker.DockerClient,
    container: str,
    *,
    node: str,
    address: str,
    gateway: str,
    socket: str,
    run_id: str,
    origin_ns: Ns,
    news: Callable[[HostNews], None],
    failure: Callable[[str], ClusterError],
) -> AgentHost:
    """Connect to the agent that listens on ``socket``; ``failure`` makes an error out of why it does not answer."""
    relay = [*AGENT, "relay", "--socket", socket, "--wait", str(RELAY_LIMIT_S)]
    try:
        return AgentHost(
            node,
            address,
            lambda: ExecStream(client, container, relay, name=node),
            origin_ns=origin_ns,
            news=news,
            run=run_id,
            client=gateway,
            meet_s=MEET_LIMIT_S,
            large_files=FILES,
        )
    except (HarnessError, OSError) as error:
        raise failure(last_words(client, container) or str(error)) from error
