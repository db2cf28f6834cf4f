"""Python packages and directories of a described system: pinned once, unpacked on hosts without a network."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from dethrone.clusters.agent.large_files import LARGE
from dethrone.clusters.own import python_packages
from dethrone.clusters.own.host import unpack
from dethrone.clusters.own.python_packages import check_requirements, wheels
from dethrone.clusters.own.system import load
from dethrone.harness.core.errors import ConfigError
from tests.clusters.own.described import TEXT, specs
from tests.clusters.own.packaged import write_wheel

BACKEND = """
import zipfile

def _wheel(place):
    name = "tiny_source-2.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{place}/{name}", "w") as out:
        for path, text in {
            "tiny_source.py": "SAYS = 'built here'\\n",
            "tiny_source-2.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: tiny-source\\nVersion: 2.0\\n",
            "tiny_source-2.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
            "tiny_source-2.0.dist-info/RECORD": "",
        }.items():
            out.writestr(path, text)
    return name

def build_wheel(place, config_settings=None, metadata_directory=None):
    return _wheel(place)
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def write_source(folder):
    """A source archive with a build backend of its own, so that building it needs no index."""
    with tarfile.open(folder / "tiny-source-2.0.tar.gz", "w:gz") as out:
        metadata = "Metadata-Version: 2.1\nName: tiny-source\nVersion: 2.0\n"
        for name, text in {"pyproject.toml": PROJECT, "backend.py": BACKEND, "PKG-INFO": metadata}.items():
            entry = tarfile.TarInfo(f"tiny-source-2.0/{name}")
            entry.size = len(text.encode())
            out.addfile(entry, io.BytesIO(text.encode()))


TOOL = {
    "tiny_tool/__init__.py": "import tiny_source\n\nclass Main:\n    @staticmethod\n    def run():\n"
    "        print('the tool with what was', tiny_source.SAYS)\n        return 3\n",
    "tiny_tool-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny-tool = tiny_tool:Main.run\n",
    "tiny_tool-1.0.data/scripts/tiny-script": "#!python\nprint('a script')\n",
}


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index that is a folder: a wheel that needs a package of which there are only sources."""
    folder = tmp_path / "index"
    folder.mkdir()
    write_wheel(folder, "tiny-tool", "1.0", TOOL, needs="tiny-source")
    write_source(folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path / "state"))
    return folder


@pytest.mark.slow
def test_packages_are_pinned_with_what_they_need_and_built_where_there_is_no_wheel(index, tmp_path):
    found = wheels(("tiny-tool==1.0",), str(tmp_path / "my.toml"))
    assert list(found) == ["tiny_source-2.0-py3-none-any.whl", "tiny_tool-1.0-py3-none-any.whl"]
    lines = (tmp_path / "my.lock").read_text().splitlines()
    source = hashlib.sha256((index / "tiny-source-2.0.tar.gz").read_bytes()).hexdigest()
    assert lines[1] == "# for: tiny-tool==1.0"
    assert f"tiny-source==2.0 --hash=sha256:{source}" in lines
    assert python_packages.pinned(("tiny-tool==1.0",), str(tmp_path / "my.toml")) == (
        "tiny-source==2.0",
        "tiny_tool==1.0",
    )


@pytest.mark.slow
def test_pins_of_two_versions_stay_next_to_each_other(index, tmp_path):
    path, tool, source = str(tmp_path / "my.toml"), ("tiny-tool==1.0",), ("tiny-source==2.0",)
    for one in (tool, source):
        wheels(one, path, pinned=(*tool, *source))
    assert python_packages.pinned(source, path) == ("tiny-source==2.0",)
    assert len(python_packages.pinned(tool, path)) == 2


@pytest.mark.slow
def test_what_was_pinned_is_used_again_without_the_index_and_other_packages_are_pinned_anew(index, tmp_path):
    first = wheels(("tiny-tool==1.0",), str(tmp_path / "my.toml"))
    pins = (tmp_path / "my.lock").read_text()
    for path in index.iterdir():
        path.unlink()
    assert wheels(("tiny-tool==1.0",), str(tmp_path / "my.toml")) == first
    assert (tmp_path / "my.lock").read_text() == pins
    with pytest.raises(ConfigError, match="cannot be resolved") as error:
        wheels(("tiny-tool==1.1",), str(tmp_path / "my.toml"))
    assert "tiny-tool==1.1" in error.value.cause
    assert "[system] python" in error.value.where


@pytest.mark.slow
def test_clients_find_packages_compiled_and_none_is_unpacked_twice(index, tmp_path):
    tool, path = ("tiny-tool==1.0",), str(tmp_path / "my.toml")
    place = python_packages.unpacked(tool, path)
    (compiled,) = place.glob("__pycache__/tiny_source.*.pyc")
    assert str(place / "tiny_source.py").encode() in compiled.read_bytes(), "a traceback names the file that is there"
    (place / "mark").touch()
    assert python_packages.unpacked(tool, path) == place
    assert (place / "mark").exists()
    said = subprocess.run(
        [sys.executable, "-P", "-c", "import tiny_source; print(tiny_source.__file__)"],
        env={"PYTHONPATH": str(place)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert said.stdout.strip() == str(place / "tiny_source.py")
    assert python_packages.unpacked((), path) is None


@pytest.mark.slow
def test_a_package_that_is_not_what_was_pinned_is_refused(index, tmp_path):
    wheels(("tiny-tool==1.0",), str(tmp_path / "my.toml"))
    changed = (tmp_path / "my.lock").read_text()
    digest = hashlib.sha256((index / "tiny_tool-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    (tmp_path / "my.lock").write_text(changed.replace(digest, "0" * 64))
    with pytest.raises(ConfigError, match="pinned packages cannot be had"):
        wheels(("tiny-tool==1.0",), str(tmp_path / "my.toml"))


def test_a_lock_of_something_else_is_not_overwritten(index, tmp_path):
    (tmp_path / "my.lock").write_text("another program's\n")
    with pytest.raises(ConfigError, match="not ours"):
        wheels(("tiny-tool==1.0",), str(tmp_path / "my.toml"))
    assert (tmp_path / "my.lock").read_text() == "another program's\n"


@pytest.mark.parametrize("word", ["pysyncobj", "pysyncobj>=0.3", "-e .", "a==1 --pre", "https://x/y.whl", "a==*"])
def test_a_package_without_its_version_is_refused(word):
    with pytest.raises(ConfigError, match="which package in which version"):
        check_requirements([word], where="my.toml: [system] python")


# --- on the host --------------------------------------------------------------------------------------------------


def node_of(tmp_path, changes=()):
    """A description in a file, and its node n1 with real directories."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "my.toml").write_text(text)
    system = load(tmp_path / "my.toml")
    node = specs(system)["n1"]
    places = {name: str(tmp_path / "host" / name) for name in ("run_dir", "data_dir", "log_dir")}
    return system, type(node)(
        **{**{f: getattr(node, f) for f in node.__struct_fields__}, **places, "python": sys.executable}
    )


def start(system, node):
    """Put its files there, and run its command to its end."""
    for path, content in system.files(node).items():
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    argv = system.command(node).argv
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


COMMAND = "\"/opt/mine --id {name} --peers {members} --log '{log_dir}/x y'\""


@pytest.mark.slow
def test_a_node_finds_packages_and_their_programs_without_a_network(index, tmp_path):
    system, node = node_of(
        tmp_path, [('name = "mine"', 'name = "mine"\npython = ["tiny-tool==1.0"]'), (COMMAND, '"tiny-tool"')]
    )
    done = start(system, node)
    assert (done.returncode, done.stdout) == (3, "the tool with what was built here\n"), done.stderr
    assert "Python packages: tiny-tool==1.0 (2 pinned in my.lock)" in system.started()
    again = subprocess.run(system.command(node).argv, capture_output=True, text=True, check=False, timeout=60)
    assert again.stdout == done.stdout
    argv = [*system.command(node).argv[:4], "tiny-script"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "a script\n"


def test_a_directory_comes_to_the_host_with_its_programs_and_without_what_is_nobodys(tmp_path):
    app = tmp_path / "app"
    (app / "inner").mkdir(parents=True)
    (app / "__pycache__").mkdir()
    (app / "__pycache__" / "x.pyc").write_bytes(b"")
    (app / "inner" / "greeting.txt").write_text("hello\n")
    (app / "run.sh").write_text('#!/bin/sh\ncat "$(dirname "$0")/inner/greeting.txt"; ls "$(dirname "$0")"\n')
    (app / "run.sh").chmod(0o755)
    files = 'files = { "{run_dir}/app" = "app" }\nports ='
    system, node = node_of(tmp_path, [("ports =", files), (COMMAND, '"{run_dir}/app/run.sh"')])
    done = start(system, node)
    assert done.stdout == "hello\ninner\nrun.sh\n", done.stderr
    assert "the directory {run_dir}/app: 2 files" in system.started()


def test_large_files_and_archives_are_those_that_hosts_may_bring(tmp_path):
    (tmp_path / "app").mkdir()
    for name in ("large", "small", "app/inner"):
        (tmp_path / name).write_bytes(os.urandom(10 if name == "small" else LARGE))
    files = 'files = { "{run_dir}/large" = "large", "{run_dir}/small" = "small", "{run_dir}/app" = "app" }\nports ='
    system, node = node_of(tmp_path, [("ports =", files)])
    large = [content for content in system.files(node).values() if len(content) >= LARGE]
    assert sorted(system.large_files()) == sorted(large)
    assert len(large) == 2


def test_a_directory_for_a_place_that_is_not_the_nodes_is_refused(tmp_path):
    (tmp_path / "app").mkdir()
    with pytest.raises(ConfigError, match="cannot be put at /opt/app") as error:
        node_of(tmp_path, [("ports =", 'files = { "/opt/app" = "app" }\nports =')])
    assert "[node] files" in error.value.where


def test_a_directory_that_is_too_large_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("dethrone.clusters.own.unpacking.FILES_MAX", 2)
    (tmp_path / "app").mkdir()
    for number in range(3):
        (tmp_path / "app" / f"f{number}").write_text("x")
    with pytest.raises(ConfigError, match="the directory app is too large"):
        node_of(tmp_path, [("ports =", 'files = { "{run_dir}/app" = "app" }\nports =')])


def test_a_wheel_for_another_python_is_refused_on_the_host_with_its_name(tmp_path, capsys):
    minor = sys.version_info[1] + 1
    wheel = write_wheel(tmp_path, "other", "1.0", {"other.py": ""}, tag=f"cp3{minor}-cp3{minor}-linux_x86_64")
    config = {"note": str(tmp_path / "n"), "folders": [], "wheels": [str(wheel)], "site": str(tmp_path / "site")}
    (tmp_path / "config").write_text(json.dumps(config))
    with pytest.raises(SystemExit) as ended:
        unpack.main([str(tmp_path / "config"), "true"])
    assert ended.value.code == unpack.CANNOT
    assert f"{wheel.name} is for another Python" in capsys.readouterr().err


def test_doctor_asks_for_the_programs_that_do_not_come_with_the_node(tmp_path):
    system, node = node_of(tmp_path, [("[probe]", '[node.first]\ncommand = "redis-cli ping"\n[probe]')])
    assert system.programs(node) == [("[node] command", "/opt/mine"), ("[node.first] command", "redis-cli")]
    system, node = node_of(tmp_path, [('name = "mine"', 'name = "mine"\npython = ["a==1"]'), (COMMAND, '"tiny-tool"')])
    assert system.programs(node) == []
