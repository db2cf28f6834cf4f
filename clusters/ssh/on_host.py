"""What runs on a machine before and after the agent: it puts the agent there, ends it, and finds forgotten ones.

Shipped as text to ``python3 -`` together with a request (``clusters.ssh.shipping``); standard library only, Python 3.9
and later. It prints one line, ``ANSWER`` and a JSON object; ``error`` in it is the reason why nothing was done.

Promises: one run a machine at a time, by a lock that the kernel drops with the agent; the note of what is there is on
disk before the agent is; a directory is removed only when it is healed and has our note; the directory is
private, and one that somebody else owns is refused. Leaves out what the agent does.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ANSWER = "DETHRONE-ANSWER "
NOTE = "note.json"
RUN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,59}")
START_LIMIT_S = 15.0
HEAL_LIMIT_S = 60.0
END_LIMIT_S = 15.0


def start_ticks(pid: int) -> int:
    """When a process began, in ticks since boot: with its id, its identity; 0 if it is gone."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
        fields = raw[raw.rindex(b")") + 2 :].split()
        return 0 if fields[0] == b"Z" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0


def lives(note: dict[str, Any]) -> bool:
    """Whether the agent of that note runs."""
    return bool(note.get("pid")) and start_ticks(note["pid"]) == note.get("start_ticks")


def write_note(directory: Path, note: dict[str, Any]) -> None:
    """Whole or not at all, and on disk."""
    temporary = directory / (NOTE + ".new")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(note, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(directory / NOTE)


def read_note(directory: Path) -> dict[str, Any]:
    """Empty if it is none of ours."""
    try:
        note = json.loads((directory / NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) and note.get("run") == directory.name else {}


def private_directory(path: str) -> str:
    """Make the directory, or say why it is not to be used."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            Path(path).mkdir(mode=0o700)
        seen = os.lstat(path)
    except OSError as error:
        return f"the state directory cannot be made: {error}"
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_mode & 0o022:
        return f"{path} is not a directory that only this user may write to"
    return ""


def start(request: dict[str, Any]) -> dict[str, Any]:
    """Put the agent into a directory of the run and start it; it holds the machine's lock for as long as it lives."""
    state_dir, run = Path(request["state_dir"]), request["run"]
    why = private_directory(str(state_dir))
    if why:
        return {"error": why}
    lock = os.open(str(state_dir / "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 200, 0).decode("utf-8", "replace")
        return {"error": f"the run {holder} uses this machine", "busy": holder}
    left = [note["run"] for note in listing(request)["found"]]
    if left:
        return {"error": f"the run {left[0]} ended here without healing the machine", "left": left[0]}
    os.ftruncate(lock, 0)
    os.pwrite(lock, run.encode(), 0)
    directory = state_dir / run
    directory.mkdir(mode=0o700)
    note = {"run": run, "owner": request["owner"], "node": request["node"], "pid": 0, "start_ticks": 0}
    write_note(directory, note)
    (directory / "agent.py").write_bytes(base64.b64decode(request["agent"]))
    path = str(directory / "s")
    argv = [sys.executable, "-S", str(directory / "agent.py"), "serve", "--socket", path, "--run", run]
    argv += ["--dead-man", str(request["dead_man_s"]), "--probe-port", str(request["probe_port"])]
    with (directory / "agent.log").open("ab") as log:
        agent = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True, pass_fds=(lock,)
        )
    write_note(directory, {**note, "pid": agent.pid, "start_ticks": start_ticks(agent.pid)})
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and agent.poll() is None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
            probe.connect(path)
            return {"socket": path, "agent": str(directory / "agent.py"), "pid": agent.pid}
        time.sleep(0.02)
    code = agent.poll()
    if code is None:
        agent.kill()
        agent.wait()
    said = (directory / "agent.log").read_text(encoding="utf-8", errors="replace")[-1000:].strip()
    shutil.rmtree(str(directory), ignore_errors=True)
    return {"error": f"the agent does not listen (exit code {code}): {said}"}


def stop(request: dict[str, Any]) -> dict[str, Any]:
    """Heal the machine, end node and agent, and remove the run's directory. Nothing there: nothing done."""
    directory = Path(request["state_dir"]) / request["run"]
    note = read_note(directory)
    if not note:
        return {"stopped": False}
    argv = [sys.executable, "-S", str(directory / "agent.py"), "heal", "--socket", str(directory / "s"), "--stop"]
    if (directory / "agent.py").exists():
        try:
            healing = subprocess.run(
                [*argv, "--run", request["run"]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=HEAL_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"healing did not end within {HEAL_LIMIT_S:g} s", "directory": str(directory)}
        if healing.returncode != 0:
            said = (healing.stdout + healing.stderr).decode("utf-8", "replace").strip()[-1000:]
            return {"error": f"not healed: {said}", "directory": str(directory)}
    for number, limit_s in ((signal.SIGTERM, END_LIMIT_S), (signal.SIGKILL, END_LIMIT_S)):
        if not lives(note):
            break
        with contextlib.suppress(ProcessLookupError):
            os.kill(note["pid"], number)
        deadline = time.monotonic() + limit_s
        while lives(note) and time.monotonic() < deadline:
            time.sleep(0.02)
    if lives(note):
        return {"error": f"the agent, process {note['pid']}, does not end", "directory": str(directory)}
    shutil.rmtree(str(directory))
    return {"stopped": True}


def listing(request: dict[str, Any]) -> dict[str, Any]:
    """The notes of all runs on this machine, each with whether its agent lives."""
    state_dir = Path(request["state_dir"])
    notes = [read_note(entry) for entry in sorted(state_dir.iterdir())] if state_dir.is_dir() else []
    return {"found": [{**note, "lives": lives(note)} for note in notes if note]}


def main(request: dict[str, Any]) -> None:
    """Serve one request and print the answer."""
    verbs = {"start": start, "stop": stop, "list": listing}
    try:
        if "run" in request and RUN.fullmatch(request["run"]) is None:
            raise ValueError(f"{request['run']!r} is no run's name")
        answer = verbs[request["verb"]](request)
    except Exception as error:  # noqa: BLE001 - the harness must hear of it, whatever it is
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write("\n" + ANSWER + json.dumps(answer) + "\n")
