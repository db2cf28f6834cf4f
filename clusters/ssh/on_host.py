"""What runs on a machine before and after the agent: it puts the agent there, ends it, and finds forgotten ones.

Shipped as text to ``python3 -`` together with a request (``dethrone.clusters.ssh.shipping``); standard library only,
Python 3.9 and later. It prints one line, ``ANSWER`` and a JSON object; ``error`` in it is the reason why nothing was
done.

Guarantees: one run a machine at a time, by a lock that the kernel drops with the agent; the note of what is there is on
disk before the agent is; a directory is removed only when it is healed and has our note; the directory is
private, and one that another user owns is refused. Out of scope: what the agent does.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import grp
import io
import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import time
import zlib
from pathlib import Path
from typing import Any

ANSWER = "DETHRONE-ANSWER "
NOTE = "note.json"
RUN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,59}")
START_LIMIT_S = 15.0
UNPACK_LIMIT_S = 30.0
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


PROBE = """import importlib.util as u, json, platform, sys, sysconfig as s
print(json.dumps({"path": sys.executable, "version": sys.version_info[:2], "soabi": s.get_config_var("SOABI") or "",
"machine": platform.machine(), "libc": "glibc" if platform.libc_ver()[0] else "musl",
"msgspec": u.find_spec("msgspec") is not None}))"""
"""What an interpreter says of itself."""
NODE_PYTHON = (3, 11)
CAP_SYS_TIME = 25
TOOLS = ("iptables-save", "iptables-restore", "ss", "sudo", "systemctl")


def examine(request: dict[str, Any]) -> dict[str, Any]:
    """What this machine has: who we are, Pythons, tools, and which of the ``files`` asked for. Changes nothing."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
    newer = [f"python3.{minor}" for minor in range(19, NODE_PYTHON[1] - 1, -1)]
    python = None
    for name in (sys.executable, *newer):
        found = shutil.which(name, path=path)
        if found is None:
            continue
        try:
            said = subprocess.run([found, "-c", PROBE], capture_output=True, timeout=START_LIMIT_S, check=True)
            told = json.loads(said.stdout)
        except (OSError, ValueError, subprocess.SubprocessError):
            continue
        if tuple(told["version"]) >= NODE_PYTHON:
            python = told
            break
    status = Path("/proc/self/status").read_text(encoding="ascii")
    able = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    faketime = [
        entry
        for place in ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64", "/lib")
        for below in ("faketime", "*/faketime")
        for entry in Path(place).glob(f"{below}/libfaketimeMT.so.1")
    ]
    return {
        "uid": os.geteuid(),
        "python": python,
        "version": list(sys.version_info[:3]),
        "machine": os.uname().machine,
        "tools": {tool: shutil.which(tool, path=path) is not None for tool in TOOLS},
        "faketime": bool(faketime),
        "sets_clock": able is not None and bool(int(able.group(1), 16) >> CAP_SYS_TIME & 1),
        "files": {name: os.access(name, os.X_OK) for name in request["files"]},
    }


def unpack(directory: Path, code: str, python: str) -> str:
    """Put the nodes' code into the run's directory and compile it; "" or why it does not run here."""
    with tarfile.open(fileobj=io.BytesIO(zlib.decompress(base64.b64decode(code)))) as tar:
        for member in tar:
            target = (directory / member.name).resolve()
            if directory.resolve() not in target.parents or not (member.isfile() or member.isdir()):
                return f"{member.name} does not belong into an archive of ours"
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(member)
            target.write_bytes(content.read() if content is not None else b"")
    lib = str(directory / "lib")
    for argv in (
        [python, "-m", "compileall", "-q", lib],
        [python, "-c", "import msgspec, dethrone.clusters.node.main"],
    ):
        env = {**os.environ, "PYTHONPATH": lib, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(argv, capture_output=True, timeout=UNPACK_LIMIT_S, check=False, env=env, cwd="/")
        if done.returncode != 0:
            said = (done.stdout + done.stderr).decode("utf-8", "replace").strip()[-400:]
            return f"the nodes' code does not run with {python}: {said}"
    return ""


FREE_USERS = range(60706, 61184)
"""Users that no distribution gives to anything."""


def node_user(directory: Path, python: str) -> str:
    """A user that nodes below this directory can have as their own; "" where there is none.

    There is one if we are root, and if that user reaches the directory, and the nodes' code where we brought it along.
    """
    if os.geteuid() != 0:
        return ""
    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    user = next((uid for uid in FREE_USERS if uid not in taken), None)
    if user is None:
        return ""
    for place in (directory.parent, directory):
        place.chmod(0o711)  # to pass through, not to look into
    lib = str(directory / "lib")
    code = [python, "-c", "import msgspec, dethrone.clusters.node.main"] if python else []
    for argv in filter(None, (["/bin/sh", "-c", 'test -x "$0"', str(directory)], code)):
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                timeout=UNPACK_LIMIT_S,
                check=False,
                env={**os.environ, "PYTHONPATH": lib, "PYTHONDONTWRITEBYTECODE": "1"},
                cwd="/",
                user=user,
                group=user,
                extra_groups=[],
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        if done.returncode != 0:
            return ""
    return str(user)


def start(request: dict[str, Any]) -> dict[str, Any]:
    """Put the agent into a directory of the run and start it; it holds the machine's lock for as long as it lives."""
    state_dir, run = Path(request["state_dir"]), request["run"]
    os.umask(0o022)  # the node is another user, and reads what is put here
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
    note["machine"] = request["machine"]
    write_note(directory, note)
    if request.get("code"):
        why = unpack(directory, request["code"], request["python"])
        if why:
            shutil.rmtree(str(directory), ignore_errors=True)
            return {"error": why}
    (directory / "agent.py").write_bytes(base64.b64decode(request["agent"]))
    path = str(directory / "s")
    argv = [sys.executable, "-S", str(directory / "agent.py"), "serve", "--socket", path, "--run", run]
    argv += ["--dead-man", str(request["dead_man_s"]), "--probe-port", str(request["probe_port"])]
    argv += request["flags"]
    user = node_user(directory, request["python"] if request.get("code") else "")
    argv += ["--node-user", user] if user else []
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
    return {"found": [{**note, **liveliness(state_dir / note["run"], note)} for note in notes if note]}


def liveliness(directory: Path, note: dict[str, Any]) -> dict[str, Any]:
    """Whether the agent of that note runs, and for how long it has not heard of its harness (None: it does not say)."""
    if not lives(note):
        return {"lives": False, "silent_s": None}
    silent_s = None
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking,
        contextlib.suppress(OSError, ValueError, KeyError),
    ):
        asking.settimeout(2)
        asking.connect(str(directory / "s"))
        asking.sendall(b'{"id": 1, "do": "silence"}\n')
        silent_s = json.loads(asking.makefile("rb").readline())["ok"]["silence_ns"] / 1e9
    return {"lives": True, "silent_s": silent_s}


def main(request: dict[str, Any]) -> None:
    """Serve one request and print the answer."""
    verbs = {"examine": examine, "start": start, "stop": stop, "list": listing}
    try:
        if "run" in request and RUN.fullmatch(request["run"]) is None:
            raise ValueError(f"{request['run']!r} is no run's name")
        answer = verbs[request["verb"]](request)
    except Exception as error:  # noqa: BLE001 - the harness must hear of any of them
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write("\n" + ANSWER + json.dumps(answer) + "\n")
