"""What a host sees of this machine: its programs and libraries to read, and directories of its own to write.

A host's root directory is put together from the machine's: every top-level directory is shown read-only, save those
that hold what is going on (``/run``, ``/tmp``, ``/var``, …), which are the host's own. What adapters name in containers
is at the same place here: the project's code and a Python for nodes below ``labels.ROOT``, the system's program.

Promises: pure, given what was seen of the machine; a node can write to its own directories only. Leaves out mounting.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

import clusters
import harness
from clusters.docker.labels import LIB, PYTHON, ROOT
from harness.core.errors import MissingCapability

HIDDEN = frozenset({"proc", "dev", "run", "tmp", "var", "opt", "lost+found"})
"""Top-level directories that are not simply shown."""

RUN_DIR, DATA_ROOT, LOG_ROOT = "/run/dethrone", "/var/lib/dethrone", "/var/log/dethrone"
"""Where the agent listens, and where nodes write (``harness.engine.runner``): on disk, each host has its own."""

PROGRAMS: Mapping[str, Mapping[str, str]] = {"node": {}, "etcd": {"/usr/bin/etcd": "etcd"}}
"""Image recipe → programs that its systems start: where they look for it → its name on PATH."""

Step = tuple[str, ...] | tuple[str, str, Sequence[str]]
"""See ``clusters.local.box``: ``dir``, ``link``, ``file``, ``tmpfs``, ``proc``, ``overlay``, ``show``, ``lend``."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of this machine. ``top``: top-level name → where it links to, None for a directory.

    ``opt``: entries of ``/opt``. ``python``: the interpreter without any environment, ``prefix`` where it is installed,
    ``environment``: the virtual environment of this process; ``sites``: where its packages lie. ``packages``: name →
    directory of the project's own packages. ``exists``: of the places of programs, those that are there.
    """

    top: Mapping[str, str | None]
    opt: Sequence[str]
    python: str
    version: str
    prefix: str
    environment: str
    sites: Sequence[str]
    packages: Mapping[str, str]
    exists: frozenset[str] = frozenset()


def this_machine() -> Machine:
    """What is seen of it now."""
    root = Path("/")
    top: dict[str, str | None] = {}
    for entry in root.iterdir():
        if entry.is_symlink():
            top[entry.name] = str(entry.readlink())
        elif entry.is_dir():
            top[entry.name] = None
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    sites = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(Path(msgspec.__file__).parents[1])]
    places = {place for programs in PROGRAMS.values() for place in programs}
    return Machine(
        top=top,
        opt=sorted(entry.name for entry in Path("/opt").iterdir() if entry.is_dir()) if Path("/opt").is_dir() else (),
        python=python,
        version=f"python{sys.version_info.major}.{sys.version_info.minor}",
        prefix=os.path.realpath(sys.base_prefix),
        environment=sys.prefix,
        sites=tuple(dict.fromkeys(sites)),
        packages={package.__name__: str(Path(str(package.__file__)).parent) for package in (clusters, harness)},
        exists=frozenset(place for place in places if Path(place).exists()),
    )


def programs_of(recipe: str) -> dict[str, str]:
    """Place in a host → program on this machine, for an image recipe. MissingCapability if one is not installed."""
    name, _, packages = recipe.partition("+")
    if name not in PROGRAMS:
        raise MissingCapability(
            f"{recipe!r} is made for containers",
            where="backend local",
            cause=f"what is known to run from this machine's own files: {', '.join(sorted(PROGRAMS))}",
            next_step="run it with `--on docker`",
        )
    del packages  # of a system of somebody's own: its program is wherever its command says
    found: dict[str, str] = {}
    for place, program in PROGRAMS[name].items():
        path = shutil.which(program)
        if path is None:
            raise MissingCapability(
                f"{program} is not installed on this machine",
                where="backend local",
                cause=f"no {program} on PATH",
                next_step=f"install it (Debian: apt-get install {program}-server), or run with `--on docker`",
            )
        found[place] = os.path.realpath(path)
    return found


def steps(
    machine: Machine, *, box: str, hosts: str, programs: Mapping[str, str], names: bool = True
) -> list[Sequence[object]]:
    """How a host's root directory is put together. ``box``: its directory on disk; ``hosts``: its hosts file."""
    out: list[Sequence[object]] = []
    for name, target in sorted(machine.top.items()):
        if target is not None:
            out.append(("link", f"/{name}", target))
        elif name not in HIDDEN:
            out.append(("show", f"/{name}", f"/{name}"))
    out += [("show", f"/opt/{name}", f"/opt/{name}") for name in machine.opt if f"/opt/{name}" != ROOT]
    out += [("show", "/dev", "/dev"), ("tmpfs", "/dev/shm"), ("proc", "/proc"), ("tmpfs", "/tmp"), ("dir", "/var/tmp")]  # noqa: S108
    out += [("link", "/var/run", "/run"), ("dir", "/run/lock")]
    # after the host's own /tmp, which would cover what lies in the machine's
    out += [("show", path, path) for path in _needed(machine, programs) if _is_hidden(path)]
    out += [("lend", RUN_DIR, f"{box}/run"), ("lend", DATA_ROOT, f"{box}/data"), ("lend", LOG_ROOT, f"{box}/log")]
    out += _python(machine)
    out += [("show", f"{LIB}/{name}", path) for name, path in sorted(machine.packages.items())]
    if names:
        out.append(("show", "/etc/hosts", hosts))
    for place, program in programs.items():
        if place == program:
            continue
        if place not in machine.exists:  # nothing to mount over: lay a directory with that name over the real one
            folder = str(Path(place).parent)
            out.append(("overlay", folder, [f"{box}/programs", folder]))
        out.append(("show", place, program))
    return out


def _python(machine: Machine) -> list[Sequence[object]]:
    """An environment for nodes around the interpreter that this process runs on: the same packages."""
    venv = Path(PYTHON).parents[1]
    site = f"{venv}/lib/{machine.version}/site-packages"
    home = str(Path(machine.python).parent)
    return [
        ("link", PYTHON, machine.python),
        ("file", f"{venv}/pyvenv.cfg", f"home = {home}\ninclude-system-site-packages = false\n"),
        ("file", f"{site}/dethrone.pth", "".join(f"{path}\n" for path in machine.sites)),
    ]


def _needed(machine: Machine, programs: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys([machine.prefix, machine.environment, *machine.sites, *programs.values()]))


def _is_hidden(path: str) -> bool:
    parts = Path(path).parts
    return len(parts) > 1 and parts[1] in HIDDEN - {"opt"}
