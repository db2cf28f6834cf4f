"""Large files of nodes as a layer of the hosts' image, so that every host has them when it comes up.

Sending them to each host through its agent costs both sides about 40 ms of a processor for each MiB; a layer is made
once (``layers``). Guarantees: it depends on the image and on the files' contents only. Out of scope: which file goes
where on a host (``dethrone.clusters.agent``), and the project's code (``ship``).
"""

from __future__ import annotations

from collections.abc import Sequence

import docker

from dethrone.clusters.agent.large_files import digest_of
from dethrone.clusters.docker.labels import FILES
from dethrone.clusters.docker.layers import Kind, layered
from dethrone.clusters.docker.ship import archive
from dethrone.clusters.docker.state import Progress, silent

_FILES = Kind("files", "the nodes' files", kept=16, limit_s=120)


def with_files(client: docker.DockerClient, image: str, files: Sequence[bytes], *, progress: Progress = silent) -> str:
    """The tag of ``image`` with these files on it, each under its digest in ``FILES``; the image itself without any."""
    if not files:
        return image
    named = {digest_of(content): content for content in files}
    key = "\n".join(sorted(named)).encode()
    return layered(client, image, _FILES, key=key, content=lambda: archive(named, root=FILES), progress=progress)
