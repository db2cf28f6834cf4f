"""The images that hosts are made of, built on this machine and cached by what they are made from.

An image carries a Debian with python3, iptables, iproute2 (``ss``, ``tc``), procps and libfaketime, and a Python
environment of its own with msgspec for node processes, independent of this machine's Python. It does NOT carry the
project's code: that is shipped at each deploy (``dethrone.clusters.docker.ship``), so code changes build nothing.

Guarantees: the same recipe is built once a machine (its tag is the hash of everything it is made from) and builders
wait for each other; a failed or interrupted build leaves no half image under the tag; the machine's mirrors, proxies,
certificates and indexes are used and do not stay in the image. Out of scope: pushing images anywhere, and removing old
ones (``docker image prune`` knows them by the label ``dethrone.owner=image``).

Recipes are files (``recipe_files``). Images are layers of each other: every host, then the Debian packages, then what
was fetched, so recipes with the same packages share them.

Run as ``python -m dethrone.clusters.docker.image [RECIPE ...]`` to build ahead of time.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence

import docker
import docker.errors
import docker.models.containers
import msgspec

from dethrone.clusters import pinned
from dethrone.clusters.docker.base import INCLUDE, default_base, named_base
from dethrone.clusters.docker.client import connect, explained, temporary
from dethrone.clusters.docker.fetching import BUILD, fetching
from dethrone.clusters.docker.labels import BIN, OWNER, ROOT
from dethrone.clusters.docker.programs import NOTHING, Artifacts
from dethrone.clusters.docker.recipe_files import ingredients_of
from dethrone.clusters.docker.state import Progress, locked, silent, state_directory
from dethrone.clusters.recipe import RELEASE
from dethrone.harness.core.errors import ClusterError, HarnessError

BUILD_LIMIT_S = 900
"""Longest time for the steps inside one image."""

_SCRIPT = f"""set -eu
say() {{ echo "dethrone: $*"; }}
command -v apt-get >/dev/null || {{ say 'FAILED the base image has no apt-get: it must be Debian-like'; exit 1; }}
chmod -R a+rX {BUILD}
missing=
for package in "$@"; do
  case "$(dpkg-query -W -f '${{db:Status-Status}}' "$package" 2>/dev/null || true)" in
    installed) ;;
    *) missing="$missing $package" ;;
  esac
done
if [ -n "$missing" ]; then
  say "installing$missing"
  policy=/usr/sbin/policy-rc.d
  [ -e $policy ] || {{ printf '#!/bin/sh\\nexit 101\\n' > $policy; chmod +x $policy; ours=1; }}
  apt-get -q update
  apt-get -q -y --no-install-recommends install $missing
  [ -z "${{ours:-}}" ] || rm -f $policy
  apt-get clean
  rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
fi
if [ ! -x {ROOT}/venv/bin/python ]; then
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' \\
    || {{ say "FAILED its python3 is older than 3.11: $(python3 -V)"; exit 1; }}
  say 'making the Python environment of the nodes'
  python3 -m venv {ROOT}/venv
  printf '%s' "$REQUIREMENTS" > {BUILD}/requirements.txt
  {ROOT}/venv/bin/pip install -q --only-binary :all: --require-hashes -r {BUILD}/requirements.txt
  {ROOT}/venv/bin/python -m compileall -q {ROOT}/venv/lib >/dev/null || true
fi
{ROOT}/venv/bin/python -c 'import msgspec'
mkdir -p {ROOT}/lib
rm -rf {BUILD} /root/.cache /tmp/* /var/tmp/*
"""


class Recipe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an image is made from. ``base``: the user's image, or None for a Debian of our own, of that release."""

    base: str | None
    packages: tuple[str, ...]
    requirement: str
    script: str
    architecture: str
    artifacts: Artifacts = NOTHING
    debian: str = RELEASE

    @property
    def tag(self) -> str:
        """The image's name: a hash over everything here."""
        digest = hashlib.blake2b(msgspec.json.encode(self), digest_size=6).hexdigest()
        return f"dethrone/host:{digest}"


def ensure_image(
    client: docker.DockerClient,
    *,
    base: str | None = None,
    packages: Sequence[str] = (),
    artifacts: Artifacts = NOTHING,
    debian: str = RELEASE,
    progress: Progress = silent,
) -> str:
    """The tag of an image with these packages and artifacts, built unless it is there. Bounded; see ``BUILD_LIMIT_S``.

    ``base`` names an image to build on; None: a minimal Debian of that release, found, made or pulled.
    """
    with explained("looking for the image"):
        recipe = _recipe(client, base, packages, artifacts, debian)
        if has_image(client, recipe.tag):
            return recipe.tag
    if base is not None:
        base = named_base(client, base, progress=progress)
        recipe = _recipe(client, base, packages, artifacts, debian)
    lock = state_directory("images") / "lock"
    with locked(lock, limit_s=3 * BUILD_LIMIT_S, progress=progress):
        if not has_image(client, recipe.tag):
            _build(client, recipe, progress=progress)
    return recipe.tag


def has_image(client: docker.DockerClient, tag: str) -> bool:
    """Whether the engine holds the image."""
    try:
        client.images.get(tag)
    except docker.errors.ImageNotFound:
        return False
    return True


def cached_tag(client: docker.DockerClient, recipe: str, *, base: str | None = None) -> str | None:
    """The image's tag if it is built already; builds and pulls nothing."""
    wanted = ingredients_of(recipe)
    tag = _recipe(client, base, wanted.packages, wanted.artifacts, wanted.debian).tag
    return tag if has_image(client, tag) else None


def _recipe(
    client: docker.DockerClient,
    base: str | None,
    packages: Sequence[str],
    artifacts: Artifacts = NOTHING,
    debian: str = RELEASE,
) -> Recipe:
    identity = base
    if base is not None:
        with contextlib.suppress(docker.errors.ImageNotFound):
            identity = str(client.images.get(base).id)  # a newer image of that name is another recipe
    return Recipe(
        base=identity,
        packages=(*INCLUDE, "ca-certificates", *sorted(set(packages))),
        requirement=pinned.requirements(),
        script=f"{RELEASE}\n{_SCRIPT}",
        architecture=str(client.version().get("Arch", "")),
        artifacts=artifacts,
        debian=debian,
    )


def _build(client: docker.DockerClient, recipe: Recipe, *, progress: Progress) -> None:
    """Run the script in a container on the base, then commit it: unlike a Dockerfile's layers this keeps no input."""
    if recipe.artifacts != NOTHING:
        _furnish(client, recipe, progress=progress)
        return
    fetch = fetching(recipe.debian)
    plain = msgspec.structs.replace(recipe, packages=(*INCLUDE, "ca-certificates"))
    if recipe.packages != plain.packages:  # extra packages form a layer above the common image
        if not has_image(client, plain.tag):
            _build(client, plain, progress=progress)
        base = plain.tag
    else:
        scratch = state_directory("images")
        base = recipe.base or default_base(client, fetch, release=recipe.debian, scratch=scratch, progress=progress)
    progress(f"building {recipe.tag}")
    environment = {**fetch.environment, "REQUIREMENTS": recipe.requirement}
    with explained(f"building {recipe.tag}"), _builder(client, base, recipe.tag) as container:
        container.put_archive("/", _tar({f"{BUILD}/{name}": data for name, data in fetch.files.items()}))
        container.start()
        _execute(str(container.id), recipe.packages, environment, progress=progress)
        _commit(container, recipe.tag)


def _furnish(client: docker.DockerClient, recipe: Recipe, *, progress: Progress) -> None:
    """The same image without what is fetched by this machine, built unless it is there, and that put into it."""
    files = recipe.artifacts.files(progress=progress)
    bare = msgspec.structs.replace(recipe, artifacts=NOTHING)
    if not has_image(client, bare.tag):
        _build(client, bare, progress=progress)
    progress(f"building {recipe.tag}")
    with explained(f"building {recipe.tag}"), _builder(client, bare.tag, recipe.tag) as container:
        container.put_archive("/", _tar(files, private=False))
        _commit(container, recipe.tag)


def _commit(container: docker.models.containers.Container, image: str) -> None:
    repository, _, tag = image.partition(":")
    container.commit(repository=repository, tag=tag, changes=['CMD ["python3"]', f"LABEL {OWNER}=image"])


def _builder(
    client: docker.DockerClient, base: str, tag: str
) -> contextlib.AbstractContextManager[docker.models.containers.Container]:
    """A container to build in, with the machine's own network; it ends by itself if this process dies."""
    labels = {OWNER: "builder", "dethrone.image": tag}
    command = ["sleep", str(BUILD_LIMIT_S)]
    return temporary(client, base, command, labels, network_mode="host", user="0", working_dir="/", auto_remove=False)


def _execute(
    container: str,
    packages: Sequence[str],
    environment: Mapping[str, str],
    *,
    progress: Progress,
) -> None:
    with contextlib.closing(connect(limit_s=BUILD_LIMIT_S)) as patient:  # apt may be silent for long
        command = ["timeout", str(BUILD_LIMIT_S), "/bin/sh", "-c", _SCRIPT, "sh", *packages]
        execution = patient.api.exec_create(container, command, environment=dict(environment))["Id"]
        tail: list[str] = []
        for line in _lines(patient.api.exec_start(execution, stream=True)):
            tail = [*tail[-9:], line]
            if line.startswith("dethrone: "):
                progress(line.removeprefix("dethrone: "))
        code = patient.api.exec_inspect(execution)["ExitCode"]
    if code != 0:
        raise ClusterError(
            f"the image could not be built (a step ended with {code})",
            where="a build container with this machine's network",
            cause="its last lines were:\n" + "\n".join(tail),
            next_step="repair what they name (mirror, proxy, index: taken from this machine's apt and pip "
            "configuration), or build on an image of yours with `--base NAME`",
        )


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace").rstrip()
    if rest:
        yield rest.decode(errors="replace").rstrip()


def _tar(files: Mapping[str, bytes], *, private: bool = True) -> bytes:
    """A build's input is private (the script opens it up, inside the container only); what stays is not."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size = len(data)
            entry.mode = 0o600 if private else 0o755 if path.startswith(f"{BIN}/") else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def main(recipes: Sequence[str]) -> int:
    """The command line: build these recipes' images unless they are there. Progress and errors go to stderr."""

    def progress(line: str) -> None:
        sys.stderr.write(f"image: {line}\n")
        sys.stderr.flush()

    try:
        with contextlib.closing(connect()) as client:
            for recipe in recipes or ("node",):
                wanted = ingredients_of(recipe)
                tag = ensure_image(
                    client,
                    packages=wanted.packages,
                    artifacts=wanted.artifacts,
                    debian=wanted.debian,
                    progress=progress,
                )
                progress(f"{recipe} is {tag}")
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
