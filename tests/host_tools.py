"""What tests of local hosts need of this machine: installed on Debian-like machines as root, or said what to install.

python tests/host_tools.py
"""

from __future__ import annotations

import os
import shutil
import sys

from dethrone.clusters.agent.host.clocks import find_faketime
from dethrone.clusters.docker import packages
from dethrone.clusters.local.labels import SYSTEM_PATH
from dethrone.harness.core.errors import HarnessError


def main() -> int:
    """The exit code: 0 once everything is there."""
    lacking = missing()
    try:
        if lacking:
            packages.install(lacking, purpose="local hosts", progress=lambda line: print(f"tools: {line}"))
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    still = missing()
    if still:
        sys.stderr.write(f"tools: installed, and yet not found: {' '.join(still)}\n")
        return 1
    print("tools: ip, iptables and libfaketime are there")
    return 0


def missing() -> list[str]:
    """Debian's names of the packages that are not installed."""
    path = os.environ.get("PATH", os.defpath) + SYSTEM_PATH
    found = {
        "iproute2": shutil.which("ip", path=path),
        "iptables": shutil.which("iptables", path=path),
        "libfaketime": find_faketime(),
    }
    return [package for package, place in found.items() if place is None]


if __name__ == "__main__":
    sys.exit(main())
