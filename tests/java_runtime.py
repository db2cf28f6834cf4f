"""A Java runtime for the tests that need Spark: installed on Debian-like machines as root, or said what to install.

python tests/java_runtime.py
"""

from __future__ import annotations

import subprocess
import sys

from dethrone.clusters.docker import packages
from dethrone.harness.core.errors import HarnessError, MissingCapability
from dethrone.harness.pipeline.java import PACKAGES, java_version


def main() -> int:
    """The exit code: 0 once there is a Java that Spark can use."""
    try:
        try:
            version = java_version()
        except MissingCapability:
            known = [name for name in PACKAGES if _known(name)] or [PACKAGES[-1]]
            packages.install(known[:1], purpose="Java for Spark", progress=lambda line: print(f"java: {line}"))
            version = java_version()
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    print(f"java: version {version}")
    return 0


def _known(package: str) -> bool:
    if not packages.is_debian_like():
        return False
    return subprocess.run(["apt-cache", "show", package], capture_output=True, check=False, timeout=60).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
