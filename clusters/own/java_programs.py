"""Java programs of a described system: compiled on this machine, once, against the jars that its nodes get.

    java = { "{run_dir}/keep.jar" = "keep" }        # in [node]: a directory of sources, a file, or a list of these

Each becomes a jar with its classes, for Java 17 and later; other files of a directory go into it as they are. The
compiler is a pinned jar, so a Java runtime is enough here.

Guarantees: the same sources, jars and compiler give the same bytes; a program is kept under a hash of these; two
processes that need the same program compile it once. Out of scope: annotation processors, and other build tools.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from dethrone.clusters.docker import packages
from dethrone.clusters.docker.artifacts import COMPILER, COMPILER_FLAGS, kept_jars
from dethrone.clusters.docker.state import locked, state_directory
from dethrone.clusters.own.maven_jars import Named, words_of
from dethrone.harness.core.errors import ConfigError, MissingCapability
from dethrone.harness.core.files import read_regular

FLAGS = (*COMPILER_FLAGS, "-encoding", "UTF-8")
RUNTIME = "default-jre-headless"
LIMIT_S = 300.0
SOURCE_MAX, FILES_MAX = 20 << 20, 1000
KEPT = 50
"""Programs that stay on this machine; older ones are compiled again when they are needed."""
LINES = 12
"""Of what the compiler prints, in an error."""
_SINCE = (1980, 1, 1, 0, 0, 0)


def programs(
    sources: Mapping[str, Named], libraries: Mapping[str, Mapping[str, Path]], description: str
) -> dict[str, bytes]:
    """Place → the jar. ``libraries``: of ``maven_jars.jars``. ConfigError: it cannot be compiled. MissingCapability."""
    if not sources:
        return {}
    kept = state_directory("java")
    path = [file for files in libraries.values() for file in files.values()]
    with locked(kept / "lock", limit_s=2 * LIMIT_S):
        out = {place: _program(words_of(said), path, kept, description) for place, said in sources.items()}
        for old in sorted(kept.glob("*.jar"), key=lambda file: file.stat().st_mtime_ns)[:-KEPT]:
            old.unlink()
    return out


def _program(sources: Sequence[str], libraries: Sequence[Path], kept: Path, description: str) -> bytes:
    """The kept program, or a new one. Libraries are kept under names that are their hashes."""
    files = _files(sources, description)
    made_of = (COMPILER.sha256, FLAGS, [one.name for one in libraries])
    digest = hashlib.blake2b(f"{made_of}\n".encode(), digest_size=16)
    for name, content in files.items():
        digest.update(f"\n{name} {len(content)}\n".encode() + content)
    target = kept / f"{digest.hexdigest()}.jar"
    if not target.is_file():
        with tempfile.TemporaryDirectory(prefix="make-", dir=kept) as place:
            made = _packed(_compiled(Path(place), files, libraries, description))
            half = Path(place) / "program.jar"
            half.write_bytes(made)
            half.replace(target)
    os.utime(target)
    return target.read_bytes()


def _files(sources: Sequence[str], description: str) -> dict[str, bytes]:
    """The sources and what lies among them: path in the program → content."""
    out: dict[str, bytes] = {}
    for source in sources:
        root = Path(description).absolute().parent / source
        paths = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
        base = root.parent if root.is_file() else root
        named = {path.relative_to(base).as_posix(): path for path in paths if not path.name.startswith(".")}
        if not any(name.endswith(".java") for name in named):
            raise ConfigError(
                f"there are no Java sources in {source}",
                where=_key(description),
                cause="paths are relative to the description",
                next_step="write a directory that holds .java files, or one such file",
            )
        if len(named) > FILES_MAX or named.keys() & out.keys():
            why = f"more than {FILES_MAX} files" if len(named) > FILES_MAX else "a file that another source has, too"
            raise ConfigError(f"{source} has {why}", where=_key(description))
        out |= {name: read_regular(path, most=SOURCE_MAX) for name, path in named.items()}
    return out


def _compiled(place: Path, files: Mapping[str, bytes], libraries: Sequence[Path], description: str) -> dict[str, bytes]:
    """The classes of these sources, and the other files: path in the jar → content."""
    for name, content in files.items():
        path = place / "sources" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (compiler,) = kept_jars([COMPILER]).values()
    if shutil.which("java") is None:
        packages.install((RUNTIME,), purpose="compiling Java")
    argv = ["java", "-XX:TieredStopAtLevel=1", "-jar", str(compiler), *FLAGS, "-d", str(place / "classes")]
    if libraries:
        argv += ["-cp", os.pathsep.join(map(str, libraries))]
    named = [f"sources/{name}" for name in files if name.endswith(".java")]
    done = packages.run_tool([*argv, *named], "the Java compiler", limit_s=LIMIT_S, cwd=place)
    if "UnsupportedClassVersionError" in done.stdout:
        raise MissingCapability(
            "this machine's Java is too old to compile the program",
            where="this machine",
            cause="Java 17 or later is needed",
            next_step=f"install it, as Debian 12's {RUNTIME} has it",
        )
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip("- \t")][:LINES]
        raise ConfigError(
            "the Java sources cannot be compiled",
            where=_key(description),
            cause="the compiler's first lines were:\n" + "\n".join(lines) if lines else "the compiler printed nothing",
            next_step="repair them; jars that they need are named by `maven`",
        )
    out = {name: content for name, content in files.items() if not name.endswith(".java")}
    root = place / "classes"
    return out | {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.class")}


def _packed(files: Mapping[str, bytes]) -> bytes:
    """One jar, the same bytes for the same content."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _SINCE), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _key(description: str) -> str:
    return f"{description}: [node] java"
