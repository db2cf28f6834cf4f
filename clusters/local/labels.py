"""The names by which the local world knows its own things, and nothing else's.

Every process of a host inherits ``RUN`` and ``STATE`` in its environment; the one network device outside of the hosts'
own namespaces carries them as its alias. Guarantees: a thing that carries neither is never touched. Out of scope:
looking.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import quote, unquote

from dethrone.harness.core.errors import ConfigError

RUN = "DETHRONE_LOCAL_RUN"
"""The run that a process belongs to."""

STATE = "DETHRONE_LOCAL_STATE"
"""The ledger directory of that run's harness; its hosts' files lie in ``hosts`` below it."""

NODE = "DETHRONE_LOCAL_NODE"
"""The node that a process is, or serves; ``switch`` for the one that holds the network together."""

HOSTS = "hosts"
"""Directory below a run's ledger directory."""

SWITCH = "switch"

ALIAS_MAX = 255
"""Longest alias of a network device (linux/if.h)."""

SYSTEM_PATH = ":/usr/local/sbin:/usr/sbin:/sbin"
"""Where ``ip`` and ``iptables`` are, which a user's own PATH often lacks."""

_ALIAS = "dethrone.local:"


def environment(env: Mapping[str, str], *, run_id: str, state_dir: str, node: str) -> dict[str, str]:
    """What a host's processes inherit: where programs and their libraries are (of ``env``), and our marks."""
    kept = {name: env[name] for name in ("LD_LIBRARY_PATH", "LANG", "TZ") if name in env}
    path = env.get("PATH", os.defpath) + SYSTEM_PATH
    return {**kept, "PATH": path, "HOME": "/root", RUN: run_id, STATE: state_dir, NODE: node}


def of_environment(raw: bytes) -> tuple[str, str, str] | None:
    """Run, state directory and node out of ``/proc/PID/environ``; None for another user's process."""
    found: dict[str, str] = {}
    for entry in raw.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name.startswith(b"DETHRONE_LOCAL_"):
            found[name.decode()] = value.decode(errors="surrogateescape")
    if not found.get(RUN) or not found.get(STATE):
        return None
    return found[RUN], found[STATE], found.get(NODE, "?")


def alias(*, run_id: str, state_dir: str) -> str:
    """What marks a network device as ours; one word. ConfigError if the directory's name is too long for it."""
    text = f"{_ALIAS}{quote(run_id, safe='')}:{quote(state_dir)}"
    if len(text) > ALIAS_MAX:
        raise ConfigError(
            "the state directory's name is too long to mark a network device with",
            where=state_dir,
            next_step="set DETHRONE_STATE_DIR to a shorter path",
        )
    return text


def of_alias(text: str) -> tuple[str, str] | None:
    """Run and state directory; None for another user's device."""
    parts = text.removeprefix(_ALIAS).split(":")
    if not text.startswith(_ALIAS) or len(parts) != 2:
        return None
    return unquote(parts[0]), unquote(parts[1])
