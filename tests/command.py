"""The command line in a process of its own, as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_DETHRONE = (sys.executable, "-m", "dethrone.harness.cli")


def _given(state: Path, words: tuple[object, ...], more: dict[str, str]) -> dict[str, Any]:
    env = {**os.environ, "DETHRONE_STATE_DIR": str(state), **more}
    return {"args": [*_DETHRONE, *map(str, words)], "env": env, "cwd": ROOT}


def dethrone(state: Path, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, with this state directory and these variables."""
    return subprocess.run(**_given(state, words, environment), capture_output=True, text=True, check=False)


def told(state: Path, *words: object, **environment: str) -> tuple[dict[str, Any], int]:
    """The object that it prints with ``--json``, and its exit code."""
    done = dethrone(state, *words, "--json", **environment)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


def started(state: Path, *words: object) -> subprocess.Popen[str]:
    """Start it; what it prints is kept for ``communicate``."""
    return subprocess.Popen(**_given(state, words, {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
