"""Jars out of Maven repositories: what is pinned is what is used, and nothing is fetched twice."""

import hashlib
import tomllib
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.docker import artifacts, image, recipe_files
from dethrone.clusters.docker.artifacts import Jar, jar_files, parse_list
from dethrone.clusters.docker.labels import JARS
from dethrone.clusters.docker.programs import Artifacts
from dethrone.harness.core.errors import ClusterError, ConfigError

CONTENT = b"classes"
JAR = Jar(coordinates="org.example:thing:1.0", sha256=hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def maven(monkeypatch, tmp_path):
    """A Maven that makes every artifact out of ``CONTENT``; the calls that it had."""
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path))
    calls = []

    def run(root, goals, *, progress):
        calls.append(goals)
        (root / "jars").mkdir()
        for name in ("thing-1.0.jar", "thing-1.0-tests.jar"):
            (root / "jars" / name).write_bytes(CONTENT)
        assert "<artifactId>thing</artifactId>" in (root / "pom.xml").read_text()

    monkeypatch.setattr(artifacts, "_maven", run)
    return calls


def test_a_jar_is_fetched_once_and_lies_in_the_image_under_its_own_name(maven):
    assert jar_files([JAR]) == {f"{JARS}/thing-1.0.jar": CONTENT}
    assert jar_files([JAR]) == {f"{JARS}/thing-1.0.jar": CONTENT}
    assert len(maven) == 1


def test_a_jar_that_is_not_as_pinned_is_refused_and_not_kept(maven, tmp_path):
    other = msgspec.structs.replace(JAR, sha256="0" * 64)
    with pytest.raises(ClusterError, match="is not what it was when it was pinned"):
        jar_files([other])
    assert [file.name for file in (tmp_path / "artifacts").iterdir()] == ["lock"]


def test_a_kept_jar_that_was_changed_is_refused(maven, tmp_path):
    jar_files([JAR])
    (tmp_path / "artifacts" / f"{JAR.sha256}.jar").write_bytes(b"other classes")
    with pytest.raises(ClusterError, match="was changed"):
        jar_files([JAR])


def test_two_jars_of_one_name_are_refused_before_anything_is_fetched(maven):
    twin = Jar(coordinates="org.other:thing:1.0", sha256=JAR.sha256)
    with pytest.raises(ConfigError, match="the same file name"):
        jar_files([JAR, twin])
    assert maven == []


def test_a_classifier_is_part_of_the_name(maven):
    jar = Jar(coordinates="org.example:thing:1.0:tests", sha256=JAR.sha256)
    assert list(jar_files([jar])) == [f"{JARS}/thing-1.0-tests.jar"]


@pytest.mark.parametrize("words", ["thing", "org.example:thing", "a:b:c:d:e", "org.example:thing:1</version>"])
def test_words_that_are_no_coordinates_are_refused(words):
    with pytest.raises(ValueError, match="no coordinates"):
        Jar(coordinates=words, sha256=JAR.sha256)


def test_a_closure_is_read_from_mavens_list_without_what_is_no_jar_or_not_needed_at_run_time():
    text = """
The following files have been resolved:
   org.example:thing:jar:1.0:compile
   org.example:native:jar:linux-x86_64:2.0.Final:runtime -- module org.example.native (auto)
   org.example:parent:pom:1.0:compile
   org.example:mock:jar:3.1:test
"""
    assert parse_list(text) == ["org.example:native:2.0.Final:linux-x86_64", "org.example:thing:1.0"]


@pytest.mark.parametrize("recipe", recipe_files.recipes())
def test_every_recipe_can_be_read_and_its_jars_have_names_of_their_own(recipe):
    found = recipe_files.ingredients_of(recipe)
    names = [jar.file_name for jar in found.artifacts.jars]
    assert len(set(names)) == len(names)
    text = (Path(recipe_files.__file__).with_name("recipes") / f"{recipe}.toml").read_text()
    assert text.startswith("#"), "a recipe says first what it is"
    assert set(tomllib.loads(text)) <= set(recipe_files.Contents.__struct_fields__)


def test_a_recipe_without_artifacts_is_hashed_as_before_there_were_any():
    recipe = image.Recipe(base=None, packages=("a",), requirement="msgspec", script="", architecture="amd64")
    bare = msgspec.structs.replace(recipe, artifacts=recipe_files.ingredients_of("node").artifacts)
    for one in (recipe, bare):
        assert "artifacts" not in msgspec.json.decode(msgspec.json.encode(one))
    assert bare.tag == recipe.tag
    assert recipe.tag != msgspec.structs.replace(recipe, artifacts=Artifacts(jars=(JAR,))).tag
