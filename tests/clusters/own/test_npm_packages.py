"""npm packages of a described system: pinned once by their integrity, unpacked on hosts without a network."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest

from dethrone.clusters.own.host import unpack
from dethrone.clusters.own.npm_packages import archive, check_packages, pinned, resolved
from dethrone.clusters.own.system import load
from dethrone.harness.core.errors import ConfigError, MissingCapability
from tests.clusters.own.described import TEXT, specs

NPM = """#!{python}
import json, os, shutil, sys
place = {place!r}
words = sys.argv[1:]
assert "--ignore-scripts" in words
with open(place + "/asked", "a") as file: file.write(words[0] + "\\n")
if words[0] == "install":
    wanted = json.load(open("package.json"))["dependencies"]
    if "gone" in wanted: sys.exit("npm error 404 no gone")
    shutil.copy(place + "/lock.json", "package-lock.json")
else:
    where = words[words.index("--pack-destination") + 1]
    names = [word for word in words[1:] if "@" in word[1:]]
    for name in names: shutil.copy(place + "/" + name + ".tgz", where)
    print(json.dumps([dict(zip(("name", "version"), name.rsplit("@", 1)), filename=name + ".tgz") for name in names]))
"""


def packed(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as into:
        for name, text in {"../evil": "no", **files}.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text), 0o644
            into.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def integrity(content):
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


TOOL = packed(**{"package.json": '{"name": "tool", "bin": "cli.js"}', "cli.js": "tool", "lib/a.js": "a"})
INNER = packed(**{"package.json": '{"name": "inner", "bin": {"inner": "x.js"}}', "x.js": "x"})


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """An npm that knows two packages, one inside the other, and a third for another machine."""
    place = tmp_path / "npm"
    place.mkdir()
    (place / "npm").write_text(NPM.format(python=sys.executable, place=str(place)))
    (place / "npm").chmod(0o755)
    (place / "tool@1.0.0.tgz").write_bytes(TOOL)
    (place / "inner@2.0.0.tgz").write_bytes(INNER)
    packages = {
        "": {"dependencies": {"tool": "1.0.0"}},
        "node_modules/tool": {"version": "1.0.0", "integrity": integrity(TOOL), "bin": {"tool": "cli.js"}},
        "node_modules/tool/node_modules/inner": {"version": "2.0.0", "integrity": integrity(INNER)},
        "node_modules/other": {"version": "1.0.0", "integrity": "sha512-x", "optional": True, "os": ["darwin"]},
    }
    (place / "lock.json").write_text(json.dumps({"lockfileVersion": 3, "packages": packages}))
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path / "state"))
    return place


def asked(registry):
    return (registry / "asked").read_text().split()


def test_packages_are_pinned_with_what_they_need_and_fetched_once(registry, tmp_path):
    file = str(tmp_path / "my.toml")
    assert pinned(["tool@1.0.0"], file) == ()
    first = archive(["tool@1.0.0"], file)
    assert archive(["tool@1.0.0"], file) == first
    assert asked(registry) == ["install", "pack"]
    assert pinned(["tool@1.0.0"], file) == ("tool@1.0.0", "inner@2.0.0")
    lines = (tmp_path / "my.lock").read_text().splitlines()
    assert lines[1:] == [
        "# for: tool@1.0.0",
        f"node_modules/tool tool@1.0.0 {integrity(TOOL)}",
        f"node_modules/tool/node_modules/inner inner@2.0.0 {integrity(INNER)}",
    ]
    with zipfile.ZipFile(io.BytesIO(first)) as found:
        assert sorted(found.namelist()) == [
            "node_modules/.bin/tool",
            "node_modules/tool/cli.js",
            "node_modules/tool/lib/a.js",
            "node_modules/tool/node_modules/inner/package.json",
            "node_modules/tool/node_modules/inner/x.js",
            "node_modules/tool/package.json",
        ]


def test_a_package_that_is_not_the_pinned_one_is_refused(registry, tmp_path):
    file = str(tmp_path / "my.toml")
    (registry / "tool@1.0.0.tgz").write_bytes(packed(**{"package.json": "{}"}))
    with pytest.raises(ConfigError, match=r"tool@1\.0\.0 is not what it was when it was pinned"):
        archive(["tool@1.0.0"], file)
    (registry / "tool@1.0.0.tgz").write_bytes(TOOL)
    archive(["tool@1.0.0"], file)
    for kept in (tmp_path / "state" / "npm").glob("*.tgz"):
        kept.write_bytes(b"changed here")
    with pytest.raises(ConfigError, match="not what it was"):
        archive(["tool@1.0.0"], file)


def test_what_npm_says_is_in_the_error_and_a_missing_npm_has_its_own(registry, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="404 no gone"):
        archive(["gone@1.0.0"], str(tmp_path / "my.toml"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingCapability, match="npm is not installed"):
        archive(["tool@1.0.0"], str(tmp_path / "my.toml"))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"link": True, "version": "1.0.0"}, "not of a registry"),
        ({"version": "1.0.0"}, "not of a registry"),
        ({"version": "1.0.0", "integrity": "sha512-x", "hasInstallScript": True}, "when it is installed"),
    ],
)
def test_a_package_that_cannot_be_pinned_is_named(said, why):
    text = json.dumps({"packages": {"node_modules/@a/b": said}})
    with pytest.raises(ConfigError, match=f"@a/b .*{why}"):
        resolved(text, where="x")


@pytest.mark.parametrize("word", ["ws", "ws@latest", "ws@^8.0.0", "../x@1.0.0", "ws@1.0", "@a@1.0.0"])
def test_a_package_without_an_exact_version_is_refused(word):
    with pytest.raises(ConfigError, match="which package in which version"):
        check_packages([word], where="x")


def test_exact_packages_are_accepted():
    check_packages(["ws@8.18.0", "@scope/a.b@1.0.0-rc.1"], where="x")


def test_a_host_unpacks_them_and_its_node_finds_them(registry, tmp_path, monkeypatch):
    file = tmp_path / "my.toml"
    file.write_text(TEXT.replace("[node]", 'npm = ["tool@1.0.0"]\n[node]', 1))
    one = load(file)
    assert "npm packages: tool@1.0.0 (not pinned yet)" in one.started()
    node = specs(one)["n1"]
    files = one.files(node)
    assert "npm packages: tool@1.0.0 (2 pinned in my.lock)" in one.started()
    config = json.loads(files["/r/unpack.json"].replace(b'"/r', f'"{tmp_path}'.encode()))
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "npm.zip").write_bytes(files["/r/packed/npm.zip"])
    for name in ("PATH", "NODE_PATH"):
        monkeypatch.setenv(name, "/before")
    unpack.prepare(config)
    unpack.prepare(config)
    modules = tmp_path / "node_modules"
    assert (modules / "tool" / "lib" / "a.js").read_text() == "a"
    runtime = tmp_path / "node"
    runtime.write_text('#!/bin/sh\necho "runs $(cat "$1") with $2"\n')
    runtime.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    said = subprocess.run([modules / ".bin" / "tool", "word"], env=env, capture_output=True, check=True, timeout=30)
    assert said.stdout == b"runs tool with word\n"
    assert os.environ["NODE_PATH"].startswith(f"{modules}:")
    assert os.environ["PATH"].startswith(f"{modules}/.bin:")
