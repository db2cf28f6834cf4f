import io
import tarfile

import pytest

from dethrone.clusters.agent import bundle
from dethrone.clusters.docker.image import ensure_image
from dethrone.clusters.docker.labels import AGENT, LIB
from dethrone.clusters.docker.ship import archive, ship, sources

FILES = {"dethrone/harness/__init__.py": b"", "dethrone/clusters/agent/agent.py": b"print('agent')\n"}


def test_the_archive_is_the_same_bytes_whatever_the_order_of_the_files():
    assert archive(FILES, root=LIB) == archive(dict(reversed(FILES.items())), root=LIB)


def test_the_archive_carries_no_time_no_user_and_only_paths_below_its_root():
    with tarfile.open(fileobj=io.BytesIO(archive(FILES, root=LIB))) as tar:
        entries = tar.getmembers()
    assert {(entry.mtime, entry.uid, entry.gid, entry.uname) for entry in entries} == {(0, 0, 0, "")}
    assert all(f"{entry.name}/".startswith("opt/dethrone/lib/") for entry in entries)
    assert {entry.name for entry in entries if entry.isfile()} == {f"opt/dethrone/lib/{name}" for name in FILES}
    assert next(entry.name for entry in entries if entry.isdir()) == "opt/dethrone/lib"


def test_hosts_get_the_harness_core_and_the_clusters_and_nothing_else():
    names = set(sources())
    assert {
        "dethrone/harness/__init__.py",
        "dethrone/harness/core/machine.py",
        "dethrone/clusters/agent/__init__.py",
    } <= names
    assert not [
        name
        for name in names
        if name.startswith(("dethrone/harness/engine", "dethrone/harness/cli", "dethrone/clusters/docker"))
    ]
    assert not [name for name in names if "__pycache__" in name]


def test_hosts_get_the_agent_as_one_file():
    assert sources()[AGENT.removeprefix(f"{LIB}/")] == bundle.agent()


@pytest.mark.docker
def test_code_is_shipped_once_and_compiled_by_the_images_own_python(client):
    image = ensure_image(client)
    tag = ship(client, image)
    told = []
    assert ship(client, image, progress=told.append) == tag
    assert told == []
    command = [
        "sh",
        "-c",
        (
            f"ls {LIB}/dethrone/harness/core/__pycache__/*.pyc && /opt/dethrone/venv/bin/python -c 'import "
            f"dethrone.harness'"
        ),
    ]
    output = client.containers.run(tag, command, remove=True, network_mode="none", environment={"PYTHONPATH": LIB})
    assert b"machine.cpython-3" in output


@pytest.mark.docker
def test_a_change_of_code_makes_one_thin_layer_on_the_same_image(client, monkeypatch):
    image = ensure_image(client)
    genuine = sources()
    monkeypatch.setattr(
        "dethrone.clusters.docker.ship.sources", lambda: {**genuine, "dethrone/clusters/extra.py": b"X = 1\n"}
    )
    tag = ship(client, image)
    try:
        layers = client.images.get(tag).attrs["RootFS"]["Layers"]
        below = client.images.get(image).attrs["RootFS"]["Layers"]
        assert layers[:-1] == below
    finally:
        client.images.remove(tag)


@pytest.mark.docker
def test_code_that_does_not_compile_is_told_and_not_kept(client, monkeypatch):
    image = ensure_image(client)
    monkeypatch.setattr("dethrone.clusters.docker.ship.sources", lambda: {"dethrone/clusters/broken.py": b"def (:\n"})
    with pytest.raises(Exception, match="does not compile") as caught:
        ship(client, image)
    assert "broken.py" in str(caught.value)
