"""The distributions as they are built, and the wheel as it is installed where other things are."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600


def build(source: Path, place: Path, *kinds: str) -> Path:
    """The only file that ``hatchling`` makes of ``source``."""
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(place), *kinds]
    subprocess.run(words, cwd=source, check=True, capture_output=True, timeout=LIMIT_S)
    (made,) = place.iterdir()
    return made


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "-t", "wheel")


@pytest.fixture(scope="session")
def sdist(tmp_path_factory):
    return build(ROOT, tmp_path_factory.mktemp("sdist"), "-t", "sdist")


@pytest.fixture(scope="session")
def wheel_of_sdist(sdist, tmp_path_factory):
    place = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as tar:
        tar.extractall(place, filter="data")
    (source,) = place.iterdir()
    return build(source, tmp_path_factory.mktemp("again"), "-t", "wheel")


class Installed:
    """A Python with the wheel and a foreign ``workloads`` in it, and a user's folder that has one, too."""

    def __init__(self, place: Path, wheel: Path) -> None:
        self.project, site, others = place / "project", place / "site", place / "others"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)  # noqa: S202 - built by this test
        (site / "workloads").mkdir()
        for file in (site / "workloads" / "__init__.py", site / "workloads" / "log.py"):
            file.write_text("raise SystemExit('a foreign distribution was imported')\n")
        info = site / "dummy-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dummy\nVersion: 1.0\n")
        (info / "RECORD").write_text("workloads/__init__.py,,\nworkloads/log.py,,\n")
        (self.project / "workloads").mkdir(parents=True)
        (self.project / "workloads" / "__init__.py").write_text("raise SystemExit('a project was imported')\n")
        others.mkdir()
        packages = [Path(path) for path in sys.path if Path(path).name == "site-packages"]
        for entry in (entry for path in packages for entry in path.iterdir()):
            if "dethrone" not in entry.name and entry.suffix != ".pth" and not (others / entry.name).exists():
                (others / entry.name).symlink_to(entry)
        self.site = site
        self.python = place / "python"
        interpreter = getattr(sys, "_base_executable", sys.executable)
        paths = os.pathsep.join((str(site), str(others)))
        # without its own site-packages, as a virtual environment is
        self.python.write_text(f'#!/bin/sh\nexport PYTHONPATH="{paths}"\nexec {interpreter} "$@"\n')
        self.python.chmod(0o755)
        kept = (name for name in os.environ if not name.startswith(("PYTHON", "PYTEST", "VIRTUAL")))
        self.environment = {
            **{name: os.environ[name] for name in kept},
            "DETHRONE_STATE_DIR": str(place / "state"),
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def call(self, *words: str, code: int | None = 0, **variables: str) -> str:
        """What ``python WORDS`` prints in the user's folder, which ``-m`` and ``-c`` put first on Python's path."""
        done = subprocess.run(
            [str(self.python), *words],
            cwd=self.project,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert code in (None, done.returncode), done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("installed"), wheel)
