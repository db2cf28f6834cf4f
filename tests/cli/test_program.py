"""The command as its own process: what only a real one can show."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def program(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "dethrone.harness.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **env},
    )


def test_json_alone_is_on_stdout_and_people_read_stderr(templates):
    done = program("check", str(templates["fail"]), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["verdict"] == "fail"
    assert done.stdout.count("\n") == 1
    assert "were both elected" in done.stderr or "both lead" in done.stderr


def test_an_unknown_name_exits_64():
    done = program("run", "rafft")
    assert done.returncode == 64
    assert done.stderr.startswith("dethrone: unknown system 'rafft'")


def test_no_colour_reaches_a_pipe(templates):
    done = program("check", str(templates["fail"]), FORCE_COLOR="", NO_COLOR="1")
    assert "\x1b" not in done.stdout + done.stderr
