import runpy
from pathlib import Path

import docker
import pytest

from dethrone.harness.core.errors import MissingCapability

ENGINE = runpy.run_path(str(Path(__file__).resolve().parents[3] / ".ci" / "engine.py"))
Attempt, ensure_engine = ENGINE["Attempt"], ENGINE["ensure_engine"]
main, next_attempt = ENGINE["main"], ENGINE["next_attempt"]


def test_trouble_with_iptables_is_answered_with_the_legacy_ones_and_then_with_none():
    log = "failed to start daemon: Error initializing network controller: iptables failed: Table does not exist"
    second = next_attempt(Attempt(), log)
    assert second == Attempt(legacy_iptables=True)
    third = next_attempt(second, log)
    assert third == Attempt(no_iptables=True)
    assert next_attempt(third, log) is None


def test_trouble_with_the_storage_driver_is_answered_with_vfs_once():
    log = "failed to start daemon: error initializing graphdriver: driver not supported"
    second = next_attempt(Attempt(), log)
    assert second == Attempt(vfs=True)
    assert next_attempt(second, log) is None


def test_what_was_given_up_stays_given_up_when_the_next_trouble_comes():
    second = next_attempt(Attempt(), "error creating NAT chain")
    assert second is not None
    third = next_attempt(second, "error initializing graphdriver: overlay2 is not supported")
    assert third == Attempt(legacy_iptables=True, vfs=True)


def test_a_death_for_any_other_reason_is_not_tried_again():
    assert next_attempt(Attempt(), "Devices cgroup isn't mounted") is None


def test_an_engine_elsewhere_that_does_not_answer_is_never_started_from_here(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    with pytest.raises(MissingCapability) as caught:
        ensure_engine()
    assert "no Docker engine answers" in caught.value.what
    assert str(tmp_path) in caught.value.where
    assert "DOCKER_HOST" in caught.value.next_step


def test_the_command_line_tells_the_next_step_and_exits_with_three(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    assert main([]) == 3
    assert "next:" in capsys.readouterr().err


def test_an_unknown_flag_is_a_usage_error():
    assert main(["--restart"]) == 64


@pytest.mark.docker
def test_an_engine_that_works_is_left_alone(client: docker.DockerClient):
    before = client.info()["ID"]
    engine = ensure_engine()
    assert engine.how == "found"
    assert engine.version == client.info()["ServerVersion"]
    assert client.info()["ID"] == before
