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


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_what_hosts_install_is_pinned_and_the_version_is_the_pinned_one(file):
    pins = lock_file(str(file)).read_text()
    assert "--hash=sha256:" in pins
    assert f"=={registry.load(registry.SYSTEMS, file.stem).version()} " in pins


def test_a_copy_must_have_a_name_of_its_own(tmp_path):
    folder = shutil.copytree(FILES[0].parent, tmp_path / "copy")
    copy = folder / FILES[0].name
    with pytest.raises(ConfigError, match="there is a system called"):
        registry.load(registry.SYSTEMS, str(copy))
    copy.write_text(copy.read_text().replace(f'name = "{copy.stem}"', 'name = "mine-2.0"'))
    assert registry.load(registry.SYSTEMS, str(copy)).name == "mine-2.0"
