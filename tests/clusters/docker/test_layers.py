"""Layers on a host image: how many are kept, and what other processes may do meanwhile."""

import io
import tarfile

import pytest

from dethrone.clusters.docker.image import ensure_image
from dethrone.clusters.docker.labels import OWNER
from dethrone.clusters.docker.layers import Kind, layered

pytestmark = pytest.mark.docker
TRIAL = Kind("trial", "a trial", kept=2, limit_s=60)


def content():
    with tarfile.open(fileobj=(made := io.BytesIO()), mode="w") as tar:
        tar.addfile(tarfile.TarInfo("opt/trial"))
    return made.getvalue()


@pytest.fixture
def make(client):
    image = ensure_image(client)
    yield lambda key: layered(client, image, TRIAL, key=key, content=content, progress=lambda line: None)
    for left in tags(client):
        client.images.remove(left)


def tags(client):
    found = client.api.images(filters={"label": f"{OWNER}={TRIAL.name}"})
    return {tag for image in found for tag in image["RepoTags"]}


def test_only_the_newest_layers_stay_also_if_another_process_removes_some_meanwhile(client, make, monkeypatch):
    listed = client.api.images

    def listed_and_removed(**asked):
        found = listed(**asked)
        if len(found) > TRIAL.kept:
            client.api.remove_image(found[-1]["Id"])
        return found

    monkeypatch.setattr(client.api, "images", listed_and_removed)
    made = [make(key) for key in (b"1", b"2", b"3", b"4")]
    monkeypatch.undo()
    assert len(set(made)) == 4
    left = tags(client)
    assert len(left) == TRIAL.kept
    assert made[-1] in left
