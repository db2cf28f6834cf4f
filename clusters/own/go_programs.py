"""Go programs of a described system: built on this machine, once, from exactly what is pinned.

    go = { "{run_dir}/keep" = "keep", "{run_dir}/nats" = "github.com/nats-io/nats-server/v2@v2.10.22" }    # in [node]

A source is a directory with a main package, next to the description, whose ``go.sum`` pins its modules; or a package
and its version, whose modules are resolved at the first use and pinned in ``FILE.lock``. The programs are static (no
cgo) and without paths of this machine.

Guarantees: Go is asked with this user's own configuration of it; nothing is built from other modules than the pinned
ones; a program is kept under a hash of its sources, their pins and the version of Go; two processes that need the same
program build it once. Out of scope: cgo, workspaces (``go.work``), and hosts of another architecture.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from dethrone.clusters.docker.packages import run_tool
from dethrone.clusters.docker.programs import BUILD_LIMIT_S, GO_PACKAGE, GO_SETTINGS, find_go, installed_go
from dethrone.clusters.docker.state import locked, silent, state_directory
from dethrone.clusters.own import lock
from dethrone.harness.core.errors import ConfigError, HarnessError, MissingCapability
from dethrone.harness.core.files import read_regular

KIND, NOTE = "go", "modules and the hashes of what was resolved"
KEPT = 20
"""Programs that stay on this machine; older ones are built again when they are needed."""
PROGRAM_MAX = 120 << 20
ELF = b"\x7fELF"
LINES = 8
"""Of what Go prints, in an error."""
FLAGS = ("-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=")
_COORDINATE = re.compile(r"[a-z0-9][a-z0-9.-]*\.[a-z]{2,}(/[A-Za-z0-9._~!-]+)*@v\d+\.\d+\.\d+[A-Za-z0-9.+-]*")
_COMPILED = frozenset({".go", ".s", ".h"})
_REPLACED = re.compile(r"=>\s+(\.{1,2}(?:/\S*)?|/\S+)\s*$", re.MULTILINE)
_EMBEDS = re.compile(r"^//go:embed[ \t]+(.+)$", re.MULTILINE)
_CHECK = "check name and version, and this user's GOPROXY (`go env GOPROXY`)"
_UNREACHED = re.compile(
    r"reading (https?|file)://|unknown revision|no matching versions|does not contain package|dial tcp"
)
_MISFIT = re.compile(
    r"go\.sum|updates to go\.mod|no required module|cannot find (module|package)|vendor|checksum mismatch"
)
"""What Go prints where a module cannot be had, and where the pins do not fit."""
_NEEDS = re.compile(r"requires go ?>?=? ?(\d+\.\d+)")


class _Work(msgspec.Struct, frozen=True, kw_only=True):
    """Where Go runs, and the package that it builds. ``mode``: what it may do with ``module``, the text of go.mod.
    ``repair``: what to do if its pins do not fit."""

    place: Path
    package: str
    mode: str
    module: str
    description: str
    repair: str


def check_sources(sources: Mapping[str, str], *, where: str) -> None:
    """Raise ConfigError for a package without an exact version."""
    for source in sources.values():
        if "@" in source and not _COORDINATE.fullmatch(source):
            raise ConfigError(
                f"{source!r} does not say which package in which version",
                where=where,
                next_step='write a directory, or PACKAGE@VERSION: "github.com/nats-io/nats-server/v2@v2.10.22"',
            )


def programs(sources: Mapping[str, str], description: str, *, pinned: Sequence[str] = ()) -> dict[str, bytes]:
    """Place → the program, built if it is not kept. ``pinned``: sources of others, whose pins stay.

    ConfigError: it cannot be built. MissingCapability: without Go.
    """
    if not sources:
        return {}
    kept = state_directory("go")
    with locked(kept / "lock", limit_s=2 * BUILD_LIMIT_S):
        tool = _tool_name()
        stay = (*sources.values(), *pinned)
        out = {place: _program(source, stay, kept, description, tool) for place, source in sources.items()}
        for old in sorted(kept.glob("*.program"), key=lambda path: path.stat().st_mtime_ns)[:-KEPT]:
            old.unlink()
    return out


def sources_of(sources: Mapping[str, str], description: str) -> list[tuple[str, str]]:
    """Place → what it is built from, in words, for ``doctor``. ConfigError: the lock is not ours."""
    out = []
    for place, source in sources.items():
        if "@" not in source:
            out.append((place, f"the Go package in {source}, with the modules of its go.sum"))
            continue
        pins = lock.found(KIND, source, description)
        lines = [] if pins is None else pins.pins.splitlines()
        modules = sum(" h1:" in line and "/go.mod " not in line for line in lines)
        known = "not pinned yet" if pins is None else f"{modules} modules in {lock.lock_file(description).name}"
        out.append((place, f"{source} ({known})"))
    return out


def module_of(folder: Path) -> Path | None:
    """The nearest directory, from this one upwards, that holds a ``go.mod``."""
    return next((one for one in (folder, *folder.parents) if (one / "go.mod").is_file()), None)


def compiled_files(module: Path) -> Iterator[Path]:
    """Every file that a build of packages of this module may read: its sources, its pins, what they embed, and the
    same of directories that replace other modules."""
    roots = [module]
    for root in roots:  # it grows
        text = (root / "go.mod").read_text(encoding="utf-8") if (root / "go.mod").is_file() else ""
        given = [Path(os.path.normpath(root / name)) for name in _REPLACED.findall(text)]
        roots += [one for one in given if one not in roots and one.is_dir()]
        yield from _files_in(root)


def _files_in(root: Path) -> Iterator[Path]:
    yield from (one for name in ("go.mod", "go.sum", "vendor/modules.txt") if (one := root / name).is_file())
    for place, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "_")) and name != "testdata" and not (Path(place) / name / "go.mod").is_file()
        )
        for path in (Path(place) / name for name in sorted(names)):
            if path.suffix not in _COMPILED or path.name.endswith("_test.go") or not path.is_file():
                continue
            yield path
            if path.suffix == ".go":
                yield from _embedded(path)


def _embedded(source: Path) -> Iterator[Path]:
    for line in _EMBEDS.findall(source.read_text(encoding="utf-8", errors="replace")):
        for pattern in shlex.split(line):
            for path in sorted(source.parent.glob(pattern.removeprefix("all:").rstrip("/"))):
                yield from sorted(one for one in (path, *path.rglob("*")) if one.is_file())


# --- one program --------------------------------------------------------------------------------------------------


def _program(source: str, stay: Sequence[str], kept: Path, description: str, tool: str) -> bytes:
    """The kept program, or a new one. ``stay``: whose pins stay; ``tool``: which Go builds it."""
    digest = hashlib.blake2b(f"{tool}\n{FLAGS}\n".encode(), digest_size=16)
    work: Callable[[Path], _Work]
    if "@" in source:
        pins = lock.found(KIND, source, description) or _resolved(source, stay, description)
        digest.update(pins.text.encode())
        work = partial(_with_pins, pins, description)
    else:
        package = (Path(description).absolute().parent / source).resolve()
        module = _module(package, source, description)
        digest.update(str(package.relative_to(module)).encode())
        for path in compiled_files(module):
            content = read_regular(path, most=PROGRAM_MAX)
            digest.update(f"\n{os.path.relpath(path, module)} {len(content)}\n".encode() + content)
        work = partial(_in_its_module, package, module, description)
    target = kept / f"{digest.hexdigest()}.program"
    if not target.is_file():
        with tempfile.TemporaryDirectory(prefix="make-", dir=kept) as place:
            made = Path(place) / "program"
            at = work(Path(place))
            _go(["build", *FLAGS, "-o", str(made), at.package], at, "a Go program cannot be built")
            _check_program(made, source, description)
            made.replace(target)
    os.utime(target)
    return target.read_bytes()


def _module(package: Path, source: str, description: str) -> Path:
    if not package.is_dir():
        raise ConfigError(
            f"there is no directory {source}",
            where=_key(description),
            cause="paths are relative to the description",
            next_step="write the directory of a main package, or PACKAGE@VERSION",
        )
    module = module_of(package)
    if module is None:
        raise ConfigError(
            f"there is no go.mod in {source}, nor above it",
            where=_key(description),
            next_step="run `go mod init NAME && go mod tidy` there",
        )
    return module


def _resolved(source: str, all_sources: Sequence[str], description: str) -> lock.Block:
    """The modules of this package and version, pinned from now on."""
    with tempfile.TemporaryDirectory(prefix="dethrone-go-") as place:
        (Path(place) / "go.mod").write_text("module dethrone.program\n", encoding="utf-8")
        at = _Work(
            place=Path(place), package=source, mode="-mod=mod", module="", description=description, repair=_CHECK
        )
        _go(["get", at.package], at, f"{source} cannot be resolved")
        module = (Path(place) / "go.mod").read_text(encoding="utf-8").partition("\n")[2]
        sums = (Path(place) / "go.sum").read_text(encoding="utf-8")
    pins = lock.block(KIND, source, NOTE, f"{module.strip()}\n{sums}")
    lock.store(pins, description, keep=all_sources)
    return pins


def _in_its_module(package: Path, module: Path, description: str, _place: Path) -> _Work:
    """A directory's program is built where it is."""
    vendored = (module / "vendor" / "modules.txt").is_file()
    return _Work(
        place=package,
        package=".",
        mode="-mod=vendor" if vendored else "-mod=readonly",
        module=(module / "go.mod").read_text(encoding="utf-8"),
        description=description,
        repair=f"run `go mod tidy` in {module}" + (", then `go mod vendor`" if vendored else ""),
    )


def _with_pins(pins: lock.Block, description: str, place: Path) -> _Work:
    """A version's program is built in a module of its pins, which is made in ``place``."""
    lines = pins.pins.splitlines()
    text = "\n".join(["module dethrone.program", *(line for line in lines if " h1:" not in line), ""])
    (place / "go.mod").write_text(text, encoding="utf-8")
    (place / "go.sum").write_text("\n".join([*(line for line in lines if " h1:" in line), ""]), encoding="utf-8")
    return _Work(
        place=place,
        package=pins.wanted.partition("@")[0],
        mode="-mod=readonly",
        module=text,
        description=description,
        repair=f"do not trust what was fetched; or delete {lock.lock_file(description).name} to resolve again",
    )


def _check_program(made: Path, source: str, description: str) -> None:
    """ConfigError for what hosts cannot execute or take."""
    if not made.is_file() or _first_bytes(made) != ELF:
        raise ConfigError(
            f"{source} is no main package", where=_key(description), next_step="name the directory of `package main`"
        )
    if made.stat().st_size > PROGRAM_MAX:
        raise ConfigError(
            f"the program of {source} is too large for a host: over {PROGRAM_MAX >> 20} MiB", where=_key(description)
        )


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(ELF))


def _go(words: Sequence[str], work: _Work, what: str) -> None:
    """Run Go; once more with a newer one, where this one is too old for what it was asked. ConfigError."""
    said = _run(_tool(work.module), words, work)
    newer = _NEEDS.search(said or "")
    if newer is not None:
        said = _run(_tool(f"go {newer[1]}"), words, work)
    if said is None:
        return
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith(("#", "go: downloading"))]
    raise ConfigError(
        what,
        where=_key(work.description),
        cause="Go's first lines were:\n" + "\n".join(lines[:LINES]) if lines else "Go printed nothing",
        next_step=_CHECK if _UNREACHED.search(said) else work.repair if _MISFIT.search(said) else "repair them",
    )


def _run(go: str, words: Sequence[str], work: _Work) -> str | None:
    """What it printed; None: it succeeded."""
    environment = {**GO_SETTINGS, "GOFLAGS": work.mode}
    done = run_tool([go, *words], "Go", limit_s=BUILD_LIMIT_S, cwd=work.place, env=environment)
    return done.stdout if done.returncode else None


def _tool(module: str) -> str:
    """A Go that can build this module. MissingCapability."""
    try:
        return find_go(module, progress=silent)
    except HarnessError as error:
        wanted = re.search(r"^go (\d+\.\d+)", module, re.MULTILINE)
        raise MissingCapability(
            "this machine has no Go that can build the program" + (f": it needs {wanted[1]}" if wanted else ""),
            where="this machine",
            cause=f"none on the path is new enough, and {GO_PACKAGE} cannot be had from the package index",
            next_step="install it: `apt-get install golang-go` (of backports where Debian's own is too old)",
        ) from error


def _tool_name() -> str:
    """Go as the path has it, else the package that is used without one; and the processors that it builds for."""
    own = installed_go()
    return f"{GO_PACKAGE if own is None else own[1]} {platform.machine()}"


def _key(description: str) -> str:
    return f"{description}: [node] go"
