import pytest

from dethrone.clusters.agent.large_files import digest_of
from dethrone.clusters.docker.brought import with_files
from dethrone.clusters.docker.image import ensure_image
from dethrone.clusters.docker.labels import FILES


def test_an_image_without_files_is_used_as_it_is():
    assert with_files(None, "some:image", ()) == "some:image"


@pytest.mark.docker
def test_files_lie_in_the_image_under_their_digests_and_are_shipped_once(client):
    image = ensure_image(client)
    files = (b"one" * 400_000, b"another" * 200_000)
    tag, told = with_files(client, image, files), []
    try:
        assert with_files(client, image, files[::-1], progress=told.append) == tag
        assert told == []
        output = client.containers.run(
            tag, ["sh", "-c", f"cd {FILES} && wc -c *"], remove=True, network_mode="none"
        ).decode()
        assert {digest_of(files[0]): "1200000", digest_of(files[1]): "1400000"}.items() <= {
            name: size for size, name in map(str.split, output.splitlines())
        }.items()
        layers = client.images.get(tag).attrs["RootFS"]["Layers"]
        assert layers[:-1] == client.images.get(image).attrs["RootFS"]["Layers"]
    finally:
        client.images.remove(tag)
