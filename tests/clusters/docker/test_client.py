import os
import socket

import docker.errors
import pytest

from dethrone.clusters.docker.client import NotAllowed, connect, explained, unreachable
from dethrone.harness.core.errors import ClusterError, MissingCapability


def test_a_missing_socket_reads_as_no_engine_installed_or_started(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    with pytest.raises(MissingCapability) as caught:
        connect()
    assert "does not exist" in caught.value.cause
    assert "DOCKER_HOST" in caught.value.next_step


def test_a_socket_where_nobody_listens_reads_as_a_dead_engine(monkeypatch, tmp_path):
    path = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with pytest.raises(MissingCapability) as caught:
        connect()
    assert "no process listens" in caught.value.cause


def test_a_socket_of_a_group_that_the_user_is_not_in_reads_as_missing_permission():
    wrapped = docker.errors.DockerException("Error while fetching server API version")
    wrapped.__context__ = PermissionError(13, "Permission denied")
    error = unreachable("unix:///var/run/docker.sock", wrapped)
    assert isinstance(error, NotAllowed)
    assert "usermod -aG docker" in error.next_step


@pytest.mark.skipif(os.geteuid() != 0, reason="changes its user")
def test_the_permission_is_told_from_the_real_socket_of_another_user(monkeypatch, reachable):
    path = reachable / "closed.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o600)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        os.seteuid(65534)
        try:
            with pytest.raises(NotAllowed):
                connect()
        finally:
            os.seteuid(0)


def test_an_engine_that_dies_in_the_middle_is_a_cluster_error_with_a_next_step():
    with pytest.raises(ClusterError) as caught, explained("starting a host", where="n3"):
        raise ConnectionResetError(104, "Connection reset by peer")
    assert caught.value.where == "n3"
    assert "starting a host" in caught.value.what
    assert "start the engine again" in caught.value.next_step


def test_errors_of_our_own_pass_through_unchanged():
    with pytest.raises(ClusterError, match="mine"), explained("anything"):
        raise ClusterError("mine")
