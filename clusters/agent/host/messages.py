"""Messages inside a node that shapes them itself: the agent asks it, since packets of TCP cannot show what it shows.

Guarantees: what a node was asked is in force once it answered; a node that was started since then is asked again, and a
fault that another process bore to its end is reported. Out of scope: packets (``qualities``).
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dethrone.clusters.agent.host.common import Refused

MESSAGE_SHAPES = ("duplicate_percent", "reorder_percent", "reorder_ns", "hold")
"""What becomes of messages there, and not of packets."""
MESSAGE_ASK_S = 5.0
"""How long a node may take to listen, and to answer."""
MESSAGE_ANSWER_MAX = 1 << 20


class NodeMessages:
    """The messages of one host's node."""

    def __init__(self) -> None:
        self._asked: dict[str, dict[str, int]] = {}
        self._incarnation = 0
        """Of the process that was asked."""

    @property
    def used(self) -> bool:
        """Whether a node was asked for anything but plain links."""
        return bool(self._asked)

    def lapsed(self, incarnation: int) -> str:
        """Why what was asked last is not in force in the process of this incarnation; "" if it is."""
        if self._asked and incarnation != self._incarnation:
            return "the node started again, and nothing became of its messages since then"
        return ""

    def forget(self) -> None:
        """No process runs that was asked."""
        self._asked = {}

    def apply(
        self, path: str, links: Sequence[Mapping[str, Any]], incarnation: int, alive: Callable[[], bool]
    ) -> dict[str, Any]:
        """Ask the node that listens at ``path``; what it counted so far. Raises Refused, OSError, ValueError."""
        wanted = {link["src"]: {name: link[name] for name in MESSAGE_SHAPES} for link in links}
        wanted = {src: wish for src, wish in wanted.items() if any(wish.values())}
        said = _ask(path, wanted, alive)
        if "counts" not in said:
            raise Refused(f"the node refused: {said.get('error')!s:.200}")
        self._asked, self._incarnation = wanted, incarnation
        return {**({"engine": "node"} if wanted else {}), "counted": said["counts"]}


def packets_only(links: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same links without what becomes of messages."""
    return [{**link, **dict.fromkeys(MESSAGE_SHAPES, 0)} for link in links]


def _ask(path: str, wanted: Mapping[str, Any], alive: Callable[[], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + MESSAGE_ASK_S
    while True:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
                asking.settimeout(max(0.05, deadline - time.monotonic()))
                asking.connect(path)
                asking.sendall(json.dumps(wanted).encode() + b"\n")
                answer = b""
                while not answer.endswith(b"\n") and len(answer) < MESSAGE_ANSWER_MAX:
                    data = asking.recv(1 << 16)
                    if not data:
                        break
                    answer += data
            return dict(json.loads(answer))
        except (OSError, ValueError) as error:
            if not alive():
                raise Refused("no process runs") from None
            if time.monotonic() > deadline:
                why = getattr(error, "strerror", None) or error
                raise Refused(f"the node does not listen at {os.path.basename(path)}: {why}") from None  # noqa: PTH119
            time.sleep(0.01)
