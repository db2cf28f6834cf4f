"""What nodes of ours need on a machine: the project's code, and msgspec as built for the Python that is there.

Guarantees: the same bytes whenever code and Python are the same; nothing is installed on the machine, all of it lies in
the run's directory; msgspec is this machine's own where the two Pythons are alike, else the wheel that pip fetches for
that Python, kept for later runs. Out of scope: whether it works there, which the machine itself finds out.
"""

from __future__ import annotations

import functools
import io
import subprocess
import sys
import sysconfig
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dethrone.clusters import pinned
from dethrone.clusters.docker.ship import archive, sources
from dethrone.harness.core.errors import MissingCapability
from dethrone.harness.core.ledger import state_dir

FETCH_LIMIT_S = 120
_NODES = (
    "dethrone/clusters/__init__.py",
    "dethrone/clusters/node/",
    "dethrone/clusters/targets/",
    "dethrone/harness/__init__.py",
    "dethrone/harness/core/",
)
"""What a node process imports."""


class Python(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter for nodes on a machine. ``soabi``: what its extensions are built for; ``libc``: glibc or musl."""

    path: str
    version: tuple[int, int]
    soabi: str
    machine: str
    libc: str
    msgspec: bool
    """Whether it has msgspec already."""


@functools.cache
def bundle(python: Python, where: str) -> bytes:
    """A compressed tar of the code, and of msgspec unless that is there. MissingCapability: no msgspec can be had."""
    files = {name: data for name, data in sources().items() if name.startswith(_NODES)}
    if not python.msgspec:
        files |= _ours() if python.soabi == sysconfig.get_config_var("SOABI") else _fetched(python, where)
    return zlib.compress(archive(files, root="lib"))


def _ours() -> dict[str, bytes]:
    """The files of this machine's own msgspec."""
    root = Path(str(msgspec.__file__)).parent
    found = (path for path in sorted(root.iterdir()) if path.suffix in {".py", ".so"})
    return {f"{root.name}/{path.name}": path.read_bytes() for path in found}


def _fetched(python: Python, where: str) -> dict[str, bytes]:
    number = f"{python.version[0]}.{python.version[1]}"
    # The platform's tags with the oldest libraries that wheels are made for; the newest that the machine may lack.
    flavours = ("musllinux_1_1", "musllinux_1_2") if python.libc == "musl" else ("manylinux2014", "manylinux_2_28")
    directory = state_dir() / "wheels" / python.soabi
    wheels = sorted(directory.glob("msgspec-*.whl"))
    if not wheels:
        directory.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d"]
        argv += [str(directory), "--python-version", number, "--implementation", "cp"]
        argv += ["--abi", f"cp{python.version[0]}{python.version[1]}"]
        for flavour in flavours:
            argv += ["--platform", f"{flavour}_{python.machine}"]
        try:
            done = subprocess.run(
                [*argv, "--require-hashes", "-r", str(pinned.LOCK)],
                capture_output=True,
                text=True,
                timeout=FETCH_LIMIT_S,
                check=False,
            )
            said = done.stderr.strip()[-300:]
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
        wheels = sorted(directory.glob("msgspec-*.whl"))
        if not wheels:
            raise MissingCapability(
                f"there is no msgspec for its Python {number} on {python.machine} ({python.soabi})",
                where=where,
                cause=said,
                next_step=f"on {where}: `{python.path} -m pip install '{pinned.requirement()}'`",
            )
    with zipfile.ZipFile(io.BytesIO(wheels[-1].read_bytes())) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist() if name.startswith("msgspec/")}


def python_of(facts: Mapping[str, Any]) -> Python | None:
    """The interpreter among what a machine said of itself; None: it has none that is new enough."""
    said = facts.get("python")
    return None if said is None else msgspec.convert(said, Python)
