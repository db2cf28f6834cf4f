"""What a host gets so that its node can be removed from the members of its cluster, and added again, while it runs.

Guarantees: pure. Out of scope: carrying it out (``membership_host``, which runs on the host), and when (the fault
``member``).
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dethrone.harness.core.interfaces import NodeSpec
from dethrone.harness.core.tls import Tls

PROGRAM, CONFIG = "membership.py", "membership.json"
CHANGES = ("members", "remove", "add")
MEMBER_ID = "__id__"
"""In a request to remove a node, it stands for what ``Changes.member`` calls ``id``."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request to a node; ``ok``: what it answers if it did it. ``tls``: with files of the host that asks."""

    address: str
    port: int
    method: str
    path: str
    body: str = ""
    headers: Mapping[str, str] = {}
    ok: tuple[int, ...] = (200,)
    tls: Tls | None = None


class Words(msgspec.Struct, frozen=True):
    """A command on the host of the node that is removed; it exits with 0 if it was done."""

    argv: tuple[str, ...]


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """How the members of a cluster change. ``ask``: (one of ``CHANGES``, the node that is asked) → what is sent.

    ``member``: a regular expression that finds the node in what the others answer to ``members``, and the group ``id``
    by which the cluster knows it, if that has to be known. ``fresh``: it must return with nothing stored.
    """

    ask: Callable[[str, str], Request | Words]
    member: str
    fresh: bool


@functools.cache
def program() -> bytes:
    """The one file that runs on hosts."""
    return importlib.resources.files("dethrone.clusters.systems").joinpath("membership_host.py").read_bytes()


def looking(node: NodeSpec) -> tuple[str, ...]:
    """The command on its host that prints what the others say of it."""
    return (node.python, "-S", f"{node.run_dir}/{PROGRAM}", "look", node.run_dir)


def membership_files(node: NodeSpec, changes: Changes) -> dict[str, bytes]:
    """Absolute path → content, of this node's host."""

    def asks(name: str) -> dict[str, Any]:
        return {what: msgspec.to_builtins(changes.ask(what, name)) for what in CHANGES}

    config = {
        "member": changes.member,
        "fresh": changes.fresh,
        "data_dir": node.data_dir,
        "own": asks(node.name),
        "others": [asks(name) for name in node.members if name != node.name],
    }
    return {f"{node.run_dir}/{PROGRAM}": program(), f"{node.run_dir}/{CONFIG}": json.dumps(config).encode()}
