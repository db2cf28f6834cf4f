import threading
import time

import pytest

from dethrone.clusters.docker.image import ensure_image
from dethrone.clusters.docker.recipe_files import ingredients_of
from dethrone.clusters.docker.stream import ExecStream
from dethrone.harness.core.errors import ClusterError

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def container(client):
    image = ensure_image(client, packages=ingredients_of("node").packages)
    made = client.containers.create(
        image, command=["sleep", "120"], network_mode="none", labels={"dethrone.owner": "test"}
    )
    made.start()
    yield str(made.id)
    made.remove(force=True)


def read_all(stream, limit=1 << 24):
    content = b""
    while (part := stream.read()) and len(content) < limit:
        content += part
    return content


def test_what_is_written_comes_back_in_order_and_whole(client, container):
    stream = ExecStream(client, container, ["cat"], name="n1")
    sent = bytes(range(256)) * 8192

    def write():
        for begin in range(0, len(sent), 100_000):
            stream.write(sent[begin : begin + 100_000])

    writer = threading.Thread(target=write)
    writer.start()
    received = b""
    while len(received) < len(sent):
        part = stream.read()
        assert part
        received += part
    writer.join(10)
    stream.close()
    assert received == sent


def test_a_process_that_speaks_first_is_heard_from_its_first_byte(client, container):
    for _ in range(5):
        stream = ExecStream(client, container, ["echo", "first"], name="n1")
        time.sleep(0.05)  # the first bytes may already lie in the connection's buffer
        assert read_all(stream) == b"first\n"
        stream.close()


def test_the_end_of_the_process_is_the_end_of_the_stream(client, container):
    stream = ExecStream(client, container, ["true"], name="n1")
    assert stream.read() == b""
    assert stream.read() == b""
    stream.close()


def test_standard_error_is_kept_aside_for_messages(client, container):
    stream = ExecStream(client, container, ["sh", "-c", "echo out; echo trouble >&2"], name="n1")
    assert stream.read() == b"out\n"
    with pytest.raises(OSError, match="trouble"):
        stream.read()
    stream.close()


def test_closing_wakes_a_reader(client, container):
    stream = ExecStream(client, container, ["sleep", "60"], name="n1")
    got = []
    reader = threading.Thread(target=lambda: got.append(stream.read()))
    reader.start()
    time.sleep(0.05)
    stream.close()
    reader.join(5)
    assert not reader.is_alive()
    assert got == [b""]
    stream.close()


def test_writing_into_a_closed_stream_is_an_error_of_the_system(client, container):
    stream = ExecStream(client, container, ["cat"], name="n4")
    stream.close()
    with pytest.raises(OSError):
        stream.write(b"x")


def test_a_container_that_is_not_there_is_a_cluster_error(client):
    with pytest.raises(ClusterError):
        ExecStream(client, "dethrone-absent", ["true"], name="n1")
