"""Thin layers on a host image, each made once and found again by a digest of all that it depends on.

Guarantees: a layer's tag appears whole or not at all; two processes do not make the same one; all but the newest few of
a kind are removed. Out of scope: what lies in a layer (``ship``, ``brought``).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import docker
import docker.errors
from docker.models.containers import Container

from dethrone.clusters.docker.client import explained, temporary
from dethrone.clusters.docker.image import has_image
from dethrone.clusters.docker.labels import OWNER
from dethrone.clusters.docker.state import Progress, locked, state_directory


class Kind(NamedTuple):
    """``name``: of the repository, and value of ``OWNER``. ``words``: what is shipped. ``kept``: layers that the engine
    keeps, the oldest go first. ``limit_s``: making one takes no longer."""

    name: str
    words: str
    kept: int
    limit_s: int


def layered(
    client: docker.DockerClient,
    image: str,
    kind: Kind,
    *,
    key: bytes,
    content: Callable[[], bytes],
    command: Sequence[str] = ("true",),
    finish: Callable[[Container], None] = lambda _: None,
    progress: Progress,
) -> str:
    """The tag of ``image`` with this layer. ``key``: all that it depends on except the image; ``content``: a tar of it;
    ``finish`` works on the container, whose ``command`` has not been started."""
    repository = f"dethrone/{kind.name}"
    with explained(f"looking for {kind.words} in the engine"):
        identity = str(client.images.get(image).id)
        digest = hashlib.blake2b(identity.encode() + key, digest_size=6).hexdigest()
        tag = f"{repository}:{digest}"
        if has_image(client, tag):
            return tag
    with locked(state_directory("images") / f"{kind.name}-lock", limit_s=3 * kind.limit_s, progress=progress):
        if not has_image(client, tag):
            progress(f"shipping {kind.words} to the engine")
            with (
                explained(f"shipping {kind.words}"),
                temporary(client, image, command, {OWNER: "builder"}, network_mode="none") as container,
            ):
                container.put_archive("/", content())
                finish(container)
                changes = ['CMD ["python3"]', f"LABEL {OWNER}={kind.name}"]
                container.commit(repository=repository, tag=digest, changes=changes)
            _forget_old(client, kind)
    return tag


def _forget_old(client: docker.DockerClient, kind: Kind) -> None:
    """Remove all but the newest few; the engine itself refuses to remove one that a container uses."""
    # client.images.list() asks again for each image, and fails if another process has removed one meanwhile
    found = client.api.images(filters={"label": f"{OWNER}={kind.name}"})
    found.sort(key=lambda image: int(image["Created"]), reverse=True)
    for image in found[kind.kept :]:
        with contextlib.suppress(docker.errors.APIError):
            client.images.remove(str(image["Id"]))
