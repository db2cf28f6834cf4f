"""What a host sees of this machine: its programs and libraries to read, and directories of its own to write.

A host's root directory is put together from the machine's: the directories of its software (``SOFTWARE``) are shown
read-only, less what is secret in them; homes and data are not there, save what the run itself needs or the system's
description names. What adapters name in containers is at the same place here: the project's code and a Python for
nodes below ``labels.ROOT``, the system's program.

Guarantees: pure, given what was seen of the machine; a node can write to its own directories only; what the kernel lets
root write below ``/proc`` and ``/sys`` is read-only, and of devices there are those that every program needs. Leaves
out mounting.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

import dethrone
from dethrone.clusters.docker.labels import LIB, MEMORY, PYTHON, ROOT
from dethrone.clusters.recipe import named
from dethrone.harness.core.errors import MissingCapability

SOFTWARE = frozenset({"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "sys", "nix", "gnu"})
"""Top-level directories that are shown; ``/opt`` is, too, entry by entry."""

SECRET = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh"),
    *("/etc/ssl/private", "/etc/security/opasswd", "/etc/krb5.keytab", "/etc/docker", "/etc/kubernetes"),
    *("/etc/NetworkManager", "/etc/wireguard", "/etc/openvpn", "/etc/letsencrypt"),
    *("/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kmsg", "/proc/kallsyms", "/proc/latency_stats"),
    *("/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/proc/acpi"),
    *("/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/fs/bpf"),
)
"""What is empty for hosts although it lies where they may look."""

READ_ONLY = ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/sysrq-trigger", "/proc/mtrr")
"""Through what of ``/proc`` root could change the machine."""

SHOWN = ("dethrone/__init__.py", "dethrone/clusters", "dethrone/harness")
"""The project's code for nodes, below the library directory; the agent is a file of the run's (``backend``)."""

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

AGENT_DIR, RUN_DIR = "/run/dethrone-agent", "/run/dethrone"
"""Where the agent listens, which no node may write to; where nodes have configuration and sockets."""
DATA_ROOT, LOG_ROOT = "/var/lib/dethrone", "/var/log/dethrone"
"""Where nodes write (``dethrone.harness.engine.run.runner``): on disk, each host has its own."""

PROGRAMS: Mapping[str, Mapping[str, str]] = {"node": {}, "etcd": {"/usr/bin/etcd": "etcd"}}
"""Image recipe → programs that its systems start: where they look for it → its name on PATH."""

Step = tuple[str, ...] | tuple[str, str, Sequence[str]]
"""See ``dethrone.clusters.local.box``: ``dir``, ``link``, ``file``, ``tmpfs``, ``proc``, ``overlay``, ``show``,
``lend``, ``guard``, ``hide``."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of this machine. ``top``: top-level name → where it links to, None for a directory.

    ``opt``: entries of ``/opt``. ``python``: the interpreter without any environment, ``prefix`` where it is installed,
    ``environment``: the virtual environment of this process; ``sites``: where its packages lie. ``packages``: path
    below the library directory → where the project's own code is. ``exists``: of the places of programs, those that are
    there.
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
        packages={name: str(Path(str(dethrone.__file__)).with_name(Path(name).name)) for name in SHOWN},
        exists=frozenset(place for place in places if Path(place).exists()),
    )


def programs_of(recipe: str) -> dict[str, str]:
    """Place in a host → program on this machine, for an image recipe. MissingCapability if one is not installed."""
    name = named(recipe).recipe  # its packages are of a user's own system: the program is where its command says
    if name not in PROGRAMS:
        raise MissingCapability(
            f"{recipe!r} is made for containers",
            where="backend local",
            cause=f"what is known to run from this machine's own files: {', '.join(sorted(PROGRAMS))}",
            next_step="run it with `--on docker`",
        )
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
    machine: Machine,
    *,
    box: str,
    programs: Mapping[str, str],
    files: Mapping[str, str] = {},
    shown: Sequence[str] = (),
    mounts: bool = False,
) -> list[Sequence[object]]:
    """How a host's root directory is put together. ``box``: its directory on disk.

    ``files``: files of its own in place of the machine's; ``shown``: what else of the machine the system needs.
    ``mounts``: its agent serves the node's data directory.
    """
    out: list[Sequence[object]] = []
    for name, target in sorted(machine.top.items()):
        if target is not None:
            out.append(("link", f"/{name}", target))
        elif name in SOFTWARE:
            out.append(("show", f"/{name}", f"/{name}"))
    out += [("show", f"/opt/{name}", f"/opt/{name}") for name in machine.opt if f"/opt/{name}" != ROOT]
    out += [("show", f"/dev/{name}", f"/dev/{name}") for name in DEVICES]
    out += [("link", f"/dev/{name}", f"/proc/self/fd{rest}") for name, rest in _STREAMS]
    out += [("tmpfs", "/dev/shm"), ("proc", "/proc"), ("tmpfs", "/tmp"), ("tmpfs", "/var/tmp")]  # noqa: S108
    out += [("link", "/var/run", "/run"), ("dir", "/run/lock")]
    out += [("fuse", "/dev/fuse")] if mounts else []
    # after the host's own /tmp, which would cover what lies in the machine's
    out += [("show", path, path) for path in (*_needed(machine, programs), *shown) if not _is_shown(path)]
    out += [("hide", path) for path in SECRET]
    out += [("guard", path) for path in READ_ONLY]
    out += [
        ("lend", AGENT_DIR, f"{box}/agent"),
        ("lend", RUN_DIR, f"{box}/run"),
        ("lend", DATA_ROOT, f"{box}/data"),
        ("tmpfs", MEMORY),
        ("lend", LOG_ROOT, f"{box}/log"),
    ]
    out += _python(machine)
    out += [("show", f"{LIB}/{name}", path) for name, path in sorted(machine.packages.items())]
    out += [("show", place, file) for place, file in files.items()]
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


_STREAMS = (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2"))


def _is_shown(path: str) -> bool:
    parts = Path(path).parts
    return len(parts) < 2 or parts[1] in {*SOFTWARE, "opt"}


def accounts(text: str, line: str) -> str:
    """The machine's ``/etc/passwd`` or ``/etc/group`` with the nodes' own line, unless the number has one already."""
    number = line.split(":")[2]
    known = any(entry.split(":")[2:3] == [number] for entry in text.splitlines())
    return text if known else f"{text.rstrip()}\n{line}\n"
