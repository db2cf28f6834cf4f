"""A connection to the Docker engine, and its errors in our words.

Guarantees: ``connect`` either returns a client whose engine just answered, or raises MissingCapability that names a
missing engine from a missing permission; ``explained`` turns what an engine throws in the middle of something into
ClusterError. Out of scope: starting an engine.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import docker
import docker.errors
import docker.models.containers
import requests.exceptions

from dethrone.harness.core.errors import ClusterError, MissingCapability
from dethrone.harness.core.interfaces import Available, No, Yes

CALL_LIMIT_S = 30
"""Longest time for one call to the engine; builds ask for more."""

DEFAULT_SOCKET = "/var/run/docker.sock"

ENGINE_ERRORS = (docker.errors.DockerException, requests.exceptions.RequestException, OSError)
"""Everything that a call to an engine may throw."""


class NotAllowed(MissingCapability):
    """An engine is there, but this user may not talk to it."""


def engine_address() -> str:
    """Where the engine is expected: ``DOCKER_HOST``, else the first usual socket that exists, else the usual one."""
    named = os.environ.get("DOCKER_HOST")
    if named:
        return named
    candidates = [DEFAULT_SOCKET]
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        candidates.append(f"{runtime}/docker.sock")
    candidates.append(str(Path.home() / ".docker" / "run" / "docker.sock"))
    found = [path for path in candidates if Path(path).is_socket()]
    return f"unix://{(found or candidates)[0]}"


def available() -> Available:
    """Whether an engine answers this user."""
    try:
        connect(limit_s=5).close()
    except MissingCapability as error:
        return No(why=f"{error.what}: {error.cause}", what_to_do=error.next_step)
    return Yes()


def connect(*, limit_s: int = CALL_LIMIT_S, connections: int = 16) -> docker.DockerClient:
    """A client for the engine, which has just answered. ``connections``: how many threads may use it at once."""
    address = engine_address()
    try:
        if os.environ.get("DOCKER_HOST"):
            client = docker.from_env(timeout=limit_s, max_pool_size=connections)
        else:
            client = docker.DockerClient(base_url=address, timeout=limit_s, max_pool_size=connections)
        client.ping()
    except ENGINE_ERRORS as error:
        raise unreachable(address, error) from error
    return client


def unreachable(address: str, error: BaseException) -> MissingCapability:
    """Why the engine at ``address`` did not answer, from what was thrown, with the command that helps."""
    numbers = _errnos(error)
    if numbers & {errno.EACCES, errno.EPERM}:
        return NotAllowed(
            "this user may not talk to the Docker engine",
            where=address,
            cause="the user is not a member of the group that owns the engine's socket (usually `docker`)",
            next_step="run `sudo usermod -aG docker $USER`, log in again (or `newgrp docker`), then repeat the command",
        )
    if numbers & {errno.ENOENT}:
        cause = "no engine is installed or it is not started: its socket does not exist"
    elif numbers & {errno.ECONNREFUSED}:
        cause = "the engine's socket exists but no process listens: the engine died or was stopped"
    else:
        cause = _shortened(error)
    return MissingCapability(
        "no Docker engine answers",
        where=address,
        cause=cause,
        next_step="start it (`sudo systemctl start docker`), install one (https://docs.docker.com/engine/install), set "
        "DOCKER_HOST to an engine that runs, or use --on local or --on sim",
    )


@contextlib.contextmanager
def temporary(
    client: docker.DockerClient, image: str, command: Sequence[str], labels: Mapping[str, str], **more: Any
) -> Iterator[docker.models.containers.Container]:
    """A container that has not been started; it is removed at the end in any case.

    Its entry point stays in an image that is made of it, where it means nothing: an empty one would not replace.
    """
    made = client.containers.create(
        image, entrypoint=["/usr/bin/env"], command=list(command), labels=dict(labels), **more
    )
    try:
        yield made
    finally:
        with contextlib.suppress(docker.errors.NotFound):
            made.remove(force=True, v=True)


@contextlib.contextmanager
def explained(doing: str, *, where: str = "") -> Iterator[None]:
    """Turn any exception of an engine in the body into ClusterError: ``doing`` is what was tried."""
    try:
        yield
    except docker.errors.APIError as error:
        raise ClusterError(
            f"the Docker engine refused: {doing}",
            where=where or engine_address(),
            cause=_shortened(error),
            next_step="run `dethrone doctor`; leftovers of other runs are removed by `dethrone heal`",
        ) from error
    except ENGINE_ERRORS as error:
        raise ClusterError(
            f"the Docker engine did not answer while {doing}",
            where=where or engine_address(),
            cause=f"the engine died, was restarted or is overloaded ({_shortened(error)})",
            next_step="start the engine again, run `dethrone heal`, then repeat the run",
        ) from error


def _errnos(error: BaseException) -> set[int]:
    """The system's error numbers anywhere in the chain of causes: the SDK wraps them three times."""
    found: set[int] = set()
    seen: set[int] = set()
    pending: list[object] = [error]
    while pending:
        item = pending.pop()
        if id(item) in seen or not isinstance(item, BaseException):
            continue
        seen.add(id(item))
        if isinstance(item, OSError) and item.errno is not None:
            found.add(item.errno)
        pending += [item.__cause__, item.__context__, getattr(item, "reason", None), *item.args]
    return found


def _shortened(error: BaseException) -> str:
    text = " ".join(str(getattr(error, "explanation", None) or error).split())
    return text if len(text) <= 300 else text[:297] + "..."
