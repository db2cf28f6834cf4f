"""``python -m clusters.node.main --config node.json``: one node process.

Exit codes: 0 stopped, 64 a wrong configuration, 70 halted by its core, 71 the core crashed, 72 the shell failed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from clusters.node.config import load_config, load_target
from clusters.node.loop import EXIT_SHELL_FAILED, Node
from harness.core.errors import ConfigError, HarnessError


def main(arguments: list[str]) -> int:
    """Run one node until it ends; returns the exit code."""
    if len(arguments) != 2 or arguments[0] != "--config":
        sys.stderr.write("usage: python -m clusters.node.main --config NODE.JSON\n")
        return ConfigError.exit_code
    try:
        config = load_config(Path(arguments[1]))
        node = Node(config, load_target(config.target))
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return ConfigError.exit_code if isinstance(error, ConfigError) else EXIT_SHELL_FAILED
    return node.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
