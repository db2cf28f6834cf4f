"""Systems of the gallery on containers: each starts, shows what it is, serves, and returns after a kill.

CI starts two on three nodes, drawn by the commit, and those whose files the last commit changed; ``make test-all``
starts all, on three and on five.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dethrone.clusters import gallery
from dethrone.harness.core import registry
from tests import drawn
from tests.command import dethrone

pytestmark = [pytest.mark.docker, pytest.mark.system]
FOLDER = Path(gallery.__path__[0]).resolve()
FILES = sorted(FOLDER.rglob("*.toml"))
SYSTEMS = {file: registry.load(registry.SYSTEMS, file.stem) for file in FILES}
CASES = [
    (file, version) for file, of in SYSTEMS.items() if not of.needed().programs for version in of.versions() or ("",)
]
"""Each file whose programs need not be brought, with each of its versions."""
DRAWN = 2


def of_this_commit():
    """The descriptions and versions that CI starts."""
    named = {f"{file.name}{version}": (file, version) for file, version in CASES}
    changed = [drawn.ROOT / name for name in drawn.changed()]
    folders = {file.relative_to(FOLDER).parts[0] for file in changed if file.is_relative_to(FOLDER)}
    ours = {case for case in CASES if case[0].relative_to(FOLDER).parts[0] in folders}
    return ours | {named[name] for name in drawn.first(named, DRAWN)}


def each():
    chosen = of_this_commit()
    rest = pytest.mark.nightly("half a minute each; CI starts two on three nodes, and what was changed")
    return [
        pytest.param(*case, nodes, id=f"{case[0].stem}-{case[1]}".rstrip("-") + f"-{nodes}", marks=marks)
        for case in CASES
        for nodes in (3, 5)
        for marks in [() if case in chosen and nodes == 3 else rest]
    ]


FORGETS = {("pysyncobj", "0.3.14"): ["term 0 after term 1"]}
"""The release whose term lives in memory only; with five nodes, a peer may name it again before doctor asks."""
SHOWN = {"hosts", "start", "probe", "ops", "restart"}


@pytest.mark.parametrize(("file", "version", "nodes"), each())
def test_a_system_of_the_gallery_starts_serves_and_returns_after_a_kill(state, file, version, nodes):
    chosen = ["--set", f"version={version}"] if version else []
    done = dethrone(state, "doctor", file, "--on", "docker", "--nodes", str(nodes), *chosen, "--json")
    rows = [row for row in json.loads(done.stdout)["rows"] if row["step"] in SHOWN]
    assert {row["step"] for row in rows} == SHOWN, done.stderr
    missing = [row["why"] for row in rows if row["seen"] != "yes"]
    assert missing == FORGETS.get((file.stem, version), []) or (nodes, missing) == (5, [])


def test_a_commit_draws_two_of_the_gallery():
    assert len(of_this_commit()) >= DRAWN
