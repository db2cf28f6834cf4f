"""The project's own packages, and those of its plug-ins, as one file that Spark's workers import from.

Made from what is installed here, whether from a wheel or editable: a zip with the packages and their ``dist-info``,
laid out as in a wheel, so that entry points are found in it, too. Guarantees: the same code gives the same bytes and
the same file name; nothing is built or fetched. Compiled parts cannot be imported from a zip: packages with such parts
are omitted and must be installed on the workers, like the dependencies (``NEEDED_THERE``).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

import msgspec

from dethrone.harness.core.errors import HarnessError

NEEDED_THERE = ("msgspec", "networkx", "numpy", "pyarrow", "scipy")
"""What the workers' Python needs for simulated runs, in addition to pyspark's own needs."""

_OURS = "dethrone"
_METADATA = ("METADATA", "WHEEL", "entry_points.txt", "top_level.txt")
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_COMPILED = frozenset({".so", ".pyd", ".dylib"})
_NOT_SHIPPED = frozenset({".pyc", ".pyo"})


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """The file, the distributions in it, and those that have compiled parts and are not."""

    path: Path
    holds: tuple[str, ...]
    left_out: tuple[str, ...]


def pack(directory: Path) -> Parcel:
    """Write the file into a directory, unless it is there. HarnessError: the packages are not where Python says."""
    files: dict[str, bytes] = {}
    holds, left_out = [], []
    version = ""
    for dist in plug_ins():
        name = str(dist.metadata["Name"])
        own = dict(_files(dist))
        if any(Path(path).suffix in _COMPILED for path in own):
            left_out.append(name)
            continue
        files |= own
        holds.append(name)
        version = dist.version if name == _OURS else version
    if _OURS not in holds:
        raise HarnessError(
            "the packages of dethrone cannot be shipped",
            cause="dethrone is not installed as a distribution",
            next_step="pip install dethrone (or pip install --editable .)",
        )
    digest = hashlib.blake2b(digest_size=6)
    for path, content in sorted(files.items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    target = directory / f"{_OURS}-{version}-{digest.hexdigest()}.zip"
    if not target.exists():
        _write(target, files)
    return Parcel(path=target, holds=tuple(holds), left_out=tuple(left_out))


def _write(target: Path, files: Mapping[str, bytes]) -> None:
    """Write the file whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(staged, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(path, _NO_TIME), content, zipfile.ZIP_DEFLATED)
    staged.replace(target)


def plug_ins() -> list[Distribution]:
    """What is installed and has entry points of ours, each once, by name."""
    found: dict[str, Distribution] = {}
    for dist in distributions():
        name = dist.metadata["Name"]
        if name and name not in found and any(point.group.startswith(f"{_OURS}.") for point in dist.entry_points):
            found[name] = dist
    return [found[name] for name in sorted(found)]


def _files(dist: Distribution) -> Iterator[tuple[str, bytes]]:
    """Path in the archive → content."""
    info = f"{str(dist.metadata['Name']).replace('-', '_')}-{dist.version}.dist-info"
    for name in _METADATA:
        text = dist.read_text(name)
        if text is not None:
            yield f"{info}/{name}", text.encode()
    for package in _packages(dist):
        yield from _package_files(package)


def _packages(dist: Distribution) -> list[str]:
    """Its importable names: those behind its entry points, and those that it lists."""
    names = {point.value.partition(":")[0].partition(".")[0] for point in dist.entry_points}
    names |= set((dist.read_text("top_level.txt") or "").split())
    return sorted(names)


def _package_files(name: str) -> Iterator[tuple[str, bytes]]:
    spec = importlib.util.find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if spec is not None and not places and spec.origin:
        yield f"{name}{Path(spec.origin).suffix}", Path(spec.origin).read_bytes()
        return
    if not places or not all(Path(place).is_dir() for place in places):
        raise HarnessError(
            f"the package {name!r} cannot be shipped to Spark's workers",
            where=", ".join(places),
            cause="it is not a directory of this machine",
            next_step="install it where the workers run, and uninstall it here",
        )
    for place in places:
        for path in sorted(_below(Path(place))):
            inside = path.relative_to(place).as_posix()
            if name != _OURS or not inside.startswith("docs/"):  # pages, which only a wheel has in the package
                yield f"{name}/{inside}", path.read_bytes()


def _below(root: Path) -> Iterator[Path]:
    """The files of a package, also of folders that are linked into it."""
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = [inner for inner in folders if inner != "__pycache__"]
        yield from (Path(folder, file) for file in files if Path(file).suffix not in _NOT_SHIPPED)
