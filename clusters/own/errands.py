"""Client operations by a command on the host of the node that is asked, by the program next to it (``host/errand``).

    put = { command = "{run_dir}/ctl put {key} {value}", at = "host", fail_pattern = "not leader" }

Guarantees: a command is asked for once; where there is no connection, or the command cannot be started, the operation
is certainly not done; a lost connection and no answer in time are doubt, as is an output that the description does not
name. Out of scope: what an output means (``commands``).
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dethrone.clusters.own.commands import understand
from dethrone.clusters.own.operations import ERRAND_PORT
from dethrone.clusters.own.spec import Description, OpTable
from dethrone.clusters.own.supervising import room
from dethrone.clusters.own.table import split
from dethrone.clusters.own.words import fill
from dethrone.clusters.systems.kept_http import CONNECT_LIMIT_NS, reason
from dethrone.clusters.systems.operations import unanswered, unsent
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import NodeSpec, OpOutcome

PROGRAM, CONFIG = "errand.py", "errand.json"
ANSWER_MAX = 1 << 20
RETURN_NS = 100 * MS
"""What is left of an operation's time for the answer of a command that took too long."""


def carried_out(f: str, op: OpTable, words: Mapping[str, str], *, node: str, address: str, deadline: Ns) -> OpOutcome:
    """Have the node's host run the command of this operation with these words."""
    try:
        sock = socket.create_connection((address, ERRAND_PORT), timeout=_left_s(deadline, most=CONNECT_LIMIT_NS))
    except OSError as error:
        return unsent(f"{node}, where commands are carried out: {reason(error)}")
    with sock:
        try:
            answer = _asked(sock, f, words, deadline)
        except (OSError, msgspec.MsgspecError) as error:
            return unanswered(f, f"{node}: {reason(error)}", node=node)
    if "unstarted" in answer:
        return OpOutcome(status="fail", error=str(answer["unstarted"]), node=node)
    code, out = answer.get("code"), answer.get("out")
    if not isinstance(code, int) or not isinstance(out, str):
        return unanswered(f, "the command did not end in time", node=node)
    return understand(f, op, code, out, node=node)


def at_host(description: Description) -> dict[str, OpTable]:
    """The operations that are carried out so."""
    asked = {**description.ops, **description.membership.asked}
    return {name: op for name, op in asked.items() if op.command is not None and op.at == "host"}


def with_errands(description: Description, node: NodeSpec, argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command that starts the program next to the node, where there is one, and becomes ``argv``."""
    if not at_host(description):
        return argv
    return (node.python, "-S", f"{node.run_dir}/{PROGRAM}", f"{room(description, node)}/{CONFIG}", *argv)


def errand_files(description: Description, node: NodeSpec, words: Mapping[str, str]) -> dict[str, bytes]:
    """What that program consists of: absolute path → content. ``words``: of the node."""
    ops = at_host(description)
    if not ops:
        return {}
    commands = {
        name: [fill(word, words) for word in split(op.command or "", where=description.path)]
        for name, op in ops.items()
    }
    config = json.dumps({"address": node.address, "port": ERRAND_PORT, "commands": commands}).encode()
    program = Path(__file__).with_name("host").joinpath(PROGRAM).read_bytes()
    return {f"{node.run_dir}/{PROGRAM}": program, f"{room(description, node)}/{CONFIG}": config}


def _asked(sock: socket.socket, f: str, words: Mapping[str, str], deadline: Ns) -> dict[str, Any]:
    """The answer. OSError: there is none in time; MsgspecError: it is no answer."""
    limit_ms = max(1, (deadline - time.monotonic_ns() - RETURN_NS) // MS)
    question = json.dumps({"do": f, "words": dict(words), "limit_ms": limit_ms}).encode()
    sock.settimeout(_left_s(deadline))
    sock.sendall(len(question).to_bytes(4, "big") + question)
    size = int.from_bytes(_received(sock, 4, deadline), "big")
    if size > ANSWER_MAX:
        raise ConnectionError(f"an answer of {size} bytes")
    return msgspec.json.decode(_received(sock, size, deadline), type=dict[str, Any])


def _received(sock: socket.socket, size: int, deadline: Ns) -> bytes:
    out = bytearray()
    while len(out) < size:
        sock.settimeout(_left_s(deadline))
        data = sock.recv(size - len(out))
        if not data:
            raise ConnectionError("the connection was closed before the answer was whole")
        out += data
    return bytes(out)


def _left_s(deadline: Ns, *, most: Ns = 600 * SECOND) -> float:
    left = min(deadline - time.monotonic_ns(), most)
    if left <= 0:
        raise TimeoutError
    return left / SECOND
