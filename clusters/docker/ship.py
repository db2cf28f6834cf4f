"""The project's code as it is shipped to the hosts: one thin layer on the host image, not a new host image.

Guarantees: the archive is a pure function of the code (same bytes, same owner, no times); it is put and compiled by the
image's own Python once a change, so that deploying copies nothing and nodes start fast; old layers are removed. Leaves
out everything that a node does not import: the tests, the harness above its core, the checkers, the worlds of hosts.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import docker
from docker.models.containers import Container

import dethrone
from dethrone import clusters, harness
from dethrone.clusters.agent import bundle
from dethrone.clusters.docker.labels import AGENT, LIB, PYTHON
from dethrone.clusters.docker.layers import Kind, layered
from dethrone.clusters.docker.state import Progress, silent
from dethrone.harness.core.errors import ClusterError

COMPILE_LIMIT_S = 60
_CODE = Kind("code", "the project's code", kept=32, limit_s=COMPILE_LIMIT_S)
"""A layer for each image and version of the code."""
_HOST_WORLDS = ("attach", "docker", "local", "ssh")

_COMPILE = (
    f"compile() {{ $1 -m compileall -q --invalidation-mode unchecked-hash {LIB}; }}; compile {PYTHON} && "
    f'if test "$({PYTHON} -V)" != "$(python3 -V)"; then compile python3; fi'
)
"""With the nodes' Python and with the agent's, which are one unless the image is the user's own."""
_IN_TIME = 'timeout "$1" /bin/sh -c "$2"; exit $?'
"""A shell around it, because the ``timeout`` of coreutils 9.10 refuses to be the first process of a container."""


def sources() -> dict[str, bytes]:
    """Path below the library directory → content, of everything that runs inside a host; the agent as one file."""
    found = {"dethrone/__init__.py": Path(str(dethrone.__file__)).read_bytes()}
    found[AGENT.removeprefix(f"{LIB}/")] = bundle.agent()
    for package, parts in ((harness, ("__init__.py", "core")), (clusters, ("",))):
        root = Path(str(package.__file__)).parent
        for part in parts:
            base = root / part
            for path in [base] if base.is_file() else sorted(base.rglob("*.py")):
                name = f"dethrone/{root.name}/{path.relative_to(root).as_posix()}"
                if not name.startswith(tuple(f"dethrone/clusters/{world}/" for world in _HOST_WORLDS)):
                    found[name] = path.read_bytes()
    return found


def archive(files: Mapping[str, bytes], *, root: str) -> bytes:
    """A tar of ``files`` below ``root``, the same bytes whenever the content is the same."""
    out = io.BytesIO()
    base = root.strip("/")
    directories = {parent.as_posix() for name in files for parent in Path(base, name).parents} - {"."}
    outer = {parent.as_posix() for parent in Path(base).parents}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for directory in sorted(directories - outer):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def ship(client: docker.DockerClient, image: str, *, progress: Progress = silent) -> str:
    """The tag of ``image`` with the project's present code on it; made in about a second when the code has changed.

    The image's own Python compiles it; compiled files never check their sources, which travel with them.
    """
    plain = archive(sources(), root=LIB)
    return layered(
        client,
        image,
        _CODE,
        key=_COMPILE.encode() + plain,
        content=lambda: plain,
        command=("/bin/sh", "-c", _IN_TIME, "sh", str(COMPILE_LIMIT_S), _COMPILE),
        finish=lambda container: _compile(container, where=image),
        progress=progress,
    )


def _compile(container: Container, *, where: str) -> None:
    container.start()
    code = container.wait(timeout=COMPILE_LIMIT_S + 10)["StatusCode"]
    if code != 0:
        output = container.logs(tail=10).decode(errors="replace").strip()
        raise ClusterError(
            f"the project's code does not compile in the image (exit code {code})",
            where=where,
            cause=output or "the container was ended",
            next_step="see that the image's Python is 3.11 or newer; if it is, reinstall dethrone",
        )
