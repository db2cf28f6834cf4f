"""Jars and Java programs of a described system: pinned once, compiled once, and on hosts where the file says."""

import io
import zipfile

import pytest

from dethrone.clusters.docker import artifacts
from dethrone.clusters.docker.recipe_files import ingredients_of
from dethrone.clusters.own import java_programs, lock
from dethrone.clusters.own.maven_jars import check_coordinates, jars, jars_of
from dethrone.clusters.own.parse import FileRead, parse
from dethrone.clusters.own.system import OwnSystem
from dethrone.harness.core.errors import ClusterError, ConfigError, MissingCapability
from tests.clusters.own.described import TEXT, described, specs

LIB = {"{run_dir}/lib": ("org.example:raft:1.0", "org.example:log:2.0")}
HAS = {"raft-1.0.jar": b"raft", "log-2.0.jar": b"log", "needed-3.0-linux.jar": b"needed"}
LIST = """
   org.example:raft:jar:1.0:compile
   org.example:log:jar:2.0:compile
   org.example:needed:jar:linux:3.0:runtime
"""
JAVA = """#!/bin/sh
echo "$@" >> "$0.log"
[ ! -e "$0.says" ] || { cat "$0.says"; exit 1; }
while [ "$1" != -d ]; do shift; done
mkdir -p "$2/inner"
printf made > "$2/Main.class"
printf made > "$2/inner/Part.class"
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A Maven that has three jars, one of which the others need; the goals that it was asked for."""
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path / "state"))
    goals, has = [], dict(HAS)

    def run(root, asked, *, progress):
        goals.append(asked[0].rpartition(":")[2])
        (root / "list.txt").write_text(LIST)
        (root / "jars").mkdir()
        for name, content in {**has, "ecj-1.0.jar": b"compiler"}.items():
            (root / "jars" / name).write_bytes(content)

    monkeypatch.setattr(artifacts, "_maven", run)
    return goals, has


@pytest.fixture
def java(tmp_path, monkeypatch, repository):
    """A compiler that makes two classes of anything; it notes how it is called in ``java.log``."""
    (compiler,) = artifacts.pinned(["org.example:log:2.0"])[:1]
    monkeypatch.setattr(java_programs, "COMPILER", compiler)
    place = tmp_path / "bin"
    place.mkdir()
    (place / "java").write_text(JAVA)
    (place / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "Main.java").write_text("class Main {}\n")
    (tmp_path / "keep" / "log.properties").write_text("level=warn\n")
    return place


def description(tmp_path):
    return str(tmp_path / "my.toml")


# --- jars ---------------------------------------------------------------------------------------------------------


def test_artifacts_are_pinned_once_with_all_that_they_need(repository, tmp_path):
    goals, _ = repository
    found = jars(LIB, description(tmp_path))
    assert {name: path.read_bytes() for name, path in found["{run_dir}/lib"].items()} == HAS
    asked = len(goals)
    assert jars(LIB, description(tmp_path)) == found
    assert len(goals) == asked
    text = (tmp_path / "my.lock").read_text()
    assert "# for: org.example:raft:1.0 org.example:log:2.0\n" in text
    assert "org.example:needed:3.0:linux --hash=sha256:" in text
    said = "org.example:raft:1.0, org.example:log:2.0 with what they need (3 jars in my.lock)"
    assert jars_of(LIB, description(tmp_path)) == [("{run_dir}/lib", said)]


def test_a_jar_that_is_not_what_was_pinned_is_refused(repository, tmp_path, monkeypatch):
    _, has = repository
    jars(LIB, description(tmp_path))
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path / "another machine"))
    has["needed-3.0-linux.jar"] = b"changed"
    with pytest.raises(ClusterError, match=r"needed:3\.0:linux is not what it was when it was pinned"):
        jars(LIB, description(tmp_path))


def test_pins_that_cannot_be_read_are_refused(repository, tmp_path):
    jars(LIB, description(tmp_path))
    path = lock.lock_file(description(tmp_path))
    path.write_text(path.read_text().replace("--hash=sha256:", "--hash=sha256:x"))
    with pytest.raises(ConfigError, match="are damaged"):
        jars(LIB, description(tmp_path))


@pytest.mark.parametrize("word", ["a:b", "a:b:LATEST", "a:b:[1,2)", "a:b:1.0-SNAPSHOT", "a:b:1:c:d", ""])
def test_an_artifact_without_an_exact_version_is_refused(word):
    with pytest.raises(ConfigError, match=r"which artifact in which version|no jar is named"):
        check_coordinates({"{run_dir}/lib": word}, where="my.toml: [node] maven")


# --- programs -----------------------------------------------------------------------------------------------------


def made(tmp_path, source="keep", libraries=LIB):
    """The program's files by name."""
    found = java_programs.programs({"x": source}, jars(libraries, description(tmp_path)), description(tmp_path))
    with zipfile.ZipFile(io.BytesIO(found["x"])) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def calls(java):
    return (java / "java.log").read_text().splitlines()


def test_sources_are_compiled_once_against_the_jars_that_nodes_get(java, tmp_path):
    files = made(tmp_path)
    assert files == {"Main.class": b"made", "inner/Part.class": b"made", "log.properties": b"level=warn\n"}
    assert made(tmp_path) == files
    (call,) = calls(java)
    for path in jars(LIB, description(tmp_path))["{run_dir}/lib"].values():
        assert str(path) in call
    assert call.endswith(" sources/Main.java")


def test_other_sources_and_other_jars_are_compiled_anew(java, tmp_path):
    made(tmp_path)
    (tmp_path / "keep" / "Main.java").write_text("class Main { int changed; }\n")
    made(tmp_path)
    made(tmp_path, libraries={})
    assert len(calls(java)) == 3


def test_a_file_is_a_program_and_so_are_several_that_differ_in_name(java, tmp_path):
    assert set(made(tmp_path, "keep/Main.java")) == {"Main.class", "inner/Part.class"}
    (tmp_path / "More.java").write_text("class More {}\n")
    made(tmp_path, ("keep", "More.java"))
    assert calls(java)[-1].endswith(" sources/Main.java sources/More.java")
    with pytest.raises(ConfigError, match=r"keep/Main\.java has a file that another source has"):
        made(tmp_path, ("keep", "keep/Main.java"))


def test_the_lines_of_the_compiler_are_shown(java, tmp_path):
    (java / "java.says").write_text(
        "1. ERROR in Main.java (at line 3)\n\tRaft raft;\n\t^^^^\nRaft cannot be resolved\n"
    )
    with pytest.raises(ConfigError, match="cannot be compiled") as error:
        made(tmp_path)
    assert "Raft cannot be resolved" in error.value.cause
    assert error.value.where == f"{description(tmp_path)}: [node] java"
    assert not list((tmp_path / "state" / "java").glob("*.jar"))


def test_a_java_that_is_too_old_is_named(java, tmp_path):
    (java / "java.says").write_text("java.lang.UnsupportedClassVersionError: compiled by a more recent version\n")
    with pytest.raises(MissingCapability, match="too old"):
        made(tmp_path)


def test_a_folder_without_sources_is_refused(java, tmp_path):
    (tmp_path / "keep" / "Main.java").unlink()
    for source in ("keep", "nowhere"):
        with pytest.raises(ConfigError, match=f"no Java sources in {source}"):
            made(tmp_path, source)


def test_only_the_newest_programs_are_kept(java, tmp_path, monkeypatch):
    monkeypatch.setattr(java_programs, "KEPT", 1)
    made(tmp_path)
    made(tmp_path, libraries={})
    assert len(list((tmp_path / "state" / "java").glob("*.jar"))) == 1


def test_the_compiler_is_the_one_that_recipes_of_images_pin():
    assert java_programs.COMPILER in ingredients_of("zookeeper").artifacts.jars


# --- in a description ---------------------------------------------------------------------------------------------

KEYS = """maven = { "{run_dir}/lib" = ["org.example:raft:1.0", "org.example:log:2.0"] }
java = { "{run_dir}/keep.jar" = "keep" }
ports = {"""


def test_nodes_get_jars_and_programs_where_the_description_says(java, tmp_path):
    text = TEXT.replace("ports = {", KEYS)
    system = OwnSystem(parse(text, path=description(tmp_path), read=lambda name: FileRead(b"", executable=False)))
    files = system.files(specs(system)["n1"])
    assert {name: files[f"/r/lib/{name}"] for name in HAS} == HAS
    assert files["/r/keep.jar"].startswith(b"PK")
    assert "{run_dir}/keep.jar, compiled from keep" in system.started()
    assert any(line.startswith("the jars in {run_dir}/lib: org.example:raft:1.0, ") for line in system.started())


VERSIONS = """
[versions."1.0"]
maven = { "{run_dir}/{version}/lib" = "org.example:raft:1.0" }
[versions."2.0"]
maven = { "{run_dir}/{version}/lib" = "org.example:log:2.0" }
java = { "{run_dir}/{version}/keep.jar" = "keep" }
"""


def test_each_version_has_jars_and_programs_of_its_own_and_keeps_the_pins_of_the_other(java, tmp_path):
    text = TEXT.replace('term = "raft.term"', 'term = "raft.term"\nversion = "build.version"') + VERSIONS
    system = OwnSystem(parse(text, path=description(tmp_path), read=lambda name: FileRead(b"", executable=False)))
    files = system.files(specs(system)["n1"])
    assert {"/r/1.0/lib/raft-1.0.jar", "/r/2.0/lib/raft-1.0.jar", "/r/2.0/keep.jar"} <= set(files)
    wanted = [block.wanted for block in lock.blocks(description(tmp_path))]
    assert wanted == ["org.example:raft:1.0", "org.example:log:2.0"]
    with pytest.raises(ConfigError, match="a file of every version"):
        parse(text.replace("{version}/keep.jar", "keep.jar"), path="my.toml", read=None)


@pytest.mark.parametrize("key", ['go = { "{run_dir}/x" = "x" }', 'texts = { "{run_dir}/x" = "" }'])
def test_a_place_is_one_thing(key):
    with pytest.raises(ConfigError, match="is two things"):
        described(("ports = {", f'java = {{ "{{run_dir}}/x" = "x" }}\n{key}\nports = {{'))


def test_a_place_without_a_directory_of_the_host_is_refused():
    with pytest.raises(ConfigError, match="no absolute path"):
        described(("ports = {", 'maven = { "lib" = "org.example:raft:1.0" }\nports = {'))
