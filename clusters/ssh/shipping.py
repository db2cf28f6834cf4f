"""Asks a machine to start, end or list agents: ``on_host`` and a request travel as one text into ``python3 -``.

Guarantees: nothing needs to be installed on the machine but Python 3.9; what a login shell prints around the answer
does no harm; a refusal is a ClusterError with the next command. Out of scope: connections: any ``Executing`` will do.
"""

from __future__ import annotations

import base64
import functools
import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dethrone.clusters.agent import bundle
from dethrone.clusters.agent.host.probes import PROBE_PORT
from dethrone.clusters.ssh import on_host
from dethrone.clusters.ssh.connection import BrokenOffError
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import ClusterError, NotHealed

_REPEATABLE = frozenset({"examine", "list", "stop"})
"""What does no harm when it is done twice."""
LIMIT_S = 120.0
"""More than the sum of the bounds in ``on_host``."""


class MachineTakenError(ClusterError):
    """Another run is on the machine, or was and left something: nothing was done there."""


class Executing(Protocol):
    """Runs commands on one machine."""

    name: str

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", limit_s: float) -> tuple[int, bytes, bytes]:
        """Exit code, stdout, stderr. Raises ClusterError when the connection is lost, and never runs it twice."""


def relay_command(placed: Mapping[str, str], *, wait_s: int) -> tuple[str, ...]:
    """The command whose standard streams are the agent's."""
    return ("python3", "-S", placed["agent"], "relay", "--socket", placed["socket"], "--wait", str(wait_s))


def start_agent(
    host: Executing,
    *,
    state_dir: str,
    run_id: str,
    node: str,
    owner: str,
    dead_man_ns: Ns,
    probe_port: int = PROBE_PORT,
    code: bytes = b"",
    python: str = "",
    flags: Sequence[str] = (),
) -> Mapping[str, str]:
    """Put the agent there and start it: ``socket`` and ``agent``, paths on the machine.

    ``owner``: the state directory of the run's harness. ``code``: of nodes, for the interpreter ``python`` there (see
    ``dethrone.clusters.ssh.code``). ``flags``: further arguments of the agent. Raises ClusterError: another run is
    there, or was and left something.
    """
    said = _ask(
        host,
        {
            "verb": "start",
            "state_dir": state_dir,
            "run": run_id,
            "node": node,
            "owner": owner,
            "machine": socket.gethostname(),
            "code": base64.b64encode(code).decode(),
            "python": python,
            "flags": list(flags),
            "dead_man_s": dead_man_ns / SECOND,
            "probe_port": probe_port,
            "agent": base64.b64encode(bundle.agent()).decode(),
        },
    )
    if "error" in said:
        busy = "busy" in said
        kind = MachineTakenError if busy or "left" in said else ClusterError
        raise kind(
            f"no agent can be started: {said['error']}",
            where=host.name,
            cause="two runs never share a machine" if busy else "",
            next_step="wait for that run, or use other machines" if busy else "`dethrone heal`, then repeat the run",
        )
    return {"socket": str(said["socket"]), "agent": str(said["agent"])}


def examine(host: Executing, *, files: Sequence[str] = ()) -> Mapping[str, Any]:
    """What the machine has (``on_host.examine``), without changing it; ``files``: programs to look for."""
    said = _ask(host, {"verb": "examine", "files": list(files)})
    return _unless_refused(said, "the machine does not report what it has", host)


def stop_agent(host: Executing, *, state_dir: str, run_id: str) -> bool:
    """Heal, end the node and the agent, remove what was put there; whether there was anything. Raises NotHealed."""
    said = _ask(host, {"verb": "stop", "state_dir": state_dir, "run": run_id})
    if "error" in said:
        left = said.get("directory", f"{state_dir}/{run_id}")
        raise NotHealed(
            f"the machine is not as it was: {said['error']}",
            where=host.name,
            next_step=f"on {host.name}: `python3 {left}/agent.py heal --socket {left}/s --run {run_id} --stop`, "
            f"then remove {left}",
        )
    return bool(said["stopped"])


def list_agents(host: Executing, *, state_dir: str) -> Sequence[Mapping[str, Any]]:
    """The notes of all runs: ``run``, ``owner`` and its ``machine``, ``node``, ``pid``, ``lives``, ``silent_s``."""
    said = _ask(host, {"verb": "list", "state_dir": state_dir})
    return list(_unless_refused(said, "what is left there cannot be listed", host)["found"])


def _unless_refused(said: Mapping[str, Any], what: str, host: Executing) -> Mapping[str, Any]:
    if "error" in said:
        raise ClusterError(f"{what}: {said['error']}", where=host.name)
    return said


def _ask(host: Executing, request: Mapping[str, Any]) -> Mapping[str, Any]:
    program = Path(on_host.__file__).read_text(encoding="utf-8")
    text = f"{program}\n\nmain(json.loads({json.dumps(request)!r}))\n"
    asking = functools.partial(host.run, ("python3", "-"), stdin=text.encode(), limit_s=LIMIT_S)
    try:
        code, out, err = asking()
    except BrokenOffError:
        if request["verb"] not in _REPEATABLE:
            raise
        code, out, err = asking()
    for line in reversed(out.decode("utf-8", "replace").splitlines()):
        if line.startswith(on_host.ANSWER):
            answer: Mapping[str, Any] = json.loads(line[len(on_host.ANSWER) :])
            return answer
    complaint = err.decode("utf-8", "replace").strip()[-400:]
    raise ClusterError(
        f"Python does not run on the machine (exit code {code})",
        where=host.name,
        cause=complaint,
        next_step="install python3 (3.9 or newer) there" if code == 127 else f"try `python3 -V` on {host.name}",
    )
