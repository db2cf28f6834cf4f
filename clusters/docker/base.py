"""The image that everything else is built on: a minimal Debian, from wherever this machine can have one.

Guarantees: an image named by the user is used as it is; otherwise a Debian made by debootstrap from the mirror that
this machine uses (as root on a Debian-like machine), or pulled. Out of scope: what is put on it
(``dethrone.clusters.docker.image``).
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import docker
import docker.errors

from dethrone.clusters.docker import packages
from dethrone.clusters.docker.client import ENGINE_ERRORS, explained
from dethrone.clusters.docker.fetching import Fetching
from dethrone.clusters.docker.labels import OWNER
from dethrone.clusters.docker.state import Progress
from dethrone.clusters.recipe import RELEASE
from dethrone.harness.core.errors import ClusterError, ConfigError, HarnessError, MissingCapability

PUBLISHED = "debian:{}-slim"
PUBLISHED_DIGEST = "sha256:96e378d7e6531ac9a15ad505478fcc2e69f371b10f5cdf87857c4b8188404716"
"""The list of manifests of ``RELEASE``, one an architecture, that is pulled: what is published under the name may
change. Another release is taken as it is published."""

INCLUDE = ("iptables", "iproute2", "procps", "python3", "python3-venv", "libnftables1", "libfaketime")
"""What a host needs from the system; see the module docstring of ``dethrone.clusters.docker.image``."""

BOOTSTRAP_LIMIT_S = 900.0

_STAGE = re.compile(r"I: (Unpacking|Configuring|Installing) (the )?(required|base|core) ")
"""The lines of debootstrap that are worth showing; the others name single packages."""

_SKIPPED = ("./proc/*", "./sys/*", "./dev/*", "./run/*", "./tmp/*", "./var/cache/apt/*", "./var/lib/apt/lists/*")


def named_base(client: docker.DockerClient, name: str, *, progress: Progress) -> str:
    """The id of the image that the user named, pulled if it is not there."""
    try:
        return _id(client, name)
    except docker.errors.ImageNotFound:
        pass
    progress(f"pulling {name}")
    try:
        _pull(client, name)
        return _id(client, name)
    except ENGINE_ERRORS as error:
        raise ConfigError(
            f"the base image {name!r} is not there and cannot be pulled",
            cause=" ".join(str(error).split())[:300],
            next_step="name one of `docker images`, or leave the base out: a minimal Debian is then made here",
        ) from error


def default_base(
    client: docker.DockerClient, fetch: Fetching, *, release: str, scratch: Path, progress: Progress
) -> str:
    """The id of a minimal Debian: found, made with debootstrap, or pulled. Raises MissingCapability if none works."""
    made = _own_name(client, release)
    published = PUBLISHED.format(release)
    pulled = f"{published.partition(':')[0]}@{PUBLISHED_DIGEST}" if release == RELEASE else published
    for name in (made, pulled, published):  # the last one is here because the user has it
        with contextlib.suppress(docker.errors.ImageNotFound):
            return _id(client, name)
    reasons: list[str] = []
    try:
        return _bootstrap(client, fetch, made, release=release, scratch=scratch, progress=progress)
    except HarnessError as error:
        reasons.append(f"debootstrap: {error.what}" + (f" ({error.cause})" if error.cause else ""))
    progress(f"pulling {published}")
    try:
        client.images.pull(pulled)
        return _id(client, pulled)
    except ENGINE_ERRORS as error:
        reasons.append(f"pull of {published}: {' '.join(str(error).split())[:200]}")
    raise MissingCapability(
        "no base image can be had",
        where="image build",
        cause="\n    ".join(["", *reasons]),
        next_step="name a Debian-like image of yours (`--base NAME`), or run `dethrone demo --on docker` once as root "
        "on a machine with debootstrap: the engine then keeps the image for every member of its group",
    )


def _id(client: docker.DockerClient, name: str) -> str:
    return str(client.images.get(name).id)


def _pull(client: docker.DockerClient, name: str) -> None:
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, "latest"
    client.images.pull(repository, tag=tag)


def _own_name(client: docker.DockerClient, release: str) -> str:
    """The name of the Debian made here, by what it is made from."""
    content = "\n".join((release, *INCLUDE, str(client.version().get("Arch", ""))))
    return f"dethrone/debian:{hashlib.blake2b(content.encode(), digest_size=6).hexdigest()}"


def _bootstrap(
    client: docker.DockerClient, fetch: Fetching, name: str, *, release: str, scratch: Path, progress: Progress
) -> str:
    prefix = packages.root_prefix()
    if prefix is None:
        raise MissingCapability("needs root or a sudo without password")
    if shutil.which("debootstrap", path=packages.tools_path()) is None or not _keyring().exists():
        packages.install(("debootstrap", "debian-archive-keyring"), purpose="debootstrap", progress=progress)
    progress(f"making a minimal Debian {release} with debootstrap (about 40 s)")
    with _directory(scratch, prefix) as root:
        argv = [*prefix, "env", *_environment(fetch.environment), "debootstrap", "--variant=minbase"]
        argv += [f"--include={','.join((*INCLUDE, 'ca-certificates'))}", release, str(root)]
        argv += [fetch.mirror] if fetch.mirror else []
        _run(argv, progress=progress)
        progress("importing it into the engine")
        return _import(client, name, [*prefix, "tar", "--numeric-owner", "-C", str(root)])


def _keyring() -> Path:
    return Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def _environment(given: Mapping[str, str]) -> list[str]:
    """Proxies for debootstrap's downloads; the build's paths mean nothing out here."""
    proxies = [f"{name}={value}" for name, value in given.items() if name.lower().endswith("_proxy")]
    return [f"PATH={packages.tools_path()}", "DEBIAN_FRONTEND=noninteractive", *proxies]


def _run(argv: Sequence[str], *, progress: Progress) -> None:
    lines: list[str] = []
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    timer = threading.Timer(BOOTSTRAP_LIMIT_S, process.kill)
    timer.start()
    try:
        for line in process.stdout or ():
            lines = [*lines[-7:], line.rstrip()]
            if _STAGE.match(line):
                progress(f"debootstrap: {line[3:].strip().rstrip('.')}")
        code = process.wait()
    finally:
        timer.cancel()
    if code != 0:
        raise ClusterError(f"debootstrap ended with {code}", cause=" | ".join(lines))


def _import(client: docker.DockerClient, name: str, tar: Sequence[str]) -> str:
    """Pipe the tree into the engine as the image ``name``."""
    repository, _, tag = name.partition(":")
    excludes = [f"--exclude={pattern}" for pattern in _SKIPPED]
    process = subprocess.Popen([*tar, *excludes, "-c", "."], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        with explained("importing the base image"):
            client.api.import_image_from_stream(
                process.stdout, repository=repository, tag=tag, changes=[f"LABEL {OWNER}=image"]
            )
            identity = _id(client, name)
    finally:
        if process.stdout is not None:
            process.stdout.close()
        code = process.wait(timeout=60)
    if code != 0:
        raise ClusterError(f"tar of the base system ended with {code}")
    return identity


@contextlib.contextmanager
def _directory(scratch: Path, prefix: Sequence[str]) -> Iterator[Path]:
    """A directory for the new system; removed only when nothing is mounted in it any more."""
    path = Path(tempfile.mkdtemp(prefix="debian-", dir=scratch))
    try:
        path.chmod(0o755)
        yield path
    finally:
        for mounted in reversed(_mounts_below(path)):
            subprocess.run([*prefix, "umount", mounted], check=False, capture_output=True, timeout=30)
        if not _mounts_below(path):
            subprocess.run([*prefix, "rm", "-rf", "--one-file-system", str(path)], check=False, timeout=120)


def _mounts_below(path: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    return [point for line in lines if (point := line.split()[4]).startswith(f"{path}/")]
