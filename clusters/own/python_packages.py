"""Python packages of a described system: resolved once, pinned by hash next to the description, built into wheels.

    python = ["pysyncobj==0.3.14"]        # in [system]

The first use writes ``FILE.lock`` next to ``FILE.toml``: every package that is needed, with the hash of what the index
gave. From then on exactly these are used: wheels as they are, and of packages without one a wheel that is built here,
once, and kept. Hosts get the wheels and unpack them without any network (``host/unpack``); clients on this machine find
them unpacked and compiled, for a module in a wheel is compiled again by every process that imports it.

Guarantees: pip is asked with this user's own configuration; what does not match the lock is refused; two processes that
need the same wheels make them once. Out of scope: packages that other packages are built with, which pip chooses.
"""

from __future__ import annotations

import compileall
import contextlib
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dethrone.clusters.docker.state import locked, state_directory
from dethrone.clusters.own import lock
from dethrone.clusters.own.host.unpack import unpack_wheels
from dethrone.clusters.own.package_index import check_exact, unavailable, wanted
from dethrone.harness.core.errors import ConfigError

LIMIT_S = 900
WHEEL_MAX = 60 << 20
"""Bytes of one wheel that hosts get."""
KIND, NOTE = "python", "with the hashes of what the index gave"
_EXACT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*")


def check_requirements(requirements: Sequence[str], *, where: str) -> None:
    """Raise ConfigError for one that does not name its version."""
    check_exact(requirements, _EXACT, where=where, example='name==version, as in python = ["pysyncobj==0.3.14"]')


def wheels(requirements: Sequence[str], description: str, *, pinned: Sequence[str] = ()) -> Mapping[str, bytes]:
    """The file names of the wheels, with their content. ``pinned``: requirements of others, whose pins stay.

    ConfigError: they cannot be had, or are not the pinned ones.
    """
    if not requirements:
        return {}
    with _folder(requirements, description, pinned) as folder:
        found = {file.name: file for file in sorted(folder.glob("*.whl"))}
    for name, path in found.items():
        if path.stat().st_size > WHEEL_MAX:
            raise ConfigError(f"{name} is too large for a host: over {WHEEL_MAX >> 20} MiB", where=_key(description))
    return {name: path.read_bytes() for name, path in found.items()}


def unpacked(requirements: Sequence[str], description: str, *, pinned: Sequence[str] = ()) -> Path | None:
    """Where this machine's Python finds the packages, likewise; None: there are none."""
    if not requirements:
        return None
    with _folder(requirements, description, pinned) as folder:
        place = folder / "unpacked"
        if not place.is_dir():
            with tempfile.TemporaryDirectory(prefix="make-", dir=folder.parent) as made_in:
                site = Path(made_in) / "unpacked"
                unpack_wheels([str(file) for file in sorted(folder.glob("*.whl"))], str(site))
                # A file for another Python stays as it is.
                compileall.compile_dir(site, quiet=2, stripdir=made_in, prependdir=str(folder))
                site.replace(place)
    return place


def pinned(requirements: Sequence[str], description: str) -> tuple[str, ...]:
    """``name==version`` of all that these packages are pinned to; empty: nothing is yet."""
    kept = lock.found(KIND, wanted(requirements), description)
    return () if kept is None else tuple(line.split()[0] for line in kept.pins.splitlines() if line)


def made(requirements: Sequence[str], files: Mapping[str, bytes]) -> lock.Block:
    """The pins of what an index gave: file name → content.

    >>> print(made(["a==1"], {"a-1-py3-none-any.whl": b"", "b-2.0.tar.gz": b""}).text.replace("e3b0c44298fc1c14", "…"))
    # What `python` of the description needs, with the hashes of what the index gave. Delete it to resolve again.
    # for: a==1
    a==1 --hash=sha256:…9afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    b==2.0 --hash=sha256:…9afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    <BLANKLINE>
    """
    lines = []
    for name, content in sorted(files.items()):
        package, version = name_and_version(name)
        lines.append(f"{package}=={version} --hash=sha256:{hashlib.sha256(content).hexdigest()}")
    return lock.block(KIND, wanted(requirements), NOTE, "\n".join(lines))


def name_and_version(file: str) -> tuple[str, str]:
    """Of a package, by the name of its wheel or source archive.

    >>> name_and_version("python_dateutil-2.9.0-py2.py3-none-any.whl"), name_and_version("zope.event-5.0.tar.gz")
    (('python_dateutil', '2.9.0'), ('zope.event', '5.0'))
    """
    if file.endswith(".whl"):
        name, version = file.split("-")[:2]
        return name, version
    name, _, version = re.sub(r"\.(tar\.(gz|bz2|xz)|tgz|zip)$", "", file).rpartition("-")
    return name, version


@contextlib.contextmanager
def _folder(requirements: Sequence[str], description: str, stay: Sequence[str]) -> Iterator[Path]:
    """The folder of the wheels, for this process alone; they are made if they are not there."""
    kept = state_directory("python")
    with locked(kept / "lock", limit_s=2 * LIMIT_S):
        pins = _pins(requirements, description, stay)
        python = f"{sys.implementation.name}{sys.version_info.major}{sys.version_info.minor}"
        digest = hashlib.blake2b(f"{python}\n{pins}".encode(), digest_size=12).hexdigest()
        folder = kept / digest
        if not folder.is_dir():
            _build(pins, folder, description)
        yield folder


def _pins(requirements: Sequence[str], description: str, stay: Sequence[str]) -> str:
    """The block of the lock for these packages, which is made if there is none."""
    kept = lock.found(KIND, wanted(requirements), description)
    if kept is not None:
        return kept.text
    with tempfile.TemporaryDirectory(prefix="dethrone-python-") as place:
        _pip(["download", "-d", place, *requirements], description, "what the packages need cannot be resolved")
        new = made(requirements, {one.name: one.read_bytes() for one in Path(place).iterdir()})
    lock.store(new, description, keep=stay)
    return new.text


def _build(pins: str, folder: Path, description: str) -> None:
    """The wheels in a new folder, whole or not at all."""
    with tempfile.TemporaryDirectory(prefix="make-", dir=folder.parent) as place:
        (Path(place) / "pins.txt").write_text(pins, encoding="utf-8")
        out = Path(place) / "wheels"
        words = ["wheel", "--no-deps", "--require-hashes", "-r", f"{place}/pins.txt", "-w", str(out)]
        _pip(words, description, "the pinned packages cannot be had")
        out.replace(folder)


def _pip(words: Sequence[str], description: str, what: str) -> None:
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", words[0], "-q", *words[1:]]
    try:
        done = subprocess.run(argv, capture_output=True, check=False, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
        said = (done.stderr + done.stdout).decode("utf-8", "replace").strip()
        code: int | str = done.returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        said, code = "", str(error)
    if code != 0:
        lines = [line for line in said.splitlines() if line.startswith("ERROR")] or said.splitlines()[-3:]
        raise unavailable(what, description, where=_key(description), tool="pip", index="index", said=lines, code=code)


def _key(description: str) -> str:
    return f"{description}: [system] python"
