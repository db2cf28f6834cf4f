"""What a node gets that is made here, or unpacked on its host before it starts: directories, an environment of Python
or npm packages, Go and Java programs, and jars.

Guarantees: the same directory gives the same bytes; what is too much for a host is a ConfigError that names it. Out of
scope: unpacking (``host/unpack``), and where wheels and programs come from (``python_packages``, ``go_programs``,
``npm_packages``, ``maven_jars``, ``java_programs``).
"""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from dethrone.clusters.agent.large_files import LARGE
from dethrone.clusters.own import java_programs, npm_packages
from dethrone.clusters.own.go_programs import programs, sources_of
from dethrone.clusters.own.lock import lock_file
from dethrone.clusters.own.maven_jars import jars, jars_of, words_of
from dethrone.clusters.own.parse import FileRead
from dethrone.clusters.own.python_packages import pinned, wheels
from dethrone.clusters.own.spec import Description
from dethrone.clusters.own.supervising import commands_in, room
from dethrone.clusters.own.words import fill, words_in
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import read_regular
from dethrone.harness.core.interfaces import Needed, NodeSpec

PROGRAM, CONFIG = "unpack.py", "unpack.json"
_NPM = "npm.zip"
FILE_MAX = 60 << 20
FILES_MAX = 5000
LEFT_OUT = frozenset({"__pycache__", ".git", ".hg", ".svn"})
_SINCE = (1980, 1, 1, 0, 0, 0)
"""The time of every packed file: the earliest that the format knows."""


def packed(folder: Path, *, most: int, where: str) -> bytes:
    """A directory as one archive, without what version control and Python keep in it. ConfigError, OSError."""
    out, total, count = io.BytesIO(), 0, 0
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            inner = path.relative_to(folder)
            if LEFT_OUT & set(inner.parts) or not path.is_file():
                continue
            content = read_regular(path, most=most)
            total, count = total + len(content), count + 1
            if total > most or count > FILES_MAX:
                raise ConfigError(
                    f"the directory {folder.name} is too large for a host",
                    where=where,
                    cause=f"over {most >> 20} MiB, or more than {FILES_MAX} files",
                    next_step="name the files in it that nodes need, or bring them with an image",
                )
            entry = zipfile.ZipInfo(str(inner), _SINCE)
            entry.external_attr = (0o100755 if os.access(path, os.X_OK) else 0o100644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def brought(description: Path, name: str) -> FileRead:
    """A file or directory of this machine that nodes get, by its path relative to the description. ConfigError."""
    place, where = description.parent / name, f"{description}: [node] files"
    try:
        if place.is_dir():
            return FileRead(packed(place, most=FILE_MAX, where=where), executable=False, folder=True)
        if place.stat().st_size > FILE_MAX:
            raise ConfigError(f"{name} is too large for a host: over {FILE_MAX >> 20} MiB", where=where)
        return FileRead(read_regular(place, most=FILE_MAX), os.access(place, os.X_OK))
    except OSError as error:
        raise ConfigError(
            f"a file for the nodes cannot be read: {name}: {error.strerror}",
            where=where,
            cause="paths are relative to the description",
            next_step="build it first, or write its right path",
        ) from error


def is_needed(description: Description) -> bool:
    """Whether anything is unpacked."""
    return bool(description.folders or description.system.python or description.system.npm)


def unpacked(description: Description, node: NodeSpec, places: Mapping[str, str]) -> dict[str, bytes]:
    """Files for a node: absolute path → content. May ask package registries, and build. ConfigError."""
    out = {fill(place, places): content for place, content in _ready(description).items()}
    if not is_needed(description):
        return out
    own = room(description, node)
    packs = f"{own}/packed"
    out |= {f"{packs}/{name}": content for name, content in _packed(description).items()}
    given = wheels(description.system.python, description.path, pinned=description.pinned)
    out |= {f"{packs}/{name}": content for name, content in given.items()}
    npm = bool(description.system.npm)
    folders = [(f"{packs}/{number}.zip", fill(place, places)) for number, place in enumerate(description.folders)]
    told = {
        "note": f"{node.run_dir}/unpacked.json",
        "folders": [*folders, *([(f"{packs}/{_NPM}", own)] if npm else [])],
        "wheels": [f"{packs}/{name}" for name in given],
        "site": f"{own}/python",
        "modules": f"{own}/{npm_packages.FOLDER}" if npm else "",
    }
    out[f"{own}/{CONFIG}"] = json.dumps(told).encode()
    out[f"{node.run_dir}/{PROGRAM}"] = Path(__file__).with_name("host").joinpath(PROGRAM).read_bytes()
    return out


def large_files(description: Description) -> list[bytes]:
    """The contents of files for nodes that are large. As ``unpacked``."""
    given = wheels(description.system.python, description.path, pinned=description.pinned)
    found = (*description.contents.values(), *_ready(description).values(), *_packed(description).values())
    return [content for content in (*found, *given.values()) if len(content) >= LARGE]


def _ready(description: Description) -> dict[str, bytes]:
    """Programs and jars by their places, whose words stay."""
    libraries = jars(description.node.maven, description.path, pinned=description.pinned)
    out = programs(description.node.go, description.path, pinned=description.pinned)
    out |= java_programs.programs(description.node.java, libraries, description.path)
    for place, files in libraries.items():
        out |= {f"{place}/{name}": file.read_bytes() for name, file in files.items()}
    return out


def _packed(description: Description) -> dict[str, bytes]:
    """Archives that are unpacked on hosts, by name."""
    out = {f"{number}.zip": content for number, content in enumerate(description.folders.values())}
    if description.system.npm:
        out[_NPM] = npm_packages.archive(description.system.npm, description.path, pinned=description.pinned)
    return out


def contents_of(description: Description) -> tuple[str, ...]:
    """What nodes get besides files, in words, for ``doctor``."""
    out = [f"the directory {place}: {_files_in(content)}" for place, content in description.folders.items()]
    if description.system.packages:
        out.append(f"Debian packages, where hosts are containers: {', '.join(description.system.packages)}")
    named = {"Python": (description.system.python, pinned), "npm": (description.system.npm, npm_packages.pinned)}
    for kind, (packages, pinned_to) in named.items():
        if packages:
            pins = pinned_to(packages, description.path)
            known = f"{len(pins)} pinned in {lock_file(description.path).name}" if pins else "not pinned yet"
            out.append(f"{kind} packages: {', '.join(packages)} ({known})")
    out += [f"{place}, built from {source}" for place, source in sources_of(description.node.go, description.path)]
    out += [f"the jars in {place}: {what}" for place, what in jars_of(description.node.maven, description.path)]
    out += [f"{place}, compiled from {', '.join(words_of(said))}" for place, said in description.node.java.items()]
    return tuple(out)


def programs_of(description: Description, places: Mapping[str, str]) -> list[tuple[str, str]]:
    """Key → program, of all that hosts execute and that does not come with the node."""
    out: dict[str, str] = {}
    for key, words in commands_in(description):
        program = fill(words[0], places)
        brought = program.startswith(tuple(f"{place}/" for place in places.values())) or words_in(program)
        packages = (*description.system.python, *description.system.npm)
        bare = "/" not in program and packages  # it may be one of theirs
        if not brought and not bare:
            out.setdefault(program, key)
    return [(key, program) for program, key in out.items()]


def needed(description: Description) -> Needed:
    """What its hosts need and its nodes do not bring. A program is taken for one of a package of the same name."""
    system = description.system
    brought = {re.split("[=@[]", package.lstrip("@"))[0] for package in (*system.python, *system.npm)}
    first_words = dict.fromkeys(words[0] for _, words in commands_in(description))
    programs = [program for program in first_words if not words_in(program) and program not in brought]
    return Needed(packages=system.packages, programs=() if system.packages else tuple(programs))


def _files_in(archive: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        count = len(files.namelist())
    return "1 file" if count == 1 else f"{count} files"


def unpacking(description: Description, node: NodeSpec, argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command that unpacks what is to be unpacked, and then becomes ``argv``."""
    if not is_needed(description):
        return argv
    return (node.python, "-S", f"{node.run_dir}/{PROGRAM}", f"{room(description, node)}/{CONFIG}", *argv)
