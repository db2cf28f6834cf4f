"""The configuration of one node process: ``node.json``, typed, and the lookup of the protocol target.

Guarantees: an unknown field, a missing member or an unusable bound is a ConfigError that names the file. Out of scope:
the protocol's own knobs, which the target types and checks.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

import msgspec

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.machine import Target
from dethrone.harness.core.promise import NOISE_MAX_NS
from dethrone.harness.core.renamed import renamed


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node process. Times end in their unit; paths are the host's, relative ones start where the process does."""

    target: str
    """A built-in protocol ("raft"), or "package.module:NAME" of a user's Target object."""
    node: str
    members: dict[str, str]
    """Node name → address, this node included. The order is the core's order of members."""
    bind: str
    """The address to listen on, and to dial from unless it is a wildcard."""
    peer_port: int = 7001
    client_port: int = 7002
    data_dir: str
    trace_path: str
    journal_path: str | None = None
    """None: no journal."""
    knobs: dict[str, str] = {}
    profile: str | None = None
    variant: str | None = None
    seed: int = 0
    incarnation: int = 1
    """Counts the starts of this node within a run; it names the stream of random draws."""
    rpc_timeout_ms: int = 50
    clock_socket: str | None = None
    """Path of the unix socket that reports this process' clocks; None: none."""
    link_socket: str | None = None
    """Path of the unix socket that takes what is to become of peers' messages; None: they are handled as they come."""
    noise_max_ns: int = NOISE_MAX_NS
    """A batch that syncs longer than this is traced as ``fsync_slow``, a loop turn that begins or lasts this much too
    long as ``stall`` (a pause, a starved host)."""
    journal_bytes_max: int = 64 * 1024 * 1024

    @property
    def marks_path(self) -> str:
        """What the trace holds of logs already; see ``kept_marks``."""
        return f"{self.trace_path}.marks"


def load_config(path: Path) -> NodeConfig:
    """Read and check ``node.json``. Raises ConfigError."""
    where = str(path)
    try:
        config = msgspec.json.decode(path.read_bytes(), type=NodeConfig)
    except OSError as error:
        raise ConfigError(f"cannot read the node's configuration: {error.strerror}", where=where) from error
    except ValueError as error:
        raise ConfigError(f"not a node configuration: {error}", where=where) from error
    if config.node not in config.members:
        raise ConfigError(f"node {config.node!r} is not among the members {sorted(config.members)}", where=where)
    for name in ("rpc_timeout_ms", "incarnation", "journal_bytes_max", "noise_max_ns"):
        if getattr(config, name) <= 0:
            raise ConfigError(f"{name} must be positive", where=where)
    return config


def load_target(name: str) -> Target:
    """The target object: built in, or named "package.module:NAME". Raises ConfigError."""
    module, _, attribute = renamed(name).partition(":")
    if not attribute:
        module, attribute = f"dethrone.clusters.targets.{name}.target", "TARGET"
    try:
        return cast("Target", getattr(importlib.import_module(module), attribute))
    except ModuleNotFoundError as error:
        # Only "there is no such target" is the user's mistake; a broken import inside it must show itself.
        if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
            raise
        raise ConfigError(f"no protocol target {name!r}", where=module) from error
    except AttributeError as error:
        raise ConfigError(f"module {module} has no target {attribute!r}") from error
