"""The Java that Spark needs: which one is installed, whether it is new enough, and what to install.

Guarantees: the error comes before anything of Spark is imported or started. Out of scope: installing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dethrone.harness.core.errors import MissingCapability

OLDEST = 17
PACKAGES = ("openjdk-21-jre-headless", "openjdk-17-jre-headless")
"""Debian's and Ubuntu's names; each release has at least one of them."""

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_LIMIT_S = 30.0


def java_version(env: Mapping[str, str] | None = None) -> int:
    """The major version of the Java that Spark would start. MissingCapability: there is none, or it is too old."""
    env = os.environ if env is None else env
    home = env.get("JAVA_HOME", "")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=env.get("PATH"))
    where = f"JAVA_HOME={home}" if home else "PATH"
    if program is None or not os.access(program, os.X_OK):
        raise MissingCapability(
            "Spark needs Java, and there is none",
            where=where,
            cause="JAVA_HOME names a directory without bin/java" if home else "no Java is installed",
            next_step=f"install {what_to_install()}, or set JAVA_HOME",
        )
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, check=False, timeout=_LIMIT_S, env=dict(env)
        )
        told = done.stderr + done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        told = str(error)
    match = _VERSION.search(told)
    if match is None:
        raise MissingCapability(
            "Java does not report its version",
            where=program,
            cause=" ".join(told.split())[:200] or "it said nothing",
            next_step=f"install {what_to_install()}",
        )
    major = int(match[2] or 0) if match[1] == "1" else int(match[1])  # 1.8 was the eighth
    if major < OLDEST:
        raise MissingCapability(
            f"Spark needs Java {OLDEST} or newer, this is Java {major}",
            where=program,
            next_step=f"install {what_to_install()}, and let JAVA_HOME or PATH name it",
        )
    return major


def what_to_install() -> str:
    """In words, with the package of Debian-like systems."""
    return f"a Java runtime, {OLDEST} or newer (Debian, Ubuntu: apt-get install {PACKAGES[1]} or {PACKAGES[0]})"
