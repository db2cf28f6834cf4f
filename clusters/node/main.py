"""``python -m dethrone.clusters.node.main --config node.json [--incarnation N]``: one node process.

``--incarnation`` (1, 2 … at each start) overrides the one in the file, so that the file never changes.

Exit codes: 0 stopped, 64 a wrong configuration, 70 halted by its core, 71 the core crashed, 72 the shell failed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from dethrone.clusters.node.config import load_config, load_target
from dethrone.clusters.node.loop import EXIT_SHELL_FAILED, NodeShell
from dethrone.harness.core.errors import ConfigError, HarnessError


def main(arguments: list[str]) -> int:
    """Run one node until it ends; returns the exit code."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    number = options.get("--incarnation", "1")
    if len(arguments) % 2 or not {"--config"} <= set(options) <= {"--config", "--incarnation"} or not number.isdigit():
        sys.stderr.write("usage: python -m dethrone.clusters.node.main --config NODE.JSON [--incarnation N]\n")
        return ConfigError.exit_code
    try:
        config = load_config(Path(options["--config"]))
        if "--incarnation" in options:
            config = msgspec.structs.replace(config, incarnation=int(number))
        node = NodeShell(config, load_target(config.target))
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return ConfigError.exit_code if isinstance(error, ConfigError) else EXIT_SHELL_FAILED
    return node.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
