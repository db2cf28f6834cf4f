"""What is installed is written down with hashes, and the list of it is true."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from dethrone.clusters import pinned
from dethrone.clusters.docker import base

ROOT = Path(__file__).resolve().parents[2]
LOCKS = (".ci/requirements.lock", ".ci/requirements-build.lock", "clusters/node.lock")


def pins(lock):
    text = (ROOT / lock).read_text()
    found = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    return {part.split("==")[0].lower().replace("_", "-"): part for part in found if part.strip()}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_of_a_lock_is_pinned_with_hashes_and_no_host_is_named(lock):
    for name, part in pins(lock).items():
        assert re.match(r"[A-Za-z0-9_.-]+==\S+", part), name
        assert re.findall(r"--hash=sha256:[0-9a-f]{64}\b", part), name
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert "--index" not in text


def test_the_lock_has_everything_that_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["spark"]]
    wanted += project["dependency-groups"]["dev"]
    locked = pins(".ci/requirements.lock")
    assert [word for word in wanted if re.split(r"[<>=!\[ ;]", word)[0].lower() not in locked] == []


def test_nodes_get_the_version_that_the_harness_has():
    assert pinned.requirement() == pins(".ci/requirements.lock")["msgspec"].split(" ")[0]
    assert "--hash=sha256:" in pinned.requirements()


def test_the_image_that_is_pulled_is_named_by_its_digest():
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", base.PUBLISHED_DIGEST)


def test_the_bill_of_materials_has_every_pinned_thing_once():
    bill = runpy.run_path(str(ROOT / "tests" / "sbom.py"))["bill"]()
    refs = [one["bom-ref"] for one in bill["components"]]
    assert bill["specVersion"] == "1.5"
    assert len(refs) == len(set(refs)) > 100
    assert any(ref.startswith("pkg:maven/org.apache.zookeeper/zookeeper@") for ref in refs)
    assert any(ref.startswith("pkg:golang/go.etcd.io/etcd") for ref in refs)
    assert f"pkg:pypi/{pinned.requirement().replace('==', '@')}" in refs
