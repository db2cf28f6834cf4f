"""Large files of nodes as a layer of the hosts' image, so that every host has them when it comes up.

Sending them to each host through its agent costs both sides about 40 ms of a processor for each MiB; a layer is made
once. Guarantees: the layer depends on the image and on the files' contents only; it appears whole or not at all; old
layers are removed. Out of scope: which file goes where on a host (``dethrone.clusters.agent``), and the project's code
(``ship``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import docker

from dethrone.clusters.agent.large_files import digest_of
from dethrone.clusters.docker.client import explained, temporary
from dethrone.clusters.docker.image import has_image
from dethrone.clusters.docker.labels import FILES, OWNER
from dethrone.clusters.docker.ship import archive, forget_old
from dethrone.clusters.docker.state import Progress, locked, silent, state_directory

MAKE_LIMIT_S = 120
_REPOSITORY = "dethrone/files"
_OWNED = "files"
_KEPT = 16
"""Layers of files kept in the engine; the oldest go first."""


def with_files(client: docker.DockerClient, image: str, files: Sequence[bytes], *, progress: Progress = silent) -> str:
    """The tag of ``image`` with these files on it, each under its digest in ``FILES``; the image itself without any."""
    if not files:
        return image
    named = {digest_of(content): content for content in files}
    with explained("looking for the nodes' files in the engine"):
        identity = str(client.images.get(image).id)
        digest = hashlib.blake2b("\n".join([identity, *sorted(named)]).encode(), digest_size=6).hexdigest()
        tag = f"{_REPOSITORY}:{digest}"
        if has_image(client, tag):
            return tag
    with locked(state_directory("images") / "files-lock", limit_s=3 * MAKE_LIMIT_S, progress=progress):
        if not has_image(client, tag):
            progress("shipping the nodes' files to the engine")
            with (
                explained("shipping the nodes' files"),
                temporary(client, image, ["true"], {OWNER: "builder"}, network_mode="none") as container,
            ):
                container.put_archive("/", archive(named, root=FILES))
                changes = ['CMD ["python3"]', f"LABEL {OWNER}={_OWNED}"]
                container.commit(repository=_REPOSITORY, tag=digest, changes=changes)
            forget_old(client, owned=_OWNED, kept=_KEPT)
    return tag
