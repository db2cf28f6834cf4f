"""Runs on real clusters: one state directory a test, and a look at what is left behind."""

import docker
import pytest


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A state directory of this test's own; afterwards nothing of its runs may be left."""
    directory = tmp_path / "state"
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(directory))
    yield directory
    assert owned_by(directory) == []


def owned_by(state):
    """Containers and networks whose label names a ledger in this state directory."""
    client = docker.from_env()
    try:
        found = [*client.containers.list(all=True, ignore_removed=True, filters={"label": "dethrone.run"})]
        found += client.networks.list(filters={"label": "dethrone.run"})
        labels = [
            (thing.name, (thing.labels if hasattr(thing, "labels") else thing.attrs.get("Labels") or {}))
            for thing in found
        ]
        return [name for name, label in labels if label.get("dethrone.state", "").startswith(str(state))]
    finally:
        client.close()
