"""The same files are in the tree, the wheel, the sdist, the wheel that is built from it, and Spark's parcel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from dethrone.harness.core.renamed import PACKAGES
from dethrone.harness.pipeline import shipping

ROOT = Path(__file__).resolve().parents[2]
PAGE = re.compile(r"\bdocs/[\w./-]+\.(?:md|toml|yml|json)\b")

pytestmark = pytest.mark.slow


def tree(folder: str) -> set[str]:
    """The files below a folder, those of linked folders, too."""
    found = set()
    for place, folders, files in os.walk(ROOT / folder, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found |= {Path(place, name).relative_to(ROOT).as_posix() for name in files if not name.endswith(".pyc")}
    return found


def of_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def of_sdist(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as tar:
        return {member.name.partition("/")[2] for member in tar.getmembers() if member.isfile()}


def test_the_tree_has_each_folder_as_a_link():
    assert {entry.name for entry in (ROOT / "dethrone").iterdir() if entry.is_symlink()} == set(PACKAGES)
    for name in PACKAGES:
        assert str((ROOT / "dethrone" / name).readlink()) == f"../{name}"


def test_a_wheel_has_the_package_with_the_documents_and_nothing_else(wheel):
    assert of_wheel(wheel) == tree("dethrone") | {f"dethrone/{name}" for name in tree("docs")}


def test_an_sdist_loses_no_folder(sdist):
    names = of_sdist(sdist)
    for folder in ("dethrone", "docs", "tests", ".ci"):
        assert {name for name in names if name.startswith(f"{folder}/")} == tree(folder)
    assert {"pyproject.toml", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md", "Makefile"} <= names


def test_the_wheel_of_an_sdist_is_the_wheel_of_the_tree(wheel, wheel_of_sdist):
    def contents(path: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    assert contents(wheel_of_sdist) == contents(wheel)


def test_a_parcel_for_spark_has_the_whole_package(tmp_path, installed):
    here = shipping.pack(tmp_path)
    with zipfile.ZipFile(here.path) as archive:
        names = {name for name in archive.namelist() if name.startswith("dethrone/")}
    assert names == tree("dethrone")
    script = "import pathlib, sys; from dethrone.harness.pipeline.shipping import pack; "
    script += "print(pack(pathlib.Path(sys.argv[1])).path)"
    there = installed.call("-c", script, str(tmp_path / "wheel")).strip()
    with zipfile.ZipFile(there) as archive:
        assert {name for name in archive.namelist() if name.startswith("dethrone/")} == names


def test_every_page_that_a_message_names_is_in_the_wheel(wheel):
    shipped = of_wheel(wheel)
    named = {
        page
        for file in tree("dethrone")
        if file.endswith(".py")
        for page in PAGE.findall((ROOT / file).read_text(encoding="utf-8"))
    }
    assert len(named) >= 5
    assert {page for page in named if f"dethrone/{page}" not in shipped} == set()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_folder_of_the_repository_is_imported_under_its_full_name_only(name):
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"ImportError: {name} is dethrone.{name} since dethrone 0.2.0" in done.stderr
    subprocess.run([sys.executable, "-c", f"import dethrone.{name}"], cwd=ROOT, check=True)
