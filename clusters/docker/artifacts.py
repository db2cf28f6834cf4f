"""Jars out of Maven repositories, each pinned by its SHA-256, for images and for nodes of described systems.

Guarantees: a jar is fetched by this machine's own Maven, with the mirrors, proxies and credentials that its settings
name, and used only if its content is the pinned one; what was fetched once is kept in the user's state directory and
never asked for again; nothing but what a recipe names is fetched (no dependencies are resolved at build time). Leaves
out how files come into an image (``dethrone.clusters.docker.image``).

``python -m dethrone.clusters.docker.artifacts GROUP:ARTIFACT:VERSION …`` prints these artifacts with everything that
they need at run time, pinned, in the words of a recipe.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import msgspec

from dethrone.clusters.docker import packages
from dethrone.clusters.docker.labels import JARS
from dethrone.clusters.docker.state import Progress, locked, silent, state_directory
from dethrone.harness.core.errors import ClusterError, ConfigError, HarnessError, MissingCapability

FETCH_LIMIT_S = 900.0
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_WORD = r"[A-Za-z0-9_.-]+"


class Jar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One jar. ``coordinates``: ``group:artifact:version`` or ``group:artifact:version:classifier``."""

    coordinates: str
    sha256: str

    def __post_init__(self) -> None:
        """Refuse what Maven would misread."""
        if not re.fullmatch(rf"{_WORD}(:{_WORD}){{2,3}}", self.coordinates):
            raise ValueError(f"no coordinates group:artifact:version[:classifier]: {self.coordinates!r}")
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(f"no SHA-256 in lower-case hexadecimal: {self.sha256!r}")

    @property
    def file_name(self) -> str:
        """As Maven names it: ``artifact-version[-classifier].jar``."""
        return "-".join(self.coordinates.split(":")[1:]) + ".jar"


COMPILER = Jar(
    coordinates="org.eclipse.jdt:ecj:3.36.0",
    sha256="a9a969911a55ffd7ad04d3ca4caf4f363b7b80a27701289dba3cc713084080c0",
)
"""Compiles Java where there is a runtime only: on hosts whose image carries it, or on this machine."""
COMPILER_FLAGS = ("-17", "-nowarn")


def jar_files(jars: Sequence[Jar], *, progress: Progress = silent) -> dict[str, bytes]:
    """Absolute path in the image → content, for these jars. Raises HarnessError if one cannot be had as pinned."""
    return {f"{JARS}/{name}": path.read_bytes() for name, path in kept_jars(jars, progress=progress).items()}


def kept_jars(jars: Sequence[Jar], *, progress: Progress = silent) -> dict[str, Path]:
    """File name → where this machine keeps it, for these jars. Raises HarnessError likewise."""
    names = [jar.file_name for jar in jars]
    if len(set(names)) != len(names):
        raise ConfigError("two jars have the same file name", cause=", ".join(sorted(names)))
    kept = state_directory("artifacts")
    with locked(kept / "lock", limit_s=2 * FETCH_LIMIT_S, progress=progress):
        missing = [jar for jar in jars if not (kept / f"{jar.sha256}.jar").is_file()]
        if missing:
            progress(f"fetching {len(missing)} jars with Maven")
            with _fetched([jar.coordinates for jar in missing], scratch=kept, progress=progress) as found:
                for jar in missing:
                    _keep(found[jar.coordinates], jar, kept / f"{jar.sha256}.jar")
    return {jar.file_name: _checked(jar, kept / f"{jar.sha256}.jar") for jar in jars}


def pinned(coordinates: Sequence[str], *, progress: Progress = silent) -> list[Jar]:
    """These artifacts and all that they need at run time, as Maven resolves them today, by name."""
    kept = state_directory("artifacts")
    closure = _closure(coordinates, scratch=kept, progress=progress)
    with _fetched(closure, scratch=kept, progress=progress) as found:
        return [Jar(coordinates=name, sha256=hashlib.sha256(found[name].read_bytes()).hexdigest()) for name in closure]


def _keep(file: Path, jar: Jar, target: Path) -> None:
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != jar.sha256:
        raise ClusterError(
            f"{jar.coordinates} is not what it was when it was pinned",
            where="the Maven repository that this machine uses",
            cause=f"its SHA-256 is {digest}, pinned is {jar.sha256}",
            next_step="if the repository is to be trusted more than the pin, delete the description's lock; "
            f"or put into the recipe what `python -m dethrone.clusters.docker.artifacts {jar.coordinates}` prints",
        )
    half = target.with_suffix(".half")
    half.write_bytes(content)
    half.replace(target)


def _checked(jar: Jar, file: Path) -> Path:
    if hashlib.sha256(file.read_bytes()).hexdigest() != jar.sha256:
        raise ClusterError(
            f"the kept file of {jar.coordinates} was changed", where=str(file), next_step="remove it and build again"
        )
    return file


# --- Maven ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _fetched(coordinates: Sequence[str], *, scratch: Path, progress: Progress) -> Iterator[Mapping[str, Path]]:
    """Coordinates → the file, of exactly these artifacts, in a directory that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=scratch) as name:
        root = Path(name)
        items = "".join(f"<artifactItem>{_fields(words)}</artifactItem>" for words in coordinates)
        plugin = "".join(
            f"<{key}>{word}</{key}>"
            for key, word in zip(("groupId", "artifactId", "version"), _PLUGIN.split(":"), strict=True)
        )
        configuration = f"<configuration><artifactItems>{items}</artifactItems></configuration>"
        _project(root, f"<build><plugins><plugin>{plugin}{configuration}</plugin></plugins></build>")
        _maven(root, [f"{_PLUGIN}:copy", "-DoutputDirectory=jars"], progress=progress)
        yield {words: root / "jars" / ("-".join(words.split(":")[1:]) + ".jar") for words in coordinates}


def _closure(coordinates: Sequence[str], *, scratch: Path, progress: Progress) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="resolve-", dir=scratch) as name:
        root = Path(name)
        needed = "".join(f"<dependency>{_fields(words)}</dependency>" for words in coordinates)
        _project(root, f"<dependencies>{needed}</dependencies>")
        argv = [f"{_PLUGIN}:list", "-DincludeScope=runtime", "-DoutputFile=list.txt", "-Dsort=true"]
        _maven(root, argv, progress=progress)
        return parse_list((root / "list.txt").read_text(encoding="utf-8"))


def parse_list(text: str) -> list[str]:
    """Coordinates out of the list that Maven's dependency plug-in writes; anything but jars is skipped."""
    found = re.findall(
        rf"^\s+({_WORD}):({_WORD}):jar:(?:({_WORD}):)?({_WORD}):(?:compile|runtime)\b", text, re.MULTILINE
    )
    return sorted(":".join(filter(None, (group, artifact, version, kind))) for group, artifact, kind, version in found)


def _fields(coordinates: str) -> str:
    names = ("groupId", "artifactId", "version", "classifier")
    return "".join(
        f"<{name}>{escape(word)}</{name}>" for name, word in zip(names, coordinates.split(":"), strict=False)
    )


def _project(root: Path, body: str) -> None:
    head = "<modelVersion>4.0.0</modelVersion><groupId>dethrone</groupId><artifactId>image</artifactId>"
    text = f"<project>{head}<version>1</version><packaging>pom</packaging>{body}</project>"
    (root / "pom.xml").write_text(text, encoding="utf-8")


def _maven(root: Path, goals: Sequence[str], *, progress: Progress) -> None:
    if shutil.which("mvn") is None:
        packages.install(("maven",), purpose="fetching jars", progress=progress)
    argv = ["mvn", "-B", "-q", "--strict-checksums", *goals]
    done = packages.run_tool(argv, "Maven", limit_s=FETCH_LIMIT_S, cwd=root, env={"NO_COLOR": "1"})
    if done.returncode != 0:
        raise MissingCapability(
            "jars could not be fetched",
            where="Maven on this machine",
            cause="it said:\n" + "\n".join([line for line in done.stdout.splitlines() if "ERROR" in line][:6]),
            next_step="check the coordinates, and the mirrors and proxies in Maven's settings.xml",
        )


def main(coordinates: Sequence[str]) -> int:
    """The command line: these artifacts and what they need, in a recipe's words."""
    try:
        for jar in pinned(coordinates):
            sys.stdout.write(f'\n[[jars]]\ncoordinates = "{jar.coordinates}"\nsha256 = "{jar.sha256}"\n')
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
