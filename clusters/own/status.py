"""How a described node is asked for its status: over HTTP, or by the program next to it (``beside``).

Guarantees: pure, except that the program is read. Out of scope: what an answer says (``answers``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dethrone.clusters.own.headers import carried, over
from dethrone.clusters.own.operations import port_of
from dethrone.clusters.own.parse import BESIDE_PORT
from dethrone.clusters.own.probe import paths_of
from dethrone.clusters.own.spec import Description
from dethrone.clusters.own.supervising import room
from dethrone.clusters.own.table import split
from dethrone.clusters.own.tls import tls_of
from dethrone.clusters.own.words import fill
from dethrone.harness.core.interfaces import NodeSpec, StatusCall

PROGRAM, CONFIG = "beside.py", "beside.json"


def status_call(description: Description, node: NodeSpec, words: Mapping[str, str]) -> StatusCall:
    """One GET or several, or a question to the program next to the node. ``words``: of the node."""
    probe = description.probe
    if not paths_of(probe):
        return StatusCall(port=BESIDE_PORT, request=bytes(4), framing="u32")
    port = description.node.ports[port_of(probe.port, description.node, where=description.path)]
    said = {"Host": f"{node.address}:{port}", **over({"Accept": "*/*"}, carried(probe, words))}
    head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    requests = [f"GET {path} HTTP/1.1\r\n{head}\r\n" for path in paths_of(probe)]
    request = "".join(requests).encode()
    tls = tls_of(probe.tls, Path(description.path).parent, words)
    return StatusCall(port=port, request=request, framing="http", answers=len(requests), tls=tls)


def with_beside(description: Description, node: NodeSpec, argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command that starts the program next to the node, where there is one, and becomes ``argv``."""
    if paths_of(description.probe):
        return argv
    config = f"{room(description, node)}/{CONFIG}"
    return (node.python, "-S", f"{node.run_dir}/{PROGRAM}", config, "{incarnation}", *argv)


def beside_files(description: Description, node: NodeSpec, words: Mapping[str, str]) -> dict[str, bytes]:
    """What that program consists of: absolute path → content; nothing where the node answers for itself."""
    if paths_of(description.probe):
        return {}
    config = json.dumps(_config(description, node, words)).encode()
    program = Path(__file__).with_name(PROGRAM).read_bytes()
    return {f"{node.run_dir}/{PROGRAM}": program, f"{room(description, node)}/{CONFIG}": config}


def _config(description: Description, node: NodeSpec, words: Mapping[str, str]) -> dict[str, Any]:
    probe = description.probe
    place = {"address": node.address, "port": BESIDE_PORT}
    if probe.log is not None:
        return {**place, "log": fill(probe.log, words), "became": dict(probe.became)}
    argv = split(probe.command or "", where=description.path)
    pattern = {} if probe.pattern is None else {"pattern": probe.pattern}
    return {**place, **pattern, "lasting": probe.lasting, "command": [fill(word, words) for word in argv]}
