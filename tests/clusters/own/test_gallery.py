"""Packaged descriptions: each is an installed system of the same name, with pins, and an example to copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dethrone.clusters import gallery
from dethrone.clusters.own.lock import lock_file
from dethrone.clusters.own.system import OwnSystem
from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError

FILES = sorted(Path(gallery.__path__[0]).rglob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_packaged_description_is_an_installed_system_by_name_and_by_path(file):
    system = registry.load(registry.SYSTEMS, file.stem)
    assert isinstance(system, OwnSystem)
    assert system.name == file.stem
    assert system.path.samefile(file)
    assert registry.load(registry.SYSTEMS, str(file)).name == file.stem


NOT_PINNED = {"mysql", "mongodb"}
"""What hosts get from Debian or from users; the lock pins the library of its clients."""
PINNED = [file for file in FILES if lock_file(str(file)).exists() and file.stem not in NOT_PINNED]


@pytest.mark.parametrize("file", PINNED, ids=[file.stem for file in PINNED])
def test_what_hosts_install_is_pinned_and_the_versions_are_the_pinned_ones(file):
    pins, system = lock_file(str(file)).read_text(), registry.load(registry.SYSTEMS, file.stem)
    for version in system.versions() or (system.version(),):
        assert any(
            said in pins for said in (f"=={version} --hash=sha256:", f":{version} --hash=sha256:", f" v{version} h1:")
        )


@pytest.mark.parametrize(("name", "newest"), [("nats-2.12.1", "nats"), ("pysyncobj-0.3.14", "pysyncobj")])
def test_an_older_release_has_a_name_of_its_own_and_is_the_same_description(name, newest):
    older, newer = registry.load(registry.SYSTEMS, name), registry.load(registry.SYSTEMS, newest)
    assert (older.name, older.version()) == (name, name.rpartition("-")[2])
    assert newer.version() == newer.versions()[-1]
    assert (older.path, older.versions()) == (newer.path, newer.versions())
    knobs = older.knobs({}, profile=None, variant=None)
    assert older.begins_with(knobs) == older.version()
    assert older.promise(knobs, profile="own", voters=3).system == name


def test_the_version_of_a_go_library_is_the_one_that_its_module_pins():
    file = next(file for file in FILES if file.stem == "hashicorp-raft")
    version = registry.load(registry.SYSTEMS, file.stem).version()
    assert f"github.com/hashicorp/raft v{version}\n" in (file.parent / "keep" / "go.mod").read_text()
    assert f"github.com/hashicorp/raft v{version} h1:" in (file.parent / "keep" / "go.sum").read_text()


def test_a_copy_must_have_a_name_of_its_own(tmp_path):
    folder = shutil.copytree(FILES[0].parent, tmp_path / "copy")
    copy = folder / FILES[0].name
    with pytest.raises(ConfigError, match="there is a system called"):
        registry.load(registry.SYSTEMS, str(copy))
    copy.write_text(copy.read_text().replace(f'name = "{copy.stem}"', 'name = "mine-2.0"'))
    assert registry.load(registry.SYSTEMS, str(copy)).name == "mine-2.0"
