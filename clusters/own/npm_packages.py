"""npm packages of a described system: resolved once, pinned by their integrity next to the description.

    npm = ["ws@8.18.0"]        # in [system]

The first use writes ``FILE.lock`` next to ``FILE.toml``: every package that is needed, where it lies in
``node_modules``, and the integrity that the registry states. From then on exactly these are used. Hosts get one
archive of ``node_modules`` and unpack it without any network (``host/unpack``).

Guarantees: npm is asked with this user's own configuration; what does not match the lock is refused; packages are kept
by their hash and fetched once; nothing that a package brings is executed here. Out of scope: packages that build or
fetch something when they are installed, and Node.js itself, which hosts bring.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from dethrone.clusters.docker.state import locked, state_directory
from dethrone.clusters.own import lock
from dethrone.clusters.own.package_index import check_exact, unavailable, wanted
from dethrone.harness.core.errors import ConfigError, MissingCapability

LIMIT_S = 600
UNPACKED_MAX, FILES_MAX = 200 << 20, 30_000
ARCHIVE_MAX = 60 << 20
"""Bytes of the archive that hosts get."""
KIND, NOTE = "npm", "with the integrity that the registry stated"
FOLDER = "node_modules"
_EXACT = re.compile(r"(?:@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*@\d+\.\d+\.\d+[A-Za-z0-9.+-]*")
_SINCE = (1980, 1, 1, 0, 0, 0)
_CPU = {"x86_64": "x64", "aarch64": "arm64"}
_START = '#!/bin/sh\nexec node "$(dirname "$0")/{}" "$@"\n'
"""A program of a package; archives of hosts have no links."""


class Pin(msgspec.Struct, frozen=True):
    """One package: where it lies, ``name@version``, and the hash of its archive."""

    place: str
    package: str
    integrity: str

    @property
    def file_name(self) -> str:
        """Of its archive, as this machine keeps it."""
        return hashlib.sha256(self.integrity.encode()).hexdigest() + ".tgz"


def check_packages(packages: Sequence[str], *, where: str) -> None:
    """Raise ConfigError for one that does not name its version."""
    check_exact(packages, _EXACT, where=where, example='name@version, as in npm = ["ws@8.18.0"]')


def archive(packages: Sequence[str], description: str, *, pinned: Sequence[str] = ()) -> bytes:
    """``node_modules`` with these packages and all that they need. ``pinned``: what others need, whose pins stay.

    ConfigError: they cannot be had, or are not the pinned ones. MissingCapability: there is no npm.
    """
    kept = state_directory("npm")
    with locked(kept / "lock", limit_s=2 * LIMIT_S):
        pins = _pins(packages, description, pinned)
        missing = [pin for pin in pins if not (kept / pin.file_name).is_file()]
        if missing:
            _fetch(missing, kept, description)
        contents = {pin: _checked(pin, (kept / pin.file_name).read_bytes(), description) for pin in pins}
    out = assembled(contents, where=_key(description))
    if len(out) > ARCHIVE_MAX:
        why = f"over {ARCHIVE_MAX >> 20} MiB as an archive"
        raise ConfigError("its packages are too large for a host", where=_key(description), cause=why)
    return out


def pinned(packages: Sequence[str], description: str) -> tuple[str, ...]:
    """``name@version`` of all that these packages are pinned to; empty: nothing is yet."""
    kept = lock.found(KIND, wanted(packages), description)
    return () if kept is None else tuple(pin.package for pin in _read(kept, description))


def resolved(lock_text: str, *, where: str) -> list[Pin]:
    """The packages of a ``package-lock.json`` (version 3) that suit this machine. ConfigError: one cannot be pinned."""
    packages: dict[str, dict[str, Any]] = json.loads(lock_text)["packages"]
    out = []
    for place, said in sorted(packages.items()):
        if not place or (said.get("optional") and (not _suits(said) or said.get("hasInstallScript"))):
            continue
        name = said.get("name") or place.rpartition(f"{FOLDER}/")[2]
        why = "is not of a registry" if said.get("link") or not said.get("integrity") else ""
        why = "builds or fetches something when it is installed" if said.get("hasInstallScript") else why
        if why:
            step = "bring it with an image of hosts, or with files in [node]"
            raise ConfigError(f"{name} {why}, so that it cannot be pinned", where=where, next_step=step)
        out.append(Pin(place, f"{name}@{said['version']}", str(said["integrity"]).split()[0]))
    return out


def assembled(contents: Mapping[Pin, bytes], *, where: str) -> bytes:
    """The archive of ``node_modules`` out of each package's. The same packages give the same bytes. ConfigError."""
    out, total, count = io.BytesIO(), 0, 0
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for pin, content in contents.items():
            manifest = b"{}"
            for inner, data, runs in _files(pin, content, where):
                total, count = total + len(data), count + 1
                if total > UNPACKED_MAX or count > FILES_MAX:
                    why = f"over {UNPACKED_MAX >> 20} MiB, or more than {FILES_MAX} files"
                    raise ConfigError("its packages are too large for a host", where=where, cause=why)
                manifest = data if inner == "package.json" else manifest
                _put(target, f"{pin.place}/{inner}", data, runs=runs)
            if pin.place.count(f"{FOLDER}/") == 1:
                for name, file in _programs(manifest):
                    path = f"../{pin.place.removeprefix(f'{FOLDER}/')}/{file}"
                    _put(target, f"{FOLDER}/.bin/{name}", _START.format(path).encode(), runs=True)
    return out.getvalue()


def _put(target: zipfile.ZipFile, path: str, content: bytes, *, runs: bool) -> None:
    entry = zipfile.ZipInfo(path, _SINCE)
    entry.external_attr = (0o100755 if runs else 0o100644) << 16
    target.writestr(entry, content, zipfile.ZIP_DEFLATED)


def _files(pin: Pin, content: bytes, where: str) -> Iterator[tuple[str, bytes, bool]]:
    """Path in the package, content, and whether it is a program, of each file of a package's archive."""
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as packed:
            for member in packed:
                inner = PurePosixPath(*PurePosixPath(member.name).parts[1:])  # the first one is any folder's name
                if not member.isfile() or ".." in inner.parts or inner.is_absolute():
                    continue
                if member.size > UNPACKED_MAX:
                    raise ConfigError(f"{pin.package} is too large for a host", where=where)
                file = packed.extractfile(member)
                yield str(inner), file.read() if file else b"", bool(member.mode & 0o100)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ConfigError(f"{pin.package} is no archive of a package: {error}", where=where) from error


def _programs(manifest: bytes) -> list[tuple[str, str]]:
    """Name → file of what a package starts by, out of its ``package.json``."""
    said = json.loads(manifest)
    programs = said.get("bin") or {}
    if isinstance(programs, str):
        programs = {said["name"].rpartition("/")[2]: programs}
    files = {name: PurePosixPath(file) for name, file in programs.items() if re.fullmatch(r"[A-Za-z0-9._@-]+", name)}
    return [(name, str(file)) for name, file in sorted(files.items()) if re.fullmatch(r"[A-Za-z0-9._@/-]+", str(file))]


def _suits(said: Mapping[str, Any]) -> bool:
    """Whether an optional package is for hosts like this machine: they run on its kernel."""
    here = {"os": "linux", "cpu": _CPU.get(platform.machine(), platform.machine()), "libc": "glibc"}
    return all(is_for(said.get(what) or (), word) for what, word in here.items())


def is_for(words: Sequence[str], word: str) -> bool:
    """Whether a list of ``package.json`` names it: ``["linux"]``, or ``["!win32"]``; an empty one names all.

    >>> is_for([], "linux"), is_for(["darwin"], "linux"), is_for(["!win32"], "linux")
    (True, False, True)
    """
    without = [one for one in words if not one.startswith("!")]
    return f"!{word}" not in words and (not without or word in without)


# --- the lock ---------------------------------------------------------------------------------------------------


def _pins(packages: Sequence[str], description: str, stay: Sequence[str]) -> list[Pin]:
    """The packages that the lock names, which is made if it names none."""
    kept = lock.found(KIND, wanted(packages), description)
    if kept is None:
        found = _resolve(packages, description)
        lines = "\n".join(f"{pin.place} {pin.package} {pin.integrity}" for pin in found)
        kept = lock.block(KIND, wanted(packages), NOTE, lines)
        lock.store(kept, description, keep=stay)
    return _read(kept, description)


def _read(kept: lock.Block, description: str) -> list[Pin]:
    try:
        return [Pin(*line.split(" ")) for line in kept.pins.splitlines()]
    except TypeError as error:
        path = lock.lock_file(description)
        raise ConfigError(
            f"the pins of {kept.wanted} are damaged",
            where=str(path),
            next_step=f"restore {path.name}, or delete it to resolve again",
        ) from error


def _checked(pin: Pin, content: bytes, description: str) -> bytes:
    """The content, if it is the pinned one."""
    method, _, digest = pin.integrity.partition("-")
    if method not in {"sha512", "sha384", "sha256"}:
        raise ConfigError(f"{pin.package} has no strong hash", where=_key(description), cause=pin.integrity[:40])
    found = base64.b64encode(hashlib.new(method, content).digest()).decode()
    if found != digest:
        raise ConfigError(
            f"{pin.package} is not what it was when it was pinned",
            where=_key(description),
            cause=f"its integrity is {method}-{found}, pinned is {pin.integrity}",
            next_step=f"if the registry is to be trusted more than the pin, delete {lock.lock_file(description).name}",
        )
    return content


# --- npm --------------------------------------------------------------------------------------------------------


def _resolve(packages: Sequence[str], description: str) -> list[Pin]:
    with tempfile.TemporaryDirectory(prefix="dethrone-npm-") as place:
        named = dict(one.rpartition("@")[::2] for one in packages)
        (Path(place) / "package.json").write_text(json.dumps({"private": True, "dependencies": named}))
        _npm(["install", "--package-lock-only"], Path(place), description, "what the packages need cannot be resolved")
        text = (Path(place) / "package-lock.json").read_text(encoding="utf-8")
    return resolved(text, where=_key(description))


def _fetch(pins: Sequence[Pin], kept: Path, description: str) -> None:
    """Keep each package's archive, whole or not at all."""
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=kept) as place:
        names = list(dict.fromkeys(pin.package for pin in pins))
        words = ["pack", "--json", "--pack-destination", place, *names]
        said = json.loads(_npm(words, Path(place), description, "the pinned packages cannot be had"))
        files = {f"{one['name']}@{one['version']}": Path(place) / one["filename"] for one in said}
        for pin in pins:
            content = _checked(pin, files[pin.package].read_bytes(), description)
            half = Path(place) / "half"
            half.write_bytes(content)
            half.replace(kept / pin.file_name)


def _npm(words: Sequence[str], place: Path, description: str, what: str) -> bytes:
    """What npm prints; no script of a package runs."""
    if shutil.which("npm") is None:
        raise MissingCapability("npm is not installed", where=_key(description), next_step="apt-get install npm")
    argv = ["npm", *words, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        done = subprocess.run(argv, cwd=place, capture_output=True, check=False, timeout=LIMIT_S, input=b"")
        said, code = done.stderr.decode("utf-8", "replace").strip(), done.returncode
        if code == 0:
            return done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        said, code = str(error), -1
    lines = [line for line in said.splitlines() if "complete log" not in line]
    raise unavailable(
        what, description, where=_key(description), tool="npm", index="registry", said=lines, code=f"exit code {code}"
    )


def _key(description: str) -> str:
    return f"{description}: [system] npm"
