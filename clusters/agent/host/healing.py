"""Healing a host: through its living agent, or alone when that is gone.

Guarantees: works after ``kill -9`` of the agent, and twice; a process is signalled only if its id and start time match.
Out of scope: starting the node again.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from typing import Any

from dethrone.clusters.agent.host.clocks import faketime_text
from dethrone.clusters.agent.host.commands import take_back
from dethrone.clusters.agent.host.common import Refused, boot_id, complain, now_ns, replace_file
from dethrone.clusters.agent.host.damage import put_back
from dethrone.clusters.agent.host.disks import remove_disk
from dethrone.clusters.agent.host.firewall import Firewall
from dethrone.clusters.agent.host.groups import lift_groups
from dethrone.clusters.agent.host.processes import Processes, process_stat, same_process
from dethrone.clusters.agent.host.qualities import await_shaper
from dethrone.clusters.agent.host.vdso_clock import heal_vdso


def heal_alone(processes: Processes, run: str | None, state_path: str, *, stop: bool = False) -> dict[str, Any]:
    """Heal what needs no living agent: rules, commands, damage that was not done to its end, the process, its clock.

    A helper that shapes links lets everything pass and ends when its agent is gone; one that does not is killed.
    ``run`` None: remove the chains of all runs. ``stop``: kill the node process. The node is not started.
    """
    whys = [
        Firewall(run or "", processes, table=table).remove_leftovers(every_run=run is None)
        for table in ("mangle", "filter")
    ]
    answer: dict[str, Any] = {"alone": True, "why": "; ".join(filter(None, whys))}
    try:
        with open(state_path, "rb") as file:  # noqa: PTH123
            state = json.load(file)
        if state.get("faketime"):
            replace_file(state["faketime"], faketime_text(0, 0 if state.get("rated") else None).encode())
            answer["clock"] = "+0"
        if state.get("links"):
            answer["links"] = await_shaper(*state["links"])
        gap = state.get("wall_gap")
        if gap and gap["boot"] == boot_id():
            time.clock_settime_ns(time.CLOCK_REALTIME, now_ns() + int(gap["ns"]))
            answer["host_clock"] = "set back"
        if state.get("vdso"):
            why = heal_vdso(processes, state["vdso"])
            answer["why"] = "; ".join(filter(None, [answer["why"], why]))
            answer["vdso"] = "restored"
        for deed in state.get("commands") or ():
            try:
                why = take_back(processes, deed)
            except Refused as refused:  # the process is thawed all the same
                why = str(refused)
            answer["why"] = "; ".join(filter(None, [answer["why"], why]))
            answer["commands"] = "taken back"
        if state.get("groups"):
            why = lift_groups(state["groups"])
            answer["why"] = "; ".join(filter(None, [answer["why"], why]))
            answer["groups"] = "unlimited"
        if state.get("disk"):
            why = remove_disk(state["disk"])
            answer["why"] = "; ".join(filter(None, [answer["why"], why]))
            answer["disk"] = "unmounted"
        if state.get("damage"):
            put_back(state["damage"])
            answer["damage"] = "put back"
        node = state.get("node") or {}
        stat = process_stat(int(node["pid"])) if node else None
        for pid, start in state.get("adopted") or ():
            if same_process(pid, start):
                os.kill(pid, signal.SIGCONT)
                answer["node"] = {**node, "done": "thawed"}
        if "adopted" not in state and stat is not None and stat.start == node["start_ticks"] and stat.state != "Z":
            os.killpg(int(node["pid"]), signal.SIGKILL if stop else signal.SIGCONT)
            answer["node"] = {**node, "done": "killed" if stop else "thawed"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if not isinstance(error, FileNotFoundError):
            answer["why"] = "; ".join(filter(None, [answer["why"], f"the agent's state: {error}"]))
    answer["confirmed"] = not answer["why"]
    return answer


def connect(path: str, wait_s: float) -> socket.socket:
    """Connect to the agent's socket; raises OSError if it does not exist within ``wait_s``."""
    deadline = time.monotonic() + wait_s
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError:
            connection.close()
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.005)
        else:
            return connection


def heal(path: str, run: str | None, *, stop: bool) -> int:
    """Converge the host to healthy through the living agent, or alone; prints the result as one JSON line."""
    answer: dict[str, Any] = {}
    try:
        with connect(path, 0) as connection:
            connection.settimeout(30)
            connection.sendall(json.dumps({"id": 1, "do": "heal", "stop": stop}).encode() + b"\n")
            said = json.loads(connection.makefile("rb").readline() or b"{}")
            answer = said.get("ok") or {}
    except (OSError, ValueError) as error:
        if not isinstance(error, (FileNotFoundError, ConnectionError)):
            complain("heal", error)
    if not answer:
        answer = heal_alone(Processes(), run, f"{path}.state", stop=stop)
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0 if answer["confirmed"] else 3
