"""Other Pythons of this machine, each in a small environment of its own: for tests that compare bytes between them.

    python tests/other_pythons.py DIRECTORY

Looks for Python 3.11 and newer in PATH and under ``~/.pyenv``, one of each minor version but this one's; makes the
environments below DIRECTORY where they are missing; prints their interpreters, joined by ``:``, as the tests take them
in ``DETHRONE_TEST_PYTHONS``. Says on stderr what it found, or that there is none; a test that misses one is skipped
and says so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
NEEDED = ("msgspec>=0.18.6", "numpy>=1.26")
"""What a simulated run imports."""
OLDEST, NEWEST = 11, 19
_VERSION = "import sys; print(sys.version_info[0], sys.version_info[1])"
_READY = "import msgspec, numpy; from importlib.metadata import version; version('dethrone')"


def main() -> None:
    """See the module."""
    target = Path(sys.argv[1]).resolve()
    ready = []
    for minor, python in sorted(others().items()):
        made = environment(target / f"3.{minor}", python)
        if made is not None:
            ready.append(str(made))
    print(f"other Pythons for the tests: {', '.join(ready) or 'none'}", file=sys.stderr)
    print(":".join(ready))


def others() -> dict[int, str]:
    """Minor version → an interpreter, for all but this one's."""
    places = [found for minor in range(OLDEST, NEWEST + 1) if (found := shutil.which(f"python3.{minor}"))]
    places += [str(path) for path in sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3"))]
    known: dict[int, str] = {}
    for place in places:
        said = subprocess.run([place, "-c", _VERSION], check=False, capture_output=True, text=True).stdout.split()
        if len(said) == 2 and said[0] == "3" and int(said[1]) >= OLDEST and int(said[1]) != sys.version_info[1]:
            known.setdefault(int(said[1]), place)
    return known


def environment(directory: Path, python: str) -> Path | None:
    """Its interpreter in an environment that can simulate; None if that cannot be made."""
    made = directory / "bin" / "python"
    if made.exists() and subprocess.run([made, "-c", _READY], check=False, capture_output=True).returncode == 0:
        return made
    commands: list[list[str | Path]] = [
        [python, "-m", "venv", directory],
        [made, "-m", "pip", "install", "--quiet", *NEEDED],
        [made, "-m", "pip", "install", "--quiet", "--no-deps", "--editable", HERE],
    ]
    for command in commands:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it failed"])[-1]
            print(f"{python} cannot be used: {last}", file=sys.stderr)
            return None
    return made


if __name__ == "__main__":
    main()
