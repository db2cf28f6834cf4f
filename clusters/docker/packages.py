"""System packages of THIS machine: whether and how they can be installed.

Guarantees: installs through the system's own package manager and only on Debian-like systems as root or with a
password-less sudo; on any other machine says what to install. Out of scope: everything inside images.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from dethrone.clusters.docker.state import Progress, silent
from dethrone.harness.core.errors import ClusterError, MissingCapability

INSTALL_LIMIT_S = 900.0
"""Longest time for one package manager call."""


def os_release(path: Path = Path("/etc/os-release")) -> Mapping[str, str]:
    """The fields of os-release; empty where there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return {}
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            fields[name.strip()] = value.strip().strip("\"'")
    return fields


def is_debian_like(release: Mapping[str, str] | None = None) -> bool:
    """Whether packages are apt's and carry Debian's names (Debian, Ubuntu and their kin)."""
    fields = os_release() if release is None else release
    return "debian" in {fields.get("ID", ""), *fields.get("ID_LIKE", "").split()}


def root_prefix() -> tuple[str, ...] | None:
    """What to put before a command so that it runs as root; None where that is impossible without a password."""
    if os.geteuid() == 0:
        return ()
    if shutil.which("sudo") is None:
        return None
    probe = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False, timeout=10)
    return ("sudo", "-n") if probe.returncode == 0 else None


def tools_path() -> str:
    """PATH with the administrator's directories, which plain users often lack."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def install(packages: Sequence[str], *, purpose: str, progress: Progress = silent) -> None:
    """Install Debian ``packages`` on this machine, or say exactly what a person has to do.

    Raises MissingCapability when this is not a Debian-like machine, root is out of reach, or apt fails.
    """
    names = " ".join(packages)
    where = os_release().get("PRETTY_NAME", "this machine")
    if not is_debian_like():
        raise MissingCapability(
            f"{purpose}: not installed",
            where=where,
            cause="only Debian-like machines are set up automatically",
            next_step=f"install the equivalents of these Debian packages, then run the command again: {names}",
        )
    prefix = root_prefix()
    command = f"apt-get install --no-install-recommends {names}"
    if prefix is None:
        raise MissingCapability(
            f"{purpose}: not installed, and this user may not install packages",
            where=where,
            cause="neither root nor a sudo without password",
            next_step=f"run as root: {command}",
        )
    progress(f"installing {names}")
    update = _apt([*prefix, "apt-get", "-q", "update"])
    done = _apt(
        [
            *(*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"),
            *("install", "--no-install-recommends", *packages),
        ]
    )
    if done.returncode != 0:
        tail = "\n".join((update.stdout + done.stdout).splitlines()[-8:])
        raise MissingCapability(
            f"{purpose}: apt-get could not install {names}",
            where=where,
            cause=f"its last lines were:\n{tail}",
            next_step=f"repair apt (sources, proxy, network), then run as root: {command}",
        )


def _apt(argv: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return run_tool(argv, "apt-get", limit_s=INSTALL_LIMIT_S)
    except ClusterError as error:
        return subprocess.CompletedProcess(argv, 124, stdout=f"{error.what}: {error.cause}\n")


def run_tool(
    argv: Sequence[str], name: str, *, limit_s: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a tool of this machine; its complaints are in ``stdout``, too. ClusterError if it does not end in time."""
    try:
        return subprocess.run(
            argv,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{name} did not end", where=str(error.cmd), cause=f"{limit_s:.0f} s passed") from error
