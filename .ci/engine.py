"""A running Docker engine on this machine: found, or installed and started.

It serves this repository's own tests and demo: what is installed from here installs no daemons.

Guarantees: an engine that works is left alone; on a Debian-like machine, as root or with a sudo without password, a
missing one is installed through apt and started, by systemd where it runs and otherwise as a process of its own whose
log and pid file are kept in the state directory; the wait for it is by condition and bounded; anything else is said
with the command that helps. Out of scope: images, and stopping an engine that it did not start.

Run as ``python .ci/engine.py`` or by ``make engine`` (``--stop`` ends the engine that this script started).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from dethrone.clusters.docker import packages
from dethrone.clusters.docker.client import NotAllowed, connect, engine_address
from dethrone.clusters.docker.state import Progress, locked, silent, state_directory
from dethrone.harness.core.errors import HarnessError, MissingCapability

ENGINE_PACKAGES = ("docker.io", "iptables", "debootstrap")
START_LIMIT_S = 60.0
"""Longest wait for a started engine's first answer."""

_SYSTEMD = Path("/run/systemd/system")


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """An engine that answers."""

    address: str
    version: str
    storage: str
    how: Literal["found", "systemd", "process"]
    took_ms: int
    """From the call to the engine's first answer, installation included."""


class Attempt(msgspec.Struct, frozen=True):
    """One way to start the engine's daemon. Each next one gives up something that this machine seems to lack."""

    legacy_iptables: bool = False
    no_iptables: bool = False
    vfs: bool = False


def ensure_engine(*, progress: Progress = silent, limit_s: float = START_LIMIT_S) -> Engine:
    """Return a working engine; install and start one if need be. Raises MissingCapability with what to do."""
    began = time.monotonic()
    try:
        return _describe("found", began)
    except NotAllowed:
        raise  # it works for others: nothing to start
    except MissingCapability:
        if os.environ.get("DOCKER_HOST"):
            raise  # another user's engine: not ours to start
    with locked(state_directory("engine") / "lock", limit_s=packages.INSTALL_LIMIT_S + limit_s, progress=progress):
        try:
            return _describe("found", began)  # the process that held the lock has started it
        except MissingCapability:
            pass
        if shutil.which("dockerd", path=packages.tools_path()) is None:
            packages.install(ENGINE_PACKAGES, purpose="Docker engine", progress=progress)
        how: Literal["systemd", "process"] = "systemd" if _SYSTEMD.is_dir() else "process"
        if how == "systemd":
            _start_by_systemd(progress=progress)
            _wait(time.monotonic() + limit_s, process=None)
        else:
            _start_process(progress=progress, limit_s=limit_s)
        return _describe(how, began)


def stop_engine(*, limit_s: float = 20.0) -> bool:
    """End the engine that this module started as a process; False if there is none."""
    pid = own_daemon()
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + limit_s
    while own_daemon() is not None:
        if time.monotonic() > deadline:
            raise MissingCapability(
                f"the engine did not end within {limit_s:.0f} s",
                where=f"pid {pid}",
                cause="containers that do not stop",
                next_step=f"see {state_directory('engine') / 'dockerd.log'}",
            )
        time.sleep(0.05)
    return True


def next_attempt(previous: Attempt, log: str) -> Attempt | None:
    """What to try after the daemon died and left ``log``; None if nothing in it helps."""
    text = log.lower()
    if "iptables" in text or "nat chain" in text:
        if not previous.legacy_iptables and not previous.no_iptables:
            return Attempt(legacy_iptables=True, vfs=previous.vfs)
        if not previous.no_iptables:
            return Attempt(no_iptables=True, vfs=previous.vfs)
    if not previous.vfs and ("graphdriver" in text or "storage driver" in text or "overlay" in text):
        return Attempt(legacy_iptables=previous.legacy_iptables, no_iptables=previous.no_iptables, vfs=True)
    return None


def _describe(how: Literal["found", "systemd", "process"], began: float) -> Engine:
    client = connect(limit_s=10)
    try:
        info = client.info()
        return Engine(
            address=engine_address(),
            version=str(info.get("ServerVersion", "?")),
            storage=str(info.get("Driver", "?")),
            how=how,
            took_ms=int((time.monotonic() - began) * 1000),
        )
    finally:
        client.close()


def _start_by_systemd(*, progress: Progress) -> None:
    prefix = packages.root_prefix()
    if prefix is None:
        raise MissingCapability(
            "the Docker engine is installed but does not run, and this user may not start it",
            where=engine_address(),
            cause="neither root nor a sudo without password",
            next_step="run as root: systemctl enable --now docker",
        )
    progress("starting the Docker engine (systemd)")
    done = subprocess.run(
        [*prefix, "systemctl", "start", "docker"], capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode != 0:
        raise MissingCapability(
            "systemd could not start the Docker engine",
            where=engine_address(),
            cause=" ".join(done.stderr.split())[:300],
            next_step="see `journalctl -u docker -n 50`",
        )


def _start_process(*, progress: Progress, limit_s: float) -> None:
    prefix = packages.root_prefix()
    if prefix is None:
        raise MissingCapability(
            "the Docker engine is installed but does not run, and this user may not start it",
            where=engine_address(),
            cause="neither systemd, nor root, nor a sudo without password",
            next_step="start `dockerd` as root, or set DOCKER_HOST to an engine that runs",
        )
    if own_daemon() is not None:  # started earlier and not yet listening
        _wait(time.monotonic() + limit_s, process=None)
        return
    deadline = time.monotonic() + limit_s
    attempt: Attempt | None = Attempt()
    log = ""
    while attempt is not None:
        progress(f"starting the Docker engine ({_words(attempt)})")
        process, log_path = _launch(prefix, attempt)
        if _wait(deadline, process=process):
            return
        log = log_path.read_text(encoding="utf-8", errors="replace")
        attempt = next_attempt(attempt, log)
    tail = "\n".join(log.splitlines()[-5:])
    raise MissingCapability(
        "the Docker engine was started and ended at once",
        where=str(state_directory("engine") / "dockerd.log"),
        cause=f"its last lines were:\n{tail}",
        next_step="repair what the log names (cgroups not mounted, no permission for mounts or iptables), or set "
        "DOCKER_HOST to an engine that runs elsewhere on this machine",
    )


def _words(attempt: Attempt) -> str:
    given_up = [name for name in attempt.__struct_fields__ if getattr(attempt, name)]
    return ", ".join(given_up).replace("_", " ") or "plain"


def _launch(prefix: Sequence[str], attempt: Attempt) -> tuple[subprocess.Popen[bytes], Path]:
    """Start the daemon in a session of its own, so that it survives this process and its terminal."""
    directory = state_directory("engine")
    path = packages.tools_path()
    if attempt.legacy_iptables:
        path = f"{_legacy_directory(directory)}{os.pathsep}{path}"
    pid_file = directory / "dockerd.pid"
    pid_file.unlink(missing_ok=True)  # no process of ours runs: it is stale
    argv = [*prefix, "env", f"PATH={path}", "dockerd", "--pidfile", str(pid_file), "--log-level", "warn"]
    if attempt.no_iptables:  # containers of one bridge reach each other without it
        argv += ["--iptables=false", "--ip6tables=false"]
    if attempt.vfs:
        argv += ["--storage-driver", "vfs"]
    log_path = directory / "dockerd.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, cwd="/"
        )
    return process, log_path


def _legacy_directory(directory: Path) -> Path:
    """A directory whose ``iptables`` are the legacy ones, for the daemon's PATH only: the machine's choice stays."""
    shims = directory / "iptables-legacy"
    shims.mkdir(exist_ok=True)
    for name in ("iptables", "ip6tables", "iptables-save", "iptables-restore"):
        legacy = shutil.which(name.replace("tables", "tables-legacy", 1), path=packages.tools_path())
        shim = shims / name
        shim.unlink(missing_ok=True)
        if legacy is not None:
            shim.symlink_to(legacy)
    return shims


def own_daemon() -> int | None:
    """The pid of the daemon that this module started, if it still lives."""
    try:
        pid = int((state_directory("engine") / "dockerd.pid").read_text(encoding="ascii"))
        name = Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return pid if name == "dockerd" else None


def _wait(deadline: float, *, process: subprocess.Popen[bytes] | None) -> bool:
    """Wait until the engine answers: True. False if ``process`` ended first. Raises at the deadline."""
    while True:
        try:
            connect(limit_s=5).close()
            return True
        except NotAllowed:
            raise
        except MissingCapability as error:
            if process is not None and process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise MissingCapability(
                    "the Docker engine was started but does not answer in time",
                    where=error.where,
                    cause=error.cause,
                    next_step=f"see {state_directory('engine') / 'dockerd.log'} or `journalctl -u docker`",
                ) from error
        time.sleep(0.05)


def main(arguments: Sequence[str]) -> int:
    """The command line: make sure that an engine runs, or ``--stop`` ours. Progress and errors go to stderr."""

    def progress(line: str) -> None:
        sys.stderr.write(f"engine: {line}\n")
        sys.stderr.flush()

    try:
        if list(arguments) == ["--stop"]:
            progress("stopped" if stop_engine() else "none of ours runs")
        elif arguments:
            sys.stderr.write("usage: python .ci/engine.py [--stop]\n")
            return 64
        else:
            engine = ensure_engine(progress=progress)
            progress(f"Docker {engine.version} on {engine.storage}, {engine.how}, {engine.took_ms} ms")
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
