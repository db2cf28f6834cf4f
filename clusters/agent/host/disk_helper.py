"""The process next to an agent that serves a node's data directory, so that its disk can fail and lose power.

It mounts over the directory and ends when it is unmounted. It takes one JSON line after another from its input, and
answers each: ``{"do": "woes", "fails", "share_ppm", "latency_ns"}``, ``{"do": "lose_power", "torn": seed or null}``,
``{"do": "hit"}``. If its input ends, the agent is gone: then the disk is well, and is served as before.

Guarantees: everything that a client wrote is in the directory below the mount at any moment, so a helper that is killed
loses nothing. Out of scope: who ends the node before power is lost, and who mounts again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from dethrone.clusters.agent.host.common import complain
from dethrone.clusters.agent.host.fuse_server import DiskWoes, FuseServer
from dethrone.clusters.agent.host.mounts import mount_fuse
from dethrone.clusters.agent.host.volume import Volume

SECTOR = 512
"""A torn write ends at a border of sectors, if it is longer than one."""
FIRST_IN_LINE = -20
"""Its niceness: a disk does not wait for a processor, and each write and sync of the node would."""


def serve_disk(directory: str, run: str, model: str) -> int:
    """Mount, serve until it is unmounted, and carry out what stdin asks for; 3: it could not be mounted.

    ``model``: what syncs make durable, a name of ``MODELS``.
    """
    os.umask(0)
    with contextlib.suppress(PermissionError):  # slower, and no less correct
        os.setpriority(os.PRIO_PROCESS, 0, FIRST_IN_LINE)
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        volume = Volume(root, model)
        server = FuseServer(mount_fuse(directory, run), volume)
    except OSError as error:
        _answer({"error": f"{error.strerror or error}"})
        return 3
    _answer({"ok": {"pid": os.getpid()}})
    threading.Thread(target=_obey, args=(server, volume), name="orders", daemon=True).start()
    server.serve()
    volume.tree.clear_stash()
    return 0


def _obey(server: FuseServer, volume: Volume) -> None:
    for line in sys.stdin:
        try:
            _answer({"ok": _carry_out(server, volume, json.loads(line))})
        except (OSError, ValueError, KeyError, TypeError) as error:
            complain("disk", error)
            _answer({"error": f"{type(error).__name__}: {error}"})
    server.replace_woes(DiskWoes())


def _carry_out(server: FuseServer, volume: Volume, order: Mapping[str, Any]) -> dict[str, Any]:
    if order["do"] == "woes":
        fails = {str(what): int(code) for what, code in order["fails"].items()}
        woes = DiskWoes(fails, share_ppm=int(order["share_ppm"]), latency_ns=int(order["latency_ns"]))
        return {"hit": server.replace_woes(woes)}
    if order["do"] == "hit":
        return {"hit": dict(server.woes.hit)}
    seed = order["torn"]
    return dict(volume.lose_power(None if seed is None else _torn(str(seed))))


def _torn(seed: str) -> Any:
    """How much survives of a write of this length: at least a byte less than all of it, the same for the same seed."""
    count = 0

    def survives(length: int) -> int:
        nonlocal count
        count += 1
        drawn = int.from_bytes(hashlib.sha256(f"{seed} {count}".encode()).digest()[:8], "big")
        if length <= SECTOR:
            return drawn % length
        return drawn % ((length - 1) // SECTOR + 1) * SECTOR

    return survives


def _answer(answer: Mapping[str, Any]) -> None:
    with _ANSWERING:
        try:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        except (OSError, ValueError) as error:  # the agent is gone
            complain("disk", error)


_ANSWERING = threading.Lock()
