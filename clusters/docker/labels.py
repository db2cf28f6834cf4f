"""The names by which the Docker world knows its own things, and nothing else's.

Guarantees: everything that this package creates carries ``OWNER``; a thing without it is never touched. Out of scope:
asking an engine for anything.
"""

from __future__ import annotations

OWNER = "dethrone.owner"
"""On every container, network and image of ours. Value: what made it (``run``, ``builder``, ``probe``, ``image``)."""

RUN = "dethrone.run"
"""The run that a container or network belongs to."""

STATE = "dethrone.state"
"""The state directory of that run's harness, so that ``heal`` finds its lock and ledger."""

NODE = "dethrone.node"
"""The node that a container is the host of."""

ROOT = "/opt/dethrone"
"""Where everything of ours lives inside a container."""

LIB = f"{ROOT}/lib"
"""The project's code: the package ``dethrone`` with ``harness`` (its core only) and ``clusters``."""

PYTHON = f"{ROOT}/venv/bin/python"
"""The interpreter for node processes: the image's own, with msgspec."""

FILES = f"{ROOT}/files"
"""Large files of nodes, each under the digest of its content."""

JARS = f"{ROOT}/jars"
"""The jars of a recipe, all in one directory: ``-cp {JARS}/*``."""

BIN = f"{ROOT}/bin"
"""Executables of a recipe."""

AGENT = f"{LIB}/dethrone/clusters/agent/agent.py"
"""The agent, a single file that needs only the standard library."""

MEMORY = "/var/lib/dethrone/memory"
"""Where a host has a file system in memory, of half the memory that it may use; nodes have a directory in it."""

OF_A_RUN = f"{OWNER}=run"
"""The value matters: containers inherit the labels of their image, also a user's own container of an image of ours."""


def owned_by(run: str) -> dict[str, list[str]]:
    """The engine's filter for what belongs to ``run``."""
    return {"label": [OF_A_RUN, f"{RUN}={run}"]}
